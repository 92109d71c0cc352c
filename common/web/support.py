"""What a bundle for support holds of a service: versions, settings without secrets, the revision of
its schema, how many rows each table has, and the last lines of its log.

No reading, no name of a curator or device, no secret: counts are of whole tables, and no log has
any of these.
"""

from __future__ import annotations

import platform
import sqlite3
import ssl
from importlib.metadata import distributions
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from pydantic import SecretStr
from sqlalchemy import Connection, func, inspect, select, table, text

from common.principals import Principal, Scope
from common.runtime.logs import recent_lines
from common.runtime.settings import ServiceSettings
from common.store.transactions import Database
from common.web.auth import require
from common.web.dependencies import part_of
from common.web.openapi import api_router
from tacit.answers.base import Support
from tacit.version import VERSION

SET: Final = "[set]"
SHOWN_TEXTS: Final = frozenset(
    {"aggregator_id", "deployment", "host", "log_format", "log_level", "operator", "peers"}
)
"""Settings whose text is shown. Any other text may hold a password, a site or a person."""

router = api_router()


@router.get(
    "/v1/support",
    tags=["service"],
    summary="Versions, settings without secrets, counts of rows and log lines, for support",
)
async def get_support(
    request: Request, _: Annotated[Principal, Depends(require(Scope.OPERATOR))]
) -> Support:
    settings: ServiceSettings = request.app.state.settings
    database = part_of(request.app, Database)
    async with database.reading(large=True) as transaction:
        revision, rows = await transaction.run_sync(_counted)
    return Support(
        service=settings.service,
        version=VERSION,
        platform={
            "python": platform.python_version(),
            "system": platform.platform(),
            "openssl": ssl.OPENSSL_VERSION,
            "sqlite": sqlite3.sqlite_version,
            "database": database.dialect.name,
        },
        libraries={distribution.name: distribution.version for distribution in distributions()},
        settings=shown(settings),
        revision=revision,
        rows=rows,
        log=recent_lines(),
    )


def shown(settings: ServiceSettings) -> dict[str, Any]:
    """Each setting; for a secret, and for a text that may be private, only whether it is set."""
    return {name: _shown(name, getattr(settings, name)) for name in type(settings).model_fields}


def _shown(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Path) or (name in SHOWN_TEXTS and not isinstance(value, SecretStr)):
        return str(value)
    return SET


def _counted(connection: Connection) -> tuple[str, dict[str, int]]:
    """The revision of the schema, and the rows of each table."""
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    names = sorted(inspect(connection).get_table_names())
    return str(revision), {
        name: int(connection.execute(select(func.count()).select_from(table(name))).scalar_one())
        for name in names
    }
