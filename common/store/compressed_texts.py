"""Long texts in less room, at rest.

SQLite keeps what it is given, so texts are compressed here: on their own, or against a dictionary,
another text that they hardly differ from and that stays as it is. PostgreSQL compresses long texts
itself and keeps them as they are. What was stored before there was compression is read as it is.
"""

from __future__ import annotations

import zlib
from typing import Final

from sqlalchemy import Dialect

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
