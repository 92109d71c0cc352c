"""The member sets of rounds that this aggregator committed to."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table, empty."""
    op.create_table(
        "revealed_set",
        sa.Column("family", sa.String(length=200), nullable=False),
        sa.Column("round", sa.String(length=36), nullable=False),
        sa.Column("window_start", Instant(), nullable=False),
        sa.Column("window_end", Instant(), nullable=False),
        sa.Column("minimum", sa.Integer(), nullable=False),
        sa.Column("job", sa.String(length=128), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("members", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("family", "round", name=op.f("pk_revealed_set")),
    )
    op.create_index(
        "ix_revealed_set_family_window", "revealed_set", ["family", "window_end"], unique=False
    )
    op.create_index("ix_revealed_set_round", "revealed_set", ["round"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_revealed_set_round", table_name="revealed_set")
    op.drop_index("ix_revealed_set_family_window", table_name="revealed_set")
    op.drop_table("revealed_set")
