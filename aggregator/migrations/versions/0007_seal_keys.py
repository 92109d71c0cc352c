"""Rounds of format 2: seal keys, sessions, and other aggregators' public seal keys."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "seal_key",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key_hash", sa.LargeBinary(), nullable=False),
        sa.Column("round", sa.String(36), nullable=True),
        sa.Column("made", Instant(), nullable=False),
        sa.Column("until", Instant(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("seed", sa.LargeBinary(), nullable=True),
        sa.Column("verification_secret", sa.LargeBinary(), nullable=True),
        sa.Column("signed", sa.Text(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("destroyed", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_seal_key")),
        sa.UniqueConstraint("key_hash", name=op.f("uq_seal_key_key_hash")),
        sa.UniqueConstraint("round", name=op.f("uq_seal_key_round")),
    )
    op.create_table(
        "peer_seal_key",
        sa.Column("key_hash", sa.LargeBinary(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("received", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("key_hash", name=op.f("pk_peer_seal_key")),
    )
    party = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "session",
        sa.Column("seal_key", sa.BigInteger(), nullable=False),
        sa.Column("party", party, nullable=False),
        sa.Column("session", sa.LargeBinary(), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["seal_key"], ["seal_key.number"], name=op.f("fk_session_seal_key_seal_key")
        ),
        sa.ForeignKeyConstraint(["party"], ["party.key"], name=op.f("fk_session_party_party")),
        sa.PrimaryKeyConstraint("seal_key", "party", "session", name=op.f("pk_session")),
        sqlite_with_rowid=False,
    )
    op.add_column("round", sa.Column("seal_key", sa.BigInteger(), nullable=True))
    op.add_column("contribution", sa.Column("announce", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("contribution", "announce")
    op.drop_column("round", "seal_key")
    op.drop_table("session")
    op.drop_table("peer_seal_key")
    op.drop_table("seal_key")
