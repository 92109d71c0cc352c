"""Terms of jobs that are debited once, and what each record has spent of such a debit."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("federated_job", sa.Column("terms", sa.LargeBinary(), nullable=True))
    op.add_column("federated_job", sa.Column("first_round", sa.String(64), nullable=True))
    op.add_column("federated_job", sa.Column("last_round", sa.String(64), nullable=True))
    op.create_table(
        "job_spend",
        sa.Column("job", sa.String(128), sa.ForeignKey("federated_job.id"), primary_key=True),
        sa.Column(
            "curator",
            sa.Integer(),
            sa.ForeignKey("curator.key"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("records", sa.Integer(), nullable=False),
        sa.Column("denominator", sa.Text(), nullable=False),
        sa.Column("numerators", sa.LargeBinary(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("job_spend")
    for name in ("last_round", "first_round", "terms"):
        op.drop_column("federated_job", name)
