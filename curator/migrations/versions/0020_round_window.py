"""Every round asks for earlier ones of its query and window: found without a look at all."""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """With an index."""
    op.create_index("ix_round_window", "round", ["query_hash", "window_start", "window_end"])


def downgrade() -> None:
    """Without it."""
    op.drop_index("ix_round_window", "round")
