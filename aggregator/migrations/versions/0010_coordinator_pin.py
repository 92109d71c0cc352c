"""What was followed of the coordinator's identity, and the chain that it showed last."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("coordinator", sa.Column("pin", sa.Text(), nullable=True))
    op.add_column("coordinator", sa.Column("shown", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("coordinator", "shown")
    op.drop_column("coordinator", "pin")
