"""The first schema."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "account",
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("chunk", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("unit", sa.String(length=16), nullable=False),
        sa.Column("period_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("period_start", Instant(), autoincrement=False, nullable=False),
        sa.Column("period_end", Instant(), nullable=False),
        sa.Column("epsilon", sa.LargeBinary(), nullable=False),
        sa.Column("delta", sa.LargeBinary(), nullable=False),
        sa.Column("epsilon_all", sa.LargeBinary(), nullable=False),
        sa.Column("delta_all", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint(
            "party", "chunk", "unit", "period_s", "period_start", name=op.f("pk_account")
        ),
    )
    op.create_table(
        "counter",
        sa.Column("device", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("register", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("rollover", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("device", "register", "time", name=op.f("pk_counter")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "fact",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_fact")),
    )
    op.create_table(
        "party",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("deployment", sa.String(length=128), nullable=False),
        sa.Column("identity", sa.LargeBinary(), nullable=False),
        sa.Column("coordinator_url", sa.String(length=500), nullable=False),
        sa.Column("coordinator_key", sa.LargeBinary(), nullable=True),
        sa.Column("coordinator_token", sa.String(length=512), nullable=True),
        sa.Column("first", sa.BigInteger(), nullable=True),
        sa.Column("first_key", sa.Integer(), nullable=False),
        sa.Column("curators", sa.Integer(), nullable=False),
        sa.Column("join_token", sa.Text(), nullable=True),
        sa.Column("created", Instant(), nullable=False),
        sa.Column("enrolled", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_party")),
    )
    op.create_table(
        "reading",
        sa.Column("register", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("device", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("curator", sa.Integer(), nullable=False),
        sa.Column("quantity", sa.BigInteger(), nullable=False),
        sa.Column("random", sa.BigInteger(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("register", "time", "device", name=op.f("pk_reading")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "register",
        sa.Column("key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("base", sa.String(length=16), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_register")),
        sa.UniqueConstraint("name", "base", name=op.f("uq_register_name")),
    )
    op.create_table(
        "round",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("descriptor", sa.Text(), nullable=False),
        sa.Column("deployment", sa.String(length=128), nullable=False),
        sa.Column("query_hash", sa.LargeBinary(), nullable=False),
        sa.Column("window_start", Instant(), nullable=False),
        sa.Column("window_end", Instant(), nullable=False),
        sa.Column("opened", Instant(), nullable=False),
        sa.Column("deadline", Instant(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("asked", Instant(), nullable=True),
        sa.Column("aborts", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_round")),
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
        "anchor",
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("aggregator", sa.String(length=128), nullable=False),
        sa.Column("url", sa.String(length=500), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("token", sa.String(length=512), nullable=True),
        sa.ForeignKeyConstraint(["party"], ["party.id"], name=op.f("fk_anchor_party")),
        sa.PrimaryKeyConstraint("party", "aggregator", name=op.f("pk_anchor")),
    )
    op.create_table(
        "contribution",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("round", sa.String(length=36), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("send_at", Instant(), nullable=False),
        sa.Column("planned", Instant(), nullable=False),
        sa.Column("prepared", Instant(), nullable=True),
        sa.Column("finished", Instant(), nullable=True),
        sa.Column("credited", Instant(), nullable=True),
        sa.ForeignKeyConstraint(["party"], ["party.id"], name=op.f("fk_contribution_party")),
        sa.ForeignKeyConstraint(["round"], ["round.id"], name=op.f("fk_contribution_round")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_contribution")),
        sa.UniqueConstraint("party", "round", name=op.f("uq_contribution_party")),
    )
    op.create_index("ix_contribution_due", "contribution", ["state", "send_at"], unique=False)
    op.create_index(op.f("ix_contribution_round"), "contribution", ["round"], unique=False)
    op.create_table(
        "curator",
        sa.Column("key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("policy", sa.Text(), nullable=True),
        sa.Column("accepted", sa.BigInteger(), nullable=False),
        sa.Column("duplicates", sa.BigInteger(), nullable=False),
        sa.Column("conflicts", sa.BigInteger(), nullable=False),
        sa.Column("rejected", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["party"], ["party.id"], name=op.f("fk_curator_party")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_curator")),
        sa.UniqueConstraint("id", name=op.f("uq_curator_id")),
    )
    op.create_index(op.f("ix_curator_party"), "curator", ["party"], unique=False)
    op.create_table(
        "epoch_key",
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("created", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["party"], ["party.id"], name=op.f("fk_epoch_key_party")),
        sa.PrimaryKeyConstraint("party", "epoch", name=op.f("pk_epoch_key")),
    )
    op.create_table(
        "debit",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("contribution", sa.Integer(), nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("segment", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("offset", sa.Integer(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("presence", sa.LargeBinary(), nullable=False),
        sa.Column("unit", sa.String(length=16), nullable=False),
        sa.Column("verified", sa.Boolean(), nullable=False),
        sa.Column("epsilon", sa.BigInteger(), nullable=False),
        sa.Column("delta", sa.BigInteger(), nullable=False),
        sa.Column("epsilon_all", sa.BigInteger(), nullable=False),
        sa.Column("delta_all", sa.BigInteger(), nullable=False),
        sa.Column("window_start", Instant(), nullable=False),
        sa.Column("window_end", Instant(), nullable=False),
        sa.Column("made", Instant(), nullable=False),
        sa.Column("credited", Instant(), nullable=True),
        sa.Column("used", sa.LargeBinary(), nullable=False),
        sa.Column("clamped", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["contribution"], ["contribution.id"], name=op.f("fk_debit_contribution")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_debit")),
        sa.UniqueConstraint("contribution", "segment", "part", name=op.f("uq_debit_contribution")),
    )
    op.create_index("ix_debit_account", "debit", ["party", "unit", "made"], unique=False)
    op.create_table(
        "device",
        sa.Column("key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("curator", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(["curator"], ["curator.key"], name=op.f("fk_device_curator")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_device")),
        sa.UniqueConstraint("curator", "id", name=op.f("uq_device_curator")),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("contribution", sa.Integer(), nullable=False),
        sa.Column("segment", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("aggregator", sa.String(length=128), nullable=False),
        sa.Column("media_type", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("problem", sa.String(length=64), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["contribution"], ["contribution.id"], name=op.f("fk_outbox_contribution")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sa.UniqueConstraint(
            "contribution", "segment", "part", "aggregator", name=op.f("uq_outbox_contribution")
        ),
    )
    op.create_index("ix_outbox_pending", "outbox", ["contribution", "state"], unique=False)
    op.create_table(
        "refusal",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("contribution", sa.Integer(), nullable=False),
        sa.Column("offset", sa.Integer(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("members", sa.LargeBinary(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("figures", sa.Text(), nullable=False),
        sa.Column("made", Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["contribution"], ["contribution.id"], name=op.f("fk_refusal_contribution")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refusal")),
    )
    op.create_index(op.f("ix_refusal_contribution"), "refusal", ["contribution"], unique=False)
