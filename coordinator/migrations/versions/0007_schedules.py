"""Scheduled federated jobs, and schedules that end."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables, empty; every scheduled query continues."""
    op.add_column("query", sa.Column("stopped", Instant(), nullable=True))
    op.create_table(
        "job_schedule",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("preview", sa.Text(), nullable=False),
        sa.Column("next_period", sa.BigInteger(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("created", Instant(), nullable=False),
        sa.Column("stopped", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_schedule")),
    )
    op.create_table(
        "job_schedule_run",
        sa.Column("schedule_id", sa.String(length=36), nullable=False),
        sa.Column("period", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["schedule_id"], ["job_schedule.id"], name=op.f("fk_job_schedule_run_schedule_id")
        ),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_job_schedule_run_job_id")),
        sa.PrimaryKeyConstraint("schedule_id", "period", name=op.f("pk_job_schedule_run")),
        sa.UniqueConstraint("job_id", name=op.f("uq_job_schedule_run_job_id")),
    )
