"""How many of a curator's readings came, or changed, after their window was contributed."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody has counted any so far."""
    with op.batch_alter_table("curator") as batch:
        batch.add_column(
            sa.Column("refreshed", sa.BigInteger(), nullable=False, server_default="0")
        )
