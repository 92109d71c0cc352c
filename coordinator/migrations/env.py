from common.store.migration import run_migrations
from coordinator.store.tables import metadata

run_migrations(metadata)
