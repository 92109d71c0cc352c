"""The route of the screening, for operators alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Depends, FastAPI
from fastapi import Query as Parameter

from common.store.transactions import Database
from common.web.bodies import gives
from common.web.parts import part
from coordinator.budget import screening as proposals
from coordinator.budget.ledger import Ledger
from coordinator.budget.screening import NAMED, NEWEST, SENTENCE, Found, Seen
from coordinator.budget.state import LedgerState
from coordinator.store import ledger as store
from coordinator.web import DatabasePart, Operator
from tacit.answers.budget import BudgetProposals

Alpha = Annotated[
    float,
    Parameter(
        gt=0,
        lt=1,
        description="The chance, in (0, 1), that anybody is proposed for missed rounds in one "
        "look, if rounds are missed at random.",
    ),
]


async def screened(
    database: Database, ledger: Ledger, alpha: float
) -> tuple[LedgerState, Seen, Sequence[Found], Sequence[Found]]:
    """The state, what of it is looked at, and the proposals: far bounds, missed rounds."""
    async with database.reading() as transaction:
        state = await ledger.current(transaction)
    seen = proposals.seen_in(state)
    far = await asyncio.to_thread(proposals.bounds_far_out, seen)
    absent = await asyncio.to_thread(proposals.absences, seen, alpha)
    return state, seen, far, absent


def add_proposals(app: FastAPI) -> None:
    """Add it to the app."""

    @app.get(
        "/v1/budget/proposals",
        **gives(BudgetProposals),
        tags=["budget"],
        summary="Curators that an operator may want to look at, by what the ledger holds",
    )
    async def list_budget_proposals(
        database: DatabasePart,
        ledger: Annotated[Ledger, Depends(part(Ledger))],
        _: Operator,
        alpha: Alpha = 0.001,
    ) -> dict[str, Any]:
        state, seen, far, absent = await screened(database, ledger, alpha)
        listed = (*far[:NAMED], *absent[:NAMED])
        async with database.reading() as transaction:
            names = await store.curator_names(transaction, sorted({item.number for item in listed}))
        return {
            "screened": {
                "declaring": int(seen.declaring.size),
                "rounds": len(seen.rounds),
                "most_rounds": NEWEST,
                "alpha": alpha,
            },
            "proposed": {"far_bounds": len(far), "missed_rounds": len(absent)},
            "proposals": [
                *proposals.shown(far, names, state),
                *proposals.shown(absent, names, state),
            ],
            "sentence": SENTENCE,
        }
