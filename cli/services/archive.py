"""The content of a backup and where it is restored: members of the archive, the files of a service,
consistent copies of a database in use.

A backup is a tar of the manifest, the database, files, and their digests:

    manifest.json   which service it is of: checked before anything else
    database        a SQLite file, or the output of pg_dump
    files/...       files of the data directory, by their relative path
    digests.json    SHA-256 of every member before it

The seal around it reveals any later change; the digests reveal errors before sealing: a file that
changed or was truncated while it was read.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import subprocess
import tarfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy import text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from cli.services.sealed_files import BackupRefused, Holder, Opener, Sealer
from common.runtime.process import make_private_directory
from common.runtime.settings import ServiceSettings
from common.sealed_streams import CHUNK_BYTES
from common.store.postgresql import open_postgresql

DATABASE: Final = "database"
FILES: Final = "files"
_MANIFEST: Final = "manifest.json"
_DIGESTS: Final = "digests.json"
_MOST_JSON: Final = 1 << 28


class Manifest(BaseModel):
    """What a backup is of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["tacit.backup/1"] = "tacit.backup/1"
    service: str
    name: str
    """The aggregator's id or the coordinator's deployment; empty for a curator service."""
    version: str
    schema_revision: str
    database: Literal["sqlite", "postgresql"]
    created: datetime
    """When the copy of the database began: later changes may be missing."""


Place = Callable[[str], Path | None]
"""The path to which a member is written; None: it is only checked."""


def write(
    file: BinaryIO, holder: Holder, manifest: Manifest, members: Iterable[tuple[str, Path]]
) -> int:
    """Seal an archive of these members into `file`; returns how many it has. A member that was
    deleted meanwhile is omitted. Raises OSError."""
    sealer = Sealer(file, holder)
    digests: dict[str, str] = {}
    with tarfile.open(fileobj=cast(IO[bytes], sealer), mode="w|", format=tarfile.PAX_FORMAT) as tar:
        _add(tar, _MANIFEST, io.BytesIO(manifest.model_dump_json().encode()), digests)
        for name, path in members:
            try:
                source = path.open("rb")
            except FileNotFoundError:  # deleted since the database was copied
                continue
            with source:
                _add(tar, name, source, digests)
        count = len(digests) - 1
        _add(tar, _DIGESTS, io.BytesIO(json.dumps(digests).encode()), digests)
    sealer.finish()
    return count


@contextmanager
def opened(file: BinaryIO, holder: Holder) -> Iterator[tuple[Manifest, Callable[[Place], int]]]:
    """The manifest, and a function that reads the rest: it writes members to the given places,
    raises BackupRefused for a wrong digest, and returns their number."""
    opener = Opener(file, holder)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], opener), mode="r|") as tar:
            first = tar.next()
            if first is None or first.name != _MANIFEST:
                raise BackupRefused("the backup has no manifest")
            digests: dict[str, str] = {}
            manifest = _manifest(_kept(tar, first, digests))

            def rest(place: Place) -> int:
                listed = _members(tar, place, digests)
                opener.drain()
                if listed != digests:
                    raise BackupRefused("a digest is wrong: the backup is damaged")
                return len(digests) - 1

            yield manifest, rest
    except tarfile.TarError:
        raise BackupRefused("the backup is not an archive of this command") from None


def _members(tar: tarfile.TarFile, place: Place, digests: dict[str, str]) -> dict[str, str]:
    while (member := tar.next()) is not None:
        if member.name == _DIGESTS:
            result: dict[str, str] = json.loads(_kept(tar, member, {}))
            return result
        inside = PurePosixPath(member.name)
        if not member.isreg() or inside.is_absolute() or ".." in inside.parts:
            raise BackupRefused("the backup has an unexpected member")
        path = place(member.name)
        source = tar.extractfile(member)
        assert source is not None
        if path is None:
            digests[member.name] = _copied(source, None)
        else:
            make_private_directory(path.parent)
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags, 0o600), "wb") as target:
                digests[member.name] = _copied(source, target)
                target.flush()
                os.fsync(target.fileno())
    raise BackupRefused("the backup has no digests")


def _add(
    tar: tarfile.TarFile, name: str, source: BinaryIO | io.BytesIO, digests: dict[str, str]
) -> None:
    info = tarfile.TarInfo(name)
    info.mode = 0o600
    info.size = source.seek(0, io.SEEK_END)
    source.seek(0)
    counted = _Digesting(source)
    tar.addfile(info, cast(IO[bytes], counted))
    digests[name] = counted.digest.hexdigest()


class _Digesting(io.RawIOBase):
    """Passes bytes on and computes their digest."""

    def __init__(self, source: BinaryIO | io.BytesIO) -> None:
        super().__init__()
        self._source, self.digest = source, sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.digest.update(data)
        return data


def _copied(source: IO[bytes], target: BinaryIO | io.BufferedWriter | None) -> str:
    digest = sha256()
    while data := source.read(CHUNK_BYTES):
        digest.update(data)
        if target is not None:
            target.write(data)
    return digest.hexdigest()


def _kept(tar: tarfile.TarFile, member: tarfile.TarInfo, digests: dict[str, str]) -> bytes:
    if member.size > _MOST_JSON:
        raise BackupRefused("the backup has an unexpected member")
    source = tar.extractfile(member)
    content = b"" if source is None else source.read()
    digests[member.name] = sha256(content).hexdigest()
    return content


def _manifest(content: bytes) -> Manifest:
    try:
        return Manifest.model_validate_json(content)
    except ValidationError:
        raise BackupRefused("the backup is of a version that this one cannot read") from None


# A restore first writes every file next to its target, under a name that no service reads, and
# moves them when all are good: the database last. The old files are kept under another name. After
# a failure everything is undone.

MARKER: Final = "restored"
_PASSING: Final = ("incoming-", "draft-", "archive-")
_LOGS: Final = ("-wal", "-shm", "-journal")


@dataclass(frozen=True)
class Places:
    """Paths of a service's files by their names in an archive; the database if it is a file."""

    data_dir: Path
    files: dict[str, Path]
    database: Path | None

    @classmethod
    def of(cls, settings: ServiceSettings, database: Path | None) -> Places:
        """The files under these settings. A secret in the settings is not among them: it stays
        where the settings have it."""
        home, files = settings.data_dir, {}
        if settings.operator_token is None:
            files["operator.token"] = home / "operator.token"
        if settings.service == "coordinator":
            directory = getattr(settings, "dataset_dir", None)
            files |= {"datasets": directory or home / "datasets", "jobs": home / "jobs"}
            if getattr(settings, "storage_key", None) is None:
                files["storage.key"] = home / "storage.key"
                files |= {path.name: path for path in rotated(home)}
        return cls(home, files, database)

    def members(self) -> Iterator[tuple[str, Path]]:
        """Every file with its name in an archive."""
        for name, path in self.files.items():
            if path.is_file():
                yield f"{FILES}/{name}", path
            for entry in sorted(path.rglob("*")) if path.is_dir() else ():
                inside = entry.relative_to(path)
                if entry.is_file() and not inside.parts[0].startswith(_PASSING):
                    yield f"{FILES}/{name}/{inside.as_posix()}", entry

    def taken(self) -> list[Path]:
        """Paths that exist already, so that nothing can be restored there."""
        targets = [*self.files.values(), *([] if self.database is None else [self.database])]
        return [
            path for path in targets if (any(path.iterdir()) if path.is_dir() else path.exists())
        ]


def rotated(home: Path) -> list[Path]:
    """A coordinator's new storage key, while a rotation to it is in progress."""
    return list(home.glob("storage.key.[0-9]*"))


class Drafts:
    """A restored state next to its targets: `place` while it is read, then `move`, or `remove`."""

    def __init__(self, places: Places, dump: Path) -> None:
        self._places, self._dump = places, dump
        self._targets = [places.data_dir / MARKER, *places.files.values()]
        self.database = dump if places.database is None else _draft(places.database)
        if places.database is not None:
            self._targets.append(places.database)
        self.remove()  # left by a restore that was killed
        make_private_directory(places.data_dir)
        _draft(places.data_dir / MARKER).touch(0o600)

    def place(self, member: str) -> Path:
        """The path for a member of the archive. Raises BackupRefused for a member without one."""
        if member == DATABASE:
            return self.database
        top, name, *inside = PurePosixPath(member).parts
        target = self._places.files.get(name)
        if top != FILES or target is None:
            raise BackupRefused(
                f"the backup has {name}, which these settings give: unset the variable"
            )
        return _draft(target).joinpath(*inside)

    def move(self, stack: ExitStack, stamp: str) -> list[Path]:
        """Move everything to its target; `stack` undoes it. Returns where the old files are."""
        moved = []
        for target in self._targets:
            draft = _draft(target)
            logs = _LOGS if target == self._places.database else ()
            for old in (target, *(target.with_name(target.name + log) for log in logs)):
                if old.is_dir() and not any(old.iterdir()):
                    old.rmdir()
                elif old.exists():
                    away = old.with_name(f"{old.name}.replaced-{stamp}")
                    _renamed(stack, old, away)
                    moved.append(away)
            if draft.exists():
                _renamed(stack, draft, target)
        for directory in {target.parent for target in self._targets}:
            _to_disk(directory)
        return moved

    def remove(self) -> None:
        """Delete what was not moved."""
        for draft in map(_draft, self._targets):
            if draft.is_dir():
                shutil.rmtree(draft)
            else:
                draft.unlink(missing_ok=True)
        self._dump.unlink(missing_ok=True)


def _draft(target: Path) -> Path:
    return target.with_name(f".{target.name}.restoring")


def _renamed(stack: ExitStack, source: Path, target: Path) -> None:
    source.rename(target)
    stack.callback(target.rename, source)


def _to_disk(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# The key that opens an aggregator's seal keys is in `TACIT_KEY_DIR`, which is not in a backup.

_ASIDE: Final = "replaced_"
_IN_USE: Final = "the service still uses its database: stop all its processes first"


def sqlite_path(url: str) -> Path | None:
    """The database's file; None for PostgreSQL."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    if not parsed.database or parsed.database == ":memory:":
        raise BackupRefused("the database is not a file")
    return Path(parsed.database)


def known_revisions(migrations: Path) -> frozenset[str]:
    """Every revision that this version of a service has."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    return frozenset(script.revision for script in scripts.walk_revisions())


# --- SQLite --------------------------------------------------------------------------------------


def copy_sqlite(service: str, source: Path, target: Path) -> str:
    """Copy a database that may be in use, consistently; returns the revision of its schema."""
    if not source.exists():
        raise BackupRefused(f"there is no database at {source}")
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as original,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        try:
            original.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
            (revision,) = copy.execute("SELECT version_num FROM alembic_version").fetchone()
        except (sqlite3.DatabaseError, TypeError):
            raise BackupRefused(f"{source} is not a database of a {service}") from None
    return str(revision)


def idle_sqlite(path: Path) -> None:
    """Raise BackupRefused if any process has the database open."""
    if not path.exists():
        return
    with closing(sqlite3.connect(path, timeout=0.5, isolation_level=None)) as connection:
        try:
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            raise BackupRefused(_IN_USE) from None
        except sqlite3.DatabaseError:
            return  # not a database; --replace keeps it anyway


# --- PostgreSQL ----------------------------------------------------------------------------------


async def copy_postgres(service: str, url: str, target: Path) -> str:
    """pg_dump of a database that may be in use; returns the revision of its schema."""
    async with _connection(url) as connection:
        try:
            answer = await connection.execute(text("SELECT version_num FROM alembic_version"))
            revision = str(answer.scalar_one())
        except DBAPIError:
            raise BackupRefused(f"the database is not of a {service}") from None
    target.touch(0o600)
    options = [f"--exclude-schema={_ASIDE}*", f"--file={target}"]
    _run("pg_dump", url, "--format=custom", "--no-owner", "--no-privileges", *options)
    return revision


async def idle_postgres(url: str) -> bool:
    """Whether the database holds tables. Raises BackupRefused if a service is connected to it."""
    async with _connection(url) as connection:
        sessions = await connection.execute(
            text(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name = 'tacit' AND pid <> pg_backend_pid()"
            )
        )
        if sessions.scalar_one():
            raise BackupRefused(_IN_USE)
        tables = await connection.execute(
            text("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        )
        return bool(tables.scalar_one())


async def put_back_postgres(url: str, dump: Path, stamp: str, *, replace: bool) -> str | None:
    """pg_restore in one transaction. The earlier content is moved to a schema of its own, whose
    name is returned; it is moved back if anything fails."""
    aside = f"{_ASIDE}{stamp.lower()}"
    if replace:
        await _execute(url, f"ALTER SCHEMA public RENAME TO {aside}", "CREATE SCHEMA public")
    try:
        _run("pg_restore", url, "--single-transaction", "--no-owner", "--no-privileges", str(dump))
    except BaseException:
        if replace:
            await _execute(
                url, "DROP SCHEMA public CASCADE", f"ALTER SCHEMA {aside} RENAME TO public"
            )
        raise
    return aside if replace else None


async def _execute(url: str, *statements: str) -> None:
    async with _connection(url) as connection:
        try:
            for statement in statements:
                await connection.execute(text(statement))
            await connection.commit()
        except DBAPIError as error:
            raise BackupRefused(f"PostgreSQL refused: {_last_line(str(error.orig))}") from None


@asynccontextmanager
async def _connection(url: str) -> AsyncIterator[AsyncConnection]:
    engine = open_postgresql(make_url(url), pool_size=1).engine
    try:
        try:
            connection = await engine.connect()
        except (OSError, DBAPIError, TimeoutError):
            raise BackupRefused("the database does not answer") from None
        try:
            yield connection
        finally:
            await connection.close()
    finally:
        await engine.dispose()


def _run(program: str, url: str, *arguments: str) -> None:
    """One of PostgreSQL's programs; the password goes by the environment, which others cannot see
    in the list of processes."""
    parsed = make_url(url)
    plain = URL.create("postgresql", host=parsed.host, port=parsed.port, database=parsed.database)
    plain = plain.set(username=parsed.username, query=parsed.query)
    environment = dict(os.environ)
    if parsed.password:
        environment["PGPASSWORD"] = str(parsed.password)
    command = [program, f"--dbname={plain.render_as_string()}", *arguments]
    with ExitStack() as stack:
        try:
            done = stack.enter_context(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        except FileNotFoundError:
            raise BackupRefused(
                f"{program} is not installed here: it belongs to PostgreSQL's client programs"
            ) from None
        _, output = done.communicate()
    if done.returncode:
        raise BackupRefused(_last_line(output) or f"{program} failed")


def _last_line(output: str) -> str:
    lines = [line for line in output.strip().splitlines() if "error" in line.lower()]
    return lines[0][:300] if lines else output.strip()[:300]
