"""A curator's rounds: sessions, seal keys, what is sent again, and what follows a restore."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import cbor2
import pytest

from common.store.transactions import Database
from common.web.dependencies import part_of
from curator.participation.loop import Participation
from curator.store import outbox
from tacit.crypto.sealing import SealKey, key_hash
from tacit.protocol.round.descriptor import RoundDescriptor
from tests.curator.conftest import NOISY, OPEN, PLAIN, OpenSite, Site, query
from tests.curator.double import COORDINATOR, FakeWorld, problem
from tests.curator.test_crashes import prepare

NAMES = {"lone": None, "host": [f"g-{index}" for index in range(5)]}
PROVED: dict[str, Any] = {**NOISY, "validity": "proved", "max_readings": 1}


def open_round(s: Site, base: dict[str, Any] = PLAIN, **changes: Any) -> RoundDescriptor:
    """A round, and curators that take part in one without noise."""
    named = {"name": changes.pop("name")} if "name" in changes else {}
    return s.open(query(base, **named), **changes)


def bodies(world: FakeWorld, descriptor: RoundDescriptor) -> list[list[bytes]]:
    """What came for a round, by aggregator."""
    return [
        [body for name, body in item.bodies if name == descriptor.round]
        for item in world.aggregators
    ]


@pytest.mark.parametrize(
    ("curators", "base"), [(NAMES["lone"], PROVED), (NAMES["host"], PLAIN)], ids=NAMES
)
async def test_a_round_is_summed_under_one_session_for_each_key(
    s: Site, world: FakeWorld, curators: list[str] | None, base: dict[str, Any]
) -> None:
    """Every aggregator opens what it was sent, and together it is the sum."""
    await s.policy(**OPEN, allow_repeats=True)
    await s.enrol("party", curators)
    for name in curators or ["party"]:
        await s.reading(name, "1.5")
    descriptor = open_round(s, base)
    await s.take_part()
    assert world.total(descriptor).tolist() == [1500 * len(curators or ["party"])]
    # One session for each aggregator, which is announced once; the next round needs none.
    assert [len(item.sessions) for item in world.aggregators] == [1, 1, 1]
    assert [len(item.announced) for item in world.aggregators] == [1, 1, 1]
    again = open_round(s, base, name="again")
    await s.take_part()
    assert world.members(again) == world.members(descriptor)
    assert [len(item.announced) for item in world.aggregators] == [1, 1, 1]
    # Another key, another session.
    for item in world.aggregators:
        item.renew_seal_key()
    third = open_round(s, base, name="third")
    await s.take_part()
    assert world.members(third) == world.members(descriptor)
    assert [len(item.sessions) for item in world.aggregators] == [2, 2, 2]


@pytest.mark.parametrize("curators", NAMES.values(), ids=NAMES)
async def test_after_a_restart_the_same_bytes_with_the_announcement(
    site: OpenSite, world: FakeWorld, curators: list[str] | None
) -> None:
    """The session's key is gone with the process; its announcement is in the outbox."""
    async with site() as s:
        await s.policy(**OPEN, allow_repeats=True)
        await s.enrol("party", curators)
        descriptor = open_round(s)
        await prepare(s)
        async with part_of(s.app, Database).reading() as transaction:
            stored = await outbox.pending(transaction, 1)
        assert len(stored) == 3
        assert all(item.announce is not None for item in stored)
    async with site() as s:
        await part_of(s.app, Participation).resume_deliveries()
        assert len(world.members(descriptor)) == len(curators or ["party"])
        sent = [body for (body,) in bodies(world, descriptor)]
        for body, item in zip(sent, stored, strict=True):
            if curators is None:
                piece, known = cbor2.loads(body), cbor2.loads(item.body)
                assert piece.pop("announce") is not None
                assert piece == known
            else:
                assert body == item.body
        # What comes next is sealed under another session.
        again = open_round(s, name="again")
        await s.take_part()
        assert world.members(again) == world.members(descriptor)
        assert [len(item.sessions) for item in world.aggregators] == [2, 2, 2]
        async with part_of(s.app, Database).reading() as transaction:
            assert not await outbox.pending(transaction, 1)


@pytest.mark.parametrize("curators", NAMES.values(), ids=NAMES)
async def test_an_unknown_session_is_answered_by_the_same_sealed_bytes(
    s: Site, world: FakeWorld, curators: list[str] | None
) -> None:
    first = world.aggregators[0]
    await s.policy(**OPEN, allow_repeats=True)
    await s.enrol("party", curators)
    first.refusals = [problem(409, "unknown_session", retryable=True) for _ in range(2)]
    descriptor = open_round(s)
    await s.take_part()
    assert len(world.members(descriptor)) == len(curators or ["party"])
    sent = bodies(world, descriptor)[0]
    assert len(sent) == 3
    if curators is None:
        kept = [cbor2.loads(body) for body in sent]
        assert len({(piece["nonce"], piece["sealed"]) for piece in kept}) == 1
        assert all("announce" in piece for piece in kept)
    else:
        assert len(set(sent)) == 1
        assert len(first.announced) == 3


async def test_a_session_that_was_lost_is_not_used_again(site: OpenSite, world: FakeWorld) -> None:
    """An aggregator whose store went back knows no session: the round is lost there, the next is
    sealed under another."""
    first = world.aggregators[0]
    async with site(deliver_grace_s=0) as s:
        await s.policy(**OPEN, allow_repeats=True)
        await s.enrol("party")
        open_round(s)
        await s.take_part()
        first.sessions.clear()
        lost = open_round(s, name="lost")
        await part_of(s.app, Participation).discover(COORDINATOR)
        taking_part = asyncio.create_task(part_of(s.app, Participation).contribute_due())
        async with asyncio.timeout(60):
            while len(bodies(world, lost)[0]) < 3:
                await asyncio.sleep(0.01)
        s.clock.advance(timedelta(hours=2))  # it gives up
        await taking_part
        assert (await s.history("party"))[0]["state"] == "missed"
        after = open_round(s, name="after")
        await s.take_part()
        assert world.members(after) == {0}


async def test_a_seal_key_comes_from_the_mirror_where_the_aggregator_shows_none(
    site: OpenSite, world: FakeWorld
) -> None:
    first = world.aggregators[0]
    first.serves_seal_keys = False
    async with site() as s:
        await s.policy(**OPEN, allow_repeats=True)
        await s.enrol("party")
        descriptor = open_round(s)
        await s.take_part()
        assert not world.members(descriptor)
        world.mirrored[first.seal_key.public.hash] = SealKey(bytes(32)).public.raw
        await s.take_part()
        assert not world.members(descriptor)  # another key under this hash
        world.mirrored[first.seal_key.public.hash] = first.seal_key.public.raw
        await s.take_part()
        assert world.members(descriptor) == {0}


async def test_what_an_aggregator_signed_and_is_no_key_is_refused(
    s: Site, world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = SealKey(bytes(32)).public.raw[:1184] + bytes(32)  # a point of small order
    first = world.aggregators[0]
    await s.policy(**OPEN, allow_repeats=True)
    await s.enrol("party")
    first.serves_seal_keys = False
    world.mirrored[key_hash(raw)] = raw
    with monkeypatch.context() as patched:
        patched.setattr(first.seal_key.public, "hash", key_hash(raw))
        descriptor = open_round(s)
    await s.take_part()
    assert not world.members(descriptor)
    (told,) = await s.history("party")
    assert (told["state"], told["refused_because"][0]["name"]) == ("refused", "seal_key_malformed")
