"""Kind `edge-list`: a simple undirected graph, and the reader of SNAP text, two ids a line.

Examples: who called whom, which stations a trip joins, which papers share authors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.records.item_files import BadUniverse
from tacit.records.text_files import (
    MAX_LINE_BYTES,
    MalformedRow,
    TooManyRows,
    UnknownItem,
    without_mark,
)

MAX_VERTICES: Final = 10**7
MAX_EDGES: Final = 10**8

Items: TypeAlias = NDArray[Any]
"""Ids: an array of int64, or of `numpy.dtypes.StringDType`."""


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Kind `edge-list`, cleaned: no direction, no loops, no edge twice. No edges at all are legal.

    vertices (n,): distinct ids in the order of rows, int64 where every id is an integer, else text;
    first, second (m,): the ends of each edge as places in `vertices`, first < second, sorted by
    both; declared: whether the vertex set was given, and not taken from the edges; appearance (n,):
    places in order of first appearance in the file, those that never appear last.
    loops, duplicates: lines that were dropped as self-loops, and merged with another one; like the
    number of edges, visible only to the operator. Raises ValueError for arrays that do not fit.
    """

    vertices: Items
    first: NDArray[np.int32]
    second: NDArray[np.int32]
    declared: bool
    appearance: NDArray[np.int32]
    loops: int = 0
    duplicates: int = 0

    def __post_init__(self) -> None:
        count = self.count
        if self.vertices.ndim != 1 or not _differ(self.vertices):
            raise ValueError("ids differ")
        if self.first.shape != self.second.shape or self.first.ndim != 1:
            raise ValueError("an edge has two ends")
        if self.edges:
            if self.first.min() < 0 or self.second.max() >= count:
                raise ValueError("an end is a place in the list of vertices")
            if (self.first >= self.second).any():
                raise ValueError("the first end is the smaller one")
            rises = np.diff(self.first)
            if (rises < 0).any() or ((rises == 0) & (np.diff(self.second) <= 0)).any():
                raise ValueError("edges rise")
        if self.appearance.shape != (count,):
            raise ValueError("an appearance for each vertex")

    @property
    def count(self) -> int:
        """How many vertices there are."""
        return self.vertices.size

    @property
    def edges(self) -> int:
        """How many edges there are; private."""
        return self.first.size

    def degrees(self) -> NDArray[np.int64]:
        """(n,) edges at each vertex; private."""
        ends = np.bincount(self.first, minlength=self.count)
        return ends + np.bincount(self.second, minlength=self.count)

    @classmethod
    def from_pairs(
        cls,
        vertices: ArrayLike,
        left: NDArray[np.int32],
        right: NDArray[np.int32],
        *,
        declared: bool = True,
    ) -> EdgeList:
        """Pairs of indices (lines,), as read: in any direction, repeated, with loops."""
        ids = np.asarray(vertices)
        ids = ids if ids.dtype.kind in "iT" else ids.astype(np.dtypes.StringDType())
        places = np.empty(2 * left.size, np.int32)
        places[0::2], places[1::2] = left, right
        first_seen = np.full(ids.size, places.size, np.int64)
        first_seen[places[::-1]] = np.arange(places.size - 1, -1, -1)
        keys = np.minimum(left, right).astype(np.int64)
        keys *= ids.size
        keys += np.maximum(left, right)
        keys = keys[left != right]
        proper = keys.size
        keys.sort()
        if proper:
            keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
        first = keys // max(1, ids.size)
        return cls(
            ids,
            first.astype(np.int32),
            (keys - first * ids.size).astype(np.int32),
            declared,
            np.argsort(first_seen, kind="stable").astype(np.int32),
            left.size - proper,
            proper - keys.size,
        )

    @classmethod
    def of(
        cls, edges: Iterable[tuple[Any, Any]], vertices: Sequence[Any] | None = None
    ) -> EdgeList:
        """A small graph of pairs of ids. Raises KeyError for an id that is not in `vertices`."""
        pairs = list(edges)
        ids = sorted({end for pair in pairs for end in pair}) if vertices is None else vertices
        places = {id_: place for place, id_ in enumerate(ids)}
        ends = np.array([[places[end] for end in pair] for pair in pairs], np.int32).reshape(-1, 2)
        listed = np.array(ids if len(ids) else [], None if len(ids) else np.int64)
        return cls.from_pairs(listed, ends[:, 0], ends[:, 1], declared=vertices is not None)


def _differ(ids: Items) -> bool:
    if (ids[1:] > ids[:-1]).all():
        return True
    return bool(np.unique(ids).size == ids.size)


# Spec: jobs, section "Datasets". The stream is no longer compressed. With a `universe` (what the
# graph algorithms call `vertices`) rows follow its order, and another id is an error; without, the
# ids are what the file holds, ascending. Ids that are all integers in plain decimal stay integers.
# Blocks of the file are read and forgotten. Blocks of digits alone are parsed as arrays; the first
# other one turns to a table of texts.

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
    """Two ids per line, separated by blanks or tabs; lines that begin with `#` and empty lines are
    ignored.

    No id begins with `#`: at the start of a line every reader would take it for a comment.
    Raises MalformedRow for a line with another number of ids, for bytes that are not UTF-8 and
    for a line over 1 MiB; UnknownItem; BadUniverse; TooManyRows above 10^7 vertices or 10^8
    edges.
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
            whole_lines, rest = rest + block[:end] if block else rest + b"\n", block[end:]
            lines += _add_lines(whole_lines, rows, ids)
            if lines > MAX_LINES:
                raise TooManyRows(f"at most {MAX_LINES} lines", extra={"max_rows": MAX_LINES})
            rows += whole_lines.count(b"\n")
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
    """Add whole lines; returns how many edges they name. `before`: lines of the file before
    them."""
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
    """Whether everything is digits and blanks, without leading zeros, and fits into 64 bits."""
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
        if any(name.encode().split() != [name.encode()] or name[0] == "#" for name in universe):
            reason = "an id is not empty, has no blanks and does not begin with #"
            raise BadUniverse(reason, pointer="/universe")
        _few(len(universe))
        self._vertices = _array(universe)
        self.numeric = self._vertices.dtype.kind == "i"
        self._texts = {name.encode(): place for place, name in enumerate(universe)}
        if self.numeric:
            self._order = np.argsort(self._vertices).astype(np.int32)
            self._sorted = self._vertices[self._order]
        self._places: list[Places] = []

    def add_numbers(self, numbers: Numbers) -> None:
        if not numbers.size:
            return
        at = np.searchsorted(self._sorted, numbers).clip(max=self._sorted.size - 1)
        if not self._sorted.size:
            raise _Unknown(0)
        wrong = self._sorted[at] != numbers
        if wrong.any():
            raise _Unknown(int(wrong.argmax()))
        self._places.append(self._order[at])

    def add_texts(self, tokens: list[bytes]) -> None:
        try:
            places = np.fromiter(map(self._texts.__getitem__, tokens), np.int32, len(tokens))
        except KeyError:
            missing = (place for place, token in enumerate(tokens) if token not in self._texts)
            raise _Unknown(next(missing)) from None
        self._places.append(places)

    def finish(self) -> tuple[Items, Places]:
        """The vertices, as given, and the place of each token."""
        return self._vertices, np.concatenate([np.zeros(0, np.int32), *self._places])


def _array(ids: Sequence[str]) -> Items:
    """Integers where all are, else texts."""
    if all(_INTEGER.fullmatch(id_) for id_ in ids):
        return np.array([int(id_) for id_ in ids], np.int64)
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
