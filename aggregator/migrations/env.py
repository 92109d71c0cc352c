from aggregator.store.tables import metadata
from common.service.migration import run_migrations

run_migrations(metadata)
