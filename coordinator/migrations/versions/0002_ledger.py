"""The budget ledger, its checkpoint, disclosures, and what parties acknowledge."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; the ledger's first events are written by the service when it starts."""
    op.create_table(
        "ledger_event",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("actor", sa.String(length=160), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=True),
        sa.Column("count", sa.Integer(), nullable=True),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("previous", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_ledger_event")),
    )
    op.create_index("ix_ledger_event_first", "ledger_event", ["first"], unique=False)
    op.create_table(
        "ledger_checkpoint",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_checkpoint")),
    )
    op.create_table(
        "disclosure",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_disclosure")),
    )
    op.create_table(
        "acknowledgement",
        sa.Column("round_id", sa.String(length=36), nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("members", sa.LargeBinary(), nullable=False),
        sa.Column("made", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["party"], ["party.id"], name=op.f("fk_acknowledgement_party")),
        sa.ForeignKeyConstraint(
            ["round_id"], ["round.id"], name=op.f("fk_acknowledgement_round_id")
        ),
        sa.PrimaryKeyConstraint("round_id", "party", name=op.f("pk_acknowledgement")),
    )
