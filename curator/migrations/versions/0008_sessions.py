"""Sessions of sealed bytes on their way, and the least suite that a deployment's rounds need."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No earlier piece was sealed under a session, and no earlier round was of format 2."""
    op.add_column("outbox", sa.Column("session", sa.LargeBinary, nullable=True))
    op.add_column("outbox", sa.Column("announce", sa.LargeBinary, nullable=True))
    op.add_column(
        "party", sa.Column("minimum_suite", sa.Integer, nullable=False, server_default="1")
    )
    op.add_column("party", sa.Column("software_told", sa.String(128), nullable=True))
