"""The tables of the first release."""

from alembic import op

from coordinator.store.tables import create, metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    create(op.get_bind())


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
