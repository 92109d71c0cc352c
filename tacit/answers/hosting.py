"""What a curator service answers about the parties it hosts, and what comes in of their data."""

from __future__ import annotations

from typing import Literal

from tacit.answers.base import Answer, Time


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
    """A party whose next identity is not known to all services. `used`: whether it signs by it;
    `problems`: of services that did not take it."""

    party: str
    fingerprint: str
    used: bool
    problems: dict[str, str]


class WaitingReplacements(Answer):
    """All of them."""

    waiting: list[WaitingReplacement]


class ReadingProblem(Answer):
    """Why a reading was not stored; `pointer`: the field."""

    name: str
    detail: str | None
    pointer: str | None


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


class ImportedReadings(Answer):
    """How far an import is. `unknown_curators`: the most frequent names that nobody here has."""

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


class KeptTable(Answer):
    """A curator's own table: its columns, and how many rows."""

    curator: str
    columns: list[str]
    rows: int


class KeptItems(Answer):
    """A table of sequences or sets of items that was stored. `items`: different ones; `timed`:
    whether records have a time, so that a job with a window counts them."""

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
