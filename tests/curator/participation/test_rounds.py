"""Enrol, readings, contribution, delivery: what aggregators hold is what curators measured."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from common.web.dependencies import part_of
from curator.participation import contribution
from curator.participation.loop import Participation
from tacit.crypto.signing import Identity
from tacit.protocol.round.agreement import DescriptorRefused
from tacit.protocol.round.descriptor import RoundDescriptor
from tests.curator.conftest import HOUR, NOISY, OPEN, PLAIN, START, OpenSite, Site, query
from tests.curator.double import COORDINATOR, FakeWorld, problem

SHAMIR: dict[str, Any] = {"sharing": "shamir", "threshold": 2}
EXPECTED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sum": ({}, {"sum": "7.5"}),
    "mean": ({"function": "mean"}, {"count": "4", "mean": "1.875"}),
    "variance": ({"function": "variance"}, {"count": "4", "mean": "1.875", "variance": "3.296875"}),
    "histogram": (
        {"function": "histogram", "edges": ["0", "1", "2", "5"]},
        {"histogram": ["1", "2", "1"]},
    ),
    "slots": (
        {"function": "vector_sum", "dimension": 4, "l1_bound": "10"},
        {"vector": ["1.5", "6", "0", "0"]},
    ),
}


async def populated(s: Site, **policy: Any) -> None:
    await s.policy(**OPEN, **policy)
    await s.enrol("house-1")
    await s.enrol("gateway", ["g-1", "g-2", "g-3"])
    await s.reading("house-1", "0.5")
    await s.reading("g-1", "1", 5)
    await s.reading("g-3", "9.25", 20)  # clamped to 5
    await s.reading("g-3", "1", 25)
    await s.reading("g-3", "3", 60)  # not in the window


@pytest.mark.parametrize(
    ("function", "sharing"),
    [("sum", SHAMIR), ("mean", {}), ("variance", SHAMIR), ("histogram", {}), ("slots", {})],
)
async def test_the_opened_sum_is_the_plain_one(
    s: Site, world: FakeWorld, function: str, sharing: dict[str, Any]
) -> None:
    changes, expected = EXPECTED[function]
    asked = query(PLAIN, **changes, **sharing)
    await populated(s, allow_repeats=True)
    descriptor = s.open(asked)
    await s.take_part()
    assert world.members(descriptor) == {0, 64, 65, 66}
    assert world.result(descriptor) == expected
    history = await s.history("g-3")
    assert history[0]["state"] == "delivered"
    assert history[0]["contributed"]
    assert history[0]["readings"]["used"] == 2
    assert history[0]["declared"]["status"] == "unverified"


@pytest.mark.usefixtures("database_url")
async def test_vectors_in_blocks(s: Site, world: FakeWorld) -> None:
    blocks = [
        {"name": "near", "dimension": 1, "l1_bound": "2", "resolution": "1"},
        {"name": "far", "dimension": 2, "l1_bound": "3", "resolution": "0.5"},
    ]
    asked = query(
        PLAIN, function="vector_sum", coordinates="values", blocks=blocks, unit="1", register="row"
    )
    await s.policy(**OPEN, allow_repeats=True)
    await s.enrol("gateway", ["g-1", "g-2"])
    item = {"curator": "g-1", "register": "row", "time": "2025-12-31T12:00:00Z", "unit": "1"}
    answers = await s.send(
        [
            {**item, "values": [1, "0.5", 2]},
            {**item, "curator": "g-2", "values": [1, 2]},  # of another length: does not count
        ]
    )
    assert [a["status"] for a in answers] == ["accepted", "accepted"]
    descriptor = s.open(asked)
    await s.take_part()
    assert world.members(descriptor) == {0, 1}
    assert world.result(descriptor) == {"near": ["1"], "far": ["0.5", "2"]}


@pytest.mark.parametrize(
    ("kind", "mechanism"),
    [
        ("lone", {"layer": "curator", "collusion": {"curators": 0, "aggregators": 0}}),
        ("host", {"layer": "aggregator"}),
    ],
)
async def test_a_curator_without_readings_sends_the_same_size(
    s: Site, world: FakeWorld, kind: str, mechanism: dict[str, Any]
) -> None:
    for party in ("full", "none"):
        await s.enrol(party, None if kind == "lone" else [f"{party}-{i}" for i in range(3)])
    for minute in range(0, 40, 10):
        await s.reading("full" if kind == "lone" else "full-1", "1.5", minute)
    descriptor = s.open(query(NOISY, **mechanism))
    await s.take_part()
    assert len(world.members(descriptor)) == (2 if kind == "lone" else 6)
    for item in world.aggregators:
        assert sorted(b"full" in body for _, body in item.bodies) == [False, True]
        assert len({len(body) for _, body in item.bodies}) == 1


async def test_only_the_first_readings_count_and_late_ones_come_in(s: Site) -> None:
    await s.policy(**OPEN, allow_repeats=True)
    await s.enrol("house")
    for minute in (50, 40, 30, 20, 10, 0):
        await s.reading("house", f"0.{minute // 10 + 1}", minute)
    descriptor = s.open(query(PLAIN))
    await s.take_part()
    assert s.world.result(descriptor) == {"sum": "1"}
    counts = await s.get("/v1/curators/house/readings")
    assert counts["accepted"] == 6
    assert counts["contributed"] == 4


async def test_an_absurd_reading_does_not_keep_a_curator_out(s: Site) -> None:
    await s.policy(**OPEN, allow_repeats=True)
    await s.enrol("house")
    await s.reading("house", "2.3e6")
    descriptor = s.open(query(PLAIN, function="mean", bounds=["0", "1/3"]))
    await s.take_part()
    assert s.world.members(descriptor) == {0}
    assert (await s.history("house"))[0]["readings"] == {
        "used": 1,
        "clamped": 1,
        "kept_share": None,
    }


async def test_moments_are_spread_over_the_open_time(site: OpenSite, world: FakeWorld) -> None:
    async with site(send_window_share=0.5) as s:
        await s.policy(**OPEN, allow_repeats=True)
        for index in range(10):
            await s.enrol(f"house-{index}")
        descriptor = s.open(query(PLAIN))
        await part_of(s.app, Participation).discover("http://coordinator.test")
        moments = set()
        for index in range(10):
            item = (await s.history(f"house-{index}"))[0]
            assert item["state"] == "planned"
            moments.add(item["send_at"])
        assert len(moments) == 10
        assert max(moments) <= "2026-01-01T00:30:00Z"
        await part_of(s.app, Participation).contribute_due()
        assert len(world.members(descriptor)) < 10


async def test_a_hostile_coordinator_gets_nothing(s: Site, world: FakeWorld) -> None:
    await s.policy(**OPEN, allow_repeats=True)
    await s.enrol("house")
    strangers = tuple(item.entry(s.clock.now()) for item in FakeWorld().aggregators)
    foreign = s.open(query(PLAIN), aggregators=strangers)
    early = s.open(query(PLAIN, name="early"), roster_size=0)
    await s.take_part()
    grounds = {h["round"]: h["refused_because"] for h in await s.history("house")}
    for descriptor, name in ((foreign, "key_not_anchored"), (early, "not_in_round")):
        assert world.members(descriptor) == set()
        assert grounds[descriptor.round][0]["name"] == name


async def lone(s: Site, count: int) -> RoundDescriptor:
    """So many lone curators with a reading of half a unit each, and a round for them."""
    await s.policy(**OPEN, allow_repeats=True)
    for index in range(count):
        await s.enrol(f"house-{index}")
        await s.reading(f"house-{index}", "0.5")
    return s.open(query(PLAIN))


async def test_what_is_refused_together_is_sent_alone(site: OpenSite, world: FakeWorld) -> None:
    world.aggregators[0].refusals = [problem(413, "too_many_pieces", max_pieces=1)]
    async with site() as s:
        descriptor = await lone(s, 3)
        await s.take_part()
        assert world.result(descriptor) == {"sum": "1.5"}
        assert [item.together for item in world.aggregators] == [[], [3], [3]]
        for index in range(3):
            assert [each["state"] for each in await s.history(f"house-{index}")] == ["delivered"]


async def test_a_party_whose_token_ended_holds_up_no_other(s: Site) -> None:
    whose = 1
    descriptor = await lone(s, 3)
    tokens = s.world.aggregators[0].tokens
    token, tokens[f"house-{whose}"] = tokens[f"house-{whose}"], "another"
    participation = part_of(s.app, Participation)
    await participation.discover(COORDINATOR)
    sending = asyncio.create_task(participation.contribute_due())
    others = set(range(3)) - {whose}
    async with asyncio.timeout(60):
        while s.world.members(descriptor) != others:
            await asyncio.sleep(0.01)
        tokens[f"house-{whose}"] = token
        await sending
    assert s.world.members(descriptor) == {0, 1, 2}
    assert s.world.result(descriptor) == {"sum": "1.5"}


def test_only_the_very_text_that_was_verified_counts_as_verified(world: FakeWorld) -> None:
    world.next_number = 1
    descriptor = world.open_round(query(PLAIN), START, START + HOUR, START)
    signed, key = world.rounds[descriptor.round], world.identity.public_key
    terms = contribution._verified(signed.model_dump_json(), key)
    assert (terms.descriptor, terms.digest) == (descriptor, descriptor.digest())
    changed = descriptor.model_copy(update={"query_id": "another"})
    forged = signed.model_copy(update={"statement": changed})
    with pytest.raises(DescriptorRefused):
        contribution._verified(forged.model_dump_json(), key)
    with pytest.raises(DescriptorRefused):
        contribution._verified(signed.model_dump_json(), Identity.generate().public_key)
