"""The first schema."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make all tables; the roster starts empty."""
    op.create_table(
        "aggregator",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("url", sa.String(length=500), nullable=False),
        sa.Column("operator", sa.String(length=128), nullable=False),
        sa.Column("identity_key", sa.LargeBinary(), nullable=False),
        sa.Column("token", sa.String(length=512), nullable=False),
        sa.Column("added", Instant(), nullable=False),
        sa.Column("removed", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_aggregator")),
    )
    op.create_table(
        "idempotency_key",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("media_type", sa.String(length=100), nullable=True),
        sa.Column("location", sa.String(length=500), nullable=True),
        sa.Column("created", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_idempotency_key")),
    )
    op.create_index(
        op.f("ix_idempotency_key_created"), "idempotency_key", ["created"], unique=False
    )
    op.create_table(
        "join_grant",
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("max_curators", sa.Integer(), nullable=False),
        sa.Column("expires", Instant(), nullable=False),
        sa.Column("used", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("secret_hash", name=op.f("pk_join_grant")),
    )
    op.create_table(
        "party",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("identity_key", sa.LargeBinary(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("curators", sa.Integer(), nullable=False),
        sa.Column("enrolled", Instant(), nullable=False),
        sa.Column("left", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_party")),
    )
    op.create_table(
        "query",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("preview", sa.Text(), nullable=False),
        sa.Column("scheduled", sa.Boolean(), nullable=False),
        sa.Column("created", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_query")),
        sa.UniqueConstraint("hash", name=op.f("uq_query_hash")),
    )
    op.create_table(
        "roster",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("next_number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_roster")),
    )
    op.create_table(
        "secret",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secret")),
    )
    op.create_table(
        "token",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.String(length=200), nullable=False),
        sa.Column("subject", sa.String(length=200), nullable=True),
        sa.Column("label", sa.String(length=200), nullable=False),
        sa.Column("created", Instant(), nullable=False),
        sa.Column("expires", Instant(), nullable=True),
        sa.Column("revoked", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token")),
        sa.UniqueConstraint("hash", name=op.f("uq_token_hash")),
    )
    op.create_index(op.f("ix_token_subject"), "token", ["subject"], unique=False)
    op.create_table(
        "curator",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(["party"], ["party.id"], name=op.f("fk_curator_party")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_curator")),
        sa.UniqueConstraint("id", name=op.f("uq_curator_id")),
    )
    op.create_index(op.f("ix_curator_party"), "curator", ["party"], unique=False)
    op.create_table(
        "round",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("query_id", sa.String(length=36), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("announced", sa.Boolean(), nullable=False),
        sa.Column("due", Instant(), nullable=False),
        sa.Column("ending", sa.String(length=256), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("opened", Instant(), nullable=False),
        sa.Column("deadline", Instant(), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=True),
        sa.Column("descriptor", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("accepted", sa.Text(), nullable=True),
        sa.Column("manifest", sa.Text(), nullable=True),
        sa.Column("commitments", sa.Text(), nullable=True),
        sa.Column("aborts", sa.Text(), nullable=True),
        sa.Column("reason", sa.String(length=256), nullable=True),
        sa.Column("participants", sa.Integer(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("report", sa.Text(), nullable=True),
        sa.Column("transcript", sa.Text(), nullable=True),
        sa.Column("finished", Instant(), nullable=True),
        sa.Column("lease_holder", sa.String(length=64), nullable=True),
        sa.Column("lease_until", Instant(), nullable=True),
        sa.ForeignKeyConstraint(["query_id"], ["query.id"], name=op.f("fk_round_query_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_round")),
        sa.UniqueConstraint("query_id", "slot", name="uq_round_query_slot"),
    )
    op.create_index(op.f("ix_round_query_id"), "round", ["query_id"], unique=False)
    op.create_index("ix_round_state", "round", ["state"], unique=False)

    op.execute("INSERT INTO roster (id, version, next_number) VALUES (1, 0, 0)")
