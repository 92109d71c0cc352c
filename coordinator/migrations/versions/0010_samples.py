"""Against which round's texts the texts of later rounds of a query are kept."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Earlier rounds have none: their texts stay as they are."""
    op.add_column("query", sa.Column("sample", sa.String(length=36), nullable=True))
    op.add_column("round", sa.Column("sample", sa.String(length=36), nullable=True))
