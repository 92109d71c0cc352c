"""When a round took its steps, and what a list tells of its result."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

STEPS = ("announced_at", "frozen_at", "verified_at", "committed_at")


def upgrade() -> None:
    """Of rounds before, the times are not known, and the figures are in their reports alone."""
    for name in STEPS:
        op.add_column("round", sa.Column(name, Instant(), nullable=True))
    op.add_column("round", sa.Column("figures", sa.Text, nullable=True))


def downgrade() -> None:
    for name in (*STEPS, "figures"):
        op.drop_column("round", name)
