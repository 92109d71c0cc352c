"""Stored datasets and their ledgers."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables, empty."""
    op.create_table(
        "dataset_ledger",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("privacy_unit", sa.String(length=20), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dataset_ledger")),
    )
    op.create_table(
        "dataset_content",
        sa.Column("keyed_hash", sa.String(length=64), nullable=False),
        sa.Column("ledger_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["ledger_id"], ["dataset_ledger.id"], name=op.f("fk_dataset_content_ledger_id")
        ),
        sa.PrimaryKeyConstraint("keyed_hash", name=op.f("pk_dataset_content")),
    )
    op.create_table(
        "dataset",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("declaration", sa.Text(), nullable=False),
        sa.Column("privacy_unit", sa.String(length=20), nullable=True),
        sa.Column("purpose", sa.String(length=16), nullable=False),
        sa.Column("revision_of", sa.String(length=36), nullable=True),
        sa.Column("ledger_id", sa.String(length=36), nullable=True),
        sa.Column("parts", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("outline", sa.Text(), nullable=False),
        sa.Column("created", Instant(), nullable=False),
        sa.Column("deleted", Instant(), nullable=True),
        sa.ForeignKeyConstraint(
            ["ledger_id"], ["dataset_ledger.id"], name=op.f("fk_dataset_ledger_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dataset")),
    )
    op.create_index(op.f("ix_dataset_ledger_id"), "dataset", ["ledger_id"], unique=False)
    op.create_table(
        "dataset_event",
        sa.Column("ledger_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("dataset_id", sa.String(length=36), nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=True),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("previous", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["ledger_id"], ["dataset_ledger.id"], name=op.f("fk_dataset_event_ledger_id")
        ),
        sa.PrimaryKeyConstraint("ledger_id", "seq", name=op.f("pk_dataset_event")),
    )


def downgrade() -> None:
    op.drop_table("dataset_event")
    op.drop_index(op.f("ix_dataset_ledger_id"), table_name="dataset")
    op.drop_table("dataset")
    op.drop_table("dataset_content")
    op.drop_table("dataset_ledger")
