"""What becomes of uploads, counted by the hour."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "upload_count",
        sa.Column("hour", Instant(), nullable=False),
        sa.Column("form", sa.String(length=16), nullable=False),
        sa.Column("outcome", sa.String(length=64), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hour", "form", "outcome", name=op.f("pk_upload_count")),
    )


def downgrade() -> None:
    op.drop_table("upload_count")
