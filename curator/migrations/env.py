from common.store.migration import run_migrations
from curator.store.tables import metadata

run_migrations(metadata)
