"""Groups of curators, and the member sets of frozen rounds."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables, empty."""
    op.create_table(
        "curator_group",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("parent", sa.String(length=128), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("curators", sa.Integer(), nullable=False),
        sa.Column("members", sa.LargeBinary(), nullable=False),
        sa.Column("created", Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["parent"], ["curator_group.name"], name=op.f("fk_curator_group_parent")
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_curator_group")),
    )
    op.create_table(
        "frozen_set",
        sa.Column("family", sa.String(length=200), nullable=False),
        sa.Column("round_id", sa.String(length=36), nullable=False),
        sa.Column("window_start", Instant(), nullable=False),
        sa.Column("window_end", Instant(), nullable=False),
        sa.Column("minimum", sa.Integer(), nullable=False),
        sa.Column("job", sa.String(length=128), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("members", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["round_id"], ["round.id"], name=op.f("fk_frozen_set_round_id")),
        sa.PrimaryKeyConstraint("family", "round_id", name=op.f("pk_frozen_set")),
    )
    op.create_index(
        "ix_frozen_set_family_window", "frozen_set", ["family", "window_end"], unique=False
    )


def downgrade() -> None:
    op.drop_index("ix_frozen_set_family_window", table_name="frozen_set")
    op.drop_table("frozen_set")
    op.drop_table("curator_group")
