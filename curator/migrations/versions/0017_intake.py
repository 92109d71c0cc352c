"""What came in by the hour, and the newest reading of each device."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them; the newest readings are read off those there are."""
    op.create_table(
        "intake_hour",
        sa.Column("hour", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("outcome", sa.String(64), primary_key=True),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "newest_reading",
        sa.Column("register", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("device", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("curator", sa.Integer(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_newest_reading_curator", "newest_reading", ["curator"])
    op.execute(
        "INSERT INTO newest_reading (register, device, curator, time) "
        "SELECT register, device, MAX(curator), MAX(time) FROM reading GROUP BY register, device"
    )


def downgrade() -> None:
    """Without them."""
    op.drop_table("newest_reading")
    op.drop_table("intake_hour")
