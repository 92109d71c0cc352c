"""A coordinator has aggregators commit before it shows them the signed sets: to open a second sum.

Where all invited curators delivered, each aggregator commits to the manifest of what it holds
itself. A commitment shows nothing, and a set that is asked for afterwards takes it back: so a sum
is opened only if the whole quorum's *last* commitments are to one manifest, and an aggregator that
has revealed commits to nothing else.
"""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from aggregator.store import rounds as store
from tacit.crypto.signing import Signed
from tacit.protocol.round.agreement import manifest_hash, manifest_of, whole_manifest
from tacit.protocol.round.messages import (
    ACCEPTED_LABEL,
    AcceptedSet,
    Commitment,
    FreezeRequest,
    Manifest,
    Reveal,
    RevealRequest,
)
from tacit.protocol.round.state import RoundState
from tests.adversary.conftest import alliance
from tests.aggregator.double import SALT, Federation, Round, manifest_request
from tests.aggregator.rounds.test_committing import delivered
from tests.aggregator.rounds.test_opening import EXACT, NOISY, aggregator_of
from tests.aggregator.rounds.test_state_machine import refused

__all__ = ["alliance"]

EXACT_OF_THREE = {"aggregators": 3, "mechanism": "exact", "sharing": "shamir", "threshold": 2}


def whole(current: Round, members: bytes = b"\x07") -> Manifest:
    """The manifest of these members, with all aggregators and no shared noise."""
    return whole_manifest(current.descriptor, members, (), SALT)


async def expect(current: Round, index: int, manifest: Manifest, count: int = 3) -> httpx.Response:
    """An aggregator's answer to a freeze that names the manifest that is expected."""
    request = FreezeRequest(
        accepted=count, salt=manifest.salt, manifest_hash=manifest_hash(manifest)
    )
    peer = current.federation.peers[index]
    return await peer.coordinate("POST", current.path("freeze"), request)


async def committed(current: Round, index: int, manifest: Manifest) -> Signed[Commitment]:
    answer = await expect(current, index, manifest)
    assert answer.status_code == 200, answer.text
    return Signed[Commitment].model_validate_json(answer.content)


async def reveal(current: Round, index: int, of: tuple[Signed[Commitment], ...]) -> httpx.Response:
    peer = current.federation.peers[index]
    return await peer.coordinate("POST", current.path("reveal"), RevealRequest(commitments=of))


async def agreed(current: Round, index: int, accepted: list[Signed[AcceptedSet]]) -> httpx.Response:
    manifest = manifest_of(current.descriptor, accepted, SALT)
    peer = current.federation.peers[index]
    request = manifest_request(manifest, accepted)
    return await peer.coordinate("POST", current.path("commitment"), request)


@pytest.mark.parametrize("asked", [EXACT, NOISY], ids=["exact", "noisy"])
async def test_what_all_expect_is_committed_to_in_one_step(
    pair: Federation, asked: dict[str, Any]
) -> None:
    current = await delivered(pair, **asked)
    manifest = whole(current)
    both = tuple([await committed(current, index, manifest) for index in range(2)])
    assert (await committed(current, 0, manifest)) == both[0]  # once, and again its bytes
    answers = [await reveal(current, index, both) for index in range(2)]
    reveals = [Reveal.model_validate_json(item.content) for item in answers]
    total = sum(np.frombuffer(item.partial, "<u8") for item in reveals).view(np.int64)
    assert total.tolist() == [6] or asked is NOISY
    # who asks for the sets afterwards gets those of this very manifest, and no other sum
    accepted = await current.freeze()
    assert manifest_of(current.descriptor, accepted, SALT) == manifest
    again = await agreed(current, 0, accepted)
    assert Signed[Commitment].model_validate_json(again.content) == both[0]
    assert (await reveal(current, 0, both)).content == answers[0].content


async def test_what_is_not_held_is_not_committed_to(pair: Federation) -> None:
    current = await delivered(pair, **EXACT)
    early = await expect(current, 0, whole(current), count=4)
    assert (early.status_code, early.json()) == (202, {"accepted": 3})
    for members in (b"\x03", b"\x0f"):
        salt = {"salt": bytes(32)} if members == b"\x0f" else {}
        other = whole(current, members).model_copy(update=salt)
        answer = await expect(current, 0, other)
        found = Signed[AcceptedSet].model_validate_json(answer.content)
        assert found.statement.members == b"\x07"


async def test_too_few_are_not_committed_to(pair: Federation) -> None:
    current = await delivered(pair, **EXACT, min_participants=4)
    manifest = whole_manifest(
        current.descriptor.model_copy(
            update={"query": current.descriptor.query.model_copy(update={"min_participants": 2})}
        ),
        b"\x07",
        (),
        SALT,
    )
    answer = await expect(current, 0, manifest)
    assert Signed[AcceptedSet].model_validate_json(answer.content)


async def test_a_withdrawn_commitment_opens_nothing(pair: Federation) -> None:
    """The set is asked for in between: with the commitments of all to the first manifest, nobody
    reveals, and the second sum is the only one."""
    current = await delivered(pair, **EXACT)
    first = tuple([await committed(current, index, whole(current)) for index in range(2)])
    accepted = await current.freeze()
    for index in range(2):
        refused(await reveal(current, index, first), 409, "round_not_committed")
    again = await expect(current, 0, whole(current))
    assert again.json() == accepted[0].model_dump(mode="json", exclude_none=True)
    # one aggregator lies about its set: the sum is of two
    smaller = accepted[1].statement.model_copy(update={"members": b"\x03"})
    lie = aggregator_of(pair, 1).identities.current.sign(ACCEPTED_LABEL, smaller)
    answer = await agreed(current, 0, [accepted[0], lie])
    second = Signed[Commitment].model_validate_json(answer.content)
    assert second.statement.manifest_hash != first[0].statement.manifest_hash
    refused(await reveal(current, 0, first), 409, "commitment_refused")
    refused(await reveal(current, 0, (first[0], second)), 409, "commitment_refused")


async def test_without_the_withdrawal_the_first_sum_opens(pair: Federation) -> None:
    """The control: each aggregator is put back to where it was before it showed its set."""
    current = await delivered(pair, **EXACT)
    first = tuple([await committed(current, index, whole(current)) for index in range(2)])
    await current.freeze()
    for index in range(2):
        aggregator = aggregator_of(pair, index)
        key = (await aggregator.round(current.descriptor.round)).key
        async with aggregator.database.begin() as transaction:
            await store.advance(transaction, key, RoundState.FROZEN, RoundState.COMMITTED)
        assert (await reveal(current, index, first)).status_code == 200


async def test_who_has_revealed_commits_to_nothing_else(trio: Federation) -> None:
    current = await delivered(trio, **EXACT_OF_THREE)
    manifest = whole(current)
    all_three = tuple([await committed(current, index, manifest) for index in range(3)])
    assert (await reveal(current, 0, all_three)).status_code == 200
    accepted = await current.freeze()  # of the others, it takes the commitments back
    refused(await reveal(current, 1, all_three), 409, "round_not_committed")
    refused(await agreed(current, 0, accepted[:2]), 409, "manifest_refused")
    # the two that have not revealed may agree again, on one manifest
    assert (await agreed(current, 1, accepted[1:])).status_code == 200
    refused(await agreed(current, 1, accepted), 409, "manifest_refused")
