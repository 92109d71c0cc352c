"""Coarse public metrics of the budget: counts, and the worst figures rounded up to a tenth.

They are read from the state that this process has folded so far. No label names a curator, and no
figure here depends on data: all are prices of public queries.
"""

from __future__ import annotations

import math
from functools import partial

from common.runtime.metrics import ServiceMetrics
from coordinator.budget.ledger import Ledger
from coordinator.budget.roster import Status
from tacit.accounting.amounts import MICRO
from tacit.accounting.scenarios import Scenario
from tacit.query.words import PrivacyUnit


def add_meters(metrics: ServiceMetrics, ledger: Ledger) -> None:
    """Have the ledger's figures read whenever the metrics are."""
    metrics.gauge("ledger_events", "Rows of the budget ledger.").set_function(
        lambda: ledger.folded.seq
    )
    metrics.gauge(
        "ledger_verified_ratio", "0 if a row of the ledger did not verify, else 1."
    ).set_function(lambda: float(ledger.broken is None))
    metrics.gauge(
        "ledger_verified_events",
        "Rows of the ledger that this process has verified; after a start from a checkpoint it "
        "rises to ledger_events.",
    ).set_function(lambda: ledger.verified)
    curators = metrics.gauge("budget_curators", "Curators in the ledger, by status.", ("status",))
    for status in Status:
        if status is not Status.UNKNOWN:
            curators.labels(status.name.lower()).set_function(partial(_count, ledger, status))
    spent = _Spent(ledger)
    budget = metrics.gauge(
        "budget_spent_epsilon",
        "Epsilon of the worst curator over all rounds, as each query assumes collusion.",
        ("unit",),
    )
    for unit in PrivacyUnit:
        budget.labels(unit.value).set_function(partial(spent.epsilon, unit))


def _count(ledger: Ledger, status: Status) -> float:
    return ledger.folded.roster.counts()[status]


class _Spent:
    """The worst figures, computed once for every state of the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seq = -1
        self._found: dict[PrivacyUnit, float] = {}

    def epsilon(self, unit: PrivacyUnit) -> float:
        state = self._ledger.folded
        if state.seq != self._seq:
            self._seq, self._found = state.seq, {}
        if unit not in self._found:
            record = unit is PrivacyUnit.RECORD
            worst = state.spending.worst_record if record else state.spending.worst_curator
            epsilon = worst(Scenario.ASSUMED).epsilon
            tenths = math.inf if epsilon is None else math.ceil(epsilon * 10 / MICRO) / 10
            self._found[unit] = tenths
        return self._found[unit]
