"""What honest parties refuse, whoever shows it to them: a hostile coordinator in pure functions."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tacit import sets
from tacit.crypto.sealing import segment_size
from tacit.crypto.sharing import PRIME
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.identities import KeyNotAnchored, Pin
from tacit.protocol.round.agreement import (
    DescriptorRefused,
    ManifestRefused,
    TooFewParticipants,
    check_anchors,
    check_descriptor,
    manifest_hash,
    manifest_hash_of,
    manifest_of,
    members_hash,
)
from tacit.protocol.round.descriptor import (
    DESCRIPTOR_LABEL,
    AggregatorEntry,
    LedgerHead,
    RoundDescriptor,
)
from tacit.protocol.round.messages import (
    ACCEPTED_LABEL,
    COMMITMENT_LABEL,
    AcceptedSet,
    Commitment,
    Manifest,
    Reveal,
    Transcript,
)
from tacit.protocol.round.opening import (
    CommitmentRefused,
    RevealRefused,
    check_commitments,
    check_transcript,
    commitment_hash,
    open_sum,
)
from tacit.protocol.trust import Pinned, TranscriptNotAnchored, Trust, TrustedAggregator
from tacit.query.fields import Window
from tacit.query.mechanisms import scheme
from tacit.randomness import SeededRandom
from tests.seal_keys import seal_key
from tests.tacit.examples import query

COORDINATOR = Identity.from_bytes(bytes([99]) * 32)
STRANGER = Identity.from_bytes(bytes([98]) * 32)
IDENTITIES = [Identity.from_bytes(bytes([i]) * 32) for i in range(5)]
NAMES = ["north", "east", "south", "west", "centre"]
ROUND = "01234567-89ab-7def-8123-456789abcdef"
OTHER_ROUND = "01234567-89ab-7def-8123-456789abcdee"
OPENED = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
SHAMIR = {
    "sharing": "shamir",
    "aggregators": 5,
    "threshold": 3,
    "mechanism": "distributed",
    "epsilon": "1",
}
VALUES = [5, -3, 1000]
SALT = bytes(range(32))


def entry(index: int, seed: int | None = None, party: str | None = None) -> AggregatorEntry:
    key = seal_key(IDENTITIES[index], party or NAMES[index], 10 + (seed or index))
    return AggregatorEntry(
        id=NAMES[index],
        operator=f"operator {index}",
        url="https://example.org",
        identity_key=IDENTITIES[index].public_key,
        seal_key=key,
    )


def descriptor(changes: dict | None = None, **asked) -> RoundDescriptor:
    wanted = query(**{"min_participants": 2, **asked})
    fields = {
        "deployment": "test",
        "round": ROUND,
        "query_id": "q1",
        "query": wanted,
        "window": Window(start=OPENED - timedelta(days=1), end=OPENED),
        "opened": OPENED,
        "deadline": OPENED + timedelta(minutes=1),
        "aggregators": tuple(entry(i) for i in range(wanted.aggregators)),
        "roster_version": 4,
        "roster_size": 12,
        "segment_size": segment_size(1),
    }
    return RoundDescriptor(**{**fields, **(changes or {})})


def signed_descriptor(made: RoundDescriptor, by: Identity = COORDINATOR) -> Signed:
    return by.sign(DESCRIPTOR_LABEL, made)


def bitmap(*members: int, size: int = 12) -> bytes:
    bits = np.zeros(size, np.bool_)
    bits[list(members)] = True
    return sets.pack(bits)


def accepted(
    made: RoundDescriptor,
    index: int,
    members: bytes = bitmap(1, 3, 8),
    contributions: Sequence[int] = (),
    by: Identity | None = None,
    label: str = ACCEPTED_LABEL,
    **changes,
) -> Signed[AcceptedSet]:
    fields = {
        "round": made.round,
        "descriptor_hash": made.digest(),
        "aggregator": NAMES[index],
        "members": members,
        "contributions": tuple(contributions),
        **changes,
    }
    return (by or IDENTITIES[index]).sign(label, AcceptedSet(**fields))


ANCHORS = {name: Pin(fingerprint=IDENTITIES[i].fingerprint) for i, name in enumerate(NAMES)}


# --- the descriptor ------------------------------------------------------------------------------


def test_an_honest_descriptor_passes():
    made = descriptor()
    assert check_descriptor(signed_descriptor(made), COORDINATOR.public_key, OPENED) == made
    check_anchors(made, ANCHORS, OPENED)


def test_a_clock_may_be_five_minutes_behind_the_opening():
    signed, skew = signed_descriptor(descriptor()), timedelta(minutes=5)
    check_descriptor(signed, COORDINATOR.public_key, OPENED - skew)
    with pytest.raises(DescriptorRefused, match="in the future"):
        check_descriptor(signed, COORDINATOR.public_key, OPENED - skew - timedelta(microseconds=1))


def test_a_descriptor_of_somebody_else_is_refused():
    made = descriptor()
    for signed in (
        signed_descriptor(made, STRANGER),
        COORDINATOR.sign(ACCEPTED_LABEL, made),
        signed_descriptor(made).model_copy(update={"statement": descriptor({"roster_version": 5})}),
    ):
        with pytest.raises(DescriptorRefused):
            check_descriptor(signed, COORDINATOR.public_key, OPENED)


FORGED_SEAL_KEY = entry(1).model_copy(update={"seal_key": seal_key(STRANGER, NAMES[1], 11)})


@pytest.mark.parametrize(
    "changes",
    [
        {"aggregators": (entry(0), entry(1))},
        {"aggregators": tuple(entry(i) for i in range(4))},
        {"aggregators": (entry(0), entry(1), entry(1))},
        {"aggregators": (entry(0), entry(1), entry(2).model_copy(update={"id": "north"}))},
        {"aggregators": (entry(0), entry(1), entry(2, party="west"))},
        {"aggregators": (entry(0), FORGED_SEAL_KEY, entry(2))},
        {"aggregators": (entry(0), entry(1), entry(2, seed=1))},
        {"segment_size": 64},
        {"deadline": OPENED},
    ],
)
def test_inconsistent_descriptors_are_refused(changes):
    with pytest.raises(DescriptorRefused):
        check_descriptor(signed_descriptor(descriptor(changes)), COORDINATOR.public_key, OPENED)


def test_one_identity_under_two_names_is_refused():
    twin = entry(2).model_copy(
        update={
            "identity_key": IDENTITIES[0].public_key,
            "seal_key": seal_key(IDENTITIES[0], "south", 99),
        }
    )
    made = descriptor({"aggregators": (entry(0), entry(1), twin)})
    with pytest.raises(DescriptorRefused, match="identity"):
        check_descriptor(signed_descriptor(made), COORDINATOR.public_key, OPENED)


def test_the_window_is_the_query_s():
    window = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
    made = descriptor(window=window)
    with pytest.raises(DescriptorRefused, match="window"):
        check_descriptor(signed_descriptor(made), COORDINATOR.public_key, OPENED)
    fitting = descriptor({"window": made.query.window}, window=window)
    check_descriptor(signed_descriptor(fitting), COORDINATOR.public_key, OPENED)


def test_a_substituted_or_unknown_key_is_not_anchored():
    made = descriptor()
    strange = Pin(fingerprint=STRANGER.fingerprint)
    with pytest.raises(KeyNotAnchored):
        check_anchors(made, {**ANCHORS, "east": strange}, OPENED)
    with pytest.raises(KeyNotAnchored):
        check_anchors(made, {**ANCHORS, "south": strange}, OPENED)
    known = {name: pin for name, pin in ANCHORS.items() if name != "south"}
    with pytest.raises(KeyNotAnchored):
        check_anchors(made, known, OPENED)


def test_every_field_is_in_the_descriptor_s_hash():
    made = descriptor()
    changes = {
        "deployment": "other",
        "round": OTHER_ROUND,
        "query_id": "q2",
        "query": query(min_participants=3),
        "window": Window(start=OPENED - timedelta(days=2), end=OPENED),
        "opened": OPENED - timedelta(microseconds=1),
        "deadline": OPENED + timedelta(hours=1),
        "aggregators": made.aggregators[::-1],
        "roster_version": 5,
        "roster_size": 13,
        "segment_size": 64,
        "ledger": LedgerHead(seq=1, head=bytes(32)),
        "members": b"members",
    }
    assert set(changes) == set(RoundDescriptor.model_fields) - {"format"}
    hashes = {made.model_copy(update={field: value}).digest() for field, value in changes.items()}
    assert len(hashes | {made.digest()}) == len(changes) + 1


# --- the manifest --------------------------------------------------------------------------------


def test_the_manifest_is_the_intersection():
    made = descriptor()
    given_sets = [
        accepted(made, 2, bitmap(1, 3, 8, 9)),
        accepted(made, 0, bitmap(0, 1, 3, 8)),
        accepted(made, 1, bitmap(1, 3, 8, 11)),
    ]
    manifest = manifest_of(made, given_sets, SALT)
    assert manifest == manifest_of(made, given_sets[::-1], SALT)
    assert (manifest.quorum, manifest.members, manifest.count) == ((0, 1, 2), bitmap(1, 3, 8), 3)
    assert manifest.descriptor_hash == made.digest()


def foreign_sets(made: RoundDescriptor) -> dict[str, list[Signed[AcceptedSet]]]:
    """Lists that are not the accepted sets of this round's aggregators, by what is wrong."""
    good = [accepted(made, i) for i in range(3)]
    tampered = good[2].model_copy(
        update={"statement": good[2].statement.model_copy(update={"members": bitmap(1, 3)})}
    )
    return {
        "one missing": good[:2],
        "none": [],
        "listed twice": [*good, good[0]],
        "two sets of one": [good[0], good[1], accepted(made, 1, bitmap(1, 3))],
        "another's signature": [*good[:2], accepted(made, 2, by=IDENTITIES[1])],
        "a stranger's signature": [*good[:2], accepted(made, 2, by=STRANGER)],
        "a stranger's set": [*good[:2], accepted(made, 2, aggregator="west", by=IDENTITIES[3])],
        "tampered": [*good[:2], tampered],
        "another label": [*good[:2], accepted(made, 2, label=COMMITMENT_LABEL)],
        "another round": [*good[:2], accepted(made, 2, round=OTHER_ROUND)],
        "another descriptor": [*good[:2], accepted(made, 2, descriptor_hash=bytes(32))],
        "a short bitmap": [*good[:2], accepted(made, 2, b"\x0a")],
        "a long bitmap": [*good[:2], accepted(made, 2, bitmap(1, 3, 8) + b"\x00")],
        "stray bits": [*good[:2], accepted(made, 2, b"\x0a\xf1")],
        "noise where none is shared": [*good[:2], accepted(made, 2, contributions=[0])],
    }


@pytest.mark.parametrize("kind", foreign_sets(descriptor()))
def test_no_manifest_from_foreign_sets(kind):
    made = descriptor()
    with pytest.raises(ManifestRefused):
        manifest_of(made, foreign_sets(made)[kind], SALT)


def test_too_few_participants():
    made = descriptor(min_participants=3)
    given_sets = [accepted(made, 0, bitmap(1, 3)), accepted(made, 1), accepted(made, 2)]
    with pytest.raises(TooFewParticipants) as error:
        manifest_of(made, given_sets, SALT)
    assert error.value.extra == {"participants": 2, "minimum": 3}


def test_more_than_n_max_are_refused():
    made = descriptor(n_max=2)
    with pytest.raises(ManifestRefused, match="n_max"):
        manifest_of(made, [accepted(made, i) for i in range(3)], SALT)


def test_every_aggregator_may_contribute_noise():
    made = descriptor(**SHAMIR)
    given_sets = [accepted(made, i, contributions=range(5)) for i in range(3)]
    assert manifest_of(made, given_sets, SALT).contributions == (0, 1, 2, 3, 4)


def test_a_shamir_quorum_and_its_noise():
    made = descriptor(**SHAMIR)
    listed = [[0, 1, 2, 4], [4, 2, 0], [0, 2, 3, 4]]
    given_sets = [accepted(made, i, contributions=listed[i]) for i in range(3)]
    manifest = manifest_of(made, given_sets, SALT)
    assert (manifest.quorum, manifest.contributions) == ((0, 1, 2), (0, 2, 4))
    with pytest.raises(ManifestRefused):
        manifest_of(made, given_sets[:2], SALT)
    for noise in ([0, 2], [0, 2, -1], [0, 2, 5], [0, 2, 2, 4], []):
        with pytest.raises(ManifestRefused):
            manifest_of(made, [*given_sets[:2], accepted(made, 2, contributions=noise)], SALT)


# --- commitments and reveals ---------------------------------------------------------------------


class Opening:
    """A round of three values that has come as far as its reveals."""

    def __init__(self, quorum: Sequence[int] = (0, 1, 2), **asked) -> None:
        self.descriptor = made = descriptor(**asked)
        self.quorum = tuple(quorum)
        wanted = made.query
        self.shared = scheme(wanted)
        pieces = self.shared.split(np.array(VALUES).reshape(3, 1), SeededRandom(1))
        zero = np.zeros(1, np.uint64)
        self.partials = [self.shared.add(zero, piece).tobytes() for piece in pieces]
        noise = tuple(self.quorum[:3]) if wanted.sharing == "shamir" else ()
        self.manifest: Manifest = manifest_of(
            made, [accepted(made, i, contributions=noise) for i in self.quorum], SALT
        )
        self.hash = manifest_hash(self.manifest)
        self.commitments = [self.commitment(i) for i in self.quorum]
        self.reveals = [self.reveal(i) for i in self.quorum]

    def commitment(
        self,
        index: int,
        partial: bytes | None = None,
        by: Identity | None = None,
        label: str = COMMITMENT_LABEL,
        **changes,
    ) -> Signed[Commitment]:
        partial = self.partials[index] if partial is None else partial
        fields = {
            "round": ROUND,
            "descriptor_hash": self.descriptor.digest(),
            "manifest_hash": self.hash,
            "aggregator": NAMES[index],
            **changes,
        }
        digest = commitment_hash(
            fields["descriptor_hash"],
            fields["manifest_hash"],
            fields["aggregator"],
            bytes([index]) * 32,
            partial,
        )
        statement = Commitment(**{"hash": digest, **fields})
        return (by or IDENTITIES[index]).sign(label, statement)

    def reveal(self, index: int, **changes) -> Reveal:
        fields = {
            "aggregator": NAMES[index],
            "nonce": bytes([index]) * 32,
            "partial": self.partials[index],
        }
        return Reveal(**{**fields, **changes})

    def check(self, commitments=None, quorum=None):
        return check_commitments(
            self.descriptor,
            self.hash,
            self.quorum if quorum is None else quorum,
            self.commitments if commitments is None else commitments,
        )

    def open(self, reveals=None, commitments=None):
        return open_sum(
            self.descriptor,
            self.hash,
            self.quorum,
            self.commitments if commitments is None else commitments,
            self.reveals if reveals is None else reveals,
        )

    def transcript(self, **changes) -> Transcript:
        fields = {
            "descriptor": signed_descriptor(self.descriptor),
            "members_hash": members_hash(SALT, self.manifest.members),
            "quorum": self.quorum,
            "participants": 3,
            "contributions": self.manifest.contributions,
            "commitments": tuple(self.commitments),
            "reveals": tuple(self.reveals),
        }
        return Transcript(**{**fields, **changes})


@pytest.mark.parametrize(
    "opening",
    [Opening(), Opening((0, 2, 4), **SHAMIR), Opening((0, 1, 2, 3, 4), **SHAMIR)],
    ids=["additive", "shamir, k", "shamir, all"],
)
def test_an_honest_sum_opens(opening):
    assert opening.open().tolist() == [sum(VALUES)]
    assert set(opening.check()) == {NAMES[i] for i in opening.quorum}
    back = Transcript.model_validate_json(opening.transcript().canonical())
    for transcript in (opening.transcript(), back):
        checked = check_transcript(transcript, COORDINATOR.public_key)
        assert checked.total.tolist() == [sum(VALUES)]
        assert not checked.anchored


def test_a_sum_of_two_coordinates_opens():
    made = descriptor(
        {"segment_size": segment_size(2)}, function="vector_sum", dimension=2, coordinates="values"
    )
    pieces = scheme(made.query).split(np.array([4, -9]), SeededRandom(2))
    digest, manifest = made.digest(), b"m" * 32
    commitments, reveals = [], []
    for index, piece in enumerate(pieces):
        name, partial = NAMES[index], piece.astype("<u8").tobytes()
        reveals.append(Reveal(aggregator=name, nonce=bytes(32), partial=partial))
        statement = Commitment(
            round=ROUND,
            descriptor_hash=digest,
            manifest_hash=manifest,
            aggregator=name,
            hash=commitment_hash(digest, manifest, name, bytes(32), partial),
        )
        commitments.append(IDENTITIES[index].sign(COMMITMENT_LABEL, statement))
    assert open_sum(made, manifest, (0, 1, 2), commitments, reveals).tolist() == [4, -9]


def test_the_hash_of_a_manifest_covers_every_field():
    fields = [ROUND, b"d" * 32, (0, 1, 2), 3, (0, 1), b"m" * 32]
    hashes = {manifest_hash_of(*fields)}
    others = [OTHER_ROUND, b"e" * 32, (0, 1), 4, (0, 2), b"n" * 32]
    for place, other in enumerate(others):
        hashes.add(manifest_hash_of(*[*fields[:place], other, *fields[place + 1 :]]))
    assert len(hashes) == 7
    prefixed = b"".join(
        len(field).to_bytes(4, "big") + field
        for field in (
            b"tacit manifest v1",
            ROUND.encode(),
            b"d" * 32,
            bytes([0, 1, 2]),
            bytes([0, 0, 0, 3]),
            bytes([0, 1]),
            b"m" * 32,
        )
    )
    assert manifest_hash_of(*fields) == hashlib.sha256(prefixed).digest()


# --- the trust file ------------------------------------------------------------------------------


def trust(opening: Opening, **changes) -> Trust:
    pinned = tuple(
        TrustedAggregator(
            id=entry.id,
            operator=entry.operator,
            fingerprints=(Pinned(fingerprint=entry.fingerprint.hex()),),
        )
        for entry in opening.descriptor.aggregators
    )
    fields = {
        "deployment": opening.descriptor.deployment,
        "coordinator": (COORDINATOR.fingerprint.hex(),),
        "aggregators": pinned,
    }
    return Trust(**{**fields, **changes})


def pinned_as(opening: Opening, place: int, **changes) -> Trust:
    """With one aggregator's only fingerprint pinned otherwise."""
    entry = opening.descriptor.aggregators[place]
    pin = Pinned(**{"fingerprint": entry.fingerprint.hex(), **changes})
    return trust(opening).replacing(
        TrustedAggregator(id=entry.id, operator=entry.operator, fingerprints=(pin,))
    )


def test_a_trust_file_anchors_a_transcript():
    opening = Opening()
    opened = opening.descriptor.opened
    known = trust(opening)
    for fitting in (known, pinned_as(opening, 0, **{"from": opened})):
        checked = check_transcript(opening.transcript(), COORDINATOR.public_key, fitting)
        assert checked.anchored
        assert checked.unknown_operators == ()
    loose = known.replacing(known.aggregators[0].model_copy(update={"operator": None}))
    checked = check_transcript(opening.transcript(), COORDINATOR.public_key, loose)
    assert checked.anchored
    assert checked.unknown_operators == (opening.descriptor.aggregators[0].id,)


def strangers(opening: Opening) -> dict[str, Trust]:
    """Trust files that miss something. Aggregator 4 is outside the quorum: with true ones among
    inventions the sum is right."""
    opened = opening.descriptor.opened
    known, last = trust(opening), opening.descriptor.aggregators[4]
    return {
        "deployment": trust(opening, deployment="other"),
        "coordinator": trust(opening, coordinator=(STRANGER.fingerprint.hex(),)),
        "a missing aggregator": trust(opening, aggregators=known.aggregators[:4]),
        "another identity": pinned_as(opening, 4, fingerprint=STRANGER.fingerprint.hex()),
        "stolen": pinned_as(opening, 4, compromised=True),
        "later": pinned_as(opening, 4, **{"from": opened + timedelta(seconds=1)}),
        "until then": pinned_as(opening, 4, until=opened),
        "operator": known.replacing(
            known.named(last.id).model_copy(update={"operator": "someone else"})
        ),
    }


@pytest.mark.parametrize("kind", strangers(Opening((0, 1, 2), **SHAMIR)))
def test_what_a_trust_file_does_not_pin_is_refused(kind):
    opening = Opening((0, 1, 2), **SHAMIR)
    transcript, key = opening.transcript(), COORDINATOR.public_key
    assert check_transcript(transcript, key, trust(opening)).anchored
    with pytest.raises(TranscriptNotAnchored):
        check_transcript(transcript, key, strangers(opening)[kind])


def foreign_commitments(opening: Opening) -> dict[str, list[Signed[Commitment]]]:
    good, made = opening.commitments, opening.commitment
    tampered = good[2].model_copy(
        update={"statement": good[2].statement.model_copy(update={"hash": bytes(32)})}
    )
    return {
        "one missing": good[:2],
        "none": [],
        "one twice": [*good, good[0]],
        "one twice for another": [good[0], good[1], good[1]],
        "two of one": [*good, made(2, partial=bytes(8))],
        "another manifest": [*good[:2], made(2, manifest_hash=bytes(32))],
        "another descriptor": [*good[:2], made(2, descriptor_hash=bytes(32))],
        "another round": [*good[:2], made(2, round=OTHER_ROUND)],
        "another's signature": [*good[:2], made(2, by=IDENTITIES[0])],
        "a stranger": [*good[:2], made(2, aggregator="west", by=IDENTITIES[3])],
        "another label": [*good[:2], made(2, label=ACCEPTED_LABEL)],
        "tampered": [*good[:2], tampered],
    }


@pytest.mark.parametrize("kind", foreign_commitments(Opening()))
def test_foreign_commitments_are_refused(kind):
    opening = Opening()
    commitments = foreign_commitments(opening)[kind]
    with pytest.raises(CommitmentRefused):
        opening.check(commitments)
    with pytest.raises(CommitmentRefused):
        opening.open(commitments=commitments)
    with pytest.raises(CommitmentRefused):
        check_transcript(opening.transcript(commitments=tuple(commitments)), COORDINATOR.public_key)


@pytest.mark.parametrize(
    "quorum", [(), (0, 1), (0, 1, 3), (0, 1, -1), (0, 1, 1), (0, 1, 2, 2), (0, 1, 2, 99)]
)
def test_a_false_quorum_is_refused(quorum):
    with pytest.raises(CommitmentRefused):
        Opening().check(quorum=quorum)


def foreign_reveals(opening: Opening) -> dict[str, list[Reveal]]:
    good, made = opening.reveals, opening.reveal
    flipped = bytes([opening.partials[2][0] ^ 1]) + opening.partials[2][1:]
    return {
        "one missing": good[:2],
        "none": [],
        "one twice": [*good, good[0]],
        "another sum": [*good[:2], made(2, partial=flipped)],
        "another nonce": [*good[:2], made(2, nonce=bytes(32))],
        "another's sum": [*good[:2], made(2, partial=opening.partials[1])],
        "another's name": [*good[:2], made(2, aggregator="north")],
        "a stranger": [*good[:2], made(2, aggregator="west")],
        "a long sum": [*good[:2], made(2, partial=opening.partials[2] + bytes(8))],
        "a short sum": [*good[:2], made(2, partial=opening.partials[2][:-1])],
        "no sum": [*good[:2], made(2, partial=b"")],
    }


@pytest.mark.parametrize("kind", foreign_reveals(Opening()))
def test_foreign_reveals_are_refused(kind):
    opening = Opening()
    with pytest.raises(RevealRefused):
        opening.open(foreign_reveals(opening)[kind])


@pytest.mark.parametrize("partial", [1, PRIME], ids=["off the polynomial", "p"])
def test_a_liar_s_committed_sum_is_refused_beyond_the_threshold(partial):
    """A false sum whose commitment is in order: with more than k sums the lie shows."""
    opening = Opening((0, 1, 2, 3), **SHAMIR)
    lie = partial.to_bytes(8, "little")
    commitments = [*opening.commitments[:3], opening.commitment(3, partial=lie)]
    with pytest.raises(RevealRefused):
        opening.open([*opening.reveals[:3], opening.reveal(3, partial=lie)], commitments)


def test_words_outside_the_field_are_refused_at_the_threshold_too():
    opening = Opening((0, 1, 2), **SHAMIR)
    lie = PRIME.to_bytes(8, "little")
    commitments = [*opening.commitments[:2], opening.commitment(2, partial=lie)]
    with pytest.raises(RevealRefused):
        opening.open([*opening.reveals[:2], opening.reveal(2, partial=lie)], commitments)


def test_a_transcript_keeps_the_query_s_rules():
    opening = Opening()
    for changes in ({"participants": 1}, {"participants": 1001}, {"contributions": (0,)}):
        with pytest.raises(ManifestRefused):
            check_transcript(opening.transcript(**changes), COORDINATOR.public_key)
    full = Opening(min_participants=3, n_max=3)
    assert check_transcript(full.transcript(), COORDINATOR.public_key).total.tolist() == [1002]
    shamir = Opening((0, 1, 2), **SHAMIR)
    for noise in ((), (0, 1), (0, 1, 1), (0, 1, 7)):
        with pytest.raises(ManifestRefused):
            check_transcript(shamir.transcript(contributions=noise), COORDINATOR.public_key)
    with pytest.raises(DescriptorRefused):
        check_transcript(opening.transcript(), STRANGER.public_key)


def test_a_commitment_binds_every_field():
    fields = [b"d" * 32, b"m" * 32, "north", b"n" * 32, b"p" * 8]
    hashes = {commitment_hash(*fields)}
    for place, other in enumerate([b"e" * 32, b"m" * 31 + b"o", "south", b"o" * 32, b"q" * 8]):
        hashes.add(commitment_hash(*[*fields[:place], other, *fields[place + 1 :]]))
    hashes.add(commitment_hash(b"d" * 31, b"d" + b"m" * 32, *fields[2:]))
    assert len(hashes) == 7
