"""An owner's own policy beside the operator's, and an index of the curators that have either."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None
INDEX = "ix_curator_own_policy"


def _index(condition: str) -> None:
    own = sa.text(condition)
    op.create_index(INDEX, "curator", ["key"], sqlite_where=own, postgresql_where=own)


def upgrade() -> None:
    """Add them."""
    op.add_column("curator", sa.Column("owner_policy", sa.Text(), nullable=True))
    op.drop_index(INDEX, "curator")
    _index("policy IS NOT NULL OR owner_policy IS NOT NULL")


def downgrade() -> None:
    """Without the owners' policies."""
    op.drop_index(INDEX, "curator")
    _index("policy IS NOT NULL")
    op.drop_column("curator", "owner_policy")
