"""The domain errors of an aggregator.

Names are stable: clients rely on them. Details and extra members hold public figures only (names,
numbers, counts, states): never a share, a sum, a noise value or a key.
"""

from __future__ import annotations

from tacit.errors import (
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    Malformed,
    NotFound,
    TooLarge,
    TooMany,
    Unavailable,
)


class NotPaired(Conflict):
    name = "not_paired"
    title = "This aggregator is not paired with a coordinator"


class AlreadyPaired(Conflict):
    name = "already_paired"
    title = "This aggregator is paired with another coordinator"


class UnknownSealKey(NotFound):
    name = "unknown_seal_key"
    title = "There is no such seal key here"


class SealKeyMalformed(Invalid):
    name = "seal_key_malformed"
    title = "The bytes are not the public seal key of this hash"


class SealKeyGone(Gone):
    name = "seal_key_gone"
    title = "The seal key is destroyed and can decrypt nothing any more"


class SealKeyUnavailable(Unavailable):
    name = "seal_key_unavailable"
    title = "This replica lacks the wrapping file of the seal key"


class TooManySealKeys(TooMany):
    name = "too_many_seal_keys"
    title = "Too many seal keys of rounds are unused"


class PeerKeyMissing(Conflict):
    """`key_hashes`: of the missing seal keys."""

    name = "peer_key_missing"
    title = "A seal key of another aggregator of the round has not arrived"


class UnknownSession(Conflict):
    name = "unknown_session"
    title = "The session is unknown: send again with its announcement"
    retryable_by_default = True


class SessionRefusedHere(Malformed):
    name = "session_refused"
    title = "The session was not made by this party for this aggregator and seal key"


class TooManySessions(TooMany):
    name = "too_many_sessions"
    title = "Too many sessions of one party under one seal key"
    retryable_by_default = False


class PeerNotAnchored(Forbidden):
    name = "peer_not_anchored"
    title = "The round names an aggregator that is not pinned here"


class PeerPinned(Conflict):
    name = "peer_pinned"
    title = "Another identity is pinned for this aggregator"


class UnknownPeer(NotFound):
    name = "unknown_peer"
    title = "No aggregator of this name is pinned"


class UnknownRound(NotFound):
    name = "unknown_round"
    title = "There is no such round"


class RoundExpired(Gone):
    name = "round_expired"
    title = "The round was deleted after its retention"


class RoundConflict(Conflict):
    name = "round_conflict"
    title = "Another descriptor was opened for this round"


class PolicyRefused(Forbidden):
    name = "policy_refused"
    title = "This aggregator's policy forbids the round"


class RoundClosed(Gone):
    """`included`: whether this exact piece or batch is stored; `state`: that of the round."""

    name = "round_closed"
    title = "The round is closed"


class RoundNotFrozen(Conflict):
    name = "round_not_frozen"
    title = "The round is still open"


class RoundNotCommitted(Conflict):
    name = "round_not_committed"
    title = "The round has no commitment"


class RoundReleased(Conflict):
    name = "round_released"
    title = "The partial sum was revealed"


class SealBrokenHere(Malformed):
    name = "seal_broken"
    title = "The sealed data cannot be opened by this service"


class WrongRound(Malformed):
    name = "wrong_round"
    title = "The piece was sealed for another round, place or sender"


class WrongLength(Malformed):
    name = "wrong_length"
    title = "The piece does not have the length that the query requires"


class OutOfField(Malformed):
    name = "out_of_field"
    title = "A word of the piece is not an element of the field"


class PieceConflict(Conflict):
    name = "piece_conflict"
    title = "Another piece of this sender is already stored for this round"


class BatchOverlaps(Conflict):
    """`numbers` are the roster numbers that an earlier part holds."""

    name = "batch_overlaps"
    title = "The batch overlaps an earlier part of the same segment"


class UnknownSender(Forbidden):
    name = "unknown_sender"
    title = "The sender is not on this aggregator's roster"


class NotYourPiece(Forbidden):
    name = "not_your_piece"
    title = "A token may send its own party's pieces only"


class NotYourParty(Forbidden):
    name = "not_your_party"
    title = "A token is valid for its own party only"


class SamplersFailed(Unavailable):
    name = "samplers_failed"
    title = "The noise samplers failed their self-test"


class NotInRound(Conflict):
    name = "not_in_round"
    title = "The sender enrolled after the round's roster was fixed"


class NotInGroup(Conflict):
    name = "not_in_group"
    title = "The round sums a group that the sender, or one of its curators, is not in"


class TooManyPieces(TooLarge):
    name = "too_many_pieces"
    title = "Too many pieces in one request"


class ContributionRefused(Invalid):
    name = "contribution_refused"
    title = "The noise contribution does not belong to this round"


class TranscriptRefused(Conflict):
    name = "transcript_refused"
    title = "The transcript is not that of this aggregator's round, so it is not sealed"


class CuratorEnrolled(Conflict):
    name = "curator_enrolled"
    title = "A curator, number or identity of this enrolment is already enrolled"


class UnknownParty(NotFound):
    name = "unknown_party"
    title = "There is no such curator or host"


class KeyShareRefused(Invalid):
    name = "key_share_refused"
    title = "The shares of the verify key are not those of all other aggregators for this one"


class VerifyKeyFixed(Conflict):
    name = "verify_key_fixed"
    title = "The round already has its verify key"


class RoundNotKeyed(Conflict):
    name = "round_not_keyed"
    title = "The round has no verify key yet"


class CandidatesFixed(Conflict):
    name = "candidates_fixed"
    title = "The contributions to verify are fixed: they cannot change within a round"


class StillVerifying(Unavailable):
    name = "still_verifying"
    title = "The contributions are being verified: retry"


class SharesMissing(Conflict):
    """`missing`: the first chunks, by index of the aggregator and number."""

    name = "shares_missing"
    title = "Verifier shares of other aggregators have not arrived"


class RoundNotVerified(Conflict):
    name = "round_not_verified"
    title = "This aggregator has not decided on the round's contributions"


class UnknownChunk(NotFound):
    name = "unknown_chunk"
    title = "This chunk of verifier shares does not exist"
