"""What a job's questions spend along each path, and with which question a record's sum was made."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Unknown of questions before: the paths of a job under way begin with its next one."""
    op.create_table(
        "job_path",
        sa.Column("job", sa.String(128), sa.ForeignKey("federated_job.id"), primary_key=True),
        sa.Column("question", sa.LargeBinary(), nullable=False),
        sa.Column("began", sa.Integer(), nullable=False),
        sa.Column("rounds", sa.Text(), nullable=False),
        sa.Column("spends", sa.LargeBinary(), nullable=False),
    )
    op.add_column("job_spend", sa.Column("began", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Without it."""
    op.drop_column("job_spend", "began")
    op.drop_table("job_path")
