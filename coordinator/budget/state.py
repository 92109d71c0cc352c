"""The state of the ledger: a fold over its events, and which events may follow.

Spec: budget, section 1. Folding is the only way in which the state changes, so a rebuild from the
ledger equals it; `figures` is what the two are compared by. Disclosures, which are private, are
stored apart from the events: an event holds their digest, and the fold is given the values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from typing import Any, Final, TypeVar

import numpy as np

from coordinator.budget.limits import Limit, Limits
from coordinator.budget.roster import Roster, Status
from coordinator.budget.round_charges import ByCurator, Price
from coordinator.budget.spending import Figure, Spending
from coordinator.models.budget_ledger import (
    GENESIS,
    Declaration,
    Disclosure,
    Event,
    Figures,
    Kind,
    MemberSet,
    Scaled,
    ScaledDisclosure,
)
from tacit.accounting.scenarios import Scenario
from tacit.wire import WireModel, canonical_json, format_exact

Disclosures = Callable[[str], Disclosure]
"""The disclosure of a digest."""

_MAY_COME_FROM: Final[Mapping[Kind, tuple[Status, ...]]] = {
    Kind.JOINED: (Status.UNKNOWN, Status.LEFT),
    Kind.LEFT: (Status.ACTIVE, Status.FLAGGED, Status.NON_COMPLIANT),
    Kind.REFRESHED: (Status.ACTIVE, Status.FLAGGED, Status.NON_COMPLIANT),
    Kind.FLAGGED: (Status.ACTIVE,),
    Kind.CLEANSED: (Status.FLAGGED, Status.NON_COMPLIANT),
    Kind.NON_COMPLIANT: (Status.ACTIVE, Status.FLAGGED),
    Kind.REINSTATED: (Status.FLAGGED, Status.NON_COMPLIANT),
}
_LEADS_TO: Final[Mapping[Kind, Status]] = {
    Kind.LEFT: Status.LEFT,
    Kind.FLAGGED: Status.FLAGGED,
    Kind.CLEANSED: Status.ACTIVE,
    Kind.NON_COMPLIANT: Status.NON_COMPLIANT,
    Kind.REINSTATED: Status.ACTIVE,
}
CURATOR_KINDS: Final = tuple(_MAY_COME_FROM)
"""Events that are about curators, and not about rounds or limits."""


def undisclosed(_: str) -> Disclosure:
    """For ledgers without disclosures."""
    raise KeyError("no disclosure is kept")


Model = TypeVar("Model", bound=WireModel)


def _read(model: type[Model], value: Any) -> Model:
    """A model from the plain values of a payload."""
    return model.model_validate_json(canonical_json(value))


@lru_cache(maxsize=256)
def _price(text: str) -> Price:
    return Price.from_payload(json.loads(text))


@dataclass(frozen=True)
class Snapshot:
    """A state at one moment, while the state itself keeps changing."""

    seq: int
    head: bytes
    roster: bytes
    spent: tuple[ByCurator, ...]
    worst: tuple[Figure, ...]
    parts: Mapping[str, Any]

    def figures(self) -> Figures:
        """The figures by which states are compared: takes about a second for a million curators."""
        digest = hashlib.sha256(self.roster)
        for by_curator in self.spent:
            for block in by_curator.columns():
                digest.update(block.astype("<i8").tobytes())
        for figure in self.worst:
            digest.update(f"{astuple(figure)};".encode())
        for name, part in self.parts.items():
            if not name.startswith(_FROM_OTHERS):
                digest.update(f"{name};".encode())
                digest.update(part)
        return Figures(self.seq, self.head, digest.digest())


_FROM_OTHERS: Final = ("spending_totals_", "spending_instants_")
"""Parts in a form that depends on when they were read; what they say is in the figures."""


class LedgerState:
    """The roster, the limits and the spending after a chain of events."""

    def __init__(self, disclosures: Disclosures = undisclosed) -> None:
        self.seq = 0
        self.head = GENESIS
        self.roster = Roster()
        self.spending = Spending()
        self.limits = Limits()
        self._disclosures = disclosures

    def allows(self, kind: Kind, first: int, count: int) -> Status | None:
        """The status of a curator in the run for which this event is not valid; None if it is
        valid for all."""
        for status in sorted(self.roster.statuses(first, count)):
            if status not in _MAY_COME_FROM[kind]:
                return status
        return None

    def fold(self, event: Event) -> None:
        """Fold the next event; ValueError for one that cannot follow."""
        with self.spending.lock:
            self._fold(event)

    def _fold(self, event: Event) -> None:
        if event.seq != self.seq + 1 or event.previous != self.head:
            raise ValueError("not the next event of the ledger")
        match event.kind:
            case Kind.ROUND_DEBITED:
                self._debit(event.payload)
            case Kind.ROUND_RELEASED | Kind.ROUND_ABORTED:
                self._settle(event.kind, event.payload)
            case Kind.LIMIT_CHANGED:
                limits = tuple(_read(Limit, item) for item in event.payload["limits"])
                self.limits = self.limits.changed(event.first, limits)
            case Kind.JOB_DEBITED | Kind.JOB_SETTLED:
                pass  # what a job costs is in the events of its rounds
            case _:
                assert event.first is not None
                assert event.count is not None
                self._curators(event.kind, event.first, event.count, event.payload)
        self.seq, self.head = event.seq, event.hash

    def _curators(self, kind: Kind, first: int, count: int, payload: Mapping[str, Any]) -> None:
        if kind is Kind.JOINED:
            if self.roster.statuses(first, count) == {Status.LEFT}:
                self.roster.move(first, count, Status.ACTIVE)
            else:
                self.roster.enter(first, count)
                self.spending.grow(self.roster.size)
        elif kind in _LEADS_TO:
            self.roster.move(first, count, _LEADS_TO[kind])
        if kind in (Kind.REFRESHED, Kind.CLEANSED):
            self.roster.refresh(first, count)
        declared = disclosed = None
        if "declared" in payload:
            declared = Scaled.of(_read(Declaration, payload["declared"]))
        if "disclosed" in payload:
            disclosed = ScaledDisclosure.of(self._disclosures(payload["disclosed"]))
        if declared is not None or disclosed is not None:
            self.roster.declare(range(first, first + count), declared, disclosed)

    def _debit(self, payload: Mapping[str, Any]) -> None:
        start, end = payload["window"]
        self.spending.debit(
            payload["round"],
            payload["query"],
            payload["made"],
            (start, end),
            _price(json.dumps(payload["price"])),
            MemberSet(payload["members"], payload["size"]),
            tuple(payload["operators"]),
        )

    def _settle(self, kind: Kind, payload: Mapping[str, Any]) -> None:
        packed = payload.get("members")
        self.spending.settle(
            payload["round"],
            "released" if kind is Kind.ROUND_RELEASED else "aborted",
            None if packed is None else MemberSet(packed, payload["size"]),
            credited=payload.get("credited", False),
        )

    def snapshot(self) -> Snapshot:
        """What the figures are made of, as it is now."""
        with self.spending.lock:
            view = self._view()
            parts = {
                name: part.copy() if isinstance(part, np.ndarray) else bytes(part)
                for name, part in view.parts.items()
            }
            return replace(view, parts=parts)

    def figures(self) -> Figures:
        """A summary of the state: equal states have equal summaries, and different states almost
        never do."""
        with self.spending.lock:
            return self._view().figures()

    def _view(self) -> Snapshot:
        """A snapshot that holds only while the lock is held."""
        sums, counts = self.roster.aggregates(), self.roster.counts()
        lines = [
            f"{name}={format_exact(getattr(sums, name) + 0)};" for name in sums.__dataclass_fields__
        ]
        lines += [f"{status.name}={count};" for status, count in counts.items()]
        return Snapshot(
            self.seq,
            self.head,
            "".join(lines).encode(),
            tuple(self.spending.totals(scenario) for scenario in Scenario),
            tuple(self.spending.worst_record(scenario) for scenario in Scenario),
            self._parts(),
        )

    def _parts(self) -> dict[str, Any]:
        return {
            "limits": self.limits.to_bytes(),
            **{f"roster_{name}": part for name, part in self.roster.parts().items()},
            **{f"spending_{name}": part for name, part in self.spending.parts().items()},
        }

    @classmethod
    def of(
        cls, seq: int, head: bytes, parts: Mapping[str, Any], disclosures: Disclosures = undisclosed
    ) -> LedgerState:
        """The state of a snapshot's parts. Raises ValueError for invalid parts."""
        state = cls(disclosures)
        state.seq, state.head = seq, head
        try:
            state.limits = Limits.from_bytes(parts["limits"])
            state.roster = Roster.of(_under("roster_", parts))
            state.spending = Spending.of(_under("spending_", parts))
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError("not the parts of a state") from error
        return state


def _under(prefix: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Those whose names begin so, without it."""
    return {
        name.removeprefix(prefix): part for name, part in parts.items() if name.startswith(prefix)
    }
