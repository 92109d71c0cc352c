"""A coordinator that has been used for long: many curators, rounds, rows of the ledger, jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import insert, select

from common.runtime.clock import ManualClock, uuid7
from common.store.database import exclusive
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator import examples
from coordinator.budget.ledger import LOCK, Ledger
from coordinator.models.budget_ledger import Draft, Kind
from coordinator.models.job import JobState
from coordinator.store import jobs as job_store
from coordinator.store import ledger as ledger_store
from coordinator.store.tables import rounds
from tests.coordinator.console.test_rounds import released
from tests.coordinator.double import House
from tests.coordinator.jobs.office import job_row

CURATORS = 10_000
ROUNDS = 1_000
EVENTS = 5_000
JOBS = 200
_BLOCK = 500


async def fill(it: House) -> str:
    """Fill it; the id of one of its rounds. The first is real, and the others are copies of its
    rows, each with its charge; rows of the ledger about curators make up the rest."""
    opened = await released(it, CURATORS)
    database, ledger = part_of(it.app, Database), part_of(it.app, Ledger)
    async with database.reading() as transaction:
        chosen = select(rounds).where(rounds.c.id == opened.id)
        row = dict((await transaction.execute(chosen)).one()._mapping)
        known = await ledger_store.after(transaction, 0, 10)
    charge = next(event for event in known if event.kind is Kind.ROUND_DEBITED)
    release = next(event for event in known if event.kind is Kind.ROUND_RELEASED)
    step, past = timedelta(minutes=20), ManualClock(row["opened"] - ROUNDS * timedelta(minutes=20))
    copies, drafts = [], []
    for _ in range(ROUNDS - 1):
        name = str(uuid7(past))
        copies.append({**row, "id": name, "opened": past.now(), "slot": None})
        for event in (charge, release):
            payload = {**event.payload, "round": name}
            drafts.append(Draft(event.kind, event.actor, payload))
        past.advance(step)
    for number in range(EVENTS - len(drafts) - len(known)):
        drafts.append(Draft(Kind.FLAGGED, "operator", {"reason": "a test"}, number, 1))
    for start in range(0, len(copies), _BLOCK):
        async with database.begin(large=True) as transaction:
            await transaction.execute(insert(rounds), copies[start : start + _BLOCK])
    for start in range(0, len(drafts), _BLOCK):
        async with database.begin(large=True) as transaction:
            await exclusive(transaction, LOCK)
            await ledger.append(transaction, drafts[start : start + _BLOCK])
    await _jobs(it, database)
    return opened.id


async def _jobs(it: House, database: Database) -> None:
    dataset = (await it.ask("POST", "/v1/datasets", examples.DATASET)).json()["id"]
    asked = {**examples.JOB, "dataset": dataset}
    found = (await it.ask("POST", "/v1/jobs/preview", asked)).json()
    clock = ManualClock()
    job = job_row(
        dataset_id=dataset,
        params=json.dumps(found["params"]),
        preview=json.dumps(found["preview"]),
        price='{"kind": "budget", "epsilon": 1000000}',
        state=JobState.CANCELLED,
        finished=clock.now(),
    )
    async with database.begin(large=True) as transaction:
        for _ in range(JOBS):
            clock.advance(timedelta(seconds=1))
            await job_store.add(transaction, replace(job, id=str(uuid7(clock))))


async def paths(it: House, round_id: str) -> list[str]:
    """The addresses of all pages that look."""
    [query] = (await it.ask("GET", "/v1/queries")).json()["queries"]
    [dataset] = (await it.ask("GET", "/v1/datasets")).json()["datasets"]
    [job] = (await it.ask("GET", "/v1/jobs?limit=1")).json()["jobs"]
    return [
        "/console",
        "/console/rounds",
        f"/console/rounds/{round_id}",
        f"/console/rounds/{round_id}/live",
        "/console/rounds/new",
        "/console/queries",
        f"/console/queries/{query['id']}",
        "/console/queries/new",
        "/console/budget",
        "/console/budget/limits",
        "/console/budget/ledger",
        "/console/budget/curators/gateway.7",
        "/console/jobs",
        f"/console/jobs/{job['id']}",
        f"/console/jobs/{job['id']}/live",
        "/console/jobs/new?algorithm=kmeans",
        "/console/datasets",
        f"/console/datasets/{dataset['id']}",
        "/console/flow",
        "/console/parties",
        "/console/parties?prefix=gateway.",
        "/console/tokens",
        "/console/audit",
    ]
