"""Columns that mean the same in SQLite and PostgreSQL: times, and long texts compressed at rest.

SQLite keeps what it is given, so texts are compressed here: on their own, or against a dictionary,
another text that they hardly differ from and that stays as it is. PostgreSQL compresses long texts
itself and keeps them as they are. What was stored before there was compression is read as it is.
"""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import BigInteger
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from common.runtime.clock import EPOCH, epoch_microseconds

NAMES: Final = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
"""How indexes and constraints of every service are named, so that a migration can find them."""


class Instant(TypeDecorator[datetime]):
    """An aware UTC time kept as microseconds since 1970: exact, sortable, the same everywhere."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _: Dialect) -> int | None:
        """To the database; a naive time is refused."""
        return None if value is None else epoch_microseconds(value)

    def process_result_value(self, value: int | None, _: Dialect) -> datetime | None:
        """From the database, aware, in UTC."""
        return None if value is None else EPOCH + timedelta(microseconds=value)


WINDOW_BYTES: Final = 32_000
"""As much of a dictionary is used, the last of it."""
_ALONE: Final = b"\x00"
_AGAINST: Final = b"\x01"
_LEVEL: Final = 9
_LEVEL_OF_LONG: Final = 1
"""Sets of a million curators hardly get shorter, and would take a second."""
_LONG: Final = 1 << 16


def packs(dialect: Dialect) -> bool:
    """Whether texts are compressed here."""
    return dialect.name == "sqlite"


def packed(dialect: Dialect, text: str, dictionary: bytes = b"") -> str | bytes:
    """What is stored of a text."""
    if not packs(dialect):
        return text
    level = _LEVEL if len(text) < _LONG else _LEVEL_OF_LONG
    if not dictionary:
        return _ALONE + zlib.compress(text.encode(), level)
    writer = zlib.compressobj(level, zdict=dictionary[-WINDOW_BYTES:])
    return _AGAINST + writer.compress(text.encode()) + writer.flush()


def unpacked(stored: str | bytes, dictionary: bytes = b"") -> str:
    """The text of `packed` with the same dictionary. Raises ValueError for another one."""
    if isinstance(stored, str):
        return stored
    kind, content = stored[:1], stored[1:]
    try:
        if kind == _ALONE:
            return zlib.decompress(content).decode()
        reader = zlib.decompressobj(zdict=dictionary[-WINDOW_BYTES:])
        text = reader.decompress(content) + reader.flush()
    except zlib.error as error:
        raise ValueError("a stored text does not unpack") from error
    if kind != _AGAINST or not reader.eof:
        raise ValueError("a stored text does not unpack")
    return text.decode()
