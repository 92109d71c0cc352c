"""The domain errors of a curator.

Names are stable: clients rely on them. Details and extra members hold public parameters and the
curator's own budget figures only, never a reading, a noise value, a share, or a ground that depends
on data.
"""

from __future__ import annotations

from typing import ClassVar

from tacit.errors import Conflict, Forbidden, Gone, Invalid, Malformed, NotFound, Unavailable


class UnknownAnchor(NotFound):
    name = "unknown_anchor"
    title = "No party here has pinned a service of this name"


class UnknownCurator(NotFound):
    name = "unknown_curator"
    title = "No such curator is hosted here"


class UnknownParty(NotFound):
    name = "unknown_party"
    title = "There is no such party here"


class UnknownImport(NotFound):
    name = "unknown_import"
    title = "There is no such import"


class UnknownAnswer(NotFound):
    name = "unknown_answer"
    title = "This curator was not asked to contribute to this round"


class NotGiven(Conflict):
    name = "not_given"
    title = "This curator did not contribute to this round"


class SignerForgotten(Conflict):
    name = "signer_forgotten"
    title = "The coordinator's key that signed the round is no longer known here"


class NothingPublished(Conflict):
    name = "nothing_published"
    title = "The coordinator has published no result of this round"


class ForeignCurator(Forbidden):
    name = "foreign_curator"
    title = "A curator's token is valid for this curator only"


class JoinTokenMalformed(Invalid):
    name = "join_token_malformed"
    title = "This is not a join token"


class JoinTokenExpired(Gone):
    name = "join_token_expired"
    title = "The join token has expired"


class CuratorsNeeded(Invalid):
    name = "curators_needed"
    title = "A host must name its curators; a lone curator names only itself"


class CuratorExists(Conflict):
    name = "curator_exists"
    title = "A curator of this name is already hosted here"


class PartyExists(Conflict):
    name = "party_exists"
    title = "This party is enrolled already"


class FingerprintMismatch(Forbidden):
    name = "fingerprint_mismatch"
    title = "A service's identity is not the one that the join token names"


class PeerUnavailable(Unavailable):
    name = "peer_unavailable"
    title = "A required service does not respond"


class PeerRefused(Conflict):
    name = "peer_refused"
    title = "A service refused the request"


class BadItem(Invalid):
    name = "bad_reading"
    title = "A reading cannot be accepted"


class TooManyItems(Invalid):
    name = "too_many_items"
    title = "Too many readings in one request"


class NotReadings(Malformed):
    name = "malformed_body"
    title = "The body cannot be parsed"


class BadImport(Invalid):
    name = "bad_import"
    title = "The file or its column map cannot be read"


class BadMapping(Invalid):
    name = "bad_mapping"
    title = "The MQTT mapping cannot be used"


class MalformedRow(Invalid):
    name = "malformed_row"
    title = "A row cannot be read"


class BadRecords(Invalid):
    name = "bad_records"
    title = "The records cannot be stored"


# --- grounds on which a curator refuses a round: public parameters only ---------------------------


class RoundRefused(Forbidden):
    """Base of the grounds; the name goes into the ledger."""

    name: ClassVar[str] = "round_refused"
    title = "This curator does not participate in the round"


class Stopped(RoundRefused):
    name = "stopped"
    title = "This curator was stopped and participates in nothing until it is resumed"


class DeadlinePassed(RoundRefused):
    name = "deadline_passed"
    title = "The round's deadline has passed"


class NotInRound(RoundRefused):
    name = "not_in_round"
    title = "The curator enrolled after the round's roster was fixed"


class NotConcerned(RoundRefused):
    name = "not_concerned"
    title = "The curator is not in the round's group, or not among those that began its job"


class OpenedBeforeRestore(RoundRefused):
    name = "opened_before_restore"
    title = "The round was opened before this curator was restored from a backup"


class RestoredRecently(RoundRefused):
    name = "restored_recently"
    title = "This curator was restored from a backup and participates in nothing for a while"


class WindowContributed(RoundRefused):
    name = "window_contributed"
    title = "The curator has already contributed this window under the same query"


class InExactSum(RoundRefused):
    name = "in_exact_sum"
    title = "Readings of this time are in a sum without noise already: two sums could be subtracted"


class SealKeyUnusable(RoundRefused):
    name = "seal_key_malformed"
    title = "The aggregator signed a seal key that is not a valid key"


class LastingSignatureMissing(RoundRefused):
    name = "pq_signature_missing"
    title = "A seal key of the round is not also signed with ML-DSA-65"


class StepRefused(RoundRefused):
    name = "step_refused"
    title = "The job's round does not match its query or its earlier rounds"


class StepMissed(RoundRefused):
    name = "step_missed"
    title = "The curator did not answer the first step of the job, whose debit pays for all steps"


class PathOverspent(RoundRefused):
    name = "path_overspent"
    title = "The job's questions spend more along one path than the job may"


class PolicyRefused(RoundRefused):
    name = "policy_refused"
    title = "The curator's policy forbids the round"


class BudgetExceeded(RoundRefused):
    name = "budget_exceeded"
    title = "The round would exceed the curator's budget"
