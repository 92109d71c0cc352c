"""The first schema."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "coordinator",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("deployment", sa.String(length=128), nullable=False),
        sa.Column("identity_key", sa.LargeBinary(), nullable=False),
        sa.Column("paired", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_coordinator")),
    )
    op.create_table(
        "epoch_key",
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("private_key", sa.LargeBinary(), nullable=True),
        sa.Column("signed", sa.Text(), nullable=False),
        sa.Column("destroyed", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("epoch", name=op.f("pk_epoch_key")),
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
    op.create_index(op.f("ix_join_grant_expires"), "join_grant", ["expires"], unique=False)
    op.create_table(
        "party",
        sa.Column("key", KEY, nullable=False),
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("identity_key", sa.LargeBinary(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("curators", sa.Integer(), nullable=False),
        sa.Column("enrolled", Instant(), nullable=False),
        sa.Column("left", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_party")),
    )
    op.create_index(op.f("ix_party_first"), "party", ["first"], unique=False)
    op.create_index(op.f("ix_party_id"), "party", ["id"], unique=False)
    op.create_index(
        "uq_party_active_id",
        "party",
        ["id"],
        unique=True,
        sqlite_where=sa.text('"left" IS NULL'),
        postgresql_where=sa.text('"left" IS NULL'),
    )
    op.create_index(
        "uq_party_active_identity",
        "party",
        ["identity_key"],
        unique=True,
        sqlite_where=sa.text('"left" IS NULL'),
        postgresql_where=sa.text('"left" IS NULL'),
    )
    op.create_table(
        "round",
        sa.Column("key", KEY, nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("descriptor_hash", sa.LargeBinary(), nullable=False),
        sa.Column("descriptor", sa.Text(), nullable=False),
        sa.Column("own_epoch", sa.BigInteger(), nullable=False),
        sa.Column("deadline", Instant(), nullable=False),
        sa.Column("received", sa.Integer(), nullable=False),
        sa.Column("noise_shares", sa.Text(), nullable=True),
        sa.Column("accepted", sa.Text(), nullable=True),
        sa.Column("manifest", sa.Text(), nullable=True),
        sa.Column("manifest_hash", sa.LargeBinary(), nullable=True),
        sa.Column("nonce", sa.LargeBinary(), nullable=True),
        sa.Column("partial", sa.LargeBinary(), nullable=True),
        sa.Column("commitment", sa.Text(), nullable=True),
        sa.Column("reveal_request", sa.LargeBinary(), nullable=True),
        sa.Column("reveal", sa.Text(), nullable=True),
        sa.Column("abort_statement", sa.Text(), nullable=True),
        sa.Column("reason", sa.String(length=256), nullable=True),
        sa.Column("finished", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_round")),
        sa.UniqueConstraint("id", name=op.f("uq_round_id")),
    )
    op.create_index(op.f("ix_round_state"), "round", ["state"], unique=False)
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
        "batch",
        sa.Column("id", KEY, nullable=False),
        sa.Column("round", KEY, nullable=False),
        sa.Column("segment", sa.BigInteger(), nullable=False),
        sa.Column("host", KEY, nullable=False),
        sa.Column("part", sa.BigInteger(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("tag", sa.LargeBinary(), nullable=False),
        sa.Column("presence", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["host"], ["party.key"], name=op.f("fk_batch_host")),
        sa.ForeignKeyConstraint(["round"], ["round.key"], name=op.f("fk_batch_round")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batch")),
        sa.UniqueConstraint("round", "segment", "host", "part", name="uq_batch_place"),
    )
    op.create_table(
        "contribution",
        sa.Column("round", KEY, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("key_epoch", sa.BigInteger(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["round"], ["round.key"], name=op.f("fk_contribution_round")),
        sa.PrimaryKeyConstraint("round", "position", name=op.f("pk_contribution")),
    )
    op.create_table(
        "hosted",
        sa.Column("party", KEY, nullable=False),
        sa.Column("hashes", sa.LargeBinary(), nullable=False),
        sa.Column("ids", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["party"], ["party.key"], name=op.f("fk_hosted_party")),
        sa.PrimaryKeyConstraint("party", name=op.f("pk_hosted")),
    )
    op.create_table(
        "party_key",
        sa.Column("party", KEY, nullable=False),
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["party"], ["party.key"], name=op.f("fk_party_key_party")),
        sa.PrimaryKeyConstraint("party", "epoch", name=op.f("pk_party_key")),
    )
    op.create_table(
        "piece",
        sa.Column("id", KEY, nullable=False),
        sa.Column("round", KEY, nullable=False),
        sa.Column("numbers", sa.LargeBinary(), nullable=False),
        sa.Column("tags", sa.LargeBinary(), nullable=False),
        sa.Column("bodies", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["round"], ["round.key"], name=op.f("fk_piece_round")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_piece")),
    )
    op.create_index("ix_piece_round_id", "piece", ["round", "id"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_piece_round_id", table_name="piece")
    op.drop_table("piece")
    op.drop_table("party_key")
    op.drop_table("hosted")
    op.drop_table("contribution")
    op.drop_table("batch")
    op.drop_index(op.f("ix_token_subject"), table_name="token")
    op.drop_table("token")
    op.drop_table("secret")
    op.drop_index(op.f("ix_round_state"), table_name="round")
    op.drop_table("round")
    op.drop_index(
        "uq_party_active_identity",
        table_name="party",
        sqlite_where=sa.text('"left" IS NULL'),
        postgresql_where=sa.text('"left" IS NULL'),
    )
    op.drop_index(
        "uq_party_active_id",
        table_name="party",
        sqlite_where=sa.text('"left" IS NULL'),
        postgresql_where=sa.text('"left" IS NULL'),
    )
    op.drop_index(op.f("ix_party_id"), table_name="party")
    op.drop_index(op.f("ix_party_first"), table_name="party")
    op.drop_table("party")
    op.drop_index(op.f("ix_join_grant_expires"), table_name="join_grant")
    op.drop_table("join_grant")
    op.drop_table("epoch_key")
    op.drop_table("coordinator")
