"""Answers about queries and their rounds. Spec: aggregation, section 7; console, section 7."""

from __future__ import annotations

from typing import Any, Literal

from tacit.answers.base import Answer, Figure, Time
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import RoundDescriptor, RoundState
from tacit.query.query import Query
from tacit.report.model import PrivacyReport


class Span(Answer):
    """The readings that a round asks for: from `start`, and before `end`."""

    start: Time
    end: Time


class Interval(Answer):
    """How far noise moves a result at most, either way, with the chance `level`."""

    level: Figure
    half_width: Figure


class Figures(Answer):
    """The figures of a released round in a list: its single numbers, the noise of a sum or count,
    and how often those whom the query names guess right at most (of 1; null: no bound)."""

    result: dict[str, Figure | None]
    interval: Interval | None
    guess: Figure | None


class Step(Answer):
    """A step that is done, and when."""

    step: str
    at: Time | None


class RoundHead(Answer):
    """A round as lists show it. `participants`: of a released one; `minimum`: curators that it
    needs; `refused`: curators that were refused by their proof; `aborts`: signed by aggregators."""

    id: str
    query_id: str
    query: str
    state: RoundState
    reason: str | None
    opened: Time
    deadline: Time
    window: Span
    descriptor_hash: str
    participants: int | None
    minimum: int | None
    refused: int | None
    aggregators: list[str]
    unit: str
    figures: Figures | None
    steps: list[Step]
    finished: Time | None
    aborts: list[dict[str, Any]]


class ExpiredRound(Answer):
    """What is kept of a round whose content was dropped."""

    id: str
    state: RoundState
    expired: Time


class RoundStates(Answer):
    """Several rounds; unknown ones are omitted."""

    rounds: list[RoundHead | ExpiredRound]


class ListOfRounds(Answer):
    """A page of rounds: heads, or with `state=open` signed descriptors. `newest`: the newest id of
    all, behind a full page"""

    rounds: list[RoundHead | Signed[RoundDescriptor]]
    newest: str | None = None


class RoundCompleteness(Answer):
    """How many answered; `with_readings`: a noisy count, where the query pays for it."""

    answered: int
    with_readings: Figure | None
    note: str


class RoundResult(Answer):
    """A released result with its report. `result` has a decimal text or a list of them for each
    part; null where there is no figure, and `reason` then states why."""

    format: Literal["tacit.round-result/1"]
    round: str
    query_id: str
    function: str
    unit: str
    window: Span
    participants: int
    completeness: RoundCompleteness
    result: dict[str, Figure | list[Figure] | None]
    report: PrivacyReport


class RoundRefusals(Answer):
    """How many curators refuse a round, in total and by ground."""

    round: str
    state: RoundState
    refused: int
    grounds: dict[str, int]


class RefusedCurator(Answer):
    """A curator that was refused by its proof, by its number; `curator`: its name, to operators."""

    number: int
    reasons: list[str]
    detail: str
    curator: str | None = None


class OwnStanding(Answer):
    """Which of a party's curators were refused by their proof."""

    round: str
    state: RoundState
    refused: list[RefusedCurator]


class RefusedByProof(Answer):
    """All that were refused by their proof: `count` of them, the first by name, and what
    aggregators contradict."""

    round: str
    state: RoundState
    count: int
    refused: list[RefusedCurator]
    statements: list[str]


class KeptQuery(Answer):
    """A query with the privacy report that each of its rounds would have. `rounds`: how many it
    had; `last`: the newest; `stopped`: since when its schedule opens no more."""

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
