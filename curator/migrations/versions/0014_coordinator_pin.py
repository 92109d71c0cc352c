"""What was followed of the coordinator's identity, since it was pinned."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("party", sa.Column("coordinator_pin", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("party", "coordinator_pin")
