"""Proved rounds: verification secrets, verify keys, candidates, verdicts, and chunks of shares."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_TEXTS = ("key_shares", "relayed_key_shares", "candidates", "verification", "verdict")
_HASHES = ("key_check", "candidates_hash")


def upgrade() -> None:
    """A key that exists already gets no secret: its epoch takes no proved round."""
    op.add_column("epoch_key", sa.Column("verification_secret", sa.LargeBinary(), nullable=True))
    for name in _TEXTS:
        op.add_column("round", sa.Column(name, sa.Text(), nullable=True))
    for name in _HASHES:
        op.add_column("round", sa.Column(name, sa.LargeBinary(), nullable=True))
    key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "share_chunk",
        sa.Column("round", key, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("chunk", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["round"], ["round.key"], name=op.f("fk_share_chunk_round_round")),
        sa.PrimaryKeyConstraint("round", "position", "chunk", name=op.f("pk_share_chunk")),
    )


def downgrade() -> None:
    op.drop_table("share_chunk")
    for name in (*_TEXTS, *_HASHES):
        op.drop_column("round", name)
    op.drop_column("epoch_key", "verification_secret")
