"""The sums of the noise audit, and the looks at it."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables, empty: rounds that were committed before are not audited."""
    op.create_table(
        "audit_family",
        sa.Column("key", KEY, nullable=False),
        sa.Column("part", sa.String(length=128), nullable=False),
        sa.Column("scale", sa.Text(), nullable=False),
        sa.Column("rounds", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_audit_family")),
        sa.UniqueConstraint("part", "scale", name="uq_audit_family_noise"),
    )
    op.create_table(
        "audit_look",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.Column("alpha", sa.String(length=32), nullable=False),
        sa.Column("screened", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit_look")),
    )
    op.create_table(
        "audit_chunk",
        sa.Column("family", KEY, nullable=False),
        sa.Column("chunk", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("records", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["family"], ["audit_family.key"], name=op.f("fk_audit_chunk_family")
        ),
        sa.PrimaryKeyConstraint("family", "chunk", name=op.f("pk_audit_chunk")),
    )


def downgrade() -> None:
    op.drop_table("audit_chunk")
    op.drop_table("audit_look")
    op.drop_table("audit_family")
