"""A coordinator that substitutes keys, invents curators, drops noise, or aborts and tries again.

The other half of `test_hostile_coordinator.py` (spec: aggregation, section 10, check 9).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from common.runtime.clock import ManualClock
from common.web.dependencies import part_of
from curator.participation.loop import Participation
from tacit import sets
from tacit.crypto.sealing import SealKey
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.round.agreement import manifest_hash, manifest_of
from tacit.protocol.round.descriptor import AggregatorEntry
from tacit.protocol.round.messages import ACCEPTED_LABEL, AcceptedSet, Manifest, Reveal
from tacit.protocol.round.opening import RevealRefused, open_sum
from tacit.protocol.sealing_sessions import SEAL_KEY_LABEL
from tacit.query.fields import Window
from tests.aggregator.double import SALT
from tests.e2e.hostile import (
    NOISY,
    PLAIN,
    SHARED_NOISE,
    Descriptor,
    Deviating,
    Hostile,
    commit,
    problem,
    resigned,
    reveal,
    state,
)

# --- keys ----------------------------------------------------------------------------------------


def substituted(it: Hostile, signed: Descriptor, index: int, *, identity: bool) -> Descriptor:
    """An aggregator's keys replaced by the coordinator's own: all of them, or the seal key."""
    entries = list(signed.statement.aggregators)
    entry, own = entries[index], Identity.generate()
    key = entry.seal.model_copy(update={"public_key_hash": SealKey(SealKey.new_seed()).public.hash})
    entries[index] = AggregatorEntry(
        id=entry.id,
        operator=entry.operator,
        url=entry.url,
        identity_key=own.public_key if identity else entry.identity_key,
        seal_key=own.sign(SEAL_KEY_LABEL, key),
    )
    return resigned(it, signed, aggregators=tuple(entries))


@pytest.mark.parametrize("identity", [True, False])
async def test_a_substituted_key_gets_no_piece(
    deviating: Deviating, homes: Any, identity: bool
) -> None:
    async with deviating(3) as it, homes(it, "a") as (a,):
        signed = substituted(it, await it.descriptor(PLAIN), 1, identity=identity)
        it.show("a", signed)
        await a.take_part()
        assert await a.debits() == []
        history = await a.history()
        if identity:  # consistent in itself, and not anchored
            (seen,) = history
            assert seen["state"] == "refused"
            assert [item["name"] for item in seen["refused_because"]] == ["key_not_anchored"]
        else:
            assert history == []
        answer = await it.federation.peers[1].coordinate("POST", "/v1/rounds", signed)
        assert problem(answer) == (422, "descriptor_refused")


async def test_all_keys_substituted_get_no_piece(deviating: Deviating, homes: Any) -> None:
    async with deviating(3) as it, homes(it, "a") as (a,):
        signed = await it.descriptor(PLAIN)
        for index in range(3):
            signed = substituted(it, signed, index, identity=True)
        it.show("a", signed)
        await a.take_part()
        assert await a.debits() == []
        (seen,) = await a.history()
        assert [item["name"] for item in seen["refused_because"]] == ["key_not_anchored"]


# --- sybils --------------------------------------------------------------------------------------


async def test_curators_that_no_roster_has_cannot_fill_a_round(deviating: Deviating) -> None:
    """One honest curator among the coordinator's inventions would be alone in the sum."""
    async with deviating(3) as it:
        federation = it.federation
        (victim,) = await federation.lone(1)
        sybils = [federation.sender(f"sybil-{i}") for i in range(5)]
        opened = await it.announce(await it.descriptor(PLAIN))
        await opened.contribute(victim, np.array([[777]]))
        for sybil in sybils:
            for index, words in enumerate(opened.split(np.array([[0]]))):
                piece = opened.piece(sybil, index, words[0])
                peer = federation.peers[index]
                sybil.tokens = [p.coordinator_token for p in federation.peers]
                assert (await opened.send(sybil, index, piece)).status_code == 403
                sybil.tokens = list(victim.tokens)
                assert (await opened.send(sybil, index, piece)).status_code in (400, 403, 409)
                answer = await peer.coordinate(
                    "POST", "/v1/enrolments", federation.enrolment(peer, sybil, "x" * 40)
                )
                assert problem(answer) == (401, "join_token_unknown")
        accepted = await opened.freeze()
        everyone = sets.pack(np.ones(opened.descriptor.roster_size, np.bool_))
        manifest = Manifest(
            round=opened.id,
            descriptor_hash=opened.descriptor.digest(),
            quorum=(0, 1, 2),
            members=everyone,
            count=6,
            contributions=(),
            salt=SALT,
        )
        forged = [
            Identity.generate().sign(
                ACCEPTED_LABEL, item.statement.model_copy(update={"members": everyone})
            )
            for item in accepted
        ]
        alone = manifest.model_copy(update={"members": accepted[0].statement.members, "count": 1})
        for index in range(3):
            answer = await commit(opened, index, manifest, accepted)
            assert problem(answer) == (409, "too_few_participants")
            assert problem(await commit(opened, index, manifest, forged)) == (
                409,
                "manifest_refused",
            )
            answer = await commit(opened, index, alone, accepted)
            assert problem(answer) == (409, "too_few_participants")
            assert await state(opened, index) == "frozen"


async def test_a_manifest_may_not_name_who_is_not_held(deviating: Deviating) -> None:
    async with deviating(3) as it:
        senders = await it.federation.lone(3)
        opened = await it.announce(await it.descriptor(PLAIN))
        for sender in senders[:2]:
            await opened.contribute(sender, np.array([[1]]))
        accepted = await opened.freeze()
        honest = manifest_of(opened.descriptor, accepted, SALT)
        everyone = honest.model_copy(
            update={"members": sets.pack(np.ones(3, np.bool_)), "count": 3}
        )
        for index in range(3):
            answer = await commit(opened, index, everyone, accepted)
            assert problem(answer) == (409, "manifest_refused")


# --- noise ---------------------------------------------------------------------------------------


async def test_noise_that_is_not_relayed_ends_the_round(deviating: Deviating) -> None:
    """Each aggregator holds its own share of noise only: no manifest has c_noise of them."""
    async with deviating(5) as it:
        senders = await it.federation.lone(3)
        opened = await it.announce(await it.descriptor(SHARED_NOISE))
        for sender in senders:
            await opened.contribute(sender, np.array([[1000]]))
        accepted = await opened.freeze()
        for index, item in enumerate(accepted):
            assert item.statement.contributions == (index,)
        manifest = Manifest(
            round=opened.id,
            descriptor_hash=opened.descriptor.digest(),
            quorum=(0, 1, 2, 3, 4),
            members=accepted[0].statement.members,
            count=3,
            contributions=(),
            salt=SALT,
        )
        for noise in ((), (0,), (0, 1, 2)):
            asked = manifest.model_copy(update={"contributions": noise})
            for index in range(5):
                answer = await commit(opened, index, asked, accepted)
                assert problem(answer) == (409, "manifest_refused")


async def test_noise_cannot_be_dropped_from_the_manifest(deviating: Deviating) -> None:
    async with deviating(5) as it:
        senders = await it.federation.lone(3)
        it.federation.now = it.clock.now()
        opened = await it.federation.open(SHARED_NOISE)
        for sender in senders:
            await opened.contribute(sender, np.array([[1000]]))
        accepted = await opened.freeze()
        honest = manifest_of(opened.descriptor, accepted, SALT)
        assert honest.contributions == (0, 1, 2, 3, 4)
        for noise in ((), (0, 1), (0, 1, 2), (0, 0, 0)):
            dropped = honest.model_copy(update={"contributions": noise})
            for index in range(5):
                answer = await commit(opened, index, dropped, accepted)
                assert problem(answer) == (409, "manifest_refused")
        _, manifest = await opened.release()
        assert manifest.contributions == honest.contributions


async def test_sets_without_noise_that_others_did_not_sign(deviating: Deviating) -> None:
    async with deviating(5) as it:
        await it.federation.lone(2)
        opened = await it.announce(await it.descriptor(SHARED_NOISE))
        accepted = await opened.freeze()
        thief = Identity.generate()
        sets_of_all: list[Signed[AcceptedSet]] = [
            thief.sign(
                ACCEPTED_LABEL, item.statement.model_copy(update={"contributions": (0, 1, 2)})
            )
            for item in accepted
        ]
        manifest = Manifest(
            round=opened.id,
            descriptor_hash=opened.descriptor.digest(),
            quorum=(0, 1, 2, 3, 4),
            members=accepted[0].statement.members,
            count=2,
            contributions=(0, 1, 2),
            salt=SALT,
        )
        answer = await commit(opened, 0, manifest, sets_of_all)
        assert problem(answer) == (409, "manifest_refused")


# --- aborts and retries --------------------------------------------------------------------------


async def test_an_abort_after_the_reveals_is_paid_for(
    deviating: Deviating, homes: Any, clock: ManualClock
) -> None:
    """The coordinator opens a sum, calls it aborted and tries again, with curators that allow
    repeats: every sum has its debit."""
    async with deviating(3) as it, homes(it, "a", "b") as parties:
        for party in parties:
            await party.agree(allow_unverified=True, allow_repeats=True)
            await party.read("1", "2025-12-31T23:30:00+00:00")
        totals = []
        for turn in range(2):
            signed = await it.descriptor(NOISY)
            window = Window(
                start=clock.now().replace(year=2025, month=12, day=31, hour=23, minute=0),
                end=clock.now().replace(year=2026, month=1, day=1, hour=0, minute=0),
            )
            signed = resigned(it, signed, window=window)
            opened = await it.announce(signed)
            for party in parties:
                it.show(party.party, signed)
                await party.take_part()
            total, manifest = await opened.release()
            assert manifest.count == 2
            totals.append(int(total[0]))
            for peer in it.federation.peers:  # too late: none takes its reveal back
                answer = await peer.coordinate("POST", opened.path("abort"), {"reason": "oops"})
                assert problem(answer) == (409, "round_released")
            it.told[opened.id] = {"state": "aborted", "aborts": []}
            for party in parties:
                it.show(party.party)
                await party.take_part()
                await part_of(party.app, Participation).settle()
                debits = await party.debits()
                assert len(debits) == turn + 1
                assert not any(item["credited"] for item in debits)
                assert {item["epsilon"] for item in debits} == {"1"}
        assert totals[0] != totals[1]  # new noise: equal by chance once in ten thousand


async def test_an_abort_between_reveals_is_final(deviating: Deviating) -> None:
    async with deviating(3) as it:
        senders = await it.federation.lone(2)
        opened = await it.announce(await it.descriptor(PLAIN))
        kept = []
        for sender in senders:
            words = opened.split(np.array([[5]]))
            pieces = [opened.piece(sender, index, words[index][0]) for index in range(3)]
            kept.append(pieces)
            for index, piece in enumerate(pieces):
                assert (await opened.send(sender, index, piece)).status_code == 201
        accepted = await opened.freeze()
        manifest, commitments = await opened.commit(accepted)
        reveals = []
        for index in (0, 1):
            answer = await reveal(opened, index, commitments)
            reveals.append(Reveal.model_validate_json(answer.content))
        last = it.federation.peers[2]
        answer = await last.coordinate("POST", opened.path("abort"), {"reason": "oops"})
        assert answer.status_code == 200
        assert json.loads(answer.content)["statement"]["frozen"] == "yes"
        assert problem(await reveal(opened, 2, commitments)) == (410, "round_closed")
        with pytest.raises(RevealRefused):
            open_sum(opened.descriptor, manifest_hash(manifest), (0, 1, 2), commitments, reveals)
        # The retry is another round: the old pieces fit nowhere, and neither does the old manifest.
        again = await it.announce(await it.descriptor(PLAIN))
        for sender, pieces in zip(senders, kept, strict=True):
            for index, piece in enumerate(pieces):
                answer = await again.send(sender, index, piece)
                assert answer.status_code == 400, answer.text
        second = await again.freeze()
        for index in range(3):
            answer = await commit(again, index, manifest, accepted)
            assert problem(answer) == (409, "manifest_refused")
            assert second[index].statement.members == bytes(1)


async def test_reopening_an_aborted_round_opens_nothing(deviating: Deviating) -> None:
    async with deviating(3) as it:
        senders = await it.federation.lone(2)
        signed = await it.descriptor(PLAIN)
        opened = await it.announce(signed)
        for sender in senders:
            await opened.contribute(sender, np.array([[5]]))
        for peer in it.federation.peers:
            answer = await peer.coordinate("POST", opened.path("abort"), {"reason": "oops"})
            assert answer.status_code == 200
        answers = await asyncio.gather(
            *(peer.coordinate("POST", "/v1/rounds", signed) for peer in it.federation.peers)
        )
        assert {item.status_code for item in answers} == {200}
        for index, peer in enumerate(it.federation.peers):
            words = opened.split(np.array([[6]]))[index][0]
            answer = await opened.send(senders[0], index, opened.piece(senders[0], index, words))
            assert problem(answer) == (410, "round_closed")
            answer = await peer.coordinate("POST", opened.path("freeze"))
            assert problem(answer) == (410, "round_closed")
