"""JSON of any size, record by record: the elements of its arrays, as its text arrives.

An array is the whole text, or a value of an object that is the whole text or stands under one of
some names. Its elements are decoded one after the other, numbers exactly; other values are passed
over.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from json.scanner import make_scanner
from typing import Any, Final, cast

from curator.files import upload as files
from curator.files.tables.header import misplaced
from curator.intake.reading import decoder

DAMAGED: Final = "the JSON is damaged or cut off"
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_NEXT: Final = re.compile(r"[ \t\r\n]*,[ \t\r\n]*(?=\{)")
"""Between most records."""


class JsonRecords:
    """Reads one text. `within`: names of the objects that contain arrays; without them the text
    is one array. `line`: of the newest record. Raises BadImport for a damaged text."""

    def __init__(self, within: tuple[str, ...] = ()) -> None:
        self._within = within
        self._scan = make_scanner(cast(Any, decoder()))  # which is all that it reads
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self.line = 1
        self._open: list[str] = []
        """Which arrays and objects are open, by the sign that closes each."""
        self._due = "value"
        self._name: str | None = None
        self.any = False
        """Whether there has been an array."""

    def feed(self, data: bytes, *, last: bool = False) -> Iterator[tuple[str, Any]]:
        """The records that are complete, each with the name of its array; `last`: the text ends
        with this piece."""
        try:
            self._text += self._utf8.decode(data, last)
        except UnicodeDecodeError:
            raise misplaced("not text in UTF-8", self.line) from None
        text, at = self._text, 0
        while True:
            blank = _BLANK.match(text, at)
            assert blank is not None
            self.line += text.count("\n", at, blank.end())
            at = blank.end()
            if at == len(text):
                break
            if self._due == "end":
                raise misplaced("the JSON is one array or object, and more follows", self.line)
            if self._punctuation(text[at]):
                at += 1
                continue
            try:
                value, stop = self._scan(text, at)
            except (StopIteration, ValueError, RecursionError):
                stop = len(text)
                if last or stop - at > files.MAX_LINE:
                    raise misplaced(DAMAGED, self.line) from None
                break
            if stop == len(text) and text[stop - 1] not in '}]"' and not last:
                break  # a number, of which more may follow
            inside = bool(self._open) and self._open[-1] == "]"
            if self._due == "key":
                if not isinstance(value, str):
                    raise misplaced(DAMAGED, self.line)
                self._name, self._due = value, "colon"
            else:
                self._due = "comma"
                if inside:
                    yield self._name or "", value
            following = _NEXT.match(text, stop) if inside else None
            if following is not None:
                self._due, stop = "value", following.end()
            self.line += text.count("\n", at, stop)
            at = stop
        self._text = text[at:]
        if last and self._due != "end":
            raise misplaced(DAMAGED, self.line)

    def _punctuation(self, sign: str) -> bool:
        """Whether it is no value, and what is due after it."""
        if self._open and sign == self._open[-1] and self._due in ("first", "comma"):
            self._open.pop()
            self._due = "comma" if self._open else "end"
            return True
        if self._due == "comma":
            if sign != ",":
                raise misplaced(DAMAGED, self.line)
            self._due = "value" if self._open[-1] == "]" else "key"
            return True
        if self._due == "colon":
            if sign != ":":
                raise misplaced(DAMAGED, self.line)
            self._due = "value"
            return True
        if self._due == "first":
            self._due = "value" if self._open[-1] == "]" else "key"
        if self._due == "key" or (self._open and self._open[-1] == "]"):
            return False
        if not self._open and sign != ("{" if self._within else "["):
            kind = "object" if self._within else "array"
            raise misplaced(f"the JSON is no {kind}", self.line)
        if sign == "{" and (not self._open or self._name in self._within):
            self._open.append("}")
        elif sign == "[":
            self._open.append("]")
            self.any = True
        else:
            return False
        self._due = "first"
        if len(self._open) > len(self._within) + 1:
            raise misplaced("the JSON is nested too deeply", self.line)
        return True
