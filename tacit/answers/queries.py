"""Answers about queries, and the documents of their rounds. Spec: aggregation, section 7."""

from __future__ import annotations

from typing import Literal

from tacit.answers.base import Answer, Figure, Time
from tacit.answers.rounds import RoundHead, Span
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.query import Query
from tacit.query.tables import TableColumn
from tacit.report.model import PrivacyReport


class ListOfRounds(Answer):
    """A page of rounds: heads, or with `state=open` signed descriptors. `newest`: the newest id
    of all rounds, if the page is full."""

    rounds: list[RoundHead | Signed[RoundDescriptor]]
    newest: str | None = None


class RoundCompleteness(Answer):
    """How many curators answered; `with_readings`: a noisy count, if the query pays for it."""

    answered: int
    with_readings: Figure | None
    note: str


class RoundResult(Answer):
    """A released result with its report. `result` has a decimal text, or a list of them, for
    each part; it is null if there is no figure, and `reason` then states why. `columns`: of a
    table, whose cells are in row-major order."""

    format: Literal["tacit.round-result/1"]
    round: str
    query_id: str
    function: str
    unit: str
    window: Span
    participants: int
    completeness: RoundCompleteness
    columns: list[TableColumn] | None = None
    result: dict[str, Figure | list[Figure] | None]
    report: PrivacyReport


class KeptQuery(Answer):
    """A query with the privacy report of each of its rounds. `rounds`: how many it had; `last`:
    the newest; `stopped`: when its schedule ended."""

    id: str
    hash: str
    created: Time
    stopped: Time | None
    rounds: int
    last: str | None
    query: Query
    preview: PrivacyReport


class ListOfQueries(Answer):
    """A page of queries, the oldest first."""

    queries: list[KeptQuery]
