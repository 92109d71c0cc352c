"""Answers of a curator service: to its operator about hosted parties and their data, and to the
owner of a curator.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tacit.answers.base import Answer, Figure, Octets, Time
from tacit.answers.rounds import Span
from tacit.report.model import VerifiedStatement


class AnchoredAggregator(Answer):
    """An aggregator that a party knows by its fingerprint."""

    id: str
    url: str
    fingerprint: str


class HostedParty(Answer):
    """A curator or host of this process. `first`: the roster number of its first curator, once it
    is enrolled."""

    party: str
    kind: Literal["curator", "host"]
    state: str
    deployment: str
    coordinator: str
    first: int | None
    curators: int
    aggregators: list[AnchoredAggregator]
    enrolled: Time | None


class ListOfHostedParties(Answer):
    """All parties of this process."""

    parties: list[HostedParty]


class ReplacementsBegun(Answer):
    """How many parties' identities are being replaced from now on."""

    begun: int


class WaitingReplacement(Answer):
    """A party whose next identity some services do not know yet. `used`: whether it already
    signs with that identity; `problems`: of the services that did not accept it."""

    party: str
    fingerprint: str
    used: bool
    problems: dict[str, str]


class WaitingReplacements(Answer):
    """All of them."""

    waiting: list[WaitingReplacement]


class BadField(Answer):
    """One bad field of a reading, and the rule."""

    pointer: str | None
    detail: str


class ReadingProblem(Answer):
    """Why a reading was not stored; `pointer`: the first bad field; `errors`: all, if several."""

    name: str
    detail: str | None
    pointer: str | None
    errors: list[BadField] | None = None


class ReadingTaken(Answer):
    """What became of a reading, by its place among those sent."""

    index: int
    status: Literal["accepted", "duplicate", "conflict", "rejected"]
    problem: ReadingProblem | None = None


class ReadingsTaken(Answer):
    """An answer for each reading."""

    items: list[ReadingTaken]


class UnreadPlace(Answer):
    """What could not be read of a file, and where."""

    line: int
    column: int | None
    detail: str
    element: str | None = None


class DryReading(Answer):
    """A reading that would be stored: its time in UTC, its value with the unit."""

    time: str
    meter: str
    value: str


class DrySumOfDay(Answer):
    """Readings of a meter on one day. `total`: their sum; for a counter, its last reading."""

    day: str
    meter: str
    register_name: str = Field(alias="register")
    readings: int
    total: str
    unit: str


class ImportedReadings(Answer):
    """The progress of an import. `unknown_curators`: the most frequent names that are not
    curators of this service; `taken_for`: the detected format, and why. A dry run also has the
    first readings and the sums of days."""

    id: str
    state: str
    lines: int
    accepted: int
    duplicates: int
    conflicts: int
    rejected: int
    unknown_curators: list[str]
    unknown_curators_count: int
    errors: list[UnreadPlace]
    taken_for: str | None = None
    dry_run: bool = False
    first: tuple[DryReading, ...] = ()
    sums: tuple[DrySumOfDay, ...] = ()
    sums_count: int = 0


class KeptTable(Answer):
    """A curator's own table: its columns, and how many rows."""

    curator: str
    columns: list[str]
    rows: int


class KeptItems(Answer):
    """A table of sequences or sets of items that was stored. `items`: how many different ones;
    `timed`: whether records have a time, so that a job with a window counts them."""

    curator: str
    name: str
    records: int
    items: int
    timed: bool


class ItemTableSize(Answer):
    """A table of sequences or sets of items, how many records it has, and whether these have a
    time."""

    name: str
    records: int
    timed: bool


class ItemTables(Answer):
    """A curator's tables of one kind."""

    curator: str
    tables: list[ItemTableSize]


# Answers to a curator's owner. A charge has its figures in two currencies, (epsilon, delta) and
# zCDP as (rho, rho_delta): as the query assumes, and the same if all aggregators pool what they
# see.


class ChargedAmount(Answer):
    """A charge, or a sum of charges. `zcdp_epsilon`: what its rho guarantees at delta 10^-6."""

    epsilon: Figure
    delta: Figure
    epsilon_all_aggregators: Figure
    delta_all_aggregators: Figure
    rho: Figure
    rho_delta: Figure
    rho_all_aggregators: Figure
    rho_delta_all_aggregators: Figure
    zcdp_epsilon: Figure


class StatedCharge(ChargedAmount):
    """The charge of one round; `unverified`: no theorem covers its figures."""

    status: Literal["verified", "unverified"]


class PeriodCharge(ChargedAmount):
    """What was charged since `start`, in a period of this many seconds."""

    start: Time
    seconds: int


class Debit(StatedCharge):
    """A debit. `round`: null for noisy reports; `assumes`: which parties must not pool what they
    see; `credited`: the round was never released and does not count."""

    round: str | None
    assumes: str
    made: Time
    window: Span
    credited: bool


class ListOfDebits(Answer):
    """A page of debits, the newest first."""

    debits: list[Debit]


class AgreedAtDelta(Answer):
    """A limit on zCDP: the epsilon that all spending together guarantees at a delta."""

    epsilon: Figure
    delta: Figure


class AgreedLimit(Answer):
    """An agreed limit; a field that is absent is not limited. `epsilon` and `delta`: on sums of
    them; `zcdp`: on the sum of all zCDP."""

    epsilon: Figure | None = None
    delta: Figure | None = None
    zcdp: AgreedAtDelta | None = None


class AgreedLimits(Answer):
    """Limits per period, for the lifetime, and if all aggregators pool what they see."""

    period: AgreedLimit
    lifetime: AgreedLimit
    all_aggregators: AgreedLimit


class UnitStatement(Answer):
    """A ledger's statement in one privacy unit, with the newest debits."""

    limits: AgreedLimits
    period: PeriodCharge
    lifetime: ChargedAmount
    rounds: int
    unverified_rounds: int
    debits: list[Debit]


class RecordStatement(UnitStatement):
    """What one reading has spent. `worst_instant`: the largest sum over the rounds that cover
    one instant."""

    worst_instant: ChargedAmount


class Units(Answer):
    """A statement for each privacy unit."""

    record: RecordStatement
    curator: UnitStatement


class OwnBudget(Answer):
    """A curator's ledger. `public_columns`: columns that may be sent without noise.
    `exact_answers`: sums without noise to which it contributed; the figures hold only against
    people who do not have those."""

    curator: str
    party: str
    public_columns: list[str]
    exact_answers: int
    units: Units


class AskedFor(Answer):
    """Which readings a query uses. `purpose`: as its author wrote it; `bounds`: to which each
    reading is clamped; `noise_by`: who adds noise, `curator`, `aggregators`, `both` or `nobody`."""

    purpose: str | None = None
    register_name: str = Field(alias="register")
    unit: str
    bounds: list[Figure]
    min_participants: int
    noise_by: str


class RefusalReason(Answer):
    """Why an answer was refused, with the figures of the limit."""

    name: str
    detail: str
    figures: dict[str, Any]


class DeclaredCharge(StatedCharge):
    """What was promised for an answer. `guess`: the largest share of right guesses, of 1, by the
    people whom the query names."""

    assumes: str
    guess: Figure | None


class UnitCharges(Answer):
    """A charge in each privacy unit."""

    record: StatedCharge
    curator: StatedCharge


class ReadingsUsed(Answer):
    """How many readings an answer used, and how many were clamped to the bounds. `kept_share`:
    what was kept of their sum if it exceeded the query's `window_bound`; null if all was kept."""

    used: int
    clamped: int
    kept_share: str | None = None
    note: str | None = None


class RefusedProof(Answer):
    """Why aggregators refused the proof of an answer."""

    reasons: list[str]
    detail: str


class GivenContribution(Answer):
    """What a round asked for, and the answer. `operators`: of the aggregators that received
    pieces; `delivery`: sealed bodies by state, `problems`: why an aggregator has not confirmed that
    it took them (`gave_up`: it did not answer until the end); `outcome`: how the round ended."""

    round: str
    query: str
    query_name: str
    query_hash: Octets
    descriptor_hash: Octets
    function: str
    mechanism: str
    stance: str
    privacy_unit: str
    asked: AskedFor
    operators: list[str]
    window: Span
    state: str
    send_at: Time
    finished: Time | None
    outcome: str | None
    expired: Time | None
    contributed: bool
    refused_because: list[RefusalReason]
    credited: bool
    declared: DeclaredCharge | None = None
    charged: UnitCharges | None = None
    readings: ReadingsUsed | None = None
    refused_by_proof: RefusedProof | None = None
    delivery: dict[str, int]
    problems: list[str]


class ListOfContributions(Answer):
    """A page of what rounds asked, the newest first."""

    contributions: list[GivenContribution]


class NamedAggregator(Answer):
    """An aggregator that an answer was shared among."""

    id: str
    operator: str
    url: str
    fingerprint: str


class WholeContribution(GivenContribution):
    """One answer, with who would have to work together to learn what."""

    verified: list[VerifiedStatement]
    aggregators: list[NamedAggregator]


class ReadingCounts(Answer):
    """A curator's readings by outcome. `refreshed_after_contribution`: changed after a round had
    used them."""

    curator: str
    accepted: int
    duplicates: int
    conflicts: int
    rejected: int
    refreshed_after_contribution: int
    contributed: int
    clamped: int


class ProcessStop(Answer):
    """Whether all curators of a process are stopped, and since when."""

    stopped: bool
    since: Time | None


class StoppedBy(Answer):
    """Who stopped a curator, and since when."""

    owner: Time | None
    operator: Time | None
    process: Time | None


class CuratorStop(Answer):
    """Whether a curator is stopped."""

    curator: str
    stopped: bool
    by: StoppedBy
