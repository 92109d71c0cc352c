"""An empty database of a service in SQLite: migrated once, copied for each test that starts one.

The revisions themselves run wherever a test takes PostgreSQL, in every process that a test starts,
and where a service's tables are held equal to them.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy.engine import make_url

from common.runtime.directories import make_private_directory
from common.runtime.settings import ServiceSettings
from common.store.database import migrate, open_database

_empty: dict[str, bytes] = {}
"""By service."""


async def migrated(settings: ServiceSettings) -> None:
    """Give a service that is to start its tables; nothing where it has a database already."""
    url = make_url(settings.database())
    if url.get_backend_name() != "sqlite":
        return
    path = Path(str(url.database))
    if path.exists():
        return
    if settings.service not in _empty:
        _empty[settings.service] = await _migrate(settings.service)
    make_private_directory(path.parent)
    path.touch(mode=0o600)
    path.write_bytes(_empty[settings.service])


async def _migrate(service: str) -> bytes:
    package = find_spec(service)
    assert package is not None
    assert package.origin is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        database = open_database(f"sqlite:///{path}")
        try:
            await migrate(database, Path(package.origin).parent / "migrations")
        finally:
            await database.dispose()
        return path.read_bytes()
