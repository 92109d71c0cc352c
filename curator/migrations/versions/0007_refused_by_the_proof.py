"""Why aggregators refused what a debit was made for, in a proved round."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No earlier round had proofs."""
    op.add_column("debit", sa.Column("refused", sa.String(64), nullable=True))
