"""The checks of a proved round, with every field of every statement changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tacit import sets
from tacit.crypto.sealing import SealBroken, Span
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.proved_rounds import (
    CHUNK_BYTES,
    SECRET_BYTES,
    CandidateList,
    Candidates,
    ChunkPlace,
    VerificationRefused,
    candidates_of,
    check_verdicts,
    check_verifications,
    chunk_key,
    chunk_slices,
    contradictions,
    key_check_of,
    key_share,
    key_share_context,
    offset_of,
    open_chunk,
    proved_manifest_of,
    refused_curators,
    seal_chunk,
    share_lengths,
    stands_at,
    verdict_of,
    verify_key_of,
)
from tacit.protocol.round.agreement import (
    DescriptorRefused,
    ManifestRefused,
    TooFewParticipants,
    check_consistent,
    manifest_hash,
    manifest_of,
)
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL, RoundDescriptor
from tacit.protocol.round.messages import (
    ACCEPTED_LABEL,
    COMMITMENT_LABEL,
    PROVED_SET_LABEL,
    VERDICT_LABEL,
    VERIFICATION_LABEL,
    AcceptedSet,
    Commitment,
    Manifest,
    ProofReason,
    ProvedPart,
    Verdict,
    Verification,
)
from tacit.protocol.round.opening import CommitmentRefused, check_commitments, proved_total
from tacit.protocol.round.pieces import proof_context
from tacit.query.proofs import PART_LENGTH, proof_plan
from tacit.query.query import Query
from tacit.validity.prio3 import Outcome
from tests.aggregator.proved import proved
from tests.tacit.protocol.round.test_checks import (
    COORDINATOR,
    IDENTITIES,
    NAMES,
    OTHER_ROUND,
    ROUND,
    SALT,
    descriptor,
)

ROSTER = 5000
"""Lone numbers 0 to 7, a host from 64 on."""
PART = ProvedPart(segment=0, first=64, length=16, part=0, presence=b"\xff\x0f")
LATE = ProvedPart(segment=0, first=64, length=16, part=1, presence=b"\x00\xf0")
FAR = ProvedPart(segment=1, first=4096, length=8, part=0, presence=b"\xff")


def signed_descriptor(asked: Query, **changes: Any) -> Signed[RoundDescriptor]:
    fields = {"query": asked, "roster_size": ROSTER, "segment_size": PART_LENGTH, **changes}
    return COORDINATOR.sign(DESCRIPTOR_LABEL, descriptor(fields))


MADE = signed_descriptor(proved()).statement
PLAN = proof_plan(MADE.query)


def bitmap(numbers: Sequence[int], parts: Sequence[ProvedPart] = ()) -> bytes:
    members = np.zeros(ROSTER, np.bool_)
    members[list(numbers)] = True
    for part in parts:
        span = members[part.first : part.first + part.length]
        span |= sets.unpack(part.presence, part.length) if part.presence else True
    return sets.pack(members)


def accepted(
    index: int,
    lone: Sequence[int] = range(4),
    parts: Sequence[ProvedPart] = (PART, FAR),
    label: str | None = None,
    by: Identity | None = None,
    **changes: Any,
) -> Signed[AcceptedSet]:
    fields: dict[str, Any] = {
        "round": ROUND,
        "descriptor_hash": MADE.digest(),
        "aggregator": NAMES[index],
        "contributions": (),
        "parts": tuple(parts),
    }
    if "members" not in changes:
        fields["lone"] = sets.compressed(bitmap(lone))
    made = AcceptedSet(**{**fields, **changes})
    return (by or IDENTITIES[index]).sign(label or made.label, made)


SETS = [accepted(index) for index in range(3)]
FOUND = candidates_of(MADE, SETS)


def verification(
    index: int, label: str = VERIFICATION_LABEL, by: Identity | None = None, **changes: Any
) -> Signed[Verification]:
    fields: dict[str, Any] = {
        "round": ROUND,
        "descriptor_hash": MADE.digest(),
        "aggregator": NAMES[index],
        "candidates_hash": FOUND.hash,
        "items": FOUND.items,
        "shares_hash": hashlib.sha256(bytes([index])).digest(),
    }
    return (by or IDENTITIES[index]).sign(label, Verification(**{**fields, **changes}))


VERIFICATIONS = [verification(index) for index in range(3)]


def verdict(
    index: int,
    outcomes: Sequence[Outcome] = (Outcome.ACCEPTED,) * 6,
    label: str = VERDICT_LABEL,
    by: Identity | None = None,
    **changes: Any,
) -> Signed[Verdict]:
    statement = verdict_of(
        MADE,
        NAMES[index],
        FOUND,
        [item.statement for item in VERIFICATIONS],
        np.array(outcomes, np.uint8),
    )
    changed = statement.model_copy(update=changes)
    return (by or IDENTITIES[index]).sign(label, changed)


# --- keys ----------------------------------------------------------------------------------------


def test_a_key_share_is_the_secret_s_the_round_s_and_the_aggregator_s() -> None:
    secret, digest = bytes(32), MADE.digest()
    one = key_share(secret, digest, "a")
    assert one == key_share(secret, digest, "a")
    others = [key_share(b"\1" * 32, digest, "a"), key_share(secret, SALT, "a")]
    others.append(key_share(secret, digest, "b"))
    assert len({one, *others}) == 4


def test_a_verify_key_takes_every_share_in_its_place() -> None:
    digest, shares = MADE.digest(), [bytes([index]) * 32 for index in range(3)]
    key = verify_key_of(digest, shares)
    assert key != verify_key_of(digest, shares[::-1])
    assert key != verify_key_of(SALT, shares)
    assert key_check_of(digest, key) not in (key, key_check_of(SALT, key))
    contexts = {
        key_share_context(*place)
        for place in (
            (digest, "a", "b", 1),
            (digest, "b", "a", 1),
            (digest, "a", "b", 2),
            (SALT, "a", "b", 1),
        )
    }
    assert len(contexts) == 4
    assert proof_context(digest) == b"tacit proved v1" + digest


# --- candidates ----------------------------------------------------------------------------------


def test_candidates_are_lone_numbers_in_all_sets_and_parts_equal_in_all() -> None:
    assert FOUND.lone.tolist() == [0, 1, 2, 3]
    assert FOUND.parts == (PART, FAR)
    assert (FOUND.items, FOUND.curators) == (6, 4 + 12 + 8)
    other_part = PART.model_copy(update={"presence": b"\xff\x07"})
    mixed = [accepted(0, lone=range(8)), accepted(1, parts=(other_part, FAR)), accepted(2)]
    found = candidates_of(MADE, mixed)
    assert (found.lone.tolist(), found.parts) == ([0, 1, 2, 3], (FAR,))
    assert found.hash != FOUND.hash
    assert candidates_of(MADE, mixed[::-1]).hash == found.hash


def test_candidates_are_stored_and_read_again() -> None:
    text = FOUND.listed().model_dump_json()
    again = Candidates.of(CandidateList.model_validate_json(text), ROSTER, FOUND.hash)
    assert again.lone.tolist() == FOUND.lone.tolist()
    assert (again.parts, again.hash, again.items) == (FOUND.parts, FOUND.hash, FOUND.items)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: accepted(1, round=OTHER_ROUND),
        lambda: accepted(1, descriptor_hash=SALT),
        lambda: accepted(1, aggregator="south"),
        lambda: accepted(1, aggregator="stranger"),
        lambda: accepted(1, by=IDENTITIES[0]),
        lambda: accepted(1, label=COMMITMENT_LABEL),
        lambda: accepted(1, label=ACCEPTED_LABEL),
        lambda: accepted(1, lone=[0, 1, 2, 3, 64]),
        lambda: IDENTITIES[1].sign(
            PROVED_SET_LABEL, accepted(1).statement.model_copy(update={"lone": b"\1"})
        ),
        lambda: IDENTITIES[1].sign(
            PROVED_SET_LABEL,
            accepted(1).statement.model_copy(
                update={"lone": sets.compressed(bitmap([0, 1, 2, 3]) + b"\0")}
            ),
        ),
        lambda: accepted(1, contributions=(0,)),
        lambda: accepted(1, parts=(FAR, PART)),
        lambda: accepted(1, parts=(PART, PART)),
        lambda: accepted(1, parts=(PART, LATE)),
        lambda: accepted(1, parts=(LATE,)),
        lambda: accepted(1, parts=(PART, LATE.model_copy(update={"part": 0}))),
        lambda: accepted(1, parts=(PART.model_copy(update={"segment": 1}),)),
        lambda: accepted(1, parts=(PART.model_copy(update={"first": 65}),)),
        lambda: accepted(1, parts=(PART.model_copy(update={"presence": b"\0\0"}),)),
        lambda: IDENTITIES[1].sign(
            PROVED_SET_LABEL,
            accepted(1).statement.model_copy(
                update={"parts": (PART.model_copy(update={"presence": b"\xff"}),)}
            ),
        ),
    ],
)
def test_a_false_set_gives_no_candidates(bad: Callable[[], Signed[AcceptedSet]]) -> None:
    with pytest.raises(ManifestRefused):
        candidates_of(MADE, [SETS[0], bad(), SETS[2]])


def test_sets_that_were_accepted_once_do_not_let_others_pass() -> None:
    """What is remembered is of these very sets, signatures and descriptor."""
    assert candidates_of(MADE, SETS) is candidates_of(MADE, list(SETS))
    assert not candidates_of(MADE, SETS).lone.flags.writeable
    forged = SETS[1].model_copy(update={"signature": SETS[0].signature})
    other = signed_descriptor(proved(), round=OTHER_ROUND).statement
    for made, some in ((MADE, [SETS[0], forged, SETS[2]]), (other, SETS)):
        for _ in range(2):
            with pytest.raises(ManifestRefused):
                candidates_of(made, some)


def test_all_sets_are_needed_once_and_enough_curators() -> None:
    for some in (SETS[:2], [*SETS[:2], SETS[1]], [*SETS, SETS[1]]):
        with pytest.raises(ManifestRefused):
            candidates_of(MADE, some)
    few = [accepted(index, lone=[0], parts=()) for index in range(3)]
    with pytest.raises(TooFewParticipants):
        candidates_of(MADE, few)
    small = signed_descriptor(proved(n_max=5)).statement
    too_many = [
        accepted(index, descriptor_hash=small.digest(), lone=range(6), parts=())
        for index in range(3)
    ]
    with pytest.raises(ManifestRefused):
        candidates_of(small, too_many)


def test_a_part_reaches_to_the_end_of_the_roster_and_no_further() -> None:
    last = ProvedPart(segment=1, first=4992, length=8, part=0, presence=b"\xff")
    beyond = ProvedPart(segment=1, first=4992, length=16, part=0, presence=b"\xff\0")
    assert candidates_of(MADE, [accepted(index, parts=(last,)) for index in range(3)])
    for parts, reason in (((beyond,), "no host can have sent"), ((PART, PART), "sorted, one")):
        lists = [
            IDENTITIES[index].sign(
                PROVED_SET_LABEL,
                accepted(index, parts=()).statement.model_copy(update={"parts": parts}),
            )
            for index in range(3)
        ]
        with pytest.raises(ManifestRefused, match=reason):
            candidates_of(MADE, lists)


def test_a_part_of_all_its_numbers_needs_no_bitmap_and_reads_as_one_that_has_it() -> None:
    span = Span(1, 4096, 8)
    short, some = ProvedPart.of(span, 0, b"\xff"), ProvedPart.of(span, 0, b"\x7f")
    assert (short.presence, short.curators, some.presence, some.curators) == (b"", 8, b"\x7f", 7)
    assert (short.place, short.present.tolist()) == (FAR.place, FAR.present.tolist())
    for own in (short, FAR):
        found = candidates_of(MADE, [accepted(index, parts=(PART, own)) for index in range(3)])
        chosen = np.ones(found.items, np.bool_)
        assert sets.pack(found.numbers(chosen)) == bitmap(range(4), (PART, FAR))
        assert (found.curators, found.alike(5, 6)) == (4 + 12 + 8, (8, 6))
    mixed = [accepted(index, parts=(PART, short if index else FAR)) for index in range(3)]
    assert candidates_of(MADE, mixed).parts == (PART,), "whoever lists it otherwise holds another"
    twice = [accepted(index, parts=(PART, short, FAR)) for index in range(3)]
    with pytest.raises(ManifestRefused, match="one for each span"):
        candidates_of(MADE, twice)


def test_candidates_are_chosen_one_by_one() -> None:
    again = Candidates.of(FOUND.listed(), ROSTER, FOUND.hash)
    assert FOUND in (FOUND,) and FOUND not in (again,), "they are told apart by their hash"
    with pytest.raises(ValueError, match="zip"):
        FOUND.parts_of(np.ones(FOUND.items + 1, np.bool_))
    assert SECRET_BYTES == 32


def test_parts_are_of_proved_rounds_only() -> None:
    with pytest.raises(ManifestRefused):
        manifest_of(MADE, SETS, SALT)
    declared = proved(validity=None)
    with pytest.raises(DescriptorRefused):
        check_consistent(signed_descriptor(declared), COORDINATOR.public_key)
    check_consistent(signed_descriptor(proved()), COORDINATOR.public_key)
    longer = proved(part_length=8192)
    check_consistent(signed_descriptor(longer, segment_size=8192), COORDINATOR.public_key)
    for wrong in (
        signed_descriptor(proved(), segment_size=8192),
        signed_descriptor(longer),
        signed_descriptor(longer, segment_size=16_384),
        signed_descriptor(declared, segment_size=8192),
    ):
        with pytest.raises(DescriptorRefused):
            check_consistent(wrong, COORDINATOR.public_key)


# --- chunks --------------------------------------------------------------------------------------

PLACE = ChunkPlace(MADE.digest(), FOUND.hash, 1, 0, 2, 3)


def parts_of_sizes(sizes: Sequence[int]) -> Candidates:
    """Three lone curators and parts of these sizes."""
    parts = tuple(
        ProvedPart(
            segment=place,
            first=4096 * place,
            length=8,
            part=0,
            presence=bytes([(1 << size) - 1]),
        )
        for place, size in enumerate(sizes, 1)
    )
    return Candidates(np.arange(3), parts, 50_000, SALT)


def test_a_share_is_as_long_as_the_contribution_s_size_demands() -> None:
    """Wide parts have longer chunks of the gadget, so other verifier shares."""
    plan = proof_plan(proved(function="histogram", edges=["0", "1", "2", "5", "7", "10"]))
    sizes = [1, 2, 8, 8, 3]
    found = parts_of_sizes(sizes)
    expected = [plan.of(size).prio3.verifier_share_bytes for size in (1, 1, 1, *sizes)]
    assert len(set(expected)) > 1
    assert share_lengths(plan, found).tolist() == expected


def test_a_chunk_is_filled_to_the_last_byte() -> None:
    """4 MiB with all that is around the shares: 81 bytes of place, a nonce and a tag."""
    assert CHUNK_BYTES == 4 * 2**20
    room = CHUNK_BYTES - (4 + 32 + 32 + 1 + 4 + 4 + 4) - 12 - 16
    body = seal_chunk(bytes(32), PLACE, bytes(room))
    assert len(body) == CHUNK_BYTES
    assert stands_at(PLACE, body)
    assert not stands_at(PLACE, body + b"\0")
    for lengths, cut in (
        ([room], [slice(0, 1)]),
        ([room - 5, 5, 5, room - 5], [slice(0, 2), slice(2, 4)]),
        ([room - 5, 6], [slice(0, 1), slice(1, 2)]),
        ([5, room - 5, 6, room - 5], [slice(0, 2), slice(2, 3), slice(3, 4)]),
    ):
        assert chunk_slices(np.array(lengths, np.int64)) == cut
    with pytest.raises(AssertionError, match="shorter than a chunk"):
        chunk_slices(np.array([room + 1], np.int64))


def test_a_chunk_opens_in_its_place_only() -> None:
    key = chunk_key(SALT, MADE.digest(), "east")
    body = seal_chunk(key, PLACE, b"shares")
    assert open_chunk(key, PLACE, body) == b"shares"
    assert body != seal_chunk(key, PLACE, b"shares"), "a nonce is never used again"
    for change in (
        {"descriptor_hash": SALT},
        {"candidates_hash": SALT},
        {"index": 2},
        {"chunk": 1},
        {"chunks": 3},
        {"items": 4},
    ):
        fields = {**PLACE.__dict__, **change}
        with pytest.raises(SealBroken):
            open_chunk(key, ChunkPlace(**fields), body)
    for other in ("south", "x"):
        with pytest.raises(SealBroken):
            open_chunk(chunk_key(SALT, MADE.digest(), other), PLACE, body)
    for at in range(len(body)):
        with pytest.raises(SealBroken):
            open_chunk(key, PLACE, body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
    for cut in (b"", body[:20], body[:-1], body + b"\0"):
        with pytest.raises(SealBroken):
            open_chunk(key, PLACE, cut)


# --- verifications and verdicts ------------------------------------------------------------------


def test_verifications_of_all_over_these_candidates() -> None:
    found = check_verifications(MADE, FOUND, VERIFICATIONS[::-1])
    assert [item.aggregator for item in found] == [NAMES[index] for index in range(3)]
    bad = [
        verification(1, round=OTHER_ROUND),
        verification(1, descriptor_hash=SALT),
        verification(1, aggregator="north"),
        verification(1, aggregator="stranger"),
        verification(1, candidates_hash=SALT),
        verification(1, items=5),
        verification(1, by=IDENTITIES[2]),
        verification(1, label=VERDICT_LABEL),
        verification(0),
    ]
    for item in bad:
        with pytest.raises(VerificationRefused):
            check_verifications(MADE, FOUND, [VERIFICATIONS[0], item, VERIFICATIONS[2]])
    for some in (VERIFICATIONS[:2], [*VERIFICATIONS, VERIFICATIONS[0]]):
        with pytest.raises(VerificationRefused):
            check_verifications(MADE, FOUND, some)


def manifest_from(verdicts: Sequence[Signed[Verdict]]) -> Manifest:
    return proved_manifest_of(MADE, FOUND, check_verdicts(MADE, FOUND, verdicts), SALT)


def test_a_manifest_is_what_no_verdict_refuses() -> None:
    one = [Outcome.ACCEPTED] * 6
    other = list(one)
    one[1], other[4] = Outcome.PROOF, Outcome.JOINT_RANDOMNESS
    verdicts = [verdict(0, one), verdict(1, other), verdict(2)]
    manifest = manifest_from(verdicts)
    assert manifest.parts == (FAR,)
    assert manifest.members == bitmap([0, 2, 3], [FAR])
    assert (manifest.count, manifest.quorum, manifest.contributions) == (11, (0, 1, 2), ())
    assert manifest == manifest_from(verdicts[::-1])
    bare = manifest.model_copy(update={"parts": ()})
    assert manifest_hash(bare) != manifest_hash(manifest), "the hash binds the parts"
    named = refused_curators(FOUND, [item.statement for item in verdicts])
    assert np.flatnonzero(named[ProofReason.PROOF]).tolist() == [1]
    joint = np.flatnonzero(named[ProofReason.JOINT_RANDOMNESS])
    assert joint.tolist() == list(range(64, 76))
    assert ProofReason.POINT not in named


def test_a_verdict_says_what_its_reasons_say() -> None:
    refused = [Outcome.ACCEPTED] * 5 + [Outcome.POINT]
    honest = [verdict(index, refused) for index in range(3)]
    check_verdicts(MADE, FOUND, honest)
    point = {ProofReason.POINT: sets.pack(np.arange(6) == 5)}
    bad = [
        verdict(1, refused, round=OTHER_ROUND),
        verdict(1, refused, descriptor_hash=SALT),
        verdict(1, refused, aggregator="south"),
        verdict(1, refused, aggregator="stranger"),
        verdict(1, refused, candidates_hash=SALT),
        verdict(1, refused, shares_hashes=(SALT,)),
        verdict(1, refused, reasons={**point, ProofReason.PROOF: point[ProofReason.POINT]}),
        verdict(1, refused, reasons={**point, ProofReason.PROOF: b"\0"}),
        verdict(1, refused, reasons={ProofReason.POINT: b"\x20\0"}),
        verdict(1, refused, reasons={ProofReason.POINT: b"\x60"}),
        verdict(1, refused, by=IDENTITIES[0]),
        verdict(1, refused, label=VERIFICATION_LABEL),
        verdict(0, refused),
    ]
    for item in bad:
        with pytest.raises(ManifestRefused):
            check_verdicts(MADE, FOUND, [honest[0], item, honest[2]])
    for some in (honest[:2], [*honest, honest[1]]):
        with pytest.raises(ManifestRefused):
            check_verdicts(MADE, FOUND, some)


def test_what_cannot_all_be_true_is_named() -> None:
    made = [item.statement for item in VERIFICATIONS]
    joint = verdict(1, [Outcome.JOINT_RANDOMNESS] + [Outcome.ACCEPTED] * 5).statement
    honest = [verdict(0).statement, joint, verdict(2).statement]
    assert list(contradictions(made, honest)) == []
    proof = verdict(1, [Outcome.PROOF] + [Outcome.ACCEPTED] * 5).statement
    found = list(contradictions(made, [honest[0], proof, honest[2]]))
    assert found == [
        "north or east signed a false verdict",
        "east or south signed a false verdict",
    ]
    short = honest[0].model_copy(update={"shares_hashes": (made[0].shares_hash,)})
    with pytest.raises(ValueError, match="zip"):
        list(contradictions(made, [short, *honest[1:]]))
    hashes = (made[0].shares_hash, made[1].shares_hash, SALT)
    other = honest[0].model_copy(update={"shares_hashes": hashes})
    assert list(contradictions(made, [other, *honest[1:]])) == [
        "south signed two verifications, or north decided on shares that south did not sign"
    ]


# --- offset and total ----------------------------------------------------------------------------


def test_the_offset_is_that_of_all_who_are_counted() -> None:
    noisy = proved(mechanism="distributed", epsilon="1", layer="both", bounds=["-3", "10"])
    plan = proof_plan(noisy)
    manifest = manifest_from([verdict(index) for index in range(3)])
    expected = 24 * 2 * -3
    for curators, times in ((1, 4), (12, 1), (8, 1)):
        (bound,) = plan.of(curators).function.noise_bounds
        expected -= times * bound
    assert offset_of(plan, manifest) == (str(expected),)


def commitment(index: int, **changes: Any) -> Signed[Commitment]:
    fields: dict[str, Any] = {
        "round": ROUND,
        "descriptor_hash": MADE.digest(),
        "manifest_hash": SALT,
        "aggregator": NAMES[index],
        "hash": bytes(32),
        "offset": ("-4",),
    }
    return IDENTITIES[index].sign(COMMITMENT_LABEL, Commitment(**{**fields, **changes}))


def test_all_commitments_name_one_offset_of_the_query() -> None:
    good = [commitment(index) for index in range(3)]
    check_commitments(MADE, SALT, (0, 1, 2), good)
    for offset in (("-5",), None, ("-4", "0")):
        with pytest.raises(CommitmentRefused):
            check_commitments(MADE, SALT, (0, 1, 2), [commitment(0, offset=offset), *good[1:]])
    for offset in (("-4", "0"), ()):
        all_wrong = [commitment(index, offset=offset) for index in range(3)]
        with pytest.raises(CommitmentRefused):
            check_commitments(MADE, SALT, (0, 1, 2), all_wrong)


@pytest.mark.parametrize("text", ["-0", "+1", "1.0", "01", " 1", "1" * 40, ""])
def test_an_offset_is_written_in_one_way(text: str) -> None:
    with pytest.raises(ValueError, match="offset"):
        commitment(0, offset=(text,))


def word(value: int, size: int = 8) -> bytes:
    return value.to_bytes(size, "little")


def test_partial_sums_are_added_in_the_field_and_centred() -> None:
    prime = PLAN.prime
    assert proved_total(MADE.query, [word(prime - 5), word(3), word(0)], [7]).tolist() == [5]
    assert proved_total(MADE.query, [word(prime - 1)] * 3, [0]).tolist() == [-3]
    for bad in ([word(prime), word(0), word(0)], [word(2**62), word(0), word(0)]):
        with pytest.raises(ValueError, match=r"element|admits"):
            proved_total(MADE.query, bad, [0])
    large = proved(function="variance", bounds=["-40000", "40000"], max_readings=20, n_max=1000)
    plan = proof_plan(large)
    if plan.word_bytes == 16:
        words = b"".join(word(plan.prime - value, 16) for value in (1, 2, 3))
        zeros = bytes(48)
        assert proved_total(large, [words, zeros, zeros], [0, 0, 9]).tolist() == [-1, -2, 6]
