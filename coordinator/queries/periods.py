"""The periods of a schedule: which are over, and the window of each.

Spec: aggregation, section 2; budget, section 3. Period k, from 0 on, covers the half-open window
[first_start + k period, first_start + (k+1) period); it is asked for when it is over.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tacit.query.fields import Schedule, Window


def over(schedule: Schedule, now: datetime) -> int:
    """How many periods are over."""
    return max(0, (now - schedule.first_start) // timedelta(seconds=schedule.period_s))


def window(schedule: Schedule, number: int) -> Window:
    """The window of a period. Raises ValueError beyond the years of an instant."""
    period = timedelta(seconds=schedule.period_s)
    start = schedule.first_start + number * period
    return Window(start=start, end=start + period)
