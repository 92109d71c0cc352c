"""Generations of the storage key: which one seals, and from which one an attempt derived."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The key of before is the first generation."""
    table = op.create_table(
        "storage_key",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_storage_key")),
    )
    op.bulk_insert(table, [{"id": 1, "generation": 1, "state": "idle"}])
    op.add_column(
        "job_attempt", sa.Column("generation", sa.Integer(), nullable=False, server_default="1")
    )


def downgrade() -> None:
    op.drop_column("job_attempt", "generation")
    op.drop_table("storage_key")
