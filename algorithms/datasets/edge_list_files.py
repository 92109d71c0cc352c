"""Reader of graphs: SNAP text, two ids a line.

Spec: jobs, section "Datasets". The stream is no longer compressed. With a `universe` (what the
graph algorithms call `vertices`) rows follow its order, and another id is an error; without, the
ids are what the file holds, ascending. Ids that are all integers in plain decimal stay integers.
Blocks of the file are read and forgotten. Blocks of digits alone are parsed as arrays; the first
other one turns to a table of texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.edge_list import MAX_EDGES, MAX_VERTICES, EdgeList, Items
from tacit.records.reading import (
    MAX_LINE_BYTES,
    MalformedRow,
    TooManyRows,
    UnknownItem,
    without_mark,
)
from tacit.records.transactions_files import BadUniverse

BLOCK_BYTES: Final = 1 << 23
MAX_ID_BYTES: Final = 1024
MAX_LINES: Final = 2 * MAX_EDGES
"""Each edge may appear in both directions."""

Places = NDArray[np.int32]
Numbers = NDArray[np.int64]
Octets = NDArray[np.uint8]

_NEWLINE: Final = 10
_BLANK: Final = np.isin(np.arange(256), (9, 10, 11, 12, 13, 32))
"""What `bytes.split` takes for blank, by octet."""
_DIGIT: Final = np.isin(np.arange(256), np.arange(48, 58))
_COMMENT: Final = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
"""How an integer is written so that it can be written back."""
_MAX_DIGITS: Final = 18
_DENSE: Final = 8
"""A table over the range of ids is used where it has fewer than this many entries per id."""


class _Unknown(Exception):
    """An id that is not in the universe: the number of its token, from 0."""

    def __init__(self, token: int) -> None:
        super().__init__()
        self.token = token


def read_snap(stream: BinaryIO, universe: Sequence[str] | None = None) -> EdgeList:
    """Two ids a line between blanks or tabs; lines that begin with `#`, and empty ones, are none.
    No id begins with `#`: where it came first in a line, every reader would take it for a comment.

    Raises MalformedRow for a line with another number of ids, for what is not UTF-8 and for a line
    over 1 MiB; UnknownItem; BadUniverse; TooManyRows above 10^7 vertices or 10^8 edges.
    """
    stream = without_mark(stream)
    ids: _Open | _Closed = _Open() if universe is None else _Closed(universe)
    rows, lines, rest = 0, 0, b""
    while True:
        block = stream.read(BLOCK_BYTES)
        end = block.rfind(b"\n") + 1
        if block and not end:
            rest += block
        else:
            whole, rest = rest + block[:end] if block else rest + b"\n", block[end:]
            lines += _add_lines(whole, rows, ids)
            if lines > MAX_LINES:
                raise TooManyRows(f"at most {MAX_LINES} lines", extra={"max_rows": MAX_LINES})
            rows += whole.count(b"\n")
        if len(rest) > MAX_LINE_BYTES + 1:
            raise MalformedRow(rows + 1, f"a line has at most {MAX_LINE_BYTES} bytes")
        if not block:
            break
    vertices, places = ids.finish()
    graph = EdgeList.from_pairs(vertices, places[0::2], places[1::2], declared=universe is not None)
    if graph.edges > MAX_EDGES:
        raise TooManyRows(f"at most {MAX_EDGES} edges", extra={"max_rows": MAX_EDGES})
    return graph


def _add_lines(block: bytes, before: int, ids: _Open | _Closed) -> int:
    """Take whole lines; how many edges they name. `before`: lines of the file before them."""
    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError as wrong:
            row = before + 1 + block.count(b"\n", 0, wrong.start)
            raise MalformedRow(row, "not UTF-8") from None
    octets = np.frombuffer(block, np.uint8)
    widths = np.diff(np.flatnonzero(octets == _NEWLINE), prepend=-1)
    if (widths > MAX_LINE_BYTES + 1).any():
        row = before + 1 + int((widths > MAX_LINE_BYTES + 1).argmax())
        raise MalformedRow(row, f"a line has at most {MAX_LINE_BYTES} bytes")
    if b"#" in block:
        block = _COMMENT.sub(b"", block)  # its line stays, so rows are those of the file
        octets = np.frombuffer(block, np.uint8)
    blank = _BLANK[octets]
    edge = np.flatnonzero(blank[1:] != blank[:-1]) + 1
    if octets.size and not blank[0]:
        edge = np.concatenate(([0], edge))
    begins, widths = edge[0::2], edge[1::2] - edge[0::2]
    line = np.cumsum(octets == _NEWLINE, dtype=np.int32)[begins]
    _two_each(line, before)
    if (widths > MAX_ID_BYTES).any():
        row, column = _place(line, int((widths > MAX_ID_BYTES).argmax()), before)
        raise MalformedRow(row, f"an id has at most {MAX_ID_BYTES} bytes", column)
    marked = octets[begins] == ord("#")
    if marked.any():
        row, column = _place(line, int(marked.argmax()), before)
        raise MalformedRow(row, "an id begins with #, the mark of a comment", column)
    try:
        if ids.numeric and _are_integers(octets, blank, begins, widths):
            ids.add_numbers(_parsed(block, begins.size))
        else:
            ids.add_texts(block.split())
    except _Unknown as unknown:
        row, column = _place(line, unknown.token, before)
        raise UnknownItem(row, "an id is not in the universe", column) from None
    return begins.size // 2


def _two_each(line: Places, before: int) -> None:
    """Raises MalformedRow unless each line that occurs has two tokens. line: that of each token."""
    if line.size % 2 == 0 and (line[0::2] == line[1::2]).all() and (np.diff(line[0::2]) > 0).all():
        return
    numbers, counts = np.unique(line, return_counts=True)
    wrong = int((counts != 2).argmax())
    column = 2 if counts[wrong] < 2 else 3
    raise MalformedRow(before + 1 + int(numbers[wrong]), "two ids are expected", column)


def _place(line: Places, token: int, before: int) -> tuple[int, int]:
    """Row and column of a token, from 1."""
    return before + 1 + int(line[token]), 1 + token - int(np.searchsorted(line, line[token]))


def _are_integers(
    octets: Octets, blank: NDArray[np.bool_], begins: Numbers, widths: Numbers
) -> bool:
    """Whether all is digits and blanks, without leading zeros, and fits into 64 bits."""
    if not begins.size:
        return True
    if not (_DIGIT[octets] | blank).all() or widths.max() > _MAX_DIGITS:
        return False
    return not ((octets[begins] == ord("0")) & (widths > 1)).any()


def _parsed(block: bytes, count: int) -> Numbers:
    if not count:
        return np.zeros(0, np.int64)
    return np.fromstring(block, np.int64, count, sep=" ")


class _Open:
    """Ids in order of arrival: numbers, and from the first block with other ids on, a table of
    texts."""

    def __init__(self) -> None:
        self.numeric = True
        self._numbers: list[Numbers] = []
        self._texts: dict[bytes, int] = {}
        self._places: list[Places] = []

    def add_numbers(self, numbers: Numbers) -> None:
        self._numbers.append(numbers)

    def add_texts(self, tokens: list[bytes]) -> None:
        if self.numeric:
            self.numeric = False
            for numbers in self._numbers:
                self._look_up([b"%d" % number for number in numbers.tolist()])
            self._numbers = []
        self._look_up(tokens)

    def _look_up(self, tokens: list[bytes]) -> None:
        texts = self._texts
        for token in tokens:
            texts.setdefault(token, len(texts))
        _few(len(texts))
        self._places.append(np.fromiter(map(texts.__getitem__, tokens), np.int32, len(tokens)))

    def finish(self) -> tuple[Items, Places]:
        """The vertices, ascending, and the place of each token."""
        if self.numeric:
            numbers = np.concatenate([np.zeros(0, np.int64), *self._numbers])
            self._numbers = []
            return _ranked(numbers)
        texts = [token.decode() for token in self._texts]
        ids = _array(texts)
        order = np.argsort(ids, kind="stable")
        rank = np.empty(order.size, np.int32)
        rank[order] = np.arange(order.size, dtype=np.int32)
        places = np.concatenate([np.zeros(0, np.int32), *self._places])
        return ids[order], rank[places]


class _Closed:
    """Ids of a given list, in its order. Raises BadUniverse for a duplicate."""

    def __init__(self, universe: Sequence[str]) -> None:
        if len(set(universe)) != len(universe):
            raise BadUniverse("names every vertex once", pointer="/universe")
        if any(each.encode().split() != [each.encode()] or each[0] == "#" for each in universe):
            reason = "an id is not empty, has no blanks and does not begin with #"
            raise BadUniverse(reason, pointer="/universe")
        _few(len(universe))
        self._vertices = _array(universe)
        self.numeric = self._vertices.dtype.kind == "i"
        self._texts = {each.encode(): place for place, each in enumerate(universe)}
        if self.numeric:
            self._order = np.argsort(self._vertices).astype(np.int32)
            self._sorted = self._vertices[self._order]
        self._places: list[Places] = []

    def add_numbers(self, numbers: Numbers) -> None:
        if not numbers.size:
            return
        found = np.searchsorted(self._sorted, numbers).clip(max=self._sorted.size - 1)
        if not self._sorted.size:
            raise _Unknown(0)
        wrong = self._sorted[found] != numbers
        if wrong.any():
            raise _Unknown(int(wrong.argmax()))
        self._places.append(self._order[found])

    def add_texts(self, tokens: list[bytes]) -> None:
        try:
            places = np.fromiter(map(self._texts.__getitem__, tokens), np.int32, len(tokens))
        except KeyError:
            missing = (place for place, each in enumerate(tokens) if each not in self._texts)
            raise _Unknown(next(missing)) from None
        self._places.append(places)

    def finish(self) -> tuple[Items, Places]:
        """The vertices, as given, and the place of each token."""
        return self._vertices, np.concatenate([np.zeros(0, np.int32), *self._places])


def _array(ids: Sequence[str]) -> Items:
    """Integers where all are, else texts."""
    if all(_INTEGER.fullmatch(each) for each in ids):
        return np.array([int(each) for each in ids], np.int64)
    return np.array(ids, np.dtypes.StringDType())


def _ranked(numbers: Numbers) -> tuple[Numbers, Places]:
    """Distinct numbers, ascending, and the place of each."""
    if not numbers.size:
        return numbers, np.zeros(0, np.int32)
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < _DENSE * numbers.size:
        numbers -= low
        present = np.zeros(high - low + 1, np.bool_)
        present[numbers] = True
        distinct = np.flatnonzero(present) + low
        _few(distinct.size)
        rank = np.cumsum(present, dtype=np.int32)
        return distinct, rank[numbers] - np.int32(1)
    distinct = np.unique(numbers)
    _few(distinct.size)
    return distinct, np.searchsorted(distinct, numbers).astype(np.int32)


def _few(vertices: int) -> None:
    if vertices > MAX_VERTICES:
        raise TooManyRows(f"at most {MAX_VERTICES} vertices", extra={"max_rows": MAX_VERTICES})
