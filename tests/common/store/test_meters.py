"""Counts of transactions and statements as metrics, on both databases."""

from __future__ import annotations

from sqlalchemy import text

from common.runtime.metrics import ServiceMetrics
from common.store.meters import add_store_meters
from common.store.transactions import Database


async def test_what_was_asked_is_counted(database: Database) -> None:
    metrics = ServiceMetrics("probe")
    add_store_meters(metrics, database)
    async with database.reading() as transaction:
        await transaction.execute(text("SELECT 1"))
        await transaction.execute(text("SELECT 2"))
    async with database.begin() as transaction:
        await transaction.execute(text("CREATE TABLE t (k INTEGER)"))
    async with database.begin(large=True):
        pass
    lines = metrics.render().decode().splitlines()
    assert 'tacit_probe_store_transactions_total{kind="reading"} 1.0' in lines
    assert 'tacit_probe_store_transactions_total{kind="writing"} 2.0' in lines
    assert "tacit_probe_store_statements_total 3.0" in lines
