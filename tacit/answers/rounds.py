"""Answers about the state of rounds. Spec: aggregation, section 7; console, section 7."""

from __future__ import annotations

from typing import Any, Final

from tacit.answers.base import Answer, Figure, Time
from tacit.protocol.round.state import RoundState


class Span(Answer):
    """The readings that a round asks for: from `start`, and before `end`."""

    start: Time
    end: Time


class Interval(Answer):
    """How far noise moves a result at most, up or down, with the probability `level`."""

    level: Figure
    half_width: Figure


class Figures(Answer):
    """The figures of a released round in a list: its single numbers, the noise of a sum or
    count, and the largest share of right guesses by the people whom the query names (of 1; null:
    no bound)."""

    result: dict[str, Figure | None]
    interval: Interval | None
    guess: Figure | None


class Step(Answer):
    """A step that is done, and when."""

    step: str
    at: Time | None


class RoundHead(Answer):
    """A round in a list. `participants`: of a released round; `minimum`: how many curators it
    needs; `refused`: curators with an invalid proof; `aborts`: signed by aggregators."""

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


REFUSED_BECAUSE: Final = {
    "policy": "their policies forbid it",
    "descriptor": "the descriptor is not what was agreed",
    "own": "their budget does not allow it, or they have answered for this window",
}
"""Why curators refuse a round, by the ground that they report."""


class RoundRefusals(Answer):
    """How many curators refuse a round, in total and by ground."""

    round: str
    state: RoundState
    refused: int
    grounds: dict[str, int]


class RefusedCurator(Answer):
    """A curator whose proof was invalid, by its number; `curator`: its name, for operators."""

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
    """All curators whose proof was invalid: `count` of them, the first by name, and statements
    of aggregators that contradict each other."""

    round: str
    state: RoundState
    count: int
    refused: list[RefusedCurator]
    statements: list[str]
