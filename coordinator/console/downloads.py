"""Lists as CSV files: every row that the page's filters choose, not only those of one page.

Spec: console, section 5.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal, TypeVar

from fastapi import Response

from common.store.transactions import Transaction
from common.web.console.pages import console_router, csv_file
from coordinator.api.budget import event_answer
from coordinator.api.datasets import shown
from coordinator.api.registry import party_answer
from coordinator.console.visits import Operator, Person
from coordinator.jobs import results
from coordinator.models.job import JobState
from coordinator.rounds import progress
from coordinator.services import Services
from coordinator.store import datasets, jobs, ledger, queries, registry, rounds
from tacit.protocol.round.state import RoundState

router = console_router()

_ROWS_A_PAGE: Final = 500
R = TypeVar("R")


async def _all(
    services: Services, page: Callable[[Transaction, Any], Awaitable[Sequence[R]]], key: str = "id"
) -> list[R]:
    """All rows of a list, read page by page, each in a transaction of its own."""
    rows: list[R] = []
    last = None
    while True:
        async with services.database.reading() as transaction:
            page_rows = await page(transaction, last)
        rows.extend(page_rows)
        if len(page_rows) < _ROWS_A_PAGE:
            return rows
        last = getattr(page_rows[-1], key)


@router.get("/rounds.csv")
async def download_rounds(
    _: Person,
    services: Services,
    state: RoundState | Literal[""] = "",
    query_id: str = "",
    search: str = "",
) -> Response:
    which = rounds.Filter(state or None, query_id or None, True, True, search)
    rows = await _all(services, lambda t, last: rounds.heads(t, which, last, _ROWS_A_PAGE))
    return csv_file("rounds", [progress.head(row).model_dump(mode="json") for row in rows])


@router.get("/queries.csv")
async def download_queries(_: Person, services: Services, search: str = "") -> Response:
    rows = await _all(services, lambda t, last: queries.page(t, last, _ROWS_A_PAGE, search))
    times = [{"id": row.id, "created": row.created, "stopped": row.stopped} for row in rows]
    contents = [json.loads(row.body) for row in rows]
    return csv_file("queries", [a | b for a, b in zip(times, contents, strict=True)])


@router.get("/jobs.csv")
async def download_jobs(
    visit: Person, services: Services, state: str = "", search: str = ""
) -> Response:
    chosen = tuple(member for member in JobState if member.value == state)
    which = jobs.Filter(chosen if visit.operator else (JobState.SUCCEEDED,), search=search)
    rows = await _all(services, lambda t, last: jobs.page(t, which, last, _ROWS_A_PAGE))
    now = services.clock.now()
    answers = [
        results.timed(row, now) if visit.operator else results.published(row) for row in rows
    ]
    return csv_file("jobs", [answer.model_dump(mode="json") for answer in answers])


@router.get("/datasets.csv")
async def download_datasets(_: Operator, services: Services) -> Response:
    rows = await _all(services, lambda t, last: datasets.page(t, last, _ROWS_A_PAGE))
    async with services.database.reading() as transaction:
        answers = [await shown(transaction, row) for row in rows]
    return csv_file("datasets", [answer.model_dump(mode="json") for answer in answers])


@router.get("/parties.csv")
async def download_parties(_: Operator, services: Services, prefix: str = "") -> Response:
    rows = await _all(
        services, lambda t, last: registry.list_parties(t, last, _ROWS_A_PAGE, prefix)
    )
    return csv_file("parties", [party_answer(row).model_dump(mode="json") for row in rows])


@router.get("/budget/ledger.csv")
async def download_ledger(_: Operator, services: Services) -> Response:
    rows = await _all(services, lambda t, last: ledger.after(t, last or 0, _ROWS_A_PAGE), "seq")
    return csv_file("ledger", [event_answer(row).model_dump(mode="json") for row in rows])
