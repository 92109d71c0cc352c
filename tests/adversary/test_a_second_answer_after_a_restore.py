"""A coordinator gets a second answer to one round out of a curator that came back from a backup.

The restored store does not know that it answered; fresh noise for the same readings lets the two be
averaged. A curator refuses what was opened before it was restored, but it is the coordinator that
dates a round. So no party takes part in what is opened later than its clock allows, and a restored
curator is quiet for a while.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from common.runtime.clock import ManualClock
from curator.participation.restoring import Restore
from tacit.encoders.crowd_tasking import Perturbation
from tacit.encoders.crowd_tasking_reports import Encoding
from tests.curator.conftest import HOUR, NOISY, OpenSite, Site, query
from tests.curator.double import FakeWorld
from tests.e2e.hostile import PLAIN, Home, Hostile, home, hostile, problem

SKEW = timedelta(seconds=300)
LATER = SKEW + timedelta(milliseconds=1)
SECRET: dict[str, Any] = {
    **NOISY,
    "epsilon": "0.001",
    "layer": "curator",
    "collusion": {"curators": 1, "aggregators": 0},
}


@pytest.fixture(autouse=True)
def database_url(tmp_path: Path) -> str:
    """A file, which a backup copies."""
    return f"sqlite:///{tmp_path / 'curator.db'}"


def grounds(history: list[dict[str, Any]]) -> list[str]:
    return [ground["name"] for item in history for ground in item["refused_because"]]


# --- opened in the future ------------------------------------------------------------------------


async def test_no_curator_answers_what_is_not_opened_yet(s: Site, world: FakeWorld) -> None:
    await s.enrol("house")
    now = s.clock.now()
    s.open(query(NOISY), opened=now + LATER, deadline=now + 2 * HOUR)
    await s.take_part()
    assert await s.history("house") == []
    # Control: as far ahead as an honest clock may be.
    descriptor = s.open(query(NOISY), opened=now + SKEW, deadline=now + 2 * HOUR)
    await s.take_part()
    assert world.members(descriptor) == {0}


@pytest_asyncio.fixture
async def asker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[tuple[Hostile, Home]]:
    """A coordinator that dates as it likes, and a curator with a table."""
    async with hostile(tmp_path, clock, 3) as it:
        token = await it.join_token("victim")
        async with home("victim", tmp_path, clock, it.transports, token) as victim:
            table = {"curator": "victim", "columns": ["x"], "rows": [[5.0]]}
            await victim.ask("POST", "/v1/records", table)
            yield it, victim


async def test_no_curator_reports_to_what_is_not_opened_yet(
    asker: tuple[Hostile, Home], clock: ManualClock
) -> None:
    it, victim = asker
    await victim.agree(algorithms=["crowd-tasking"])
    plan = Perturbation((0.0,), (10.0,), 10, Fraction(10), ("Y",), Fraction(0))
    task = Encoding(plan, 1, "reading", Fraction(0)).document()
    it.collect("crowd-tasking", task, columns=("x",), opened=clock.now() + LATER)
    await victim.report()
    assert it.reports == []
    it.collect("crowd-tasking", task, columns=("x",), opened=clock.now() + SKEW)
    await victim.report()
    assert len(it.reports) == 1


async def test_no_aggregator_opens_what_is_not_opened_yet(
    asker: tuple[Hostile, Home], clock: ManualClock
) -> None:
    it, _ = asker
    deadline = clock.now() + HOUR
    early = await it.descriptor(PLAIN, opened=clock.now() + LATER, deadline=deadline)
    for peer in it.federation.peers:
        answer = await peer.coordinate("POST", "/v1/rounds", early)
        assert problem(answer) == (422, "descriptor_refused")
    await it.announce(await it.descriptor(PLAIN, opened=clock.now() + SKEW, deadline=deadline))


# --- after a restore -----------------------------------------------------------------------------


async def answered(s: Site, world: FakeWorld, name: str) -> int | None:
    """The noisy value of the latest round that is called so, if the curator answers it."""
    await s.take_part()
    signed = list(world.rounds.values())[-1].statement
    assert signed.query.name == name
    return int(world.total(signed)[0]) if world.members(signed) else None


@pytest.mark.parametrize("checked", [True, False])
async def test_a_round_that_was_answered_before(
    site: OpenSite,
    world: FakeWorld,
    clock: ManualClock,
    tmp_path: Path,
    checked: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dated as late as allowed, answered, and shown again after the restore of an older copy."""
    folder = tmp_path / "curator"
    async with site() as s:
        await s.enrol("house")
        await s.reading("house", "3.2")
    shutil.copy(tmp_path / "curator.db", tmp_path / "backup.db")
    opened, deadline = clock.now() + SKEW, clock.now() + timedelta(days=20)
    asked = query(SECRET, name="again", min_participants=2)
    async with site() as s:
        s.open(asked, opened=opened, deadline=deadline)
        first = await answered(s, world, "again")
        assert first is not None
    shutil.copy(tmp_path / "backup.db", tmp_path / "curator.db")
    folder.mkdir(exist_ok=True)
    (folder / "restored").touch()
    for item in world.aggregators:
        item.words.clear()
    clock.advance(timedelta(seconds=30))
    if not checked:
        monkeypatch.setattr(Restore, "check_after", lambda self, moment: None)
    async with site() as s:
        second = await answered(s, world, "again")
        if not checked:
            # Control: without the check noise is drawn a second time for the same readings. (Two
            # draws of scale 5 million units are the same once in ten million.)
            assert second is not None
            assert second != first
            return
        assert second is None
        assert grounds(await s.history("house")) == ["opened_before_restore"]
        clock.advance(timedelta(minutes=6))
        fresh = s.open(query(NOISY, name="fresh"))
        await s.take_part()
        assert world.members(fresh) == {0}


async def test_a_round_that_was_dated_after_the_restore(
    site: OpenSite, world: FakeWorld, clock: ManualClock, tmp_path: Path
) -> None:
    """Quiet is not enough: a round may stay open longer. What could have been answered before the
    restore was opened at most a clock's error after it."""
    async with site() as s:
        await s.enrol("house")
    (tmp_path / "curator").mkdir(exist_ok=True)
    (tmp_path / "curator" / "restored").touch()
    restored, deadline = clock.now(), clock.now() + timedelta(days=20)
    async with site() as s:
        clock.advance(timedelta(days=3))
        s.open(query(NOISY, name="before"), opened=restored + SKEW, deadline=deadline)
        await s.take_part()
        assert grounds(await s.history("house")) == ["opened_before_restore"]
        descriptor = s.open(query(NOISY, name="since"), opened=restored + LATER, deadline=deadline)
        await s.take_part()
        assert world.members(descriptor) == {0}
