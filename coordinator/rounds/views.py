"""What the API and the console show of rounds: one function for each document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from common.store.transactions import Database
from common.web.paging import Page
from coordinator.errors import NotReleased
from coordinator.rounds import context
from coordinator.store import rounds as store
from coordinator.store.rounds import Filter, RoundHead
from coordinator.web import encode, time_text
from tacit.answers import rounds as answers
from tacit.answers.queries import RoundCompleteness, RoundResult
from tacit.protocol.round.state import RoundState
from tacit.query.terms import PRESENCE
from tacit.report.model import PrivacyReport
from tacit.wire import format_instant

COMPLETENESS: Final = (
    "answered: curators whose contribution is in the sum; one without a reading answers too, with "
    "zeros. with_readings: a noisy count of those that had one, where the query pays for it."
)


def head(row: RoundHead) -> answers.RoundHead:
    """A round as lists show it. `figures`: of a released one (`state_machine`)."""
    summary = json.loads(row.summary)
    return answers.RoundHead(
        id=row.id,
        query_id=row.query_id,
        query=summary["query"],
        state=row.state,
        reason=row.reason,
        opened=format_instant(row.opened),
        deadline=format_instant(row.deadline),
        window=summary["window"],
        descriptor_hash=summary["descriptor_hash"],
        participants=row.participants if row.state is RoundState.RELEASED else None,
        minimum=summary.get("minimum"),
        refused=row.refused,
        aggregators=summary["aggregators"],
        unit=summary["unit"],
        figures=None if row.figures is None else json.loads(row.figures),
        steps=_steps(row),
        finished=time_text(row.finished),
        aborts=json.loads(row.aborts or "[]"),
    )


async def heads(
    database: Database, which: Filter, asked: Page
) -> tuple[list[answers.RoundHead], str | None]:
    """Rounds as lists show them, and the newest id of all if this page is full."""
    async with database.reading() as transaction:
        rows = await store.heads(transaction, which, asked.after_text(), asked.limit)
        newest = await store.newest(transaction, which) if len(rows) == asked.limit else None
    return [head(row) for row in rows], newest


async def page(
    database: Database, which: Filter, asked: Page
) -> tuple[list[str], list[bytes], str | None]:
    """(ids, items as JSON, the newest id of all if this page is full): signed descriptors of open
    rounds, unless their heads are asked for, as they are stored."""
    if which.state is not RoundState.OPEN or which.heads:
        rounds, newest = await heads(database, which, asked)
        return [each.id for each in rounds], [encode(each) for each in rounds], newest
    async with database.reading() as transaction:
        stored = await store.descriptors(transaction, which, asked.after_text(), asked.limit)
        newest = await store.newest(transaction, which) if len(stored) == asked.limit else None
    return [item[0] for item in stored], [item[1].encode() for item in stored], newest


async def several(
    database: Database, ids: Sequence[str]
) -> list[answers.RoundHead | answers.ExpiredRound]:
    """Rounds as lists show them; of one whose content was dropped, how it ended."""
    async with database.reading() as transaction:
        rows = await store.heads_of(transaction, ids)
    return [
        head(row)
        if row.expired is None
        else answers.ExpiredRound(id=row.id, state=row.state, expired=format_instant(row.expired))
        for row in rows
    ]


async def find(database: Database, round_id: str) -> RoundHead:
    """A round, or UnknownRound, or RoundExpired."""
    async with database.reading() as transaction:
        return await context.find(transaction, round_id)


async def document(database: Database, round_id: str, name: str) -> bytes:
    """One JSON text of a round: see `coordinator.store.rounds.document`. Raises NotReleased where
    it is not there yet, or never."""
    async with database.reading() as transaction:
        row = await context.find(transaction, round_id)
        text = await store.document(transaction, round_id, name)
    if text is None:
        state = row.state.value
        detail = f"The round is {state}" + (f": {row.reason}" if row.reason else "")
        raise NotReleased(detail, extra={"state": state, "reason": row.reason})
    return text.encode()


async def result(database: Database, round_id: str) -> RoundResult:
    """A released result with its report. Raises NotReleased."""
    found = json.loads(await document(database, round_id, "result"))
    report = await document(database, round_id, "report")
    row = await find(database, round_id)
    summary = json.loads(row.summary)
    return RoundResult(
        format="tacit.round-result/1",
        round=row.id,
        query_id=row.query_id,
        function=summary["function"],
        unit=summary["unit"],
        window=summary["window"],
        participants=row.participants,
        completeness=RoundCompleteness(
            answered=row.participants,
            with_readings=found.get(PRESENCE),
            note=COMPLETENESS,
        ),
        result=found,
        report=PrivacyReport.model_validate_json(report),
    )


def _steps(row: RoundHead) -> list[answers.Step]:
    """The steps that are done, each with its time.
    `released` or `aborted` is the last."""
    done: list[tuple[str, datetime | None]] = [("opened", row.opened)]
    if row.announced:
        done.append(("announced", row.announced_at))
    for step in ("frozen", "verified", "committed"):
        if (at := getattr(row, f"{step}_at")) is not None:
            done.append((step, at))
    if row.finished is not None:
        done.append((row.state.value, row.finished))
    return [answers.Step(step=step, at=time_text(at)) for step, at in done]
