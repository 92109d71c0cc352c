"""The tables of a curator service, and the reading of rows by the page.

Readings are clustered by (register, time, device): a round's window is one range scan, and the same
key makes ingestion idempotent. Debits are one row per round and segment, not per curator. Each
column of a page is one JSON text: half the time of a row object for each and a tenth of the memory.
"""

from __future__ import annotations

import json
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    String,
    Table,
    Text,
    UniqueConstraint,
    cast,
    func,
    or_,
    select,
)

from common.store.columns import NAMES, Instant
from common.store.tokens import token_table
from common.store.transactions import Transaction
from common.web.console.browser_sessions import console_tables

metadata = MetaData(naming_convention=NAMES)
tokens = token_table(metadata)
console = console_tables(metadata)

facts = Table(
    "fact",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

# --- parties -------------------------------------------------------------------------------------

parties = Table(
    "party",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("deployment", String(128), nullable=False),
    Column("identity", LargeBinary, nullable=False),
    Column("coordinator_url", String(500), nullable=False),
    Column("coordinator_key", LargeBinary, nullable=True),
    Column("coordinator_token", String(512), nullable=True),
    Column("first", BigInteger, nullable=True),
    Column("first_key", Integer, nullable=False),
    Column("curators", Integer, nullable=False),
    Column("join_token", Text, nullable=True),
    Column("created", Instant, nullable=False),
    Column("enrolled", Instant, nullable=True),
    Column("software_told", String(128), nullable=True),
    Column("coordinator_pin", Text, nullable=True),
)
party_identities = Table(
    "party_identity",
    metadata,
    Column("party", String(128), ForeignKey("party.id"), primary_key=True),
    Column("serial", Integer, primary_key=True, autoincrement=False),
    Column("link", Text, nullable=False),
    Column("secret", LargeBinary, nullable=True),
    Column("shown", Boolean, nullable=False),
)
anchors = Table(
    "anchor",
    metadata,
    Column("party", String(128), ForeignKey("party.id"), primary_key=True),
    Column("aggregator", String(128), primary_key=True),
    Column("url", String(500), nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("token", String(512), nullable=True),
    Column("pin", Text, nullable=True),
)
curators = Table(
    "curator",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=False),
    Column("id", String(128), nullable=False, unique=True),
    Column("party", String(128), ForeignKey("party.id"), nullable=False, index=True),
    Column("policy", Text, nullable=True),
    Column("owner_policy", Text, nullable=True),
    Column("stopped_by_owner", Instant, nullable=True),
    Column("stopped_by_operator", Instant, nullable=True),
    Column("accepted", BigInteger, nullable=False, default=0),
    Column("duplicates", BigInteger, nullable=False, default=0),
    Column("conflicts", BigInteger, nullable=False, default=0),
    Column("rejected", BigInteger, nullable=False, default=0),
    Column("refreshed", BigInteger, nullable=False, default=0, server_default="0"),
)
OWN_POLICY = or_(curators.c.policy.is_not(None), curators.c.owner_policy.is_not(None))
Index("ix_curator_own_policy", curators.c.key, sqlite_where=OWN_POLICY, postgresql_where=OWN_POLICY)
STOPPED = or_(curators.c.stopped_by_owner.is_not(None), curators.c.stopped_by_operator.is_not(None))
Index("ix_curator_stopped", curators.c.key, sqlite_where=STOPPED, postgresql_where=STOPPED)

# --- readings ------------------------------------------------------------------------------------

registers = Table(
    "register",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=False),
    Column("name", String(64), nullable=False),
    Column("base", String(16), nullable=False),
    UniqueConstraint("name", "base"),
)
devices = Table(
    "device",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=False),
    Column("curator", Integer, ForeignKey("curator.key"), nullable=False),
    Column("id", String(128), nullable=False),
    UniqueConstraint("curator", "id"),
)
readings = Table(
    "reading",
    metadata,
    Column("register", Integer, primary_key=True, autoincrement=False),
    Column("time", BigInteger, primary_key=True, autoincrement=False),
    Column("device", Integer, primary_key=True, autoincrement=False),
    Column("curator", Integer, nullable=False),
    Column("quantity", BigInteger, nullable=False),
    Column("random", BigInteger, nullable=False),
    Column("vector", LargeBinary, nullable=True),
    sqlite_with_rowid=False,
)
reading_blocks = Table(
    "reading_block",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("register", Integer, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("first_device", Integer, nullable=False),
    Column("last_device", Integer, nullable=False),
    Column("first_curator", Integer, nullable=False),
    Column("last_curator", Integer, nullable=False),
    Column("readings", Integer, nullable=False),
    Column("curators", LargeBinary, nullable=False),
    Column("quantities", LargeBinary, nullable=False),
    Column("devices", LargeBinary, nullable=False),
    Column("randoms", LargeBinary, nullable=False),
    Index("ix_reading_block_place", "register", "time", "first_device", "last_device"),
)
"""Readings of many devices at one instant (`curator.store.blocks`). The columns that a sum needs
come first: SQLite reads a row's long values from the first on."""
counters = Table(
    "counter",
    metadata,
    Column("device", Integer, primary_key=True, autoincrement=False),
    Column("register", Integer, primary_key=True, autoincrement=False),
    Column("time", BigInteger, primary_key=True, autoincrement=False),
    Column("total", BigInteger, nullable=False),
    Column("rollover", BigInteger, nullable=True),
    sqlite_with_rowid=False,
)

intake_hours = Table(
    "intake_hour",
    metadata,
    Column("hour", BigInteger, primary_key=True, autoincrement=False),
    Column("outcome", String(64), primary_key=True),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""Items by hour and outcome; `shard`: of the writer (`curator.store.readings`), all are summed."""
newest_readings = Table(
    "newest_reading",
    metadata,
    Column("register", Integer, primary_key=True, autoincrement=False),
    Column("device", Integer, primary_key=True, autoincrement=False),
    Column("curator", Integer, nullable=False, index=True),
    Column("first", BigInteger, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("duplicates", BigInteger, nullable=False, default=0, server_default="0"),
    Column("corrections", BigInteger, nullable=False, default=0, server_default="0"),
    Column("late", BigInteger, nullable=False, default=0, server_default="0"),
    sqlite_with_rowid=False,
)
"""The times of each device's first and newest reading, and how many came twice, were corrected, or
were of a window that had been contributed."""

# --- rounds, contributions, sealed bytes ---------------------------------------------------------

rounds = Table(
    "round",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("hash", LargeBinary, nullable=False),
    Column("descriptor", Text, nullable=False),
    Column("deployment", String(128), nullable=False),
    Column("query_hash", LargeBinary, nullable=False),
    Column("window_start", Instant, nullable=False),
    Column("window_end", Instant, nullable=False),
    Column("opened", Instant, nullable=False),
    Column("deadline", Instant, nullable=False),
    Column("outcome", String(16), nullable=True),
    Column("asked", Instant, nullable=True),
    Column("aborts", Text, nullable=True),
    Column("expired", Instant, nullable=True),
)
Index(
    "ix_round_unsettled",
    rounds.c.deadline,
    sqlite_where=rounds.c.outcome.is_(None),
    postgresql_where=rounds.c.outcome.is_(None),
)
Index("ix_round_window", rounds.c.query_hash, rounds.c.window_start, rounds.c.window_end)
Index(
    "ix_round_kept_deadline",
    rounds.c.deadline,
    sqlite_where=rounds.c.expired.is_(None),
    postgresql_where=rounds.c.expired.is_(None),
)
contributions = Table(
    "contribution",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("party", String(128), ForeignKey("party.id"), nullable=False),
    Column("round", String(36), ForeignKey("round.id"), nullable=False, index=True),
    Column("state", String(16), nullable=False),
    Column("send_at", Instant, nullable=False),
    Column("planned", Instant, nullable=False),
    Column("prepared", Instant, nullable=True),
    Column("finished", Instant, nullable=True),
    Column("credited", Instant, nullable=True),
    UniqueConstraint("party", "round"),
    Index("ix_contribution_due", "state", "send_at"),
)
debits = Table(
    "debit",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("contribution", Integer, ForeignKey("contribution.id"), nullable=True),
    Column("party", String(128), nullable=False),
    Column("segment", Integer, nullable=False),
    Column("part", Integer, nullable=False),
    Column("offset", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    Column("presence", LargeBinary, nullable=False),
    Column("unit", String(16), nullable=False),
    Column("record_epsilon", BigInteger, nullable=False),
    Column("record_delta", BigInteger, nullable=False),
    Column("record_epsilon_all", BigInteger, nullable=False),
    Column("record_delta_all", BigInteger, nullable=False),
    Column("record_rho", BigInteger, nullable=False),
    Column("record_rho_delta", BigInteger, nullable=False),
    Column("record_rho_all", BigInteger, nullable=False),
    Column("record_rho_delta_all", BigInteger, nullable=False),
    Column("curator_epsilon", BigInteger, nullable=False),
    Column("curator_delta", BigInteger, nullable=False),
    Column("curator_epsilon_all", BigInteger, nullable=False),
    Column("curator_delta_all", BigInteger, nullable=False),
    Column("curator_rho", BigInteger, nullable=False),
    Column("curator_rho_delta", BigInteger, nullable=False),
    Column("curator_rho_all", BigInteger, nullable=False),
    Column("curator_rho_delta_all", BigInteger, nullable=False),
    Column("window_start", Instant, nullable=False),
    Column("window_end", Instant, nullable=False),
    Column("made", Instant, nullable=False),
    Column("credited", Instant, nullable=True),
    Column("used", LargeBinary, nullable=False),
    Column("clamped", LargeBinary, nullable=False),
    Column("kept", LargeBinary, nullable=False),
    Column("refused", String(64), nullable=True),
    UniqueConstraint("contribution", "segment", "part"),
    Index("ix_debit_account", "party", "made"),
    Index("ix_debit_window", "party", "window_end"),
)
refusals = Table(
    "refusal",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("contribution", Integer, ForeignKey("contribution.id"), nullable=False, index=True),
    Column("offset", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    Column("members", LargeBinary, nullable=False),
    Column("name", String(64), nullable=False),
    Column("detail", Text, nullable=False),
    Column("figures", Text, nullable=False),
    Column("made", Instant, nullable=False),
)
accounts = Table(
    "account",
    metadata,
    Column("party", String(128), primary_key=True),
    Column("chunk", Integer, primary_key=True, autoincrement=False),
    Column("period_s", Integer, primary_key=True, autoincrement=False),
    Column("period_start", Instant, primary_key=True, autoincrement=False),
    Column("period_end", Instant, nullable=False),
    Column("epsilon", LargeBinary, nullable=False),
    Column("delta", LargeBinary, nullable=False),
    Column("epsilon_all", LargeBinary, nullable=False),
    Column("delta_all", LargeBinary, nullable=False),
    Column("rho", LargeBinary, nullable=False),
    Column("rho_delta", LargeBinary, nullable=False),
    Column("rho_all", LargeBinary, nullable=False),
    Column("rho_delta_all", LargeBinary, nullable=False),
)
outbox = Table(
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("contribution", Integer, ForeignKey("contribution.id"), nullable=False),
    Column("segment", Integer, nullable=False),
    Column("part", Integer, nullable=False),
    Column("aggregator", String(128), nullable=False),
    Column("media_type", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("problem", String(64), nullable=True),
    Column("body", LargeBinary, nullable=True),
    Column("session", LargeBinary, nullable=True),
    Column("announce", LargeBinary, nullable=True),
    UniqueConstraint("contribution", "segment", "part", "aggregator"),
    Index("ix_outbox_pending", "contribution", "state"),
)

# --- records and federated jobs ------------------------------------------------------------------

record_tables = Table(
    "record_table",
    metadata,
    Column("curator", Integer, ForeignKey("curator.key"), primary_key=True, autoincrement=False),
    Column("columns", Text, nullable=False),
    Column("codes", Text, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("stored", Instant, nullable=False),
)
item_tables = Table(
    "item_table",
    metadata,
    Column("curator", Integer, ForeignKey("curator.key"), primary_key=True, autoincrement=False),
    Column("kind", String(16), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("records", Integer, nullable=False),
    Column("universe", LargeBinary, nullable=False),
    Column("items", LargeBinary, nullable=False),
    Column("starts", LargeBinary, nullable=False),
    Column("stored", Instant, nullable=False),
    Column("times", LargeBinary, nullable=True),
)
federated_jobs = Table(
    "federated_job",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("algorithm", String(40), nullable=False),
    Column("plan", LargeBinary, nullable=False),
    Column("step", Integer, nullable=False),
    Column("query_hash", LargeBinary, nullable=False),
    Column("seed", LargeBinary, nullable=False),
    Column("seen", Instant, nullable=False),
    Column("terms", LargeBinary, nullable=True),
    Column("first_round", String(64), nullable=True),
    Column("last_round", String(64), nullable=True),
)
job_spends = Table(
    "job_spend",
    metadata,
    Column("job", String(128), ForeignKey("federated_job.id"), primary_key=True),
    Column("curator", Integer, ForeignKey("curator.key"), primary_key=True, autoincrement=False),
    Column("records", Integer, nullable=False),
    Column("denominator", Text, nullable=False),
    Column("numerators", LargeBinary, nullable=False),
    Column("round", String(64), nullable=True),
    Column("before_denominator", Text, nullable=True),
    Column("before", LargeBinary, nullable=True),
    Column("began", Integer, nullable=True),
)
job_paths = Table(
    "job_path",
    metadata,
    Column("job", String(128), ForeignKey("federated_job.id"), primary_key=True),
    Column("question", LargeBinary, nullable=False),
    Column("began", Integer, nullable=False),
    Column("rounds", Text, nullable=False),
    Column("spends", LargeBinary, nullable=False),
)
collections = Table(
    "collection",
    metadata,
    Column("job", String(128), primary_key=True),
    Column("party", String(128), ForeignKey("party.id"), primary_key=True),
    Column("hash", LargeBinary, nullable=False),
    Column("descriptor", Text, nullable=False),
    Column("deadline", Instant, nullable=False),
    Column("state", String(16), nullable=False),
    Column("ground", Text, nullable=True),
    Column("send_at", Instant, nullable=False),
    Index("ix_collection_state", "state", "send_at"),
)
noisy_reports = Table(
    "noisy_report",
    metadata,
    Column("job", String(128), primary_key=True),
    Column("curator", Integer, primary_key=True, autoincrement=False),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("party", String(128), nullable=False),
    Column("body", Text, nullable=False),
    Column("status", Integer, nullable=True),
    Index("ix_noisy_report_party", "job", "party", "status"),
)


# Rows by the page, each column of a page as one JSON text: half the time of a row object for each
# and a tenth of the memory, whatever the values hold.

PAGE: Final = 20_000
"""Rows of a page."""


async def columns(transaction: Transaction, page: Select[Any]) -> list[list[Any]]:
    """The columns of what a query finds, their values in one order; empty where it finds nothing.
    Values are numbers, texts or null."""
    rows = page.subquery()
    postgresql = transaction.dialect.name == "postgresql"
    collected = func.json_agg if postgresql else func.json_group_array
    result = await transaction.execute(
        select(*(cast(collected(column), Text) for column in rows.c))
    )
    return [json.loads(text or "[]") for text in result.one()]
