"""What happens to curators and their data: the update paths (spec: budget, sections 1 and 4).

    joined         a curator that left is back, with its old ledger
    left           it is no longer awaited
    refreshed      its data changed, or what it declares or discloses
    flagged        its data is suspected to be polluted; it stays in U
    cleansed       its data was corrected and it follows the protocol (thesis, case 1.1)
    non_compliant  it adds no noise (thesis, case 1.2): the sources' bounds are infinite
    reinstated     the suspicion was wrong

A host may report of its own curators that they are refreshed or left; only an operator may report
the others. A refresh gives no budget back: the old data was released too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from common.principals import Principal, Scope
from common.store.database import exclusive
from common.store.transactions import Transaction
from coordinator.budget.ledger import LOCK, Ledger
from coordinator.errors import DisclosureRefused, EventRefused, UnknownCurator, UpdateForbidden
from coordinator.models.budget_ledger import Declaration, Disclosure, Draft, Event, Kind, sealed
from coordinator.store import ledger as store
from coordinator.store import registry
from coordinator.store.ledger import CuratorRow
from tacit.errors import places_of
from tacit.query.terms import Identifier
from tacit.sets import runs
from tacit.wire import WireModel, require

OWN = frozenset({Kind.REFRESHED, Kind.LEFT})
"""What a curator or host may report about its own curators."""
MAX_NAMED = 100_000


class Update(WireModel):
    """One thing that happened to some curators, by id, or to all curators of a party.

    `declared` (with refreshed, cleansed): what they declare from now on. `disclosed`: what the
    paper stance has one curator disclose; it is stored separately, visible only to operators.
    """

    kind: Literal[
        "joined", "left", "refreshed", "flagged", "cleansed", "non_compliant", "reinstated"
    ]
    curators: (
        Annotated[tuple[Identifier, ...], Field(min_length=1, max_length=MAX_NAMED)] | None
    ) = None
    party: Identifier | None = None
    declared: Declaration | None = None
    disclosed: Disclosure | None = None
    reason: Annotated[str, Field(max_length=500)] | None = None

    @model_validator(mode="after")
    def _whom_and_what(self) -> Update:
        named = (self.curators is None) != (self.party is None)
        require(named, None, "name curators, or a party")
        figures = self.declared is not None or self.disclosed is not None
        with_figures = self.kind in ("refreshed", "cleansed") or not figures
        require(with_figures, None, "figures come with refreshed or cleansed")
        single = self.disclosed is None or (self.curators is not None and len(self.curators) == 1)
        require(single, None, "a disclosure is about one curator")
        return self


async def record(
    transaction: Transaction,
    ledger: Ledger,
    update: Update,
    caller: Principal,
    *,
    allow_paper: bool,
) -> list[Event]:
    """Append the events of an update; a run of consecutive curators is one event.

    Raises UnknownCurator, UpdateForbidden, DisclosureRefused, EventRefused; then nothing happened.
    """
    kind = Kind(update.kind)
    if update.disclosed is not None and not allow_paper:
        raise DisclosureRefused(pointer="/disclosed")
    await exclusive(transaction, LOCK)
    state = await ledger.current(transaction)
    found = await _concerned(transaction, update, caller, kind)
    payload: dict[str, object] = {}
    if update.reason is not None:
        payload["reason"] = update.reason
    if update.declared is not None:
        payload["declared"] = update.declared.model_dump(mode="json", exclude_none=True)
    if update.disclosed is not None:
        digest, body = sealed(update.disclosed)
        await store.add_disclosure(transaction, digest, body)
        payload["disclosed"] = digest
    drafts = []
    for first, count in _runs([row.number for row in found]):
        status = state.allows(kind, first, count)
        if status is not None:
            raise EventRefused(
                f"{kind.value} cannot follow: a curator is {status.name.lower()}",
                extra={"standing": status.name.lower(), "first": first, "count": count},
            )
        drafts.append(Draft(kind, actor_of(caller), payload, first, count))
    return await ledger.append(transaction, drafts)


def actor_of(caller: Principal) -> str:
    """The actor written in the ledger: the party of a curator's token, else the token itself."""
    return caller.subject if caller.subject is not None else f"token:{caller.token_id}"


async def _concerned(
    transaction: Transaction, update: Update, caller: Principal, kind: Kind
) -> Sequence[CuratorRow]:
    ids = update.curators
    if ids is None:
        assert update.party is not None
        ids = await registry.curators_of(transaction, update.party)
        if not ids:
            raise UnknownCurator("there is no such party", pointer="/party")
    found = await store.curators_named(transaction, ids)
    missing = set(ids) - {row.id for row in found}
    if missing:
        raise UnknownCurator(pointer="/curators", extra=places_of(ids, missing))
    if not caller.has(Scope.OPERATOR):
        if kind not in OWN:
            raise UpdateForbidden(pointer="/kind")
        if any(row.party != caller.subject for row in found):
            raise UnknownCurator(pointer="/curators")
    return found


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    base = min(numbers)
    members = np.zeros(max(numbers) - base + 1, np.bool_)
    members[np.array(numbers) - base] = True
    return [(base + start, length) for start, length in runs(members)]
