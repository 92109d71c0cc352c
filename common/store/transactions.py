"""Transactions, on which every store function works, and the data directory of a store.

The data directory of a store: whether it is in use, while the database is empty.

Signing identities, sealed datasets and keys are next to the database. An empty database beside them
is not a first start but a lost one: the service would be another, and every budget fresh.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, TypeVarTuple, overload

from sqlalchemy import Connection, CursorResult, Dialect, Executable
from sqlalchemy.engine import make_url
from sqlalchemy.sql.selectable import TypedReturnsRows

from common.runtime.process import make_private_directory
from common.runtime.settings import ServiceSettings
from common.store.failures import code_of, of_a_database, store_failed
from tacit.errors import StartRefused

MARK: Final = ".begun"
"""After the service's name: made at the first start, once the database has its tables."""


class StoreLost(StartRefused):
    """The database is empty, and what lies beside it is of one that was not."""


@dataclass(frozen=True)
class Home:
    """A data directory. `marker`: the file that a first start makes; `database`: its file or its
    name; `earlier`: what was found there of an earlier start, before the database was opened
    (another replica may be at its first start)."""

    marker: Path
    database: str
    earlier: Path | None

    @classmethod
    def of(cls, settings: ServiceSettings, *kept: Path) -> Home:
        """The settings' own; `kept`: the directories and files that the service makes beside its
        database."""
        url = make_url(settings.database())
        marker = settings.data_dir / f"{settings.service}{MARK}"
        earlier = next(filter(_used, kept), marker if marker.exists() else None)
        home = cls(marker, str(url.database), earlier)
        file = Path(home.database)
        if url.get_backend_name() == "sqlite" and not (file.exists() and file.stat().st_size):
            log = Path(f"{file}-wal")  # SQLite deletes the log of an empty file
            if _used(log):
                home = cls(marker, home.database, log)
            home.refuse_empty()
        return home

    def refuse_empty(self) -> None:
        """The database is empty. Raises StoreLost where it was not before."""
        if self.earlier is not None:
            raise StoreLost(
                f"the database {self.database} is missing or empty, and {self.earlier} is of an "
                "earlier start: restore the data directory from a backup (`tacit restore`), or "
                "begin anew in an empty one"
            )

    def mark(self) -> None:
        """The database has its tables from now on."""
        make_private_directory(self.marker.parent)
        self.marker.touch(mode=0o600)


def _used(place: Path) -> bool:
    if place.is_dir():
        return any(place.iterdir())
    return place.exists() and place.stat().st_size > 0


# What a store function works on: a transaction of a database, whichever database it is.
#
# SQLite answers in the event loop's own thread, because a visit to another thread costs more than a
# short statement; a COMMIT, which waits for the disk, and the statements of a `large` transaction
# run in a thread. PostgreSQL is reached by asyncpg. Store functions are the same for both.

LARGE_BYTES: Final = 1 << 17
"""What a transaction binds or reads at least to be `large`."""
LARGE_ROWS: Final = 1000
"""How many rows a transaction scans or writes at least to be `large`."""

Result = TypeVar("Result")
Columns = TypeVarTuple("Columns")
Parameters: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


class Transaction(ABC):
    """One transaction. Others see its writes once its context has ended."""

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """The database's dialect; its `name` is `sqlite` or `postgresql`."""

    @overload
    async def execute(
        self,
        statement: TypedReturnsRows[*Columns],
        parameters: Parameters = None,
        /,
        *,
        large: bool = False,
    ) -> CursorResult[*Columns]: ...

    @overload
    async def execute(
        self, statement: Executable, parameters: Parameters = None, /, *, large: bool = False
    ) -> CursorResult[*tuple[Any, ...]]: ...

    @abstractmethod
    async def execute(
        self, statement: Executable, parameters: Parameters = None, /, *, large: bool = False
    ) -> CursorResult[*tuple[Any, ...]]:
        """The rows, all of them fetched, or the count of a statement. `large`: this statement alone
        binds or reads `LARGE_BYTES`, in a transaction that is not large: each visit to a thread
        waits for the loop's turn, and all other writers wait meanwhile."""

    @abstractmethod
    async def on_driver(self, work: Callable[[Any], Any], /) -> Any:
        """What `work` returns for the driver's own connection: an `sqlite3.Connection`; on
        PostgreSQL an `asyncpg.Connection`, and what `work` returns is awaited."""

    @abstractmethod
    async def run_sync(self, work: Callable[[Connection], Result], /) -> Result:
        """What `work` returns for SQLAlchemy's synchronous connection, as schema tools need it."""


class SecondStatement(RuntimeError):
    """What was begun as one statement needs another, which would see another moment."""


class OneStatement(Transaction):
    """A transaction in which one statement may run. `exceeded`: whether another was to."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._used = self.exceeded = False

    @property
    def dialect(self) -> Dialect:
        """The database's."""
        return self._transaction.dialect

    async def execute(
        self, statement: Executable, parameters: Parameters = None, /, *, large: bool = False
    ) -> CursorResult[*tuple[Any, ...]]:
        """As of any transaction. Raises SecondStatement."""
        return await self._only().execute(statement, parameters, large=large)

    async def on_driver(self, work: Callable[[Any], Any], /) -> Any:
        """As of any transaction. Raises SecondStatement."""
        return await self._only().on_driver(work)

    async def run_sync(self, _: Callable[[Connection], Result], /) -> Result:
        """Raises SecondStatement: what schema tools ask is more than one statement."""
        self.exceeded = True
        raise SecondStatement

    def _only(self) -> Transaction:
        if self._used:
            self.exceeded = True
            raise SecondStatement
        self._used = True
        return self._transaction


@dataclass(slots=True)
class Counts:
    """What a database has been asked since it was opened."""

    reading: int = 0
    writing: int = 0
    statements: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """A writing transaction that failed because of the store: when (monotonic), and the
    failure's name."""

    at: float
    code: str


class Database(ABC):
    """A database of one service."""

    counts: Counts
    failed: Failed | None = None
    """The last failure of a transaction that was to write."""
    home: Home | None = None
    """The data directory of a service's own database."""

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note a failure of the store for readiness, and pass it on."""
        try:
            yield
        except Exception as error:
            if of_a_database(error) and store_failed(error):
                self.failed = Failed(time.monotonic(), code_of(error))
            raise

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """The database's dialect; its `name` is `sqlite` or `postgresql`."""

    @abstractmethod
    def begin(self, *, large: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that may write, committed at the end unless there was an error. `large`:
        it binds megabytes or scans many rows, so its statements run in a thread."""

    @abstractmethod
    def reading(self, *, large: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that only reads: one consistent view, and no writer waits for it."""

    async def read(self, work: Callable[[Transaction], Awaitable[Result]], /) -> Result:
        """What `work`, which only reads, returns; always of one moment. For work of one statement,
        as a rule: that statement is a transaction itself, on a server one message instead of three.
        Work that comes to a second one begins again, in a transaction around all of it."""
        with suppress(SecondStatement):
            async with self._reading_one() as one:
                found = await work(one)
                if not one.exceeded:
                    return found
        async with self.reading() as transaction:
            return await work(transaction)

    @abstractmethod
    def _reading_one(self) -> AbstractAsyncContextManager[OneStatement]:
        """A reading without a transaction around it."""

    @abstractmethod
    async def version(self) -> Hashable:
        """A value that differs after each commit of any process: while it is unchanged, there is
        nothing new to read. Much cheaper than a transaction."""

    @abstractmethod
    async def change_schema(self, work: Callable[[Connection], None]) -> None:
        """Run `work` alone in a transaction in which tables may be copied: foreign keys are checked
        at its end, and it may take as long as it needs."""

    @abstractmethod
    async def dispose(self) -> None:
        """Close what is open."""
