"""The tables of the first release."""

from alembic import op

from coordinator.store.tables import metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
    op.execute("INSERT INTO roster (id, version, next_number) VALUES (1, 0, 0)")
    op.execute("INSERT INTO storage_key (id, generation, state) VALUES (1, 1, 'idle')")


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
