"""The tables of the coordinator; its revisions are held equal to them by a test."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from common.store.columns import NAMES, Instant
from common.store.identities import identity_table, replaced_key_table
from common.store.tokens import token_table
from common.web.console.browser_sessions import console_tables
from common.web.idempotency import idempotency_table

metadata = MetaData(naming_convention=NAMES)
tokens = token_table(metadata)
idempotency_keys = idempotency_table(metadata)
console = console_tables(metadata)
identities = identity_table(metadata)
replaced_keys = replaced_key_table(metadata)

secrets = Table(
    "secret",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
storage_keys = Table(
    "storage_key",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("generation", Integer, nullable=False),
    Column("state", String(16), nullable=False),
)
roster = Table(
    "roster",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("next_number", BigInteger, nullable=False),
)
parties = Table(
    "party",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("identity_key", LargeBinary, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("curators", Integer, nullable=False),
    Column("enrolled", Instant, nullable=False),
    Column("left", Instant, nullable=True),
)
seal_keys = Table(
    "seal_key",
    metadata,
    Column("hash", LargeBinary(32), primary_key=True),
    Column("aggregator", String(128), nullable=False),
    Column("kept_until", Instant, nullable=False, index=True),
    Column("content", LargeBinary, nullable=True),
)
curators = Table(
    "curator",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("id", String(128), nullable=False, unique=True),
    Column("party", String(128), ForeignKey("party.id"), nullable=False, index=True),
)
grants = Table(
    "join_grant",
    metadata,
    Column("secret_hash", String(64), primary_key=True),
    Column("party", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("max_curators", Integer, nullable=False),
    Column("expires", Instant, nullable=False),
    Column("used", Instant, nullable=True),
    Column("replaces", Boolean, nullable=False, server_default=false()),
)
aggregators = Table(
    "aggregator",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("url", String(500), nullable=False),
    Column("operator", String(128), nullable=False),
    Column("identity_key", LargeBinary, nullable=False),
    Column("token", String(512), nullable=False),
    Column("added", Instant, nullable=False),
    Column("removed", Instant, nullable=True),
    Column("pin", Text, nullable=True),
    Column("shown", Text, nullable=True),
)
ledger_events = Table(
    "ledger_event",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("time", Instant, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("actor", String(160), nullable=False),
    Column("first", BigInteger, nullable=True),
    Column("count", Integer, nullable=True),
    Column("payload", Text, nullable=False),
    Column("previous", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Index("ix_ledger_event_first", "first"),
)
ledger_seals = Table(
    "ledger_seal",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("content", Text, nullable=False),
)
transcript_seals = Table(
    "transcript_seal",
    metadata,
    Column("round", String(36), primary_key=True),
    Column("aggregator", String(128), primary_key=True),
    Column("content", Text, nullable=False),
)
ledger_checkpoints = Table(
    "ledger_checkpoint",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("head", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("version", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("doubted", Boolean, nullable=False),
)
disclosures = Table(
    "disclosure",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("body", Text, nullable=False),
)
acknowledgements = Table(
    "acknowledgement",
    metadata,
    Column("round_id", String(36), ForeignKey("round.id"), primary_key=True),
    Column("party", String(128), ForeignKey("party.id"), primary_key=True),
    Column("members", LargeBinary, nullable=False),
    Column("made", Instant, nullable=False),
)
refusals = Table(
    "refusal",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("round_id", String(36), ForeignKey("round.id"), nullable=False),
    Column("party", String(128), ForeignKey("party.id"), nullable=False),
    Column("members", LargeBinary, nullable=False),
    Column("policy", Integer, nullable=False),
    Column("descriptor", Integer, nullable=False),
    Column("own", Integer, nullable=False),
    Column("made", Instant, nullable=False),
    UniqueConstraint("round_id", "party"),
)
groups = Table(
    "curator_group",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("parent", String(128), ForeignKey("curator_group.name"), nullable=True),
    Column("size", BigInteger, nullable=False),
    Column("curators", Integer, nullable=False),
    Column("members", LargeBinary, nullable=False),
    Column("created", Instant, nullable=False),
)
frozen_sets = Table(
    "frozen_set",
    metadata,
    Column("family", String(200), primary_key=True),
    Column("round_id", String(36), ForeignKey("round.id"), primary_key=True),
    Column("window_start", Instant, nullable=False),
    Column("window_end", Instant, nullable=False),
    Column("minimum", Integer, nullable=False),
    Column("job", String(128), nullable=True),
    Column("size", BigInteger, nullable=False),
    Column("members", LargeBinary, nullable=False),
    Index("ix_frozen_set_family_window", "family", "window_end"),
)
queries = Table(
    "query",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("body", Text, nullable=False),
    Column("preview", Text, nullable=False),
    Column("scheduled", Boolean, nullable=False),
    Column("created", Instant, nullable=False),
    Column("stopped", Instant, nullable=True),
    Column("sample", String(36), nullable=True),
)
notifications = Table(
    "notification",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("subject", String(256), nullable=False),
    Column("sentence", Text, nullable=False),
    Column("began", Instant, nullable=False),
    Column("absent", Instant, nullable=True),
    Column("ended", Instant, nullable=True, index=True),
)
deliveries = Table(
    "notification_delivery",
    metadata,
    Column("notification", String(36), ForeignKey("notification.id"), primary_key=True),
    Column("event", String(8), primary_key=True),
    Column("outlet", String(16), primary_key=True),
    Column("made", Instant, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due", Instant, nullable=True, index=True),
    Column("delivered", Instant, nullable=True),
    Column("problem", String(200), nullable=True),
)
rounds = Table(
    "round",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("query_id", String(36), ForeignKey("query.id"), nullable=False, index=True),
    Column("state", String(16), nullable=False),
    Column("announced", Boolean, nullable=False),
    Column("due", Instant, nullable=False),
    Column("ending", String(256), nullable=True),
    Column("version", Integer, nullable=False),
    Column("opened", Instant, nullable=False),
    Column("deadline", Instant, nullable=False),
    Column("slot", Integer, nullable=True),
    Column("descriptor", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("accepted", Text, nullable=True),
    Column("verdicts", Text, nullable=True),
    Column("refused", Integer, nullable=True),
    Column("standing", Text, nullable=True),
    Column("manifest", Text, nullable=True),
    Column("commitments", Text, nullable=True),
    Column("aborts", Text, nullable=True),
    Column("reason", String(256), nullable=True),
    Column("participants", Integer, nullable=True),
    Column("result", Text, nullable=True),
    Column("report", Text, nullable=True),
    Column("transcript", Text, nullable=True),
    Column("finished", Instant, nullable=True),
    Column("announced_at", Instant, nullable=True),
    Column("frozen_at", Instant, nullable=True),
    Column("verified_at", Instant, nullable=True),
    Column("committed_at", Instant, nullable=True),
    Column("figures", Text, nullable=True),
    Column("lease_holder", String(64), nullable=True),
    Column("lease_until", Instant, nullable=True),
    Column("sample", String(36), nullable=True),
    Column("expired", Instant, nullable=True),
    UniqueConstraint("query_id", "slot", name="uq_round_query_slot"),
    Index("ix_round_state", "state"),
)
for _name, _column in (
    ("ix_round_kept", rounds.c.id),
    ("ix_round_kept_finished", rounds.c.finished),
    ("ix_round_kept_sample", rounds.c.sample),
):
    Index(
        _name,
        _column,
        sqlite_where=rounds.c.expired.is_(None),
        postgresql_where=rounds.c.expired.is_(None),
    )
jobs = Table(
    "job",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("algorithm", String(64), nullable=False, index=True),
    Column("version", String(32), nullable=False),
    Column("dataset_id", String(36), nullable=True, index=True),
    Column("federation", Text, nullable=True),
    Column("stance", String(16), nullable=False),
    Column("params", Text, nullable=False),
    Column("chosen_seed", BigInteger, nullable=True),
    Column("preview", Text, nullable=False),
    Column("price", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("progress", Float, nullable=False),
    Column("stage", String(200), nullable=False),
    Column("created", Instant, nullable=False),
    Column("started", Instant, nullable=True),
    Column("finished", Instant, nullable=True),
    Column("error", Text, nullable=True),
    Column("secret", LargeBinary, nullable=True),
    Column("charged", Boolean, nullable=False),
    Column("credited", Text, nullable=True),
    Column("cancelling", Instant, nullable=True),
    Column("attempts", Integer, nullable=False),
    Index("ix_job_state", "state"),
)
job_attempts = Table(
    "job_attempt",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("job_id", String(36), ForeignKey("job.id"), nullable=False, index=True),
    Column("number", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("ticket_hash", String(64), nullable=False),
    Column("session_hash", String(64), nullable=True),
    Column("holder", String(256), nullable=False),
    Column("until", Instant, nullable=False),
    Column("generation", Integer, nullable=False, server_default="1"),
    UniqueConstraint("job_id", "number", name="uq_job_attempt_number"),
    Index("ix_job_attempt_state", "state"),
)
job_steps = Table(
    "job_step",
    metadata,
    Column("job_id", String(36), ForeignKey("job.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("document", Text, nullable=False),
    Column("query_id", String(36), ForeignKey("query.id"), nullable=True),
    Column("round_id", String(36), ForeignKey("round.id"), nullable=True),
    Column("opened", Instant, nullable=False),
)
job_reports = Table(
    "job_report",
    metadata,
    Column("job_id", String(36), ForeignKey("job.id"), primary_key=True),
    Column("curator", String(128), primary_key=True),
    Column("record", String(64), primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("received", Instant, nullable=False),
)
job_schedules = Table(
    "job_schedule",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("request", Text, nullable=False),
    Column("preview", Text, nullable=False),
    Column("next_period", BigInteger, nullable=False),
    Column("problem", Text, nullable=True),
    Column("created", Instant, nullable=False),
    Column("stopped", Instant, nullable=True),
)
job_schedule_runs = Table(
    "job_schedule_run",
    metadata,
    Column("schedule_id", String(36), ForeignKey("job_schedule.id"), primary_key=True),
    Column("period", BigInteger, primary_key=True, autoincrement=False),
    Column("job_id", String(36), ForeignKey("job.id"), nullable=False, unique=True),
)
dataset_ledgers = Table(
    "dataset_ledger",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("privacy_unit", String(20), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("head", LargeBinary, nullable=False),
)
dataset_contents = Table(
    "dataset_content",
    metadata,
    Column("keyed_hash", String(64), primary_key=True),
    Column("ledger_id", String(36), ForeignKey("dataset_ledger.id"), nullable=False),
)
datasets = Table(
    "dataset",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String(128), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("declaration", Text, nullable=False),
    Column("privacy_unit", String(20), nullable=True),
    Column("purpose", String(16), nullable=False),
    Column("revision_of", String(36), nullable=True),
    Column("ledger_id", String(36), ForeignKey("dataset_ledger.id"), nullable=True, index=True),
    Column("parts", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("outline", Text, nullable=False),
    Column("created", Instant, nullable=False),
    Column("deleted", Instant, nullable=True),
)
dataset_events = Table(
    "dataset_event",
    metadata,
    Column("ledger_id", String(36), ForeignKey("dataset_ledger.id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("time", Instant, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("dataset_id", String(36), nullable=False),
    Column("job_id", String(36), nullable=True),
    Column("payload", Text, nullable=False),
    Column("previous", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)


def create(connection: Connection) -> None:
    """All tables, with their first rows."""
    metadata.create_all(connection)
    connection.execute(text("INSERT INTO roster (id, version, next_number) VALUES (1, 0, 0)"))
    connection.execute(
        text("INSERT INTO storage_key (id, generation, state) VALUES (1, 1, 'idle')")
    )
