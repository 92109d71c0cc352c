"""Secrets of this aggregator, by name."""

from __future__ import annotations

from sqlalchemy import bindparam, insert, select

from aggregator.store.tables import secrets
from common.store.transactions import Transaction

_SECRET = select(secrets.c.value).where(secrets.c.name == bindparam("of_name"))


async def secret(transaction: Transaction, name: str) -> bytes | None:
    """A secret by its name."""
    found = await transaction.execute(_SECRET, {"of_name": name})
    value: bytes | None = found.scalar_one_or_none()
    return value


async def add_secret(transaction: Transaction, name: str, value: bytes) -> None:
    """Keep a secret under a new name."""
    await transaction.execute(insert(secrets).values(name=name, value=value))
