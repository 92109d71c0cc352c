from common.service.migration import run_migrations
from coordinator.store import metadata

run_migrations(metadata)
