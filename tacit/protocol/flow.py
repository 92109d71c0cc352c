"""What happened to uploads at an aggregator, hour by hour: counts, none of them below five.

An hour is told once, when it is over, so no second look at it shows what one more upload changed.
Uploads are counted, not curators: a batch is one, and who tries again is counted again.

Spec: console, section 7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from tacit.wire import Instant, WireModel

HOUR: Final = timedelta(hours=1)
KEPT: Final = timedelta(days=31)
"""How long counts are kept."""
LEAST: Final = 5
"""The smallest count that is told by name."""
OTHER: Final = "other"
"""What smaller counts are told as, if together they are as large."""

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


def told(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts that may be told: those below `LEAST` only together, and not if they still are."""
    named = {name: count for name, count in counts.items() if count >= LEAST and name != OTHER}
    rest = sum(counts.values()) - sum(named.values())
    return named | ({OTHER: rest} if rest >= LEAST else {})


def totals(hours: Iterable[FlowHour], form: Form) -> dict[str, int]:
    """What was told of a form, summed over hours."""
    found: Counter[str] = Counter()
    for each in hours:
        if each.form == form:
            found.update(each.outcomes)
    return dict(found)
