"""`tacit config check`: whether a service would start with the settings of this environment."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import ValidationError
from pydantic_settings.exceptions import SettingsError

from cli import compose_files
from cli.context import Answer, console, plain_errors, printed, say, table
from cli.up import settings_type
from common.runtime.settings import ServiceSettings
from common.runtime.tls import TlsSettings, expiry

app = typer.Typer(no_args_is_help=True, help="Settings of a service.")

SOON = timedelta(days=21)
ELSEWHERE = frozenset({"TACIT_HOME", "TACIT_URL", "TACIT_TOKEN"})
"""Variables of the command line and of tests, which no service reads."""


@dataclass(frozen=True)
class Finding:
    """What was looked at, and what was found."""

    subject: str
    verdict: Literal["ok", "warning", "error"]
    detail: str


@app.command("check")
@printed
def check(
    service: Annotated[str, typer.Argument(help="coordinator, aggregator or curator.")],
) -> Answer:
    """Whether a service would start with TACIT_... as it stands here; exit code 2 if it would not.

    Nothing is changed: migrations that are due are named, not applied.
    """
    found = list(findings(service))
    rows = [[each.subject, each.verdict, each.detail] for each in found]
    shown = table(f"Settings of {service}", ["", "", ""], rows)
    broken = any(each.verdict == "error" for each in found)
    document = [asdict(each) for each in found]
    return Answer(document, lambda: console.print(shown), 2 if broken else 0)


@app.command("compose")
def compose(
    directory: Annotated[
        Path, typer.Argument(help="Where docker-compose.yml is.", show_default=True)
    ] = Path(),
) -> None:
    """Write `.env` and `deploy/secrets/` for docker-compose.yml; what is there is kept."""
    with plain_errors():
        made = compose_files.write(directory)
    for path in made:
        say(str(path))
    if not made:
        console.print("nothing was missing")


def findings(service: str) -> Iterator[Finding]:
    """Everything that can be known before the service starts."""
    kind = settings_type(service)
    yield from _unknown(kind)
    try:
        settings = kind()
    except ValidationError as error:
        for each in error.errors():
            where = ".".join(str(part) for part in each["loc"])
            name = f"TACIT_{where.upper()}" if where else "settings"
            yield Finding(name, "error", each["msg"])
        return
    except SettingsError as error:
        yield Finding("settings", "error", str(error))
        return
    yield Finding("settings", "ok", "every value is understood")
    yield from _directory(settings.data_dir)
    yield from _tls(settings)
    yield from _address(settings)
    yield from _warnings(settings)
    yield asyncio.run(_database(settings, service))


def _unknown(kind: type[ServiceSettings]) -> Iterator[Finding]:
    known = {f"TACIT_{name}".upper() for name in kind.model_fields} | ELSEWHERE
    for name in sorted(os.environ):
        if name.startswith("TACIT_") and name.removesuffix("_FILE") not in known:
            yield Finding(name, "warning", "no setting of this service: is it spelled right?")


def _directory(path: Path) -> Iterator[Finding]:
    nearest = path
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not os.access(nearest, os.W_OK | os.X_OK):
        yield Finding("data_dir", "error", f"{nearest} cannot be written by this user")
    elif path.exists() and path.stat().st_mode & 0o077:
        yield Finding("data_dir", "warning", f"others may read {path}: chmod 700")
    else:
        yield Finding("data_dir", "ok", str(path))


def _tls(settings: TlsSettings) -> Iterator[Finding]:
    try:
        settings.trust()
        client_authority = getattr(settings, "tls_client_authority", None)
        if client_authority is not None:
            ssl.create_default_context(cafile=str(client_authority))
        ends = None if settings.tls_certificate is None else expiry(settings.tls_certificate)
    except (OSError, ValueError, ssl.SSLError) as error:
        yield Finding("tls", "error", f"the files are no good: {error}")
        return
    if ends is None:
        return
    now = datetime.now(UTC)
    if ends <= now:
        yield Finding("tls", "error", f"the certificate ended on {ends:%Y-%m-%d}")
    elif ends - now < SOON:
        yield Finding("tls", "warning", f"the certificate ends on {ends:%Y-%m-%d}")
    else:
        yield Finding("tls", "ok", f"good until {ends:%Y-%m-%d}")


def _address(settings: ServiceSettings) -> Iterator[Finding]:
    loopback = settings.host in ("127.0.0.1", "::1", "localhost")
    if not loopback and not settings.https:
        yield Finding(
            "public_url",
            "warning",
            "it listens beyond this machine without TLS: set tls_certificate, or put a proxy "
            "before it and its https address into TACIT_PUBLIC_URL",
        )
    if not loopback and settings.public_url is None:
        yield Finding("public_url", "warning", "others cannot be told where this service is")


def _warnings(settings: ServiceSettings) -> Iterator[Finding]:
    for name in type(settings).model_fields:
        if name.startswith("insecure_") and getattr(settings, name):
            yield Finding(name, "warning", "protects nobody: for rehearsals on synthetic data only")


async def _database(settings: ServiceSettings, service: str) -> Finding:
    # SQLAlchemy comes with it, for which no other command should wait.
    from common.store.database import check as database_answers
    from common.store.database import open_database, pending_migrations
    from common.store.home import Home, StoreLost

    try:
        Home.of(settings)
    except StoreLost as error:
        return Finding("database", "error", str(error))
    url = settings.database()
    path = Path(url.split("///", 1)[-1])
    if url.startswith("sqlite") and not path.exists():
        return Finding("database", "ok", "made at the first start")
    database = open_database(url)
    try:
        why = await database_answers(database)
        if why is not None:
            return Finding("database", "error", why)
        package = import_module(service).__file__
        assert package is not None
        due = await pending_migrations(database, Path(package).parent / "migrations")
    finally:
        await database.dispose()
    said = f"{len(due)} migrations are due at the next start" if due else "answers, up to date"
    return Finding("database", "ok", said)
