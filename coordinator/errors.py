"""The domain errors of the coordinator."""

from tacit.errors import Conflict, Forbidden, Gone, Invalid, NotFound, Unauthenticated, Unavailable


class UnknownQuery(NotFound):
    name = "unknown_query"
    title = "There is no such query"


class UnknownRound(NotFound):
    name = "unknown_round"
    title = "There is no such round"


class UnknownAggregator(NotFound):
    name = "unknown_aggregator"
    title = "There is no such aggregator"


class UnknownParty(NotFound):
    name = "unknown_party"
    title = "There is no such curator or host"


class UnknownSealKey(NotFound):
    name = "unknown_seal_key"
    title = "No round that is open names a seal key of this hash"


class SealKeysMissing(Unavailable):
    name = "seal_keys_missing"
    title = "An aggregator shows no seal key, which rounds need"


class NotReleased(Conflict):
    name = "not_released"
    title = "The round has no result"


class RefusalConflict(Conflict):
    name = "refusal_conflict"
    title = "The party has already submitted a different statement for this round"


class RoundClosed(Gone):
    name = "round_closed"
    title = "The round is closed"


class RoundExpired(Gone):
    """`state`: how the round ended; `expired`: when its content was dropped."""

    name = "round_expired"
    title = "The round's content was dropped: its retention is over"


class QueryRefused(Invalid):
    name = "query_refused"
    title = "The query cannot be accepted"


class ExactRefused(Forbidden):
    name = "exact_refused"
    title = "This deployment releases no sum without noise, or only under a stricter rule"


class PaperRefused(Forbidden):
    name = "paper_refused"
    title = "The paper stance is refused by this deployment"


class ProofRequired(Forbidden):
    name = "proof_required"
    title = "This deployment accepts only queries whose contributions are proved"


class WindowMissing(Invalid):
    name = "window_missing"
    title = "The round needs a window of readings"


class WindowFixed(Invalid):
    name = "window_fixed"
    title = "The query fixes another window"


class RosterTooLarge(Conflict):
    name = "roster_too_large"
    title = "More curators are enrolled than the query's n_max: the sum could wrap"


class NotEnoughAggregators(Conflict):
    name = "not_enough_aggregators"
    title = "Fewer aggregators than the query asks for"


class AggregatorUnreachable(Unavailable):
    name = "aggregator_unreachable"
    title = "An aggregator does not answer"


class StillVerifying(Unavailable):
    name = "still_verifying"
    title = "Aggregators are verifying contributions"


class NotAnAggregator(Invalid):
    name = "not_an_aggregator"
    title = "The service at this address is not an aggregator"


class AggregatorConflict(Conflict):
    name = "aggregator_conflict"
    title = "The id or the identity belongs to another paired aggregator"


class AggregatorTokenRefused(Conflict):
    name = "aggregator_token_refused"
    title = "The aggregator refuses the token: it was not issued to this coordinator"


class FingerprintMismatch(Conflict):
    name = "fingerprint_mismatch"
    title = "The aggregator's identity is not the one of the given fingerprint"


class CuratorEnrolled(Conflict):
    name = "curator_enrolled"
    title = "A curator of this enrolment is already enrolled"


class UnknownGroup(NotFound):
    name = "unknown_group"
    title = "There is no such group"


class GroupConflict(Conflict):
    name = "group_conflict"
    title = "Another set of curators has this name; a group is never changed"


class GroupRefused(Invalid):
    name = "group_refused"
    title = "The group cannot be declared"


class LedgerBroken(Unavailable):
    name = "ledger_broken"
    title = "The budget ledger does not verify; no round is opened until an operator acts"
    retryable_by_default = False


class BudgetExceeded(Conflict):
    name = "budget_exceeded"
    title = "A spending limit would be exceeded"


class UnknownCurator(NotFound):
    name = "unknown_curator"
    title = "There is no such curator"


class EventRefused(Conflict):
    name = "event_refused"
    title = "This event is not valid in the curator's current state"


class UpdateForbidden(Forbidden):
    name = "update_forbidden"
    title = "Only an operator may record this event"


class DisclosureRefused(Forbidden):
    name = "disclosure_refused"
    title = "This deployment refuses the paper stance, and with it disclosures of private figures"


class UnknownJob(NotFound):
    name = "unknown_job"
    title = "There is no such job"


class UnknownSchedule(NotFound):
    name = "unknown_schedule"
    title = "There is no such schedule"


class UnknownPart(NotFound):
    name = "unknown_part"
    title = "The result has no such part"


class PlotNotDrawn(Unavailable):
    name = "plot_not_drawn"
    title = "The plot cannot be drawn"
    retryable_by_default = False


class DrawingBusy(Unavailable):
    name = "drawing_busy"
    title = "Other plots are being drawn: try again later"


class JobNotFinished(Conflict):
    name = "job_not_finished"
    title = "The job has no result"


class JobOver(Conflict):
    name = "job_over"
    title = "The job has ended before"


class AttemptRefused(Unauthenticated):
    name = "attempt_refused"
    title = "The attempt is not known, or the token is not its own"


class LeaseUsed(Conflict):
    name = "lease_used"
    title = "The attempt has already been claimed"


class AttemptOver(Gone):
    name = "attempt_over"
    title = "The attempt is over"


class AlgorithmRefused(Invalid):
    name = "unknown_algorithm"
    title = "There is no such algorithm"


class StanceRefused(Invalid):
    name = "bad_parameter"
    title = "The algorithm has no such stance"


class SeedNotAllowed(Invalid):
    name = "seed_not_allowed"
    title = "A seed makes the output reproducible: it is for the paper stance"


class UnitNotProtected(Invalid):
    name = "unit_not_protected"
    title = "Nothing is verified for the dataset's unit of privacy"


class UnverifiedNotAcknowledged(Invalid):
    name = "unverified_not_acknowledged"
    title = "No figure covers this release of production data: acknowledge that"


class RoundFailed(Conflict):
    name = "round_aborted"
    title = "A round of the job was aborted"


class TooFewReports(Conflict):
    name = "too_few_reports"
    title = "Fewer curators reported than the job asks for"


class CollectionOver(Gone):
    name = "collection_over"
    title = "The job collects no reports any more"


class DescriptorUnknown(Conflict):
    name = "descriptor_unknown"
    title = "The reports answer another descriptor"


class FederationUnsupported(Invalid):
    name = "federation_unsupported"
    title = "The job is not offered over curators in this way"


class StorageKeyWrong(Unavailable):
    name = "storage_key_wrong"
    title = "Stored data cannot be decrypted with the storage key"
    retryable_by_default = False


class StorageKeyUnavailable(Unavailable):
    """`generation`: of the key that is missing, or too old."""

    name = "storage_key_unavailable"
    title = "This process does not have the storage key that is needed"


class StorageKeyRotating(Conflict):
    name = "storage_key_rotating"
    title = "Another rotation of the storage key has not ended"


class UnknownDataset(NotFound):
    name = "unknown_dataset"
    title = "There is no such dataset"


class DatasetsRefused(Forbidden):
    name = "datasets_refused"
    title = "This deployment stores no datasets"


class DatasetInUse(Conflict):
    name = "dataset_in_use"
    title = "A job that has not drawn its noise is using the dataset"


class DatasetRefused(Invalid):
    name = "dataset_refused"
    title = "The dataset cannot be stored as declared"


class UrlRefused(Forbidden):
    name = "url_refused"
    title = "Datasets are not fetched from this address"


class UrlUnreachable(Unavailable):
    name = "url_unreachable"
    title = "The address of the dataset does not answer"


class BudgetMissing(Conflict):
    name = "budget_missing"
    title = "No budget was declared for the dataset"


class LedgerConflict(Conflict):
    name = "ledger_conflict"
    title = "The content has a ledger that does not fit the declaration"


class NoOutlet(Conflict):
    name = "no_outlet"
    title = "No outlet for notifications is set: TACIT_NOTIFY_WEBHOOK_URL or TACIT_NOTIFY_SMTP_URL"
