"""Records of a curator's own table, and the federated jobs that it participates in."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A debit may belong to a report, not to a contribution."""
    with op.batch_alter_table("debit") as batch:
        batch.alter_column("contribution", existing_type=sa.Integer(), nullable=True)
    op.create_table(
        "record_table",
        sa.Column("curator", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("stored", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["curator"], ["curator.key"], name=op.f("fk_record_table_curator")),
        sa.PrimaryKeyConstraint("curator", name=op.f("pk_record_table")),
    )
    op.create_table(
        "federated_job",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("algorithm", sa.String(length=40), nullable=False),
        sa.Column("plan", sa.LargeBinary(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("query_hash", sa.LargeBinary(), nullable=False),
        sa.Column("seed", sa.LargeBinary(), nullable=False),
        sa.Column("seen", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_federated_job")),
    )
    op.create_table(
        "collection",
        sa.Column("job", sa.String(length=128), nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("descriptor", sa.Text(), nullable=False),
        sa.Column("deadline", Instant(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("ground", sa.Text(), nullable=True),
        sa.Column("send_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["party"], ["party.id"], name=op.f("fk_collection_party")),
        sa.PrimaryKeyConstraint("job", "party", name=op.f("pk_collection")),
    )
    op.create_index("ix_collection_state", "collection", ["state", "send_at"])
    op.create_table(
        "noisy_report",
        sa.Column("job", sa.String(length=128), nullable=False),
        sa.Column("curator", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("job", "curator", "round", name=op.f("pk_noisy_report")),
    )
    op.create_index("ix_noisy_report_party", "noisy_report", ["job", "party", "status"])
