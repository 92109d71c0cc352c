"""Seals of transcripts and of the ledger's head that are believed for years."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ledger_seal",
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("day", name=op.f("pk_ledger_seal")),
    )
    op.create_table(
        "transcript_seal",
        sa.Column("round", sa.String(36), nullable=False),
        sa.Column("aggregator", sa.String(128), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("round", "aggregator", name=op.f("pk_transcript_seal")),
    )


def downgrade() -> None:
    op.drop_table("transcript_seal")
    op.drop_table("ledger_seal")
