"""Persist before send, the same bytes again, and enrolments that died half-way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.responses import Response

from common.store.database import open_database
from common.store.migration import drift
from common.web.dependencies import part_of
from curator.participation.contribution import Contributor
from curator.participation.delivery import Delivery
from curator.participation.loop import Participation
from curator.store.tables import metadata
from tests.curator.conftest import NOISY, OPEN, OpenSite, Site, query
from tests.curator.double import COORDINATOR, FakeWorld, problem

CURATOR_NOISE: dict[str, Any] = {"layer": "curator", "collusion": {"curators": 0, "aggregators": 0}}


def noisy(**changes: Any) -> Any:
    return query(NOISY, **CURATOR_NOISE, **changes)


async def prepare(s: Site) -> None:
    """Everything up to the first request, then the process is gone."""
    participation = part_of(s.app, Participation)
    await participation.discover(COORDINATOR)

    async def crash(*_: Any) -> bool:
        raise RuntimeError("killed")

    part_of(s.app, Delivery).send = crash  # type: ignore[method-assign]
    await participation.contribute_due()


async def test_what_was_sent_but_not_closed_is_closed_after_a_restart(
    site: OpenSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(*_: Any) -> None:
        raise RuntimeError("killed")

    async with site() as s:
        await s.enrol("gw", ["a", "b"])
        s.open(noisy())
        with monkeypatch.context() as patched:
            patched.setattr(part_of(s.app, Delivery), "_closed", crash)
            await part_of(s.app, Participation).discover(COORDINATOR)
            await part_of(s.app, Participation).contribute_due()
        assert (await s.history("a"))[0]["state"] == "prepared"
    async with site() as s:
        await part_of(s.app, Participation).resume_deliveries()
        assert (await s.history("a"))[0]["state"] == "delivered"


@pytest.mark.parametrize(
    ("outcome", "included", "state"),
    [
        ("released", True, "delivered"),
        ("released", False, "missed"),
        ("released", None, "missed"),
        ("aborted", True, "missed"),
    ],
)
async def test_after_the_end_aggregators_are_asked_whether_it_was_included(
    site: OpenSite, world: FakeWorld, outcome: str, included: bool | None, state: str
) -> None:
    """The process died before it had stored that all was taken. Once more it sends only into a
    released round: the sum of an aborted one may be given back. None: nobody answers."""

    async def crash(*_: Any) -> bool:
        raise RuntimeError("killed")

    async with site() as s:
        await s.enrol("house")
        descriptor = s.open(noisy())
        part_of(s.app, Delivery).note = crash  # type: ignore[method-assign]
        await part_of(s.app, Participation).discover(COORDINATOR)
        await part_of(s.app, Participation).contribute_due()
    world.finish(descriptor, outcome)
    for item in world.aggregators:
        assert len(item.bodies) == 1
        item.refusals = [
            problem(503, "unavailable", retryable=True)
            if included is None
            else problem(410, "round_closed", included=included)
        ]
    async with site() as s:
        await s.take_part()
        await part_of(s.app, Participation).settle()
        await part_of(s.app, Participation).resume_deliveries()
        [answer] = await s.history("house")
        assert (answer["outcome"], answer["state"]) == (outcome, state)
        assert answer["contributed"]
        sent = 2 if outcome == "released" else 1
        assert [len(item.bodies) for item in world.aggregators] == [sent] * len(world.aggregators)


async def test_a_lost_answer_is_followed_by_the_same_bytes(
    site: OpenSite, world: FakeWorld
) -> None:
    world.aggregators[1].refusals = [problem(503, "unavailable", retryable=True), Response("", 500)]
    async with site() as s:
        await s.enrol("gw", ["a", "b"])
        await s.enrol("house")
        for item in world.aggregators:
            item.transport.lose_answers = 2
        descriptor = s.open(noisy())
        await s.take_part()
        assert len(world.members(descriptor)) == 3
        for item in world.aggregators:
            distinct = {body for _, body in item.bodies}
            assert len(distinct) == 2
            assert len(item.bodies) > 2
        assert (await s.history("a"))[0]["state"] == "delivered"


async def test_a_crash_between_segments_repeats_none(site: OpenSite, world: FakeWorld) -> None:
    asked = noisy(function="vector_sum", dimension=2049, l1_bound="10", n_max=1000)
    names = [f"g-{i}" for i in range(150)]
    async with site() as s:
        await s.enrol("gw", names)
        descriptor = s.open(asked)
        contributor, done = part_of(s.app, Contributor), []
        original = contributor._debit

        async def dying(*args: Any) -> Any:
            if len(done) == 2:
                raise RuntimeError("killed")
            done.append(args[2][0].portion.span.segment)
            return await original(*args)

        contributor._debit = dying  # type: ignore[method-assign]
        await s.take_part()
        assert done == [0, 1]
    async with site() as s:
        await s.take_part()
        assert world.members(descriptor) == set(range(150))
        found = (await s.get("/v1/curators/g-1/budget"))["units"]["curator"]
        assert (found["lifetime"]["epsilon"], found["rounds"]) == ("1", 1)
        for item in world.aggregators:
            assert len({body for _, body in item.bodies}) == 3


async def test_refusals_of_an_aggregator_are_final_and_shown(s: Site) -> None:
    await s.enrol("house")
    s.world.aggregators[0].refusals = [problem(409, "batch_overlaps", numbers=[1])]
    s.world.aggregators[1].refusals = [problem(410, "round_closed", included=True)]
    s.world.aggregators[2].refusals = [problem(404, "unknown_round", retryable=True)]
    s.open(noisy())
    await s.take_part()
    found = (await s.history("house"))[0]
    assert found["state"] == "missed"
    assert found["delivery"] == {"sent": 2, "missed": 1}
    assert found["problems"] == ["batch_overlaps"]


@pytest.mark.parametrize("victim", ["coordinator", "aggregator-1"])
async def test_an_enrolment_that_died_is_finished_by_the_same_token(
    site: OpenSite, world: FakeWorld, victim: str
) -> None:
    dying: Any = world if victim == "coordinator" else world.aggregators[1]
    dying.die_after_enrolment = True
    token = {"token": world.join_token("gw", 2), "curators": ["a", "b"]}
    async with site() as s:
        answer = await s.client.post("/v1/enrolments", json=token)
        assert answer.status_code == 409
        assert answer.json()["problem"] == "internal_error"
        assert (await s.get("/v1/parties"))["parties"][0]["state"] == "enrolling"
        # Stored is hosted: a token does not have to wait for a restart.
        await s.request("POST", "/v1/tokens", {"scope": "curator", "subject": "a"}, 201)
    async with site() as s:
        found = await s.request("POST", "/v1/enrolments", token, 201)
        assert (found["first"], found["curators"], found["state"]) == (0, 2, "active")
        await s.request("POST", "/v1/enrolments", token, 409)
        descriptor = s.open(noisy())
        await s.take_part()
        assert world.members(descriptor) == {0, 1}


async def test_enrolment_checks_fingerprints_before_it_sends(s: Site) -> None:
    stranger = FakeWorld()
    token = s.world.join_token("house")
    s.world.aggregators[2].identity = stranger.aggregators[2].identity
    answer = await s.client.post("/v1/enrolments", json={"token": token})
    assert answer.status_code == 403
    assert answer.json()["type"].endswith("fingerprint_mismatch")
    assert not s.world.numbers
    assert not s.world.aggregators[0].parties
    for body, expected in (
        ({"token": "x" * 40}, 422),
        ({"token": s.world.join_token("other"), "curators": ["a"]}, 422),
        ({"token": s.world.join_token("gw", 2)}, 422),
        ({"token": s.world.join_token("gw", 2), "curators": ["a", "a"]}, 422),
        ({"token": s.world.join_token("gw", 2), "curators": ["a", "b", "c"]}, 422),
        ({"token": s.world.join_token("gw", 2), "curators": ["house"]}, 409),
    ):
        await s.request("POST", "/v1/enrolments", body, expected)


async def test_the_loop_does_it_all_by_itself(site: OpenSite, world: FakeWorld) -> None:
    async with site(participate=True, poll_wait_s=0, settle_after_s=0.01) as s:
        await s.policy(**OPEN)
        await s.enrol("house")
        descriptor = s.open(noisy())
        async with asyncio.timeout(120):
            while not all(descriptor.round in item.words for item in world.aggregators):
                await asyncio.sleep(0.01)
            assert world.members(descriptor) == {0}
            world.finish(descriptor, "released")
            while (await s.history("house"))[0]["outcome"] != "released":
                await asyncio.sleep(0.01)


async def test_the_revisions_make_the_tables(site: OpenSite, database_url: str) -> None:
    async with site():
        pass
    database = open_database(database_url)
    assert await drift(database, metadata) == []
    await database.dispose()
