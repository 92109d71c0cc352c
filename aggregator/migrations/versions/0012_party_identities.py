"""Keys that parties replaced, and grants for a party that replaces a stolen one."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "replaced_party_key",
        sa.Column("party", sa.String(128), nullable=False),
        sa.Column("identity_key", sa.LargeBinary(32), nullable=False),
        sa.Column("link", sa.Text(), nullable=False),
        sa.Column("until", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("party", "identity_key", name=op.f("pk_replaced_party_key")),
    )
    op.add_column(
        "join_grant", sa.Column("replaces", sa.Boolean(), nullable=False, server_default=sa.false())
    )


def downgrade() -> None:
    op.drop_column("join_grant", "replaces")
    op.drop_table("replaced_party_key")
