"""The tables of an aggregator; its revisions are held equal to them by a test."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
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
)

from common.store.columns import NAMES, Instant
from common.store.identities import identity_table, replaced_key_table
from common.store.tokens import token_table

metadata = MetaData(naming_convention=NAMES)
Key = BigInteger().with_variant(Integer, "sqlite")

tokens = token_table(metadata)
identities = identity_table(metadata)
replaced_keys = replaced_key_table(metadata)
secrets = Table(
    "secret",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
seal_keys = Table(
    "seal_key",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("key_hash", LargeBinary, nullable=False, unique=True),
    Column("round", String(36), nullable=True, unique=True),
    Column("made", Instant, nullable=False),
    Column("until", Instant, nullable=False),
    Column("state", String(16), nullable=False),
    Column("seed", LargeBinary, nullable=True),
    Column("verification_secret", LargeBinary, nullable=True),
    Column("signed", Text, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("destroyed", Instant, nullable=True),
)
peer_seal_keys = Table(
    "peer_seal_key",
    metadata,
    Column("key_hash", LargeBinary, primary_key=True),
    Column("public_key", LargeBinary, nullable=False),
    Column("received", Instant, nullable=False),
)
coordinators = Table(
    "coordinator",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("deployment", String(128), nullable=False),
    Column("identity_key", LargeBinary, nullable=False),
    Column("paired", Instant, nullable=False),
    Column("pin", Text, nullable=True),
    Column("shown", Text, nullable=True),
)
pinned_peers = Table(
    "pinned_peer",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("operator", String(128), nullable=False),
    Column("fingerprint", LargeBinary, nullable=False, unique=True),
    Column("pinned", Instant, nullable=False),
    Column("pin", Text, nullable=True),
    Column("shown", Text, nullable=True),
)
grants = Table(
    "join_grant",
    metadata,
    Column("secret_hash", String(64), primary_key=True),
    Column("party", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("max_curators", Integer, nullable=False),
    Column("expires", Instant, nullable=False, index=True),
    Column("used", Instant, nullable=True),
    Column("replaces", Boolean, nullable=False, server_default=false()),
)
parties = Table(
    "party",
    metadata,
    Column("key", Key, primary_key=True),
    Column("id", String(128), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("identity_key", LargeBinary, nullable=False),
    Column("first", BigInteger, nullable=False, index=True),
    Column("curators", Integer, nullable=False),
    Column("enrolled", Instant, nullable=False),
    Column("left", Instant, nullable=True),
)
Index(
    "uq_party_active_id",
    parties.c.id,
    unique=True,
    sqlite_where=parties.c.left.is_(None),
    postgresql_where=parties.c.left.is_(None),
)
Index(
    "uq_party_active_identity",
    parties.c.identity_key,
    unique=True,
    sqlite_where=parties.c.left.is_(None),
    postgresql_where=parties.c.left.is_(None),
)
sessions = Table(
    "session",
    metadata,
    Column("seal_key", BigInteger, ForeignKey("seal_key.number"), primary_key=True),
    Column("party", Key, ForeignKey("party.key"), primary_key=True),
    Column("session", LargeBinary, primary_key=True),
    Column("wrapped", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
hosted = Table(
    "hosted",
    metadata,
    Column("party", Key, ForeignKey("party.key"), primary_key=True),
    Column("hashes", LargeBinary, nullable=False),
    Column("ids", LargeBinary, nullable=False),
)
rounds = Table(
    "round",
    metadata,
    Column("key", Key, primary_key=True),
    Column("id", String(36), nullable=False, unique=True),
    Column("state", String(16), nullable=False, index=True),
    Column("descriptor_hash", LargeBinary, nullable=False),
    Column("descriptor", Text, nullable=False),
    Column("seal_key", BigInteger, nullable=False),
    Column("deadline", Instant, nullable=False),
    Column("received", Integer, nullable=False),
    Column("noise_shares", Text, nullable=True),
    Column("key_shares", Text, nullable=True),
    Column("relayed_key_shares", Text, nullable=True),
    Column("key_check", LargeBinary, nullable=True),
    Column("accepted", Text, nullable=True),
    Column("candidates_hash", LargeBinary, nullable=True),
    Column("candidates", Text, nullable=True),
    Column("verification", Text, nullable=True),
    Column("verdict", Text, nullable=True),
    Column("manifest", Text, nullable=True),
    Column("manifest_hash", LargeBinary, nullable=True),
    Column("nonce", LargeBinary, nullable=True),
    Column("partial", LargeBinary, nullable=True),
    Column("commitment", Text, nullable=True),
    Column("reveal_request", LargeBinary, nullable=True),
    Column("reveal", Text, nullable=True),
    Column("abort_statement", Text, nullable=True),
    Column("reason", String(256), nullable=True),
    Column("finished", Instant, nullable=True),
    Index("ix_round_deadline", "deadline"),
)
expired_rounds = Table(
    "expired_round",
    metadata,
    Column("id", String(36), primary_key=True),
    sqlite_with_rowid=False,
)
revealed_sets = Table(
    "revealed_set",
    metadata,
    Column("family", String(200), primary_key=True),
    Column("round", String(36), primary_key=True),
    Column("window_start", Instant, nullable=False),
    Column("window_end", Instant, nullable=False),
    Column("minimum", Integer, nullable=False),
    Column("job", String(128), nullable=True),
    Column("size", BigInteger, nullable=False),
    Column("members", LargeBinary, nullable=False),
    Index("ix_revealed_set_family_window", "family", "window_end"),
    Index("ix_revealed_set_round", "round"),
)
contributions = Table(
    "contribution",
    metadata,
    Column("round", Key, ForeignKey("round.key"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("announce", Text, nullable=False),
    Column("nonce", LargeBinary, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
)
share_chunks = Table(
    "share_chunk",
    metadata,
    Column("round", Key, ForeignKey("round.key"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("chunk", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)
pieces = Table(
    "piece",
    metadata,
    Column("id", Key, primary_key=True),
    Column("round", Key, ForeignKey("round.key"), nullable=False),
    Column("numbers", LargeBinary, nullable=False),
    Column("tags", LargeBinary, nullable=False),
    Column("bodies", LargeBinary, nullable=False),
    Index("ix_piece_round_id", "round", "id"),
)
batches = Table(
    "batch",
    metadata,
    Column("id", Key, primary_key=True),
    Column("round", Key, ForeignKey("round.key"), nullable=False),
    Column("segment", BigInteger, nullable=False),
    Column("host", Key, ForeignKey("party.key"), nullable=False),
    Column("part", BigInteger, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("tag", LargeBinary, nullable=False),
    Column("presence", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("round", "segment", "host", "part", name="uq_batch_place"),
)
audit_families = Table(
    "audit_family",
    metadata,
    Column("key", Key, primary_key=True),
    Column("part", String(128), nullable=False),
    Column("scale", Text, nullable=False),
    Column("rounds", BigInteger, nullable=False),
    UniqueConstraint("part", "scale", name="uq_audit_family_noise"),
)
audit_chunks = Table(
    "audit_chunk",
    metadata,
    Column("family", Key, ForeignKey("audit_family.key"), primary_key=True),
    Column("chunk", BigInteger, primary_key=True, autoincrement=False),
    Column("records", LargeBinary, nullable=False),
)
audit_looks = Table(
    "audit_look",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("time", Instant, nullable=False),
    Column("alpha", String(32), nullable=False),
    Column("screened", BigInteger, nullable=False),
)
uploads = Table(
    "upload_count",
    metadata,
    Column("hour", Instant, primary_key=True),
    Column("form", String(16), primary_key=True),
    Column("outcome", String(64), primary_key=True),
    Column("count", BigInteger, nullable=False),
)
