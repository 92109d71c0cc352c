"""When the content of a round was dropped, and indices over the rounds that have theirs."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No earlier round has lost its content."""
    op.add_column("round", sa.Column("expired", Instant(), nullable=True))
    kept = sa.text("expired IS NULL")
    for name, column in (
        ("ix_round_kept", "id"),
        ("ix_round_kept_finished", "finished"),
        ("ix_round_kept_sample", "sample"),
    ):
        op.create_index(name, "round", [column], sqlite_where=kept, postgresql_where=kept)
