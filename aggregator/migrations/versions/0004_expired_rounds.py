"""Ids of rounds that were forgotten, and an index to find those that are due."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The ids of rounds that an earlier version forgot are not known any more."""
    op.create_table(
        "expired_round",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_expired_round")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_round_deadline", "round", ["deadline"])


def downgrade() -> None:
    op.drop_index("ix_round_deadline", "round")
    op.drop_table("expired_round")
