"""What federated jobs ask of curators, and the reports that these send."""

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables, empty."""
    op.create_table(
        "job_step",
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("query_id", sa.String(length=36), nullable=True),
        sa.Column("round_id", sa.String(length=36), nullable=True),
        sa.Column("opened", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_job_step_job_id")),
        sa.ForeignKeyConstraint(["query_id"], ["query.id"], name=op.f("fk_job_step_query_id")),
        sa.ForeignKeyConstraint(["round_id"], ["round.id"], name=op.f("fk_job_step_round_id")),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_job_step")),
    )
    op.create_table(
        "job_report",
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("curator", sa.String(length=128), nullable=False),
        sa.Column("record", sa.String(length=64), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("received", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_job_report_job_id")),
        sa.PrimaryKeyConstraint("job_id", "curator", "record", "round", name=op.f("pk_job_report")),
    )
