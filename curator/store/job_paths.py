"""What the questions of a job spend along each path, and the question that was asked last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from common.store.transactions import Transaction
from curator.store.tables import job_paths


@dataclass(frozen=True)
class PathRow:
    """Of a job: its newest question, the step it began with, which round asked which of its parts,
    by their first words, and what all questions spend (`PathSpends.packed`)."""

    job: str
    question: bytes
    began: int
    rounds: Mapping[int, str]
    spends: bytes


async def find(transaction: Transaction, job_id: str) -> PathRow | None:
    """None before the first question."""
    row = (await transaction.execute(select(job_paths).where(job_paths.c.job == job_id))).first()
    if row is None:
        return None
    rounds = {int(first): name for first, name in json.loads(row.rounds).items()}
    return PathRow(row.job, bytes(row.question), row.began, rounds, bytes(row.spends))


async def put(transaction: Transaction, row: PathRow) -> None:
    """Store it in place of what was there."""
    await transaction.execute(delete(job_paths).where(job_paths.c.job == row.job))
    await transaction.execute(
        insert(job_paths).values(
            job=row.job,
            question=row.question,
            began=row.began,
            rounds=json.dumps(dict(row.rounds)),
            spends=row.spends,
        )
    )
