"""Sessions of the console, its one-time codes, and who did what there."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "console_session",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("token_hash", sa.String(64), nullable=False, index=True),
        sa.Column("csrf", sa.String(64), nullable=False),
        sa.Column("created", Instant(), nullable=False),
        sa.Column("seen", Instant(), nullable=False),
    )
    op.create_table(
        "console_code",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("expires", Instant(), nullable=False),
    )
    op.create_table(
        "console_audit",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("at", Instant(), nullable=False, index=True),
        sa.Column("token_id", sa.String(36), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("object", sa.String(200), nullable=False),
        sa.Column("outcome", sa.String(64), nullable=False),
    )


def downgrade() -> None:
    for name in ("console_audit", "console_code", "console_session"):
        op.drop_table(name)
