"""Since when a curator's owner, or its operator, lets it take part in nothing."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody was stopped before."""
    op.add_column("curator", sa.Column("stopped_by_owner", Instant, nullable=True))
    op.add_column("curator", sa.Column("stopped_by_operator", Instant, nullable=True))
    stopped = sa.text("stopped_by_owner IS NOT NULL OR stopped_by_operator IS NOT NULL")
    op.create_index(
        "ix_curator_stopped", "curator", ["key"], sqlite_where=stopped, postgresql_where=stopped
    )
