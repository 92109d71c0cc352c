"""Identities that can be replaced: the private key moves into a table of its own."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "identity",
        sa.Column("serial", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=True),
        sa.Column("document", sa.Text(), nullable=True),
        sa.Column("link", sa.Text(), nullable=True),
        sa.Column("until", Instant(), nullable=True),
        sa.Column("destroyed", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("serial", name=op.f("pk_identity")),
    )
    op.execute(
        "INSERT INTO identity (serial, secret) SELECT 0, value FROM secret WHERE name = 'identity'"
    )
    op.execute("DELETE FROM secret WHERE name = 'identity'")


def downgrade() -> None:
    op.execute(
        "INSERT INTO secret (name, value) SELECT 'identity', substr(secret, 1, 32) FROM identity "
        "ORDER BY serial DESC LIMIT 1"
    )
    op.drop_table("identity")
