"""What a failure of the store means: the one judgement that HTTP, MQTT, imports, jobs and readiness
share.

PostgreSQL says it by SQLSTATE (the first two characters are its class, appendix A of its manual),
SQLite by its result code, the operating system by `errno`.
"""

from __future__ import annotations

import errno
import socket
import sqlite3
from enum import Enum
from typing import Final

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tacit.errors import DomainError, Invalid, Unavailable


class Cause(Enum):
    """Why a statement or a transaction failed."""

    PASSING = "passing"
    """The same may succeed later: a deadlock, a lock, no space, no memory, no connection, a
    database that only reads."""
    DAMAGED = "damaged"
    """The file or a page of it is not what the database wrote."""
    INPUT = "input"
    """The database works and does not accept a value: a constraint, a range, a character."""
    OTHER = "other"
    """The database does not do what this service relies on: rights, schema, a trigger."""


class StoreUnavailable(Unavailable):
    name = "unavailable"
    title = "The store does not answer"


class StoreDamaged(Unavailable):
    name = "store_damaged"
    title = "The database is damaged: the operator has to restore it"
    retryable_by_default = False


class ValueRefused(Invalid):
    """A value that no check of ours refused: the field is not known here."""

    name = "value_refused"
    title = "A value of the request cannot be stored"


_DATA: Final = "22"
_PASSING_STATES: Final = ("08", "25006", "25P03", "25P04", "40", "53", "55", "57", "58")
_DAMAGED_STATES: Final = ("XX001", "XX002")
_INPUT_STATES: Final = ("21", "22", "23", "44", "54")
_PASSING_CODES: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_PERM,
    }
)
_DAMAGED_CODES: Final = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
)
_DAMAGED_EXTENDED: Final = frozenset(
    {sqlite3.SQLITE_IOERR_CORRUPTFS, sqlite3.SQLITE_IOERR_SHORT_READ}
)
_INPUT_CODES: Final = frozenset(
    {sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG}
)
_PASSING_ERRNOS: Final = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ESTALE,
    }
)


def cause(error: BaseException) -> Cause | None:
    """What failed; None for an error that neither the store nor the operating system raised."""
    if isinstance(error, DomainError):
        return Cause.PASSING if error.retryable else None
    if isinstance(error, MemoryError | PoolTimeout):
        return Cause.PASSING
    if isinstance(error, OSError):
        return _of_the_system(error)
    return _of_the_database(error)


def store_failed(error: BaseException) -> bool:
    """Whether the store has failed, not the statement: nothing that depends on the statement may
    be acknowledged, and any other request would fail as well."""
    return cause(error) not in (None, Cause.INPUT)


def store_problem(error: BaseException) -> DomainError | None:
    """The error to answer with if the store failed or refused a value; None for a fault of this
    service."""
    failure = cause(error)
    if failure is Cause.PASSING:
        return StoreUnavailable()
    if (_state(error) or "").startswith(_DATA):
        return ValueRefused()
    return StoreDamaged() if failure is Cause.DAMAGED else None


def code_of(error: BaseException) -> str:
    """The public name of a failure: its SQLSTATE, the name of its result code, or its type."""
    driver = getattr(error, "orig", None) or error
    return _state(error) or getattr(driver, "sqlite_errorname", None) or type(error).__name__


def of_a_database(error: BaseException) -> bool:
    """Whether a database, or the connection to it, raised the error."""
    return isinstance(error, SQLAlchemyError | sqlite3.Error) or _state(error) is not None


def _of_the_database(error: BaseException) -> Cause | None:
    if not of_a_database(error):
        return None
    if getattr(error, "connection_invalidated", False):
        return Cause.PASSING
    state = _state(error)
    if state is not None:
        return _of_state(state)
    driver = getattr(error, "orig", None) or error
    if isinstance(driver, OSError):
        return _of_the_system(driver)
    code = getattr(driver, "sqlite_errorcode", None)
    return Cause.OTHER if code is None else _of_code(code)


def _of_state(state: str) -> Cause:
    if state.startswith(_PASSING_STATES):
        return Cause.PASSING
    if state.startswith(_DAMAGED_STATES):
        return Cause.DAMAGED
    return Cause.INPUT if state.startswith(_INPUT_STATES) else Cause.OTHER


def _of_code(code: int) -> Cause:
    if code & 0xFF in _DAMAGED_CODES or code in _DAMAGED_EXTENDED:
        return Cause.DAMAGED
    if code & 0xFF in _PASSING_CODES:
        return Cause.PASSING
    return Cause.INPUT if code & 0xFF in _INPUT_CODES else Cause.OTHER


def _of_the_system(error: OSError) -> Cause | None:
    waits = isinstance(error, ConnectionError | TimeoutError | socket.gaierror)
    if waits or error.errno in _PASSING_ERRNOS:
        return Cause.PASSING
    return Cause.OTHER if isinstance(error, PermissionError) else None


def _state(error: BaseException) -> str | None:
    state = getattr(getattr(error, "orig", None) or error, "sqlstate", None)
    return state if isinstance(state, str) else None
