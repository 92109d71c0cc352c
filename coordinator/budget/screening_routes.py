"""The route of the screening, for operators alone."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Depends, FastAPI
from fastapi import Query as Parameter

from common.web.parts import part
from coordinator.budget import screening as proposals
from coordinator.budget.ledger import Ledger
from coordinator.budget.screening import NAMED, NEWEST, SENTENCE
from coordinator.store import ledger as store
from coordinator.web import DatabasePart, Operator

Alpha = Annotated[
    float,
    Parameter(
        gt=0,
        lt=1,
        description="The chance, in (0, 1), that anybody is proposed for missed rounds in one "
        "look, if rounds are missed at random.",
    ),
]


def add_proposals(app: FastAPI) -> None:
    """Add it to the app."""

    @app.get(
        "/v1/budget/proposals",
        tags=["budget"],
        summary="Curators that an operator may want to look at, by what the ledger holds",
    )
    async def screening(
        database: DatabasePart,
        ledger: Annotated[Ledger, Depends(part(Ledger))],
        _: Operator,
        alpha: Alpha = 0.001,
    ) -> dict[str, Any]:
        async with database.reading() as transaction:
            state = await ledger.current(transaction)
        seen = proposals.seen_in(state)
        far = await asyncio.to_thread(proposals.bounds_far_out, seen)
        absent = await asyncio.to_thread(proposals.absences, seen, alpha)
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
