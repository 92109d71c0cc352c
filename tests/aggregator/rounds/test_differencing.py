"""The differencing guard of an aggregator: it does not believe the coordinator."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from aggregator.context import Aggregator
from aggregator.pieces.intake import Intake
from aggregator.rounds import state_machine
from common.runtime.clock import ManualClock
from tacit import sets
from tacit.protocol.round.agreement import manifest_of
from tacit.query.fields import Window
from tacit.query.query import Query
from tests.aggregator.conftest import Alliance
from tests.aggregator.double import SALT, Federation, Round, Sender, manifest_request, query
from tests.aggregator.pieces.test_pieces import problem
from tests.aggregator.rounds.test_state_machine import refused

EXACT: dict[str, Any] = {"aggregators": 2, "mechanism": "exact"}
NOISY: dict[str, Any] = {
    "aggregators": 2,
    "mechanism": "distributed",
    "epsilon": "1",
    "collusion": {"curators": 0, "aggregators": 1},
}


def asked(**changes: Any) -> Query:
    return query(**{**EXACT, **changes})


async def deliver(opened: Round, senders: list[Sender]) -> Round:
    for sender in senders:
        await opened.contribute(sender, np.array([[7]]))
    return opened


async def released(pair: Federation, senders: list[Sender], wanted: Query, **more: Any) -> Round:
    """A round that is released with these curators."""
    opened = await deliver(await pair.open(wanted, **more), senders)
    await opened.release()
    return opened


async def commitment(opened: Round) -> Any:
    """The first aggregator's answer to the manifest."""
    accepted = await opened.freeze()
    manifest = manifest_of(opened.descriptor, accepted, SALT)
    request = manifest_request(manifest, accepted)
    return await opened.federation.peers[0].coordinate("POST", opened.path("commitment"), request)


@pytest.mark.usefixtures("database_url")
async def test_an_equal_set_is_summed_again_and_a_smaller_one_is_not(pair: Federation) -> None:
    lone = await pair.lone(5)
    first = await released(pair, lone, asked())
    second = await released(pair, lone, asked())
    opened = await deliver(await pair.open(asked()), lone[1:])
    answer = await commitment(opened)
    refused(answer, 409, "difference_refused")
    (named,) = answer.json()["rounds"]  # equal sets are one
    assert named in (first.id, second.id)
    assert "curator-" not in answer.text
    # The same answer again, and nothing but an abort is left of the round.
    refused(await commitment(opened), 409, "difference_refused")
    for peer in pair.peers:
        ended = await peer.coordinate("POST", opened.path("abort"), {"reason": "differs"})
        assert ended.status_code == 200
    # What was refused is not compared with: its sum was never opened.
    await released(pair, lone[2:], asked())


async def test_windows_and_registers_that_do_not_meet(pair: Federation) -> None:
    lone = await pair.lone(4)
    await released(pair, lone, asked(family="a"))
    later = Window(start=pair.now, end=pair.now + timedelta(hours=1))
    await released(pair, lone[1:], asked(family="a"), window=later)
    noisy = {**NOISY, "family": "b"}
    await released(pair, lone, query(**noisy, register="energy_export"))
    await released(pair, lone[1:], query(**{**noisy, "family": "c", "register": "reactive"}))
    opened = await deliver(await pair.open(query(**noisy, register="energy_export")), lone[1:])
    refused(await commitment(opened), 409, "difference_refused")


async def test_its_own_minimum_counts(alliance: Alliance) -> None:
    """A query's minimum is the coordinator's; this aggregator has one of its own."""
    async with alliance(2, policy_min_participants=3) as pair:
        lone = await pair.lone(6)
        loose = {"family": "f", "family_minimum": 1, "min_participants": 3}
        await released(pair, lone, asked(**loose))
        opened = await deliver(await pair.open(asked(**loose)), lone[2:])
        refused(await commitment(opened), 409, "difference_refused")
        await released(pair, lone[3:], asked(**loose))


@pytest.mark.parametrize("sharing", ["additive", "shamir"])
async def test_a_round_that_ends_between_commitment_and_reveal(
    alliance: Alliance, sharing: str
) -> None:
    """Additive shares open nothing without this one; a Shamir quorum may need no more than others,
    so such a set stays."""
    wanted = {"aggregators": 3, "mechanism": "exact", "sharing": sharing}
    if sharing == "shamir":
        wanted["threshold"] = 2
    async with alliance(3) as federation:
        lone = await federation.lone(4)
        first = await deliver(await federation.open(query(**wanted)), lone)
        assert (await commitment(first)).status_code == 200
        answer = await federation.peers[0].coordinate(
            "POST", first.path("abort"), {"reason": "ended"}
        )
        assert answer.status_code == 200
        second = await deliver(await federation.open(query(**wanted)), lone[1:])
        answer = await commitment(second)
        if sharing == "shamir":
            refused(answer, 409, "difference_refused")
        else:
            assert answer.status_code == 200


async def test_sets_outlive_the_rounds(alliance: Alliance, clock: ManualClock) -> None:
    """Rounds, pieces and their hashes are forgotten after a while; what was summed never is."""
    async with alliance(2, retention_s=3600) as pair:
        lone = await pair.lone(5)
        first = await released(pair, lone, asked())
        window = first.descriptor.window
        clock.advance(timedelta(hours=3))
        pair.now = clock.now()
        for peer in pair.peers:
            await state_machine.sweep(peer.part(Aggregator), peer.part(Intake))
            answer = await peer.coordinate("GET", first.path())
            refused(answer, 410, "round_expired")
        opened = await deliver(await pair.open(asked(), window=window), lone[1:])
        refused(await commitment(opened), 409, "difference_refused")


async def test_no_piece_from_outside_the_group(pair: Federation) -> None:
    host = await pair.host("gateway", 6)
    inside, outside = await pair.lone(2)
    bits = np.zeros(pair.next_number, np.bool_)
    bits[[inside.first, *range(host.first + 1, host.first + 4)]] = True
    wanted = asked(group="feeder")
    opened = await pair.open(wanted, members=sets.compressed(sets.pack(bits)))
    words = np.array([[5]] * 6, np.uint64)
    lone = opened.piece(outside, 0, words[0])
    refused(await opened.send(outside, 0, lone), 409, "not_in_group")
    for present in ([0, 1, 2], [1, 2, 5], [0]):
        chosen = np.zeros(6, np.bool_)
        chosen[present] = True
        (body,) = opened.batches(host, 0, words, chosen)
        answer = await opened.send_batch(host, 0, body)
        refused(answer, 409, "not_in_group")
        assert answer.json()["count"] == sum(number not in (1, 2, 3) for number in present)
    state = await pair.peers[0].coordinate("GET", opened.path())
    assert state.json()["accepted"] == 0
    await opened.contribute(inside, np.array([[7]]))
    chosen = np.array([False, True, True, True, False, False])
    for index, body in opened.batches_of(host, np.array([[1]] * 6), chosen):
        assert (await opened.send_batch(host, index, body)).status_code == 201
    total, manifest = await opened.release()
    assert total.tolist() == [10]
    assert manifest.count == 4
    assert problem(await opened.send(outside, 0, lone)) == "not_in_group"
