"""Discovery: whose token asks, when a list is taken up, and when it is taken up again."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import pytest

from common.store.transactions import Database
from common.web.dependencies import part_of
from common.web.problems import ProblemReceived
from curator.errors import PeerUnavailable
from curator.participation.loop import Discovery
from curator.parties.identities import Coordinators
from curator.parties.peers import Listing
from curator.store.parties import Coordinator as Known
from tests.curator.conftest import COORDINATOR, Site


class Coordinator:
    """Lists `items` under an ETag, but to nobody whose token it refuses."""

    def __init__(self) -> None:
        self.items: list[Any] = ["one"]
        self.refused: set[str] = set()
        self.asked: list[tuple[str, str | None]] = []
        self.down = False
        self.taken: list[Any] = []
        self.fails = False

    async def ask(self, url: str, token: str, etag: str | None, wait_s: float) -> Listing | None:
        assert url == COORDINATOR
        self.asked.append((token, etag))
        if self.down:
            raise PeerUnavailable
        if token in self.refused:
            raise ProblemReceived(401, "unauthenticated", {})
        tag = str(len(self.items))
        return None if etag == tag else Listing(list(self.items), tag)

    async def take(self, known: Set[Known], items: Sequence[Any]) -> bool:
        assert len(known) == 1
        if self.fails:
            raise ValueError
        self.taken.append(list(items))
        return False


def discovery(s: Site, double: Coordinator) -> Discovery:
    database, coordinators = part_of(s.app, Database), part_of(s.app, Coordinators)
    return Discovery(database, coordinators, double.ask, double.take)


async def test_a_list_is_taken_up_once_and_again_when_asked_for(s: Site) -> None:
    double = Coordinator()
    await s.enrol("house")
    found = discovery(s, double)
    assert await found.look(COORDINATOR)
    assert await found.look(COORDINATOR)
    double.items.append("two")
    assert await found.look(COORDINATOR)
    found.forget()
    assert await found.look(COORDINATOR)
    assert double.taken == [["one"], ["one", "two"], ["one", "two"]]


async def test_what_could_not_be_taken_up_is_asked_for_again(s: Site) -> None:
    double = Coordinator()
    await s.enrol("house")
    found = discovery(s, double)
    double.fails = True
    with pytest.raises(ValueError):
        await found.look(COORDINATOR)
    double.fails = False
    assert await found.look(COORDINATOR)
    assert double.taken == [["one"]]


async def test_another_party_asks_where_one_is_refused(s: Site) -> None:
    double = Coordinator()
    for name in ("first", "second"):
        await s.enrol(name)
    found = discovery(s, double)
    assert await found.look(COORDINATOR)
    double.refused = {double.asked[0][0]}
    for _ in range(5):
        found.forget()
        assert await found.look(COORDINATOR)
    double.refused = {token for token, _ in double.asked}
    assert not await found.look(COORDINATOR)
    double.refused, double.down = set(), True
    assert not await found.look(COORDINATOR)
    assert len(double.taken) == 6
