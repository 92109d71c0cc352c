"""The body of every service's Alembic `env.py`, so that each of them is three lines:

    from common.store.migration import run_migrations
    from <service>.store import metadata
    run_migrations(metadata)

It runs on the connection and in the transaction of `common.store.database.migrate`.
A service's tests hold its revisions equal to its tables with `drift`.
"""

from alembic import context
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, MetaData

from common.store.transactions import Database


def run_migrations(metadata: MetaData) -> None:
    """Apply the revisions on the connection that the caller put in the configuration."""
    connection = context.config.attributes.get("connection")
    if not isinstance(connection, Connection):
        raise RuntimeError("migrations run through common.store.database.migrate")
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def drift(database: Database, metadata: MetaData) -> list[str]:
    """How a migrated database differs from `metadata`; empty when the revisions are complete."""

    def compare(connection: Connection) -> list[str]:
        present = MigrationContext.configure(connection, opts={"compare_type": True})
        return [str(difference) for difference in compare_metadata(present, metadata)]

    async with database.reading() as transaction:
        return await transaction.run_sync(compare)
