"""Finds private values wherever a service says something, in whatever form.

A number is known by its digits (so in any unit, with or without a point), and as a word of eight
bytes; bytes are known by hexadecimal, base64 at any alignment, Python's notation and lists. What
is found is told by its label, never by its value.
"""

from __future__ import annotations

import base64
import re
import sqlite3
import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

WINDOW = 24
LEAST_DIGITS = 8
"""Fewer digits would be met by chance: in times, sizes and addresses."""
MOST = 300
"""Values that are remembered of one column."""
_SHORT = b"-"
_NUMBER = re.compile(rb"[0-9]+(?:\.[0-9]+)?")

COLUMNS: dict[str, tuple[str, ...]] = {
    "coordinator": ("secret.value", "aggregator.token", "job.secret"),
    "aggregator": (
        "secret.value",
        "seal_key.seed",
        "contribution.sealed",
        "piece.bodies",
        "batch.body",
        "round.partial",
        "round.nonce",
    ),
    "curator": (
        "party.identity",
        "party.join_token",
        "party.coordinator_token",
        "anchor.token",
        "outbox.body",
        "outbox.announce",
        "record_table.content",
        "item_table.universe",
        "item_table.items",
        "federated_job.seed",
    ),
}
"""What the services hold that never leaves their books but over the protocol."""


class Taint:
    """Values, and the search for them."""

    def __init__(self) -> None:
        self._digits: dict[bytes, str] = {}
        self._pieces: dict[bytes, str] = {}
        self.labels: dict[str, int] = defaultdict(int)

    def number(self, label: str, text: str) -> None:
        """A decimal, also scaled to an integer, as a word and as a double."""
        value = Decimal(text)
        signature = _signature(text.encode())
        if signature == _SHORT:
            raise ValueError("a number of so few digits is met by chance")
        self._digits[signature] = label
        self.text(label, text)
        for places in range(10):
            scaled = value.scaleb(places)
            if scaled == int(scaled) and 2**24 < scaled < 2**63:
                self._word(label, int(scaled).to_bytes(8, "little"))
                self._word(label, int(scaled).to_bytes(8, "big"))
        self._word(label, struct.pack("<d", float(value)))
        self._word(label, struct.pack(">d", float(value)))

    def secret(self, label: str, value: bytes) -> None:
        """Bytes: three windows of them, and the first words as numbers."""
        if self.labels[label] >= MOST:
            return
        self.labels[label] += 1
        for start in {0, max(0, len(value) // 2 - WINDOW), max(0, len(value) - WINDOW)}:
            window = value[start : start + WINDOW]
            if len(set(window)) >= 10:
                self._word(label, window)
        for start in range(0, min(len(value), 512) - 7, 8):
            for signed in (False, True):
                word = abs(int.from_bytes(value[start : start + 8], "little", signed=signed))
                if word > 10**14:
                    self._digits[_signature(str(word).encode())] = label

    def text(self, label: str, value: str) -> None:
        """Characters: a token, a number as it was written."""
        self.labels[label] += 1
        self._word(label, value.encode())

    def found(self, said: bytes) -> set[str]:
        """The labels of what occurs in it."""
        numbers = {_signature(number) for number in _NUMBER.findall(said)}
        found = {self._digits[number] for number in numbers & self._digits.keys()}
        return found | {label for piece, label in self._pieces.items() if piece in said}

    def _word(self, label: str, value: bytes) -> None:
        for form in forms(value):
            self._pieces[form] = label


def forms(value: bytes) -> Iterator[bytes]:
    """How bytes may be written."""
    yield value
    yield value.hex().encode()
    yield value.hex().upper().encode()
    yield repr(value)[2:-1].encode()
    yield ", ".join(map(str, value)).encode()
    for shift in range(3):
        whole = base64.b64encode(bytes(shift) + value)
        # Characters that also depend on what stands before or after are left out.
        certain = whole[-(-8 * shift // 6) : 8 * (shift + len(value)) // 6]
        yield certain
        yield certain.translate(bytes.maketrans(b"+/", b"-_"))


def _signature(number: bytes) -> bytes:
    digits = number.replace(b".", b"").strip(b"0")
    return digits if len(digits) >= LEAST_DIGITS else _SHORT


class Harvest:
    """Reads again and again what the services hold, while they hold it."""

    def __init__(self, taint: Taint) -> None:
        self._taint = taint
        self._seen: set[tuple[str, bytes]] = set()

    def take(self, kind: str, database: Path) -> None:
        """What one database holds at this moment."""
        if not database.exists():
            return
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=2)) as it:
            for place in COLUMNS[kind]:
                table, column = place.split(".")
                query = f'SELECT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL LIMIT 50'
                for (value,) in it.execute(query).fetchall():
                    content = value.encode() if isinstance(value, str) else bytes(value)
                    label = f"{kind} {place}"
                    if content and (label, content) not in self._seen:
                        self._seen.add((label, content))
                        if isinstance(value, str):
                            self._taint.text(label, value)
                        else:
                            self._taint.secret(label, content)
