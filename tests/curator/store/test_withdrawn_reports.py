"""What a stopped curator would still report to a job is dropped; what was answered is not."""

from __future__ import annotations

import pytest
from sqlalchemy import insert, select

from common.store.transactions import Transaction
from curator.store import stops
from curator.store.tables import curators, noisy_reports, parties
from tests.curator.conftest import START


@pytest.mark.parametrize(
    ("stopped", "left"),
    [
        ("none", {(0, 1), (0, 2), (1, 1)}),
        ("owner", {(0, 1), (1, 1)}),
        ("process", {(0, 1)}),
    ],
)
async def test_unsent_reports(
    transaction: Transaction, stopped: str, left: set[tuple[int, int]]
) -> None:
    party = {"kind": "host", "state": "active", "deployment": "d", "identity": b""}
    party |= {"coordinator_url": "", "first_key": 0, "curators": 2, "created": START}
    await transaction.execute(insert(parties).values(id="gateway", **party))
    for key in (0, 1):
        await transaction.execute(insert(curators).values(key=key, id=f"g-{key}", party="gateway"))
    for curator, number, status in ((0, 1, 202), (0, 2, None), (1, 1, None)):
        row = {"job": "j", "party": "gateway", "body": "", "status": status}
        await transaction.execute(
            insert(noisy_reports).values(curator=curator, round=number, **row)
        )
    if stopped == "owner":
        await stops.set_curator(transaction, 0, START, by_owner=True)
    if stopped == "process":
        await stops.set_process(transaction, START)
    await stops.withdraw_reports(transaction, "another", "gateway")
    await stops.withdraw_reports(transaction, "j", "gateway")
    found = await transaction.execute(select(noisy_reports.c.curator, noisy_reports.c.round))
    assert {(row.curator, row.round) for row in found} == left
