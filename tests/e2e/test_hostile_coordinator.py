"""A coordinator that deviates gets nothing (spec: aggregation, section 10, checks 8 and 9).

Against real aggregators, and real curator services where a curator is to refuse. In each case
every honest party refuses, and every opened sum has a debit of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit import sets
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.round.agreement import manifest_hash, manifest_of
from tacit.protocol.round.messages import COMMITMENT_LABEL, Commitment, Manifest, Reveal
from tacit.protocol.round.opening import open_sum
from tests.aggregator.double import SALT, Round, query
from tests.e2e.hostile import (
    PLAIN,
    SHAMIR,
    Deviating,
    commit,
    moved,
    problem,
    resigned,
    reveal,
    state,
)

# --- different descriptors -----------------------------------------------------------------------


async def test_curators_shown_another_descriptor_are_in_no_sum(
    deviating: Deviating, homes: Any
) -> None:
    """Three are shown the aggregators' round, one a longer window: its piece opens nowhere."""
    async with deviating(3) as it, homes(it, "a", "b", "victim") as parties:
        signed = await it.descriptor(PLAIN)
        other = resigned(it, signed, window=moved(signed))
        opened = await it.announce(signed)
        for party in parties:
            await party.read("1", "2025-12-31T23:30:00+00:00")
            it.show(party.party, other if party.party == "victim" else signed)
            await party.take_part()
        (seen,) = await parties[2].history()
        assert seen["state"] == "missed", seen
        assert set(seen["problems"]) <= {"wrong_round", "seal_broken"}
        total, manifest = await opened.release()
        assert (total.tolist(), manifest.count) == ([2000], 2)
        assert not sets.unpack(manifest.members, signed.statement.roster_size)[2]
        assert [len(await party.debits()) for party in parties] == [1, 1, 1]


async def test_a_curator_answers_the_first_descriptor_of_a_round_only(
    deviating: Deviating, homes: Any
) -> None:
    async with deviating(3) as it, homes(it, "a", "b") as (a, b):
        signed = await it.descriptor(PLAIN)
        opened = await it.announce(signed)
        for party in (a, b):
            it.show(party.party, signed)
            await party.take_part()
        it.show("a", resigned(it, signed, window=moved(signed)))
        await a.take_part()
        assert len(await a.history()) == len(await a.debits()) == 1
        _, manifest = await opened.release()
        assert manifest.count == 2


async def test_an_aggregator_takes_one_descriptor_of_a_round(deviating: Deviating) -> None:
    async with deviating(3) as it:
        await it.federation.lone(2)
        signed = await it.descriptor(PLAIN)
        other = resigned(it, signed, window=moved(signed))
        await it.announce(signed)
        for peer in it.federation.peers:
            answer = await peer.coordinate("POST", "/v1/rounds", other)
            assert problem(answer) == (409, "round_conflict")


async def test_aggregators_shown_different_descriptors_open_nothing(deviating: Deviating) -> None:
    async with deviating(3) as it:
        senders = await it.federation.lone(2)
        signed = await it.descriptor(PLAIN)
        other = resigned(it, signed, window=moved(signed))
        views = [Round(it.federation, item) for item in (signed, signed, other)]
        for peer, view in zip(it.federation.peers, views, strict=True):
            assert (await peer.coordinate("POST", "/v1/rounds", view.signed)).status_code == 201
        for sender in senders:  # whose curators somehow seal for each as it wants
            for index, words in enumerate(views[0].split(np.array([[5]]))):
                piece = views[index].piece(sender, index, words[0])
                assert (await views[index].send(sender, index, piece)).status_code == 201
        accepted = await views[0].freeze()
        assert len({item.statement.descriptor_hash for item in accepted}) == 2
        members = accepted[0].statement.members
        for index, view in enumerate(views):
            manifest = Manifest(
                round=view.id,
                descriptor_hash=view.descriptor.digest(),
                quorum=(0, 1, 2),
                members=members,
                count=2,
                contributions=(),
                salt=SALT,
            )
            assert problem(await commit(view, index, manifest, accepted)) == (
                409,
                "manifest_refused",
            )


# --- two manifests -------------------------------------------------------------------------------


def test_two_of_five_is_no_query() -> None:
    with pytest.raises(ValueError, match="2 k > c"):
        query(sharing="shamir", aggregators=5, threshold=2)


async def test_two_of_five_is_refused_by_every_party(deviating: Deviating, homes: Any) -> None:
    """A coordinator that signs it all the same."""
    async with deviating(5) as it, homes(it, "a") as (a,):
        signed = await it.descriptor(SHAMIR)
        weak = resigned(it, signed, query=SHAMIR.model_copy(update={"threshold": 2}))
        for peer in it.federation.peers:
            answer = await peer.coordinate("POST", "/v1/rounds", weak)
            assert answer.status_code == 422, answer.text
        it.show("a", weak)
        await a.take_part()
        assert await a.history() == []
        assert await a.debits() == []


@pytest.mark.parametrize("first", [0, 1])
async def test_two_manifests_for_two_quorums_open_one_sum_at_most(
    deviating: Deviating, first: int
) -> None:
    """With and without the victim: the difference would be its value."""
    async with deviating(5) as it:
        senders = await it.federation.lone(3)
        opened = await it.announce(await it.descriptor(SHAMIR))
        for sender in senders[:2]:
            await opened.contribute(sender, np.array([[1000]]))
        for index, words in enumerate(opened.split(np.array([[777]]))):
            if index < 3:  # the victim's pieces reach one quorum only
                piece = opened.piece(senders[2], index, words[0])
                assert (await opened.send(senders[2], index, piece)).status_code == 201
        accepted = await opened.freeze()
        quorums = [accepted[:3], accepted[2:]]
        manifests = [manifest_of(opened.descriptor, item, SALT) for item in quorums]
        assert [item.count for item in manifests] == [3, 2]
        commitments: list[list[Signed[Commitment]]] = [[], []]
        refused = []
        for which in (first, 1 - first):
            for index in manifests[which].quorum:
                answer = await commit(opened, index, manifests[which], quorums[which])
                if answer.status_code == 200:
                    signed = Signed[Commitment].model_validate_json(answer.content)
                    commitments[which].append(signed)
                else:
                    refused.append((which, index, problem(answer)))
        assert refused == [(1 - first, 2, (409, "manifest_refused"))]
        opens = 0
        for which in (1 - first, first):
            reveals = []
            own = commitments[first][2 if first == 0 else 0]
            for given in (commitments[which], [*commitments[which], own]):
                for index in manifests[which].quorum:
                    answer = await reveal(opened, index, given)
                    if answer.status_code == 200:
                        reveals.append(Reveal.model_validate_json(answer.content))
                if len(given) == 3:
                    break
            if which == first:
                total = open_sum(
                    opened.descriptor,
                    manifest_hash(manifests[which]),
                    manifests[which].quorum,
                    commitments[which],
                    reveals[:3],
                )
                assert total.tolist() == [[2777], [2000]][which]
                opens += 1
            else:
                assert reveals == []
        assert opens == 1


async def test_a_sum_of_fewer_aggregators_than_all_is_none_under_additive(
    deviating: Deviating,
) -> None:
    async with deviating(3) as it:
        senders = await it.federation.lone(2)
        opened = await it.announce(await it.descriptor(PLAIN))
        for sender in senders:
            await opened.contribute(sender, np.array([[1]]))
        accepted = await opened.freeze()
        whole = manifest_of(opened.descriptor, accepted, SALT)
        part = whole.model_copy(update={"quorum": (0, 1)})
        for index in (0, 1):
            answer = await commit(opened, index, part, accepted[:2])
            assert problem(answer) == (409, "manifest_refused")
            answer = await commit(opened, index, part, accepted)
            assert problem(answer) == (409, "manifest_refused")


async def test_nothing_is_revealed_before_all_have_committed_to_the_same(
    deviating: Deviating,
) -> None:
    async with deviating(3) as it:
        senders = await it.federation.lone(2)
        opened = await it.announce(await it.descriptor(PLAIN))
        for sender in senders:
            await opened.contribute(sender, np.array([[1]]))
        assert problem(await reveal(opened, 0, []))[0] == 409
        accepted = await opened.freeze()
        manifest, commitments = await opened.commit(accepted)
        forged = commitments[2].statement.model_copy(update={"manifest_hash": bytes(32)})
        thief = Identity.generate()
        sets_of_three = [
            commitments[:2],
            [*commitments[:2], commitments[1]],
            [*commitments[:2], thief.sign(COMMITMENT_LABEL, commitments[2].statement)],
            [*commitments[:2], commitments[2].model_copy(update={"statement": forged})],
            [*commitments, commitments[0]],
        ]
        for given in sets_of_three:
            for index in range(3):
                answer = await reveal(opened, index, given)
                assert problem(answer) == (409, "commitment_refused")
        assert {await state(opened, index) for index in range(3)} == {"committed"}
        reveals = await opened.reveal(manifest, commitments)
        total = open_sum(
            opened.descriptor, manifest_hash(manifest), manifest.quorum, commitments, reveals
        )
        assert total.tolist() == [2]
