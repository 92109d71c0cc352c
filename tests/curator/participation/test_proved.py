"""Proved rounds: what curators and hosts send is accepted by every aggregator and adds up to what
they measured; it has one size, is never made twice, and a refusal is shown to its owner."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from common.web.dependencies import part_of
from curator.participation import preparation, windows
from curator.participation.loop import Participation
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.proofs import proof_plan
from tests.curator.conftest import HOUR, NOISY, OPEN, PLAIN, START, OpenSite, Site, query
from tests.curator.double import COORDINATOR, FakeWorld, problem
from tests.curator.participation.test_rounds import EXPECTED, populated

PROVED: dict[str, Any] = {"validity": "proved", "n_max": 1000}
AROUND = (70, 69)
"""Bytes of a lone piece around what is sealed: CBOR, with a longer length for aggregator 0."""
CURATORS = {"layer": "curator", "collusion": {"curators": 0, "aggregators": 0}}


@pytest.mark.parametrize("function", ["variance", "slots"])
async def test_the_proved_sum_is_the_plain_one(s: Site, function: str) -> None:
    changes, expected = EXPECTED[function]
    await populated(s)
    descriptor = s.open(query(PLAIN, **changes, **PROVED))
    await s.take_part()
    assert s.world.members(descriptor) == {0, 64, 65, 66}
    assert set(s.world.aggregators[0].plaintexts[descriptor.round]) == {(0,), (64, 65, 66)}
    assert s.world.result(descriptor) == expected
    history = await s.history("g-3")
    assert history[0]["state"] == "delivered"
    assert history[0]["readings"]["used"] == 2
    assert history[0]["readings"]["clamped"] == 1


GAUSSIAN: dict[str, Any] = {"noise": "gaussian", "epsilon": None, "rho": "0.01"}


@pytest.mark.parametrize(
    ("noise", "window", "scaled"),
    [
        ({}, "2", ["1.5", "2", "0", "0"]),
        (GAUSSIAN, "2", ["1.5", "2", "0", "0"]),
        ({}, "3.2", ["1.5", "3.2", "0", "0"]),
    ],
)
async def test_lone_and_hosted_windows_are_scaled_and_proved(
    s: Site, noise: dict[str, Any], window: str, scaled: list[str]
) -> None:
    """A lone curator within the bound, and a host whose third curator has 6 in one slot."""
    changes, _ = EXPECTED["slots"]
    asked = query(NOISY, **{**changes, **PROVED, **noise, "window_bound": window})
    await populated(s)
    descriptor = s.open(asked)
    await s.take_part()
    assert s.world.members(descriptor) == {0, 64, 65, 66}
    assert s.world.result(descriptor) == {"vector": scaled}
    third = (await s.history("g-3"))[0]
    assert third["readings"]["used"] == 2


@pytest.mark.parametrize("readings", [[], ["5", "5", "5", "10000"]])
async def test_bodies_have_one_size_whatever_is_in_them(
    s: Site, world: FakeWorld, readings: list[str]
) -> None:
    await s.policy(**OPEN)
    await s.enrol("house-1")
    await s.enrol("gateway", ["g-1", "g-2"])
    for minute, value in enumerate(readings):
        await s.reading("house-1", value, minute)
        await s.reading("g-1", value, minute)
    s.open(query(NOISY, **CURATORS, **PROVED, name="first"))
    await s.take_part()  # it announces the sessions
    for aggregator in world.aggregators:
        aggregator.bodies.clear()
    descriptor = s.open(query(NOISY, **CURATORS, **PROVED))
    await s.take_part()
    plan = proof_plan(descriptor.query)
    for index, aggregator in enumerate(world.aggregators):
        (part,) = [b for _, b in aggregator.bodies if b.startswith(b"TCB1")]
        (lone,) = [b for _, b in aggregator.bodies if not b.startswith(b"TCB1")]
        header, presence, tag = 88 + len("gateway"), 1, 16
        assert len(part) == header + presence + plan.of(2).share_bytes(index) + tag
        assert len(lone) == plan.of(1).share_bytes(index) + tag + AROUND[index > 0]


async def test_after_an_overlap_no_other_batching_of_the_same_numbers_follows(
    s: Site, world: FakeWorld
) -> None:
    await populated(s)
    for aggregator in world.aggregators:
        aggregator.refusals += [problem(409, "batch_overlaps")] * 2
    descriptor = s.open(query(PLAIN, **PROVED))
    await s.take_part()
    loop = part_of(s.app, Participation)
    await loop.resume_deliveries()
    assert await loop.discover(COORDINATOR)
    await loop.contribute_due()
    for aggregator in world.aggregators:
        assert len({body for _, body in aggregator.bodies}) == 2, "one body for each party"
    assert (await s.history("g-1"))[0]["problems"] == ["batch_overlaps"]
    assert world.members(descriptor) == set()


async def test_a_refusal_by_the_proof_is_kept_with_the_debit_and_shown(s: Site) -> None:
    await populated(s)
    descriptor = s.open(query(NOISY, **PROVED))
    await s.take_part()
    s.world.standing[descriptor.round, "gateway"] = [
        {"number": n, "reasons": ["proof"], "detail": "so"} for n in (64, 65, 66)
    ]
    await settled(s, descriptor, 3)
    shown = (await s.history("g-2"))[0]
    assert shown["outcome"] == "released"
    assert shown["refused_by_proof"]["reasons"] == ["proof"]
    assert shown["refused_by_proof"]["detail"].startswith("refused by the proof: its software")
    assert shown["charged"]["curator"]["epsilon"] != "0" and not shown["credited"]
    assert "refused_by_proof" not in (await s.history("house-1"))[0]
    checked = await s.get("/v1/ledger/verification")
    assert checked["verified"]


async def test_nobody_asks_where_nobody_was_refused_or_nothing_was_proved(s: Site) -> None:
    await populated(s)
    descriptor = s.open(query(NOISY, **PROVED))
    await s.take_part()
    await settled(s, descriptor, 0)
    declared = s.open(query(NOISY), start=START + HOUR)
    await s.take_part()
    await settled(s, declared, 1)
    assert s.world.asked == []


@pytest.mark.parametrize("told", [[{"number": 64}], [{"number": 64, "reasons": ["<b>"]}]])
async def test_a_standing_that_is_not_understood_is_asked_again(
    s: Site, world: FakeWorld, told: list[dict[str, Any]]
) -> None:
    await populated(s)
    descriptor = s.open(query(NOISY, **PROVED))
    await s.take_part()
    world.standing[descriptor.round, "gateway"] = told
    await settled(s, descriptor, 1)
    assert (await s.history("g-1"))[0]["outcome"] is None
    world.standing[descriptor.round, "gateway"] = [
        {"number": 64, "reasons": ["point", "proof"]},
        {"number": 5, "reasons": ["proof"]},  # of somebody else
    ]
    await settled(s, descriptor, 1)
    assert (await s.history("g-1"))[0]["refused_by_proof"]["reasons"] == ["point", "proof"]


async def test_a_part_of_more_curators_than_a_round_may_have_is_refused(s: Site) -> None:
    await populated(s)
    descriptor = s.open(query(PLAIN, **{**PROVED, "n_max": 2, "min_participants": 2}))
    await s.take_part()
    assert s.world.members(descriptor) == {0}
    because = (await s.history("g-1"))[0]["refused_because"]
    assert [each["name"] for each in because] == ["descriptor_refused"]


@pytest.mark.parametrize(("length", "parts"), [(None, [4096, 904]), (8192, [5000])])
async def test_a_host_of_several_segments_sends_a_part_for_each(
    s: Site, world: FakeWorld, length: int | None, parts: list[int]
) -> None:
    names = [f"g-{i}" for i in range(5000)]
    await s.policy(**OPEN)
    await s.enrol("gateway", names)
    await s.send(
        [
            {"curator": name, "time": START.isoformat(), "value": "1.5", "unit": "kWh"}
            for name in names[::2]
        ]
    )
    asked = query(PLAIN, **{**PROVED, "n_max": 10_000, "part_length": length})
    descriptor = s.open(asked)
    await s.take_part()
    held = world.aggregators[0].plaintexts[descriptor.round]
    assert [len(numbers) for numbers in held] == parts
    assert world.result(descriptor) == {"sum": "3750"}


async def settled(s: Site, descriptor: RoundDescriptor, refused: int) -> None:
    """The round ends, and the curator learns how."""
    s.world.states[descriptor.round] = {"state": "released", "aborts": [], "refused": refused}
    s.clock.advance(timedelta(hours=3))
    await part_of(s.app, Participation).settle()


async def test_a_part_too_large_to_be_read_at_once_is_read_in_blocks(
    site: OpenSite, world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One curator at a time: the same total, each counted once."""
    changes, expected = EXPECTED["slots"]
    monkeypatch.setattr(windows, "TOGETHER", 1)
    monkeypatch.setattr(preparation, "LOT_WORDS", 1)
    loaded: list[tuple[int, int]] = []
    honest = windows.ReadingSource.load

    async def load(self: Any, transaction: Any, keys: tuple[int, int]) -> Any:
        loaded.append(keys)
        return await honest(self, transaction, keys)

    monkeypatch.setattr(windows.ReadingSource, "load", load)
    async with site() as s:
        await populated(s)
        descriptor = s.open(query(PLAIN, **changes, **PROVED))
        await s.take_part()
        assert world.result(descriptor) == expected
        assert [(await s.history(f"g-{i}"))[0]["readings"]["used"] for i in (1, 2, 3)] == [1, 0, 2]
    assert len(loaded) > 2 and all(end - first <= 2 for first, end in loaded)
