"""What was followed of an aggregator's identity, and the chain that it showed last."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("aggregator", sa.Column("pin", sa.Text(), nullable=True))
    op.add_column("aggregator", sa.Column("shown", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("aggregator", "shown")
    op.drop_column("aggregator", "pin")
