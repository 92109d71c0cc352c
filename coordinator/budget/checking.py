"""Verification of the ledger's rows: the chain, what may follow, and where a checkpoint stood."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.budget.state import Disclosures, LedgerState
from coordinator.models.budget_events import Break, Event, first_break
from coordinator.models.budget_figures import Figures


class Check:
    """Takes the rows of a ledger from the first on, and folds what it verified.

    `known`: the figures of a checkpoint, to which the rows must lead.
    """

    def __init__(self, disclosures: Disclosures, known: Figures | None) -> None:
        self.state = LedgerState(disclosures)
        self._known = known

    def take(self, events: Sequence[Event]) -> Break | None:
        """Verify and fold the next rows; the first bad one, None if there is none."""
        state, known = self.state, self._known
        found = first_break(events, state.seq, state.head)
        if found is not None:
            return found
        for event in events:
            try:
                state.fold(event)
            except (LookupError, ValueError, TypeError, ArithmeticError):
                return Break(event.seq, "the row cannot follow from those before it")
            if known is not None and event.seq == known.seq and state.figures() != known:
                return Break(event.seq, "the stored state is not what the rows lead to")
        return None

    def end(self) -> Break | None:
        """What is wrong if no row follows."""
        known, last = self._known, self.state.seq
        if known is not None and known.seq > last:
            return Break(last + 1, f"the tail is missing: row {known.seq} was there once")
        return None
