"""The figures of a released round that lists tell, so that they need not read its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tacit.accounting.scenarios import Scenario
from tacit.query.query import Query
from tacit.query.words import Function
from tacit.report.model import PrivacyReport

_OWN_INTERVAL: Final = frozenset({Function.SUM, Function.COUNT})
"""Functions whose result is an opened number itself, and not computed from several."""


def figures(query: Query, report: PrivacyReport, result: Mapping[str, Any]) -> dict[str, Any]:
    """What a list tells of a result: its single numbers, how far off the sum or count may be, and
    the guess of the line that the query promises."""
    numbers = {name: value for name, value in result.items() if isinstance(value, str | None)}
    interval = None
    if query.function in _OWN_INTERVAL and report.error is not None:
        interval = report.error["parts"][0]["interval"]
    promised = next(
        (line.guess for line in report.verified if line.key == Scenario.ASSUMED.value), None
    )
    return {"result": numbers, "interval": interval, "guess": promised}
