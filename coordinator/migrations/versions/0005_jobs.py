"""Jobs and their attempts."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables, empty."""
    op.create_table(
        "job",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("algorithm", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("dataset_id", sa.String(length=36), nullable=True),
        sa.Column("federation", sa.Text(), nullable=True),
        sa.Column("stance", sa.String(length=16), nullable=False),
        sa.Column("params", sa.Text(), nullable=False),
        sa.Column("chosen_seed", sa.BigInteger(), nullable=True),
        sa.Column("preview", sa.Text(), nullable=False),
        sa.Column("price", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("progress", sa.Float(), nullable=False),
        sa.Column("stage", sa.String(length=200), nullable=False),
        sa.Column("created", Instant(), nullable=False),
        sa.Column("started", Instant(), nullable=True),
        sa.Column("finished", Instant(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("secret", sa.LargeBinary(), nullable=True),
        sa.Column("charged", sa.Boolean(), nullable=False),
        sa.Column("credited", sa.Text(), nullable=True),
        sa.Column("cancelling", Instant(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
    )
    op.create_index("ix_job_algorithm", "job", ["algorithm"], unique=False)
    op.create_index("ix_job_dataset_id", "job", ["dataset_id"], unique=False)
    op.create_index("ix_job_state", "job", ["state"], unique=False)
    op.create_table(
        "job_attempt",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("ticket_hash", sa.String(length=64), nullable=False),
        sa.Column("session_hash", sa.String(length=64), nullable=True),
        sa.Column("holder", sa.String(length=256), nullable=False),
        sa.Column("until", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_job_attempt_job_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_attempt")),
        sa.UniqueConstraint("job_id", "number", name="uq_job_attempt_number"),
    )
    op.create_index("ix_job_attempt_job_id", "job_attempt", ["job_id"], unique=False)
    op.create_index("ix_job_attempt_state", "job_attempt", ["state"], unique=False)


def downgrade() -> None:
    op.drop_table("job_attempt")
    op.drop_table("job")
