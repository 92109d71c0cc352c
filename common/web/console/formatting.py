"""Numbers and states as a page shows them.

Amounts come as exact decimal strings; nothing here is computed in floating point but shares of a
width. Spec: console, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import Final

from tacit.accounting.amounts import CURATORS_DAY_DELTA, CURATORS_DAY_EPSILON
from tacit.accounting.scenarios import Scenario
from tacit.report.figures import of_a_hundred

THIN: Final = "\u202f"
"""Narrow no-break space: between groups of digits."""
_GROUPED_FROM: Final = 10_000
_SIGNIFICANT: Final = 2


@dataclass(frozen=True)
class State:
    """A state as sign, word and kind: `done`, `waiting` or `ended` chooses the colour."""

    sign: str
    word: str
    kind: str


_STATES: Final = {
    "released": State("✓", "released", "done"),
    "aborted": State("✗", "aborted", "ended"),
    "succeeded": State("✓", "succeeded", "done"),
    "failed": State("✗", "failed", "ended"),
    "cancelled": State("✗", "cancelled", "ended"),
    "missed": State("✗", "missed", "ended"),
    "refused": State("✓", "refused", "done"),
}


GROUPS: Final = {
    Scenario.RECIPIENT: "Anyone who reads the answers",
    Scenario.CURATORS: "… with all other curators",
    Scenario.BLIND_AGGREGATORS: "… and as many aggregators as cannot open a contribution",
    Scenario.EVERYONE: "… with all other curators and all aggregators",
    Scenario.ASSUMED: "The group that each query names",
}
"""Who works together, over rounds of several queries."""

REFUSED: Final = {
    "policy": "because their policy does not agree to it",
    "descriptor": "because the round is not what they agreed to",
    "own": "because their budget is used up, or this window was answered before",
    "other": "on other grounds",
}
"""Why curators refuse a round, by the ground that they tell."""


def group(key: str) -> str:
    """The group of a collusion scenario, by its key."""
    return GROUPS[Scenario(key)]


def state(name: str) -> State:
    """How a state of a round or job is shown; all others are under way."""
    return _STATES.get(name, State("…", name, "waiting"))


def grouped(value: Decimal | int | str) -> str:
    """Plain digits in groups of three from 10,000 on, with a true minus sign."""
    number = Decimal(value)
    separator = THIN if abs(number) >= _GROUPED_FROM else ""
    text = f"{number:,f}".replace(",", separator)
    return text.replace("-", "−", 1)


def figure(value: object) -> str:
    """A number of a result to four significant digits, whole numbers in full; any other as it
    is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or value.is_integer():
        return grouped(int(value))
    number = Decimal(f"{value:.4g}")
    return grouped(number) if -6 <= number.adjusted() < 12 else f"{value:.4g}"


def place_of(half_width: str) -> int:
    """The decimal place of the second significant digit of a half-width: -1 for tenths."""
    width = Decimal(half_width)
    if not width.is_finite() or width <= 0:
        return 0
    return width.adjusted() - _SIGNIFICANT + 1


def rounded(value: str, place: int) -> str:
    """A decimal string to a place; exact digits are in the table beside it."""
    at = min(place, 0)
    number = Decimal(value).quantize(Decimal(1).scaleb(place), rounding=ROUND_HALF_EVEN)
    return grouped(number.quantize(Decimal(1).scaleb(at)))


def with_error(value: str, half_width: str | None) -> tuple[str, str | None]:
    """(value, half-width): the half-width to two significant digits, the value to the same
    place. A value without noise, whose half-width is 0 or missing, is unchanged, and its
    half-width None."""
    if half_width is None or not Decimal(half_width):
        return grouped(value), None
    place = place_of(half_width)
    return rounded(value, place), rounded(half_width, place)


def of_a_day(epsilon: str, delta: str) -> str:
    """What a cost means to curators that have the default policy."""
    if no_bound(epsilon):
        return "By default curators refuse queries without bounds."
    day = ((CURATORS_DAY_EPSILON, epsilon), (CURATORS_DAY_DELTA, delta))
    fitting = [Fraction(limit) // Fraction(cost) for limit, cost in day if Fraction(cost)]
    if not fitting:
        return ""
    rounds = min(fitting)
    allowed = (
        f"By default a curator allows epsilon {CURATORS_DAY_EPSILON} "
        f"and delta {CURATORS_DAY_DELTA} a day"
    )
    if not rounds:
        return f"{allowed}: it refuses this."
    often = "one such round" if rounds == 1 else f"{grouped(rounds)} such rounds"
    return f"{allowed}: {often}, and what goes beyond is refused."


def no_bound(amount: str | None) -> bool:
    """Whether an epsilon says nothing."""
    return amount is None or amount == "inf"


def hundred(guess: str | None) -> int:
    """A guess as cases of 100, rounded up."""
    return of_a_hundred(guess)


def day(at: str) -> str:
    """The day of an instant in UTC, without its year."""
    instant = datetime.fromisoformat(at)
    return f"{instant.day} {instant:%b}"


def day_of(day: datetime, now: datetime) -> str:
    """A day in UTC: today by that word."""
    return "today" if day.date() == now.date() else f"{day.day} {day:%b %Y}"


def fingerprint(text: str) -> str:
    """A fingerprint in groups of four, to be compared by eye."""
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))
