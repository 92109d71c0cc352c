"""The tables of a service's console, added to its own metadata."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Column, MetaData, String, Table

from common.store.columns import Instant


@dataclass(frozen=True)
class ConsoleTables:
    """Sessions and one-time codes are known by SHA-256 alone, as tokens are."""

    sessions: Table
    codes: Table
    audit: Table


def console_tables(metadata: MetaData) -> ConsoleTables:
    """`console_session`, `console_code` and `console_audit`."""
    return ConsoleTables(
        sessions=Table(
            "console_session",
            metadata,
            Column("hash", String(64), primary_key=True),
            Column("token_hash", String(64), nullable=False, index=True),
            Column("csrf", String(64), nullable=False),
            Column("created", Instant, nullable=False),
            Column("seen", Instant, nullable=False),
        ),
        codes=Table(
            "console_code",
            metadata,
            Column("hash", String(64), primary_key=True),
            Column("token_hash", String(64), nullable=False),
            Column("expires", Instant, nullable=False),
        ),
        audit=Table(
            "console_audit",
            metadata,
            Column("id", String(36), primary_key=True),
            Column("at", Instant, nullable=False, index=True),
            Column("token_id", String(36), nullable=False),
            Column("action", String(64), nullable=False),
            Column("object", String(200), nullable=False),
            Column("outcome", String(64), nullable=False),
        ),
    )
