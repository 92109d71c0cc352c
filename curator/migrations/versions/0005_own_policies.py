"""An index of the few curators with a policy of their own: each round looks for them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it."""
    own = sa.text("policy IS NOT NULL")
    op.create_index(
        "ix_curator_own_policy", "curator", ["key"], sqlite_where=own, postgresql_where=own
    )
