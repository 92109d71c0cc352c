"""A database with a module's own tables."""

from __future__ import annotations

import pytest

from common.store.transactions import Database


@pytest.fixture
async def store(database: Database, request: pytest.FixtureRequest) -> Database:
    """A database with the tables of the test module's `metadata`."""
    async with database.begin() as transaction:
        await transaction.run_sync(request.module.metadata.create_all)
    return database
