"""Which of their curators parties keep out of a round."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table, empty."""
    op.create_table(
        "refusal",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("round_id", sa.String(length=36), nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("members", sa.LargeBinary(), nullable=False),
        sa.Column("policy", sa.Integer(), nullable=False),
        sa.Column("descriptor", sa.Integer(), nullable=False),
        sa.Column("own", sa.Integer(), nullable=False),
        sa.Column("made", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["round_id"], ["round.id"], name=op.f("fk_refusal_round_id")),
        sa.ForeignKeyConstraint(["party"], ["party.id"], name=op.f("fk_refusal_party")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refusal")),
        sa.UniqueConstraint("round_id", "party", name=op.f("uq_refusal_round_id")),
    )
