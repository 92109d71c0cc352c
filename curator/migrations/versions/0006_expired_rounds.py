"""When a round lost its refusals and deliveries, and an index over those that have theirs."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No earlier round has lost them."""
    op.add_column("round", sa.Column("expired", Instant(), nullable=True))
    kept = sa.text("expired IS NULL")
    op.create_index(
        "ix_round_kept_deadline", "round", ["deadline"], sqlite_where=kept, postgresql_where=kept
    )
