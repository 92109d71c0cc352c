"""`tacit backup` and `tacit restore`: the state of one service in one sealed file, and back.

Both run beside the service, with its environment. A backup is taken while the service runs; a
restore needs it stopped, and leaves a marker: the next start does what an older state needs.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from pydantic import ValidationError
from pydantic_settings.exceptions import SettingsError
from sqlalchemy.exc import DBAPIError

from cli.context import Answer, fail, printed
from cli.services import archive
from cli.services.archive import DATABASE, Drafts, Manifest, Places, rotated
from cli.services.deployment import trusted
from cli.services.sealed_files import (
    BackupRefused,
    Holder,
    Passphrase,
    Recipient,
    opened_pair,
    private_key,
)
from cli.services.up import settings_type
from common.runtime.settings import LAST_BACKUP, ServiceSettings
from common.store.database import open_store
from common.store.identities import continue_by
from tacit import Client
from tacit.crypto.sealing import SealPublicKey
from tacit.crypto.signing import HybridIdentity
from tacit.errors import DomainError
from tacit.protocol.identities import IdentityChain
from tacit.version import VERSION
from tacit.wire import format_instant, parse_binary

Service = Annotated[str, typer.Argument(help="coordinator, aggregator or curator.")]
PassphraseFile = Annotated[
    Path | None, typer.Option(help="File with the passphrase, at least 12 characters.")
]
_LEAST_PASSPHRASE: Final = 12
_BY_HAND: Final = {
    "coordinator": (
        "Jobs that were unfinished in the copy end as failed, and stay charged.",
        "Jobs released since {since} are not in its datasets' ledgers: hand each dataset in again "
        "with --revision-of and a budget less what they took.",
        "Datasets deleted and parties that left since then are back: delete and remove them again.",
        "Parties that enrolled since then enrol again, after they left at every aggregator.",
    ),
    "aggregator": (
        "The next start aborts every round that is not released, and makes a new seal key.",
        "Parties that enrolled since {since} enrol again; those that left since then are removed "
        "again.",
        "Sums opened since then are not in its comparison of member sets any more.",
    ),
    "curator": (
        "Rounds opened before the next start are refused.",
        "Debits made since {since} are lost: lower the policy by what those rounds took.",
        "Readings that came since then are sent or imported again.",
    ),
}
_EVERY: Final = "Tokens and policies are those of {since}: revoke again what was revoked since."


@printed
def backup(
    service: Service,
    out: Annotated[Path, typer.Option(help="The file to write, mode 0600; not replaced.")],
    recipient: Annotated[
        str | None, typer.Option(help="Public key as `tacit recipient-key` printed it.")
    ] = None,
    passphrase_file: PassphraseFile = None,
) -> Answer:
    """Back up a service, running or not, into one sealed file. TACIT_... as the service has it.

    Its private keys are in it: who can open it can act as the service.
    """
    settings = _settings(service)
    holder = sealing_holder(recipient, passphrase_file)
    manifest, count = asyncio.run(_back_up(settings, out, holder))
    answer_made = {"file": str(out), "members": count, **manifest.model_dump(mode="json")}
    return Answer(answer_made, lambda: typer.echo(f"{out}: {_summary(manifest, count)}"))


@printed
def restore(
    service: Service,
    file: Annotated[Path, typer.Argument(help="File from `tacit backup`.")],
    key: Annotated[Path | None, typer.Option(help="File with the recipient's private key.")] = None,
    passphrase_file: PassphraseFile = None,
    replace: Annotated[
        bool, typer.Option(help="Replace existing state of the service; it is moved aside.")
    ] = False,
    check: Annotated[bool, typer.Option(help="Only verify the file; restore nothing.")] = False,
    identity: Annotated[
        Path | None,
        typer.Option(
            help="For a backup from before `keys rotate identity`: the sealed pair of the new one."
        ),
    ] = None,
    identity_key: Annotated[
        Path | None, typer.Option(help="The private key that opens --identity, for a recipient's.")
    ] = None,
    identity_passphrase_file: Annotated[
        Path | None, typer.Option(help="File with the passphrase of --identity.")
    ] = None,
    chain_from: Annotated[
        str | None,
        typer.Option(help="A follower of it: an aggregator's coordinator, or an aggregator."),
    ] = None,
) -> Answer:
    """Put a backup in the place of a stopped service's state, whole or not at all.

    It says what has to be done by hand, as the copy does not know what happened after it was made.
    """
    settings = _settings(service)
    holder = opening_holder(key, passphrase_file)
    if check:
        manifest, count = _verified(settings, file, holder)
        answer_made: dict[str, Any] = {"members": count, **manifest.model_dump(mode="json")}
        return Answer(
            answer_made, lambda: typer.echo(f"{file} is valid: {_summary(manifest, count)}")
        )
    newer = None
    if identity is not None:
        pair = opened_pair(identity, opening_holder(identity_key, identity_passphrase_file))
        newer = Newer(HybridIdentity(pair), _chain(settings, chain_from))
    manifest, count, moved = asyncio.run(
        _restore(settings, file, holder, replace=replace, newer=newer)
    )
    steps = [text.format(since=_since(manifest)) for text in (*_BY_HAND[service], _EVERY)]
    answer_made = {
        "members": count,
        **manifest.model_dump(mode="json"),
        "set_aside": moved,
        "then": steps,
    }

    def human() -> None:
        typer.echo(f"restored: {_summary(manifest, count)}")
        for name in moved:
            typer.echo(f"set aside, remove it when you are sure: {name}")
        typer.echo("\n".join(f"- {step}" for step in steps))

    return Answer(answer_made, human)


# --- backup --------------------------------------------------------------------------------------


async def _back_up(settings: ServiceSettings, out: Path, holder: Holder) -> tuple[Manifest, int]:
    service, url = settings.service, settings.database()
    places = Places.of(settings, archive.sqlite_path(url))
    if out.exists():
        raise BackupRefused(f"{out} exists already")
    if not settings.data_dir.is_dir():
        raise BackupRefused(f"there is no directory {settings.data_dir}")
    if rotated(settings.data_dir):
        raise BackupRefused("the storage key is being rotated: back up when that has ended")
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=settings.data_dir) as directory:
        # The database comes first: what it names is on the disk before it is named.
        created, copy = datetime.now(UTC), Path(directory) / DATABASE
        if places.database is not None:
            revision = archive.copy_sqlite(service, places.database, copy)
        else:
            revision = await archive.copy_postgres(service, url, copy)
        manifest = Manifest(
            service=service,
            name=_name(settings),
            version=VERSION,
            schema_revision=revision,
            database="postgresql" if places.database is None else "sqlite",
            created=created,
        )
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        with os.fdopen(os.open(out, flags, 0o600), "wb") as file:
            try:
                members = [(DATABASE, copy), *places.members()]
                count = archive.write(file, holder, manifest, members)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                out.unlink(missing_ok=True)
                raise
    (settings.data_dir / LAST_BACKUP).touch(mode=0o600)
    return manifest, count


# --- restore -------------------------------------------------------------------------------------


def _verified(settings: ServiceSettings, path: Path, holder: Holder) -> tuple[Manifest, int]:
    with path.open("rb") as file, archive.opened(file, holder) as (manifest, rest):
        _judge(settings, manifest)
        return manifest, rest(lambda _: None)


@dataclass(frozen=True)
class Newer:
    """The identity that followed the one in a backup: its pair, and the chain that leads to it."""

    pair: HybridIdentity
    chain: IdentityChain


def _chain(settings: ServiceSettings, url: str | None) -> IdentityChain:
    """The chain of a service's identities, from a service that followed it. Raises BackupRefused
    for a kind of service without a chain, or without an address."""
    paths = {
        "aggregator": f"/v1/aggregators/{quote(_name(settings), safe='')}/identity",
        "coordinator": "/v1/coordinator/identity",
    }
    if settings.service not in paths or url is None:
        raise BackupRefused("--identity is for a coordinator or an aggregator, with --chain-from")
    with Client(url, verify=trusted(url)) as client:
        return IdentityChain.model_validate_json(json.dumps(client.get(paths[settings.service])))


async def _continue(settings: ServiceSettings, newer: Newer) -> None:
    """Write the newer identity into a restored database. Raises BackupRefused if it does not
    follow from the old one."""
    tables = import_module(f"{settings.service}.store.tables")
    database = open_store(settings)
    try:
        async with database.begin() as transaction:
            await continue_by(
                transaction, tables.identities, newer.chain, newer.pair, datetime.now(UTC)
            )
    except DomainError as error:
        raise BackupRefused(f"{error.name}: {error.detail or error.title}") from None
    except DBAPIError:
        raise BackupRefused("the backup is of a version whose identities have no chain") from None
    finally:
        await database.dispose()


async def _restore(
    settings: ServiceSettings,
    path: Path,
    holder: Holder,
    *,
    replace: bool,
    newer: Newer | None = None,
) -> tuple[Manifest, int, list[str]]:
    url = settings.database()
    places = Places.of(settings, archive.sqlite_path(url))
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    with path.open("rb") as file, archive.opened(file, holder) as (manifest, rest):
        _judge(settings, manifest)
        if (places.database is None) != (manifest.database == "postgresql"):
            raise BackupRefused(f"the backup is of a {manifest.database} database")
        existing = await _idle(places, url)
        if existing and not replace:
            raise BackupRefused(
                f"there is a state already ({existing[0]}): --replace sets it aside"
            )
        drafts = Drafts(places, settings.data_dir / ".database.restoring")
        try:
            count = rest(drafts.place)
            with ExitStack() as undo:
                moved = [str(path) for path in drafts.move(undo, stamp)]
                if places.database is None:
                    aside = await archive.put_back_postgres(
                        url, drafts.database, stamp, replace=_TABLES in existing
                    )
                    moved += [] if aside is None else [f"schema {aside}"]
                if newer is not None:
                    await _continue(settings, newer)
                undo.pop_all()
        finally:
            drafts.remove()
    return manifest, count, moved


_TABLES: Final = "tables in the database"


async def _idle(places: Places, url: str) -> list[str]:
    """Files that exist already. Raises BackupRefused if the service runs."""
    existing = [str(path) for path in places.taken()]
    if places.database is not None:
        archive.idle_sqlite(places.database)
    elif await archive.idle_postgres(url):
        existing.append(_TABLES)
    return existing


def _judge(settings: ServiceSettings, manifest: Manifest) -> None:
    service = settings.service
    if manifest.service != service:
        raise BackupRefused(f"the backup is of a service of kind {manifest.service}")
    if manifest.name != _name(settings):
        raise BackupRefused(
            f"the backup is of {manifest.name}, the settings are of another service"
        )
    package = import_module(service).__file__
    assert package is not None
    if manifest.schema_revision not in archive.known_revisions(Path(package).parent / "migrations"):
        raise BackupRefused(
            f"the backup is of a newer version ({manifest.version}, schema "
            f"{manifest.schema_revision}): restore it with that one"
        )


# --- arguments -----------------------------------------------------------------------------------


def _settings(service: str) -> ServiceSettings:
    try:
        return settings_type(service)()
    except (ValidationError, SettingsError):
        fail(f"the settings are not those of a {service}: see `tacit config check {service}`")


def _name(settings: ServiceSettings) -> str:
    names = {"coordinator": "deployment", "aggregator": "aggregator_id"}
    return str(getattr(settings, names[settings.service])) if settings.service in names else ""


def sealing_holder(recipient: str | None, passphrase_file: Path | None) -> Holder:
    """The holder to seal for. Raises BackupRefused unless exactly one of both is given."""
    if recipient is not None and passphrase_file is None:
        return _recipient(recipient)
    return _one(recipient, passphrase_file)


def opening_holder(key: Path | None, passphrase_file: Path | None) -> Holder:
    """The holder that opens a file. Raises BackupRefused unless exactly one of both is given."""
    if key is not None and passphrase_file is None:
        private = private_key(key)
        return Recipient(private.public, private)
    return _one(key, passphrase_file)


def _one(other: object, passphrase_file: Path | None) -> Passphrase:
    if passphrase_file is None or other is not None:
        raise BackupRefused("give either a key or --passphrase-file")
    text = passphrase_file.read_text("utf-8").strip("\r\n")
    if len(text) < _LEAST_PASSPHRASE:
        raise BackupRefused(f"a passphrase needs at least {_LEAST_PASSPHRASE} characters")
    return Passphrase(text)


def _recipient(text: str) -> Holder:
    try:
        return Recipient(SealPublicKey(parse_binary(text.strip())))
    except ValueError:
        raise BackupRefused("the recipient is not a public key in base64url") from None


def _since(manifest: Manifest) -> str:
    return format_instant(manifest.created)


def _summary(manifest: Manifest, count: int) -> str:
    name = f" {manifest.name}" if manifest.name else ""
    return (
        f"{manifest.service}{name} of {_since(manifest)}, version {manifest.version}, "
        f"schema {manifest.schema_revision}, {count} members"
    )
