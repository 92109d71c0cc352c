"""What every round asks of others is found without a look at all that there were."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Those of the same query and window, and those whose outcome is not known."""
    op.create_index("ix_round_window", "round", ["query_hash", "window_start", "window_end"])
    unsettled = sa.text("outcome IS NULL")
    op.create_index(
        "ix_round_unsettled",
        "round",
        ["deadline"],
        sqlite_where=unsettled,
        postgresql_where=unsettled,
    )


def downgrade() -> None:
    """Without them."""
    op.drop_index("ix_round_unsettled", "round")
    op.drop_index("ix_round_window", "round")
