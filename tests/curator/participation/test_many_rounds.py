"""Many rounds at the same time: one pass for all, and a bad one holds up no other."""

from __future__ import annotations

from typing import Any

import pytest

from common.store.transactions import Database
from common.web.dependencies import part_of
from curator.participation import preparation
from tacit.crypto.signing import Identity
from tacit.protocol.round.descriptor import RoundDescriptor
from tests.curator.conftest import HOUR, OPEN, PLAIN, START, OpenSite, Site, query
from tests.curator.double import FakeWorld

MANY = 20


def asked(number: int) -> Any:
    return query(PLAIN, name=f"feeder-{number}")


@pytest.mark.parametrize("curators", [None, ["a", "b", "c"]], ids=["lone", "host"])
async def test_many_rounds_share_requests_and_transactions(
    s: Site, world: FakeWorld, curators: list[str] | None
) -> None:
    await s.policy(**OPEN, allow_repeats=True)
    await s.enrol("party", curators)
    name = "party" if curators is None else "b"
    await s.reading(name, "2.5")
    for number in range(MANY):  # what a query costs is computed once
        s.open(asked(number), start=START - HOUR)
    await s.take_part()
    for aggregator in world.aggregators:
        aggregator.rounds_together.clear()
    rounds = [s.open(asked(number)) for number in range(MANY)]
    counts = part_of(s.app, Database).counts
    before = counts.writing
    await s.take_part()
    assert counts.writing - before < MANY / 2
    for descriptor in rounds:
        assert world.result(descriptor) == {"sum": "2.5"}
    for aggregator in world.aggregators:
        assert sum(aggregator.rounds_together) > 0.9 * MANY  # some go alone on PostgreSQL
        assert len(aggregator.rounds_together) <= 5
    assert {item["state"] for item in await s.history(name)} == {"delivered"}
    await s.take_part()
    assert counts.writing - before < MANY / 2


@pytest.mark.usefixtures("database_url")
async def test_a_bad_round_among_many_holds_up_no_other(s: Site, world: FakeWorld) -> None:
    """Foreign signature, a past deadline, no descriptor at all, a round that one aggregator does
    not know, and one that it has closed."""
    await s.policy(**OPEN, allow_repeats=True)
    await s.enrol("party", ["a", "b"])
    good = [s.open(asked(number)) for number in range(MANY)]
    foreign = s.open(asked(MANY), signer=Identity.generate())
    late = s.open(asked(MANY + 1), deadline=s.clock.now())
    closed = s.open(asked(MANY + 2))
    world.aggregators[0].closed.add(closed.round)
    world.junk = [{"statement": 3}, "nothing", None]
    await s.take_part()
    for descriptor in good:
        assert world.members(descriptor) == {0, 1}
    for descriptor in (foreign, late):
        assert not any(descriptor.round in each.words for each in world.aggregators)
    states = {item["round"]: item["state"] for item in await s.history("a")}
    assert states.pop(closed.round) == "missed"
    assert foreign.round not in states
    assert {states[descriptor.round] for descriptor in good} == {"delivered"}


async def test_an_error_in_one_round_leaves_the_others_prepared(
    site: OpenSite, world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction that they share fails: each is prepared alone, and no budget is lost."""
    bad: list[RoundDescriptor] = []
    honest = preparation.prepare

    def broken(terms: Any, *rest: Any) -> Any:
        if terms.descriptor.round == bad[0].round:
            raise RuntimeError("planted")
        return honest(terms, *rest)

    monkeypatch.setattr("curator.participation.contribution.prepare", broken)
    async with site() as s:
        await s.policy(**OPEN, allow_repeats=True)
        await s.enrol("party", ["a", "b"])
        good = [s.open(asked(number)) for number in range(MANY // 2)]
        bad.append(s.open(asked(MANY)))
        good += [s.open(asked(MANY + 1 + number)) for number in range(MANY // 2)]
        await s.take_part()
        for descriptor in good:
            assert world.members(descriptor) == {0, 1}
        states = {item["round"]: item["state"] for item in await s.history("a")}
        assert states.pop(bad[0].round) == "planned"
        assert set(states.values()) == {"delivered"}
        monkeypatch.undo()
        await s.take_part()
        assert world.members(bad[0]) == {0, 1}


async def test_a_round_listed_twice_with_other_bytes_is_answered_once(s: Site) -> None:
    await s.policy(**OPEN, allow_repeats=True)
    await s.enrol("party", ["a", "b"])
    descriptor = s.open(asked(0))
    s.world.junk = [s.world.rounds[descriptor.round].model_dump(mode="json")]
    twin = s.open(asked(1), round=descriptor.round)
    assert twin.digest() != descriptor.digest()
    await s.take_part()
    s.world.junk.clear()
    await s.take_part()
    (item,) = await s.history("a")
    assert item["round"] == descriptor.round
    held = [each.words.get(descriptor.round, {}) for each in s.world.aggregators]
    assert {len(words) for words in held} == {2}
