"""Identities that follow those of the parties."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "party_identity",
        sa.Column("party", sa.String(128), nullable=False),
        sa.Column("serial", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("link", sa.Text(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=True),
        sa.Column("shown", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["party"], ["party.id"], name=op.f("fk_party_identity_party_party")
        ),
        sa.PrimaryKeyConstraint("party", "serial", name=op.f("pk_party_identity")),
    )


def downgrade() -> None:
    op.drop_table("party_identity")
