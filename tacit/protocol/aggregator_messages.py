"""What the coordinator and an aggregator exchange besides the messages of a round: steps of many
rounds in one request, and hourly counts of uploads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from tacit.protocol.round.descriptor import RoundId
from tacit.wire import Instant, WireModel

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


# Counts of uploads at an aggregator by hour, none below five (spec: console, section 7). An hour is
# reported once, when it is over, so that no second report shows what one more upload changed.
# Uploads are counted, not curators: a batch is one, and a retry is counted again.

HOUR: Final = timedelta(hours=1)
KEPT: Final = timedelta(days=31)
"""How long counts are kept."""
LEAST: Final = 5
"""The smallest count that is reported by name."""
OTHER: Final = "other"
"""The name of smaller counts together, if they are as large."""

Form = Literal["lone", "batch"]
Outcome = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
"""`stored`, `known`, the name of a problem, or `other`."""


class FlowHour(WireModel):
    """One hour's uploads of one form, by outcome."""

    hour: Instant
    form: Form
    outcomes: Annotated[
        dict[Outcome, Annotated[int, Field(ge=LEAST, lt=1 << 53)]], Field(max_length=256)
    ]


class Flow(WireModel):
    """The hours that are over, of those that were asked for; `until`: the end of the last one."""

    until: Instant
    hours: Annotated[tuple[FlowHour, ...], Field(max_length=2 * (int(KEPT / HOUR) + 1))]


def hour_of(at: datetime) -> datetime:
    """When the hour of an instant began."""
    return at.replace(minute=0, second=0, microsecond=0)


def reported(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts that may be reported: those below `LEAST` only as one sum, and only if it is
    not."""
    named = {name: count for name, count in counts.items() if count >= LEAST and name != OTHER}
    rest = sum(counts.values()) - sum(named.values())
    return named | ({OTHER: rest} if rest >= LEAST else {})


def totals(hours: Iterable[FlowHour], form: Form) -> dict[str, int]:
    """The reported counts of a form, summed over hours."""
    found: Counter[str] = Counter()
    for each in hours:
        if each.form == form:
            found.update(each.outcomes)
    return dict(found)
