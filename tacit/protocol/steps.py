"""Steps of many rounds in one request, from the coordinator to an aggregator."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from tacit.protocol.round.descriptor import RoundId
from tacit.wire import WireModel

MOST_STEPS: Final = 256


class StepName(StrEnum):
    """A step, named as the route that does it alone."""

    OPEN = "open"
    CONTRIBUTE = "contribute"
    KEYS = "keys"
    MISSING = "missing"
    FREEZE = "freeze"
    VERIFICATION = "verification"
    VERDICT = "verdict"
    COMMIT = "commit"
    REVEAL = "reveal"


class Step(WireModel):
    """One step of one round. `body`: the JSON that its own route takes, as text."""

    name: StepName
    round: RoundId
    body: str = ""


class Steps(WireModel):
    """Steps of different rounds, in any order."""

    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=MOST_STEPS)]


class StepAnswer(WireModel):
    """What the step's own route answers: HTTP status, and JSON or problem+json as text."""

    status: Annotated[int, Field(ge=200, le=599)]
    body: str


class StepAnswers(WireModel):
    """The answers, in the order of the steps."""

    answers: tuple[StepAnswer, ...]
