"""Other aggregators whose identities this aggregator's operator knows out of band."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pinned_peer",
        sa.Column("id", sa.String(128), nullable=False),
        sa.Column("operator", sa.String(128), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("pinned", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pinned_peer")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_pinned_peer_fingerprint")),
    )


def downgrade() -> None:
    op.drop_table("pinned_peer")
