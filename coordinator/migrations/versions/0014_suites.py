"""Which suites each party can do, and the seal keys that rounds of format 2 name."""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Every party may deliver with the first suite only, until it says more: when one that is
    enrolled delivered last is not known, so that is taken to be now."""
    op.add_column("party", sa.Column("suite", sa.Integer, nullable=False, server_default="1"))
    op.add_column("party", sa.Column("software", sa.String(64), nullable=True))
    op.add_column("party", sa.Column("suites_told", Instant(), nullable=True))
    op.add_column("party", sa.Column("delivered", Instant(), nullable=True))
    party = sa.table("party", sa.column("delivered", Instant()))
    op.execute(sa.update(party).values(delivered=datetime.now(UTC)))
    op.add_column(
        "roster", sa.Column("round_format", sa.Integer, nullable=False, server_default="1")
    )
    op.create_table(
        "seal_key",
        sa.Column("hash", sa.LargeBinary(32), primary_key=True),
        sa.Column("aggregator", sa.String(128), nullable=False),
        sa.Column("kept_until", Instant(), nullable=False, index=True),
        sa.Column("content", sa.LargeBinary, nullable=True),
    )


def downgrade() -> None:
    op.drop_table("seal_key")
    op.drop_column("roster", "round_format")
    for name in ("suite", "software", "suites_told", "delivered"):
        op.drop_column("party", name)
