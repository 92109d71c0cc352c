"""The verdicts of proved rounds, and who was refused."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_COLUMNS = (("verdicts", sa.Text), ("refused", sa.Integer), ("standing", sa.Text))


def upgrade() -> None:
    """No earlier round was proved."""
    for name, kind in _COLUMNS:
        op.add_column("round", sa.Column(name, kind(), nullable=True))


def downgrade() -> None:
    for name, _ in _COLUMNS:
        op.drop_column("round", name)
