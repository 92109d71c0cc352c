"""The day on which a person's token was used last."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("token", sa.Column("last_used", Instant(), nullable=True))


def downgrade() -> None:
    op.drop_column("token", "last_used")
