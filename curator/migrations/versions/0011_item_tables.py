"""A curator's own sequences and sets of items."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No curator has any so far."""
    op.create_table(
        "item_table",
        sa.Column("curator", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("records", sa.Integer(), nullable=False),
        sa.Column("universe", sa.LargeBinary(), nullable=False),
        sa.Column("items", sa.LargeBinary(), nullable=False),
        sa.Column("starts", sa.LargeBinary(), nullable=False),
        sa.Column("stored", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["curator"], ["curator.key"], name=op.f("fk_item_table_curator")),
        sa.PrimaryKeyConstraint("curator", "kind", "name", name=op.f("pk_item_table")),
    )
