"""What records had spent in a job before its newest round: it is taken back if that was aborted."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Unknown of rounds before: those are never taken back."""
    op.add_column("job_spend", sa.Column("round", sa.String(64), nullable=True))
    op.add_column("job_spend", sa.Column("before_denominator", sa.Text(), nullable=True))
    op.add_column("job_spend", sa.Column("before", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    """Without it."""
    for name in ("before", "before_denominator", "round"):
        op.drop_column("job_spend", name)
