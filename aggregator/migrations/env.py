from aggregator.store.tables import metadata
from common.store.migration import run_migrations

run_migrations(metadata)
