"""The time of each sequence or set of items, where its owner gave one."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Tables before have none."""
    op.add_column("item_table", sa.Column("times", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    """Without it."""
    op.drop_column("item_table", "times")
