"""What was followed of an aggregator's identity, since it was anchored."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("anchor", sa.Column("pin", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("anchor", "pin")
