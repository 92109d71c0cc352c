"""The kinds of datasets: their formats, readers, default unit, and what an operator is shown.

A dataset of several files is joined to one stream and split again here. A new kind is one more
entry in `KINDS`. Readers are imported when they are first used: some need pyarrow.
Spec: jobs, section "Datasets".
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from typing import Any, BinaryIO, Final

from algorithms.datasets.declaration import DatasetDeclaration, DatasetReference
from tacit.errors import Invalid
from tacit.records import text_files
from tacit.report.model import Unit

_MARK: Final = b"%%tacit-parts "


class _Joined(io.RawIOBase):
    def __init__(self, streams: list[BinaryIO]) -> None:
        super().__init__()
        self._streams = streams

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        while self._streams:
            data = self._streams[0].read(len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)
            self._streams.pop(0).close()
        return 0

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        super().close()


class _Part(io.RawIOBase):
    def __init__(self, stream: BinaryIO, size: int) -> None:
        super().__init__()
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        data = self._stream.read(min(len(buffer), self._left))
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)


def joined(parts: Mapping[str, tuple[int, BinaryIO]]) -> BinaryIO:
    """One stream of parts, each given as (bytes, stream), in this order."""
    head = {name: size for name, (size, _) in parts.items()}
    streams: list[BinaryIO] = [io.BytesIO(_MARK + json.dumps(head).encode() + b"\n")]
    streams += [stream for _, stream in parts.values()]
    return io.BufferedReader(_Joined(streams), 1 << 20)


def split(stream: BinaryIO, default: str) -> Iterator[tuple[str, BinaryIO]]:
    """The parts one after the other, each to be read before the next; a stream that was not
    `joined` is one part, named `default`."""
    source = (
        stream
        if isinstance(stream, io.BufferedReader)
        else io.BufferedReader(_Joined([stream]), 1 << 20)
    )
    if not source.peek(len(_MARK)).startswith(_MARK):
        yield default, source
        return
    head = json.loads(source.readline()[len(_MARK) :])
    for name, size in head.items():
        yield name, io.BufferedReader(_Part(source, size))


# Adding a kind is one module with its class and its readers, and one entry in `KINDS`. Readers are
# imported when they are first used: some need pyarrow.

Reader = Callable[[DatasetDeclaration, BinaryIO], Any]
FILE: Final = "file"


class WrongKind(Invalid):
    """An unknown kind or format, or a role that the kind does not have."""

    name = "wrong_kind"
    title = "The kind of dataset is not the right one"


@dataclass(frozen=True)
class Format:
    """A file format of a kind. `module.function` is its reader.

    `options`: the parts of the declaration that the reader takes (`label`, `curator`,
    `universe`). `parts`: the names of its files in the order in which they are read, given to
    the reader as a mapping; only the last one is required.
    """

    module: str
    function: str
    description: str
    options: tuple[str, ...] = ()
    parts: tuple[str, ...] = (FILE,)

    def read(self, declaration: DatasetDeclaration, stream: BinaryIO) -> Any:
        """The dataset in a plain stream."""
        reader = getattr(import_module(self.module), self.function)
        if declaration.format == "parquet" and not stream.seekable():
            stream = io.BytesIO(stream.read())  # its index is at the end
        options = {name: _option(declaration, name) for name in self.options}
        if len(self.parts) == 1:
            return reader(stream, **options)
        return reader(dict(split(stream, self.parts[-1])), **options)


@dataclass(frozen=True)
class Kind:
    """A kind. `budgeted`: whether there is a ledger; a list of public items needs none.

    `outline(dataset)`: schema and sizes, for the operator only.
    """

    name: str
    title: str
    default_privacy_unit: Unit | None
    formats: Mapping[str, Format]
    outline: Callable[[Any], dict[str, Any]]
    units: tuple[Unit, ...] = ()
    budgeted: bool = True
    roles: tuple[str, ...] = field(default=())

    @property
    def items(self) -> bool:
        """Whether a universe of items may be declared."""
        return any("universe" in each.options for each in self.formats.values())


def kind_of(declaration: DatasetDeclaration) -> Kind:
    """The kind of a declaration. Raises WrongKind, which names the field."""
    kind = KINDS.get(declaration.kind)
    if kind is None:
        raise WrongKind("there is no such kind", pointer="/kind", extra={"kinds": sorted(KINDS)})
    if declaration.format not in kind.formats:
        raise WrongKind(
            f"the kind {kind.name} has no such format",
            pointer="/format",
            extra={"formats": sorted(kind.formats)},
        )
    for role in ("label", "curator"):
        if getattr(declaration.roles, role) is not None and role not in kind.roles:
            raise WrongKind(f"the kind {kind.name} has no such role", pointer=f"/roles/{role}")
    if declaration.universe is not None and not kind.items:
        raise WrongKind(f"the kind {kind.name} has no universe", pointer="/universe")
    return kind


def format_of(declaration: DatasetDeclaration) -> Format:
    """The format of a declaration. Raises WrongKind."""
    return kind_of(declaration).formats[declaration.format]


def read(declaration: DatasetDeclaration, stream: BinaryIO) -> Any:
    """The dataset in a plain stream, of the class of its kind.

    Raises WrongKind, MalformedRow and its subclasses, MalformedContent, TooManyRows. A
    `universe` must be in the declaration: whoever stores the datasets resolves references.
    """
    return format_of(declaration).read(declaration, stream)


def written(format_name: str, columns: Sequence[str] | None, rows: Any) -> bytes:
    """Inline rows, as the content of a file of this format. Raises WrongKind."""
    writer = _WRITERS.get(format_name)
    if writer is None:
        raise WrongKind(
            "rows of this format come as a file",
            pointer="/format",
            extra={"inline_formats": sorted(_WRITERS)},
        )
    return writer(columns, rows)


def _option(declaration: DatasetDeclaration, name: str) -> Any:
    if name != "universe":
        return getattr(declaration.roles, name)
    if isinstance(declaration.universe, DatasetReference):
        raise ValueError("the universe is a reference that was not resolved")
    return declaration.universe


# --- rows that come inline -----------------------------------------------------------------------


_LONGEST: Final = 400
"""Digits of a whole number that is written with all of them; none that long is taken."""


class BadRows(Invalid):
    """Rows that this format cannot carry in a request."""

    name = "malformed_row"
    title = "A row of the dataset is malformed"


def exact_json(body: bytes) -> Any:
    """The value of a valid JSON text, with all digits of its numbers."""
    return json.loads(body, parse_float=Decimal)


def _exact(value: Any) -> Any:
    """A value with each number in its one canonical form: 1 for 1.0, 0.5 for 5e-1."""
    if isinstance(value, list):
        return [_exact(number) for number in value]
    if isinstance(value, dict):
        return {name: _exact(value[name]) for name in sorted(value)}
    if isinstance(value, float | Decimal):
        number = value if isinstance(value, Decimal) else Decimal(repr(value))
        if not number or (number.adjusted() < _LONGEST and number == number.to_integral_value()):
            return int(number)
        return _shortest(number)
    return value


def _shortest(number: Decimal) -> Decimal:
    """The same number without zeros at its end, all digits kept."""
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    assert isinstance(exponent, int)
    return Decimal((sign, tuple(map(int, text)), exponent + len(digits) - len(text)))


def _cell(value: Any, row: int) -> str:
    value = _exact(value)
    if value is None or isinstance(value, list | dict | bool):
        raise BadRows("a number or a text is expected", pointer=f"/rows/{row}", extra={"row": row})
    return str(value)


def _listed(rows: Any) -> list[Any]:
    if not isinstance(rows, list):
        raise BadRows("a list of rows is expected", pointer="/rows")
    return rows


def _csv(columns: Sequence[str] | None, rows: Any) -> bytes:
    listed = _listed(rows)
    if columns is None:
        if not listed or not isinstance(listed[0], dict):
            raise BadRows("name the columns, or give rows as objects", pointer="/columns")
        columns = list(listed[0])
    lines: list[Sequence[str]] = [columns]
    for number, row in enumerate(listed):
        if isinstance(row, dict) and set(row) == set(columns):
            row = [row[name] for name in columns]
        if not isinstance(row, list) or len(row) != len(columns):
            raise BadRows(
                "a row has one value for each column",
                pointer=f"/rows/{number}",
                extra={"row": number},
            )
        lines.append([_cell(value, number) for value in row])
    return text_files.written(lines).encode()


def _blanks(_: Sequence[str] | None, rows: Any) -> bytes:
    lines = []
    for number, row in enumerate(_listed(rows)):
        place: dict[str, Any] = {"pointer": f"/rows/{number}", "extra": {"row": number}}
        if isinstance(row, list):
            cells = [_cell(value, number) for value in row]
            if any(cell.encode().split() != [cell.encode()] for cell in cells):
                raise BadRows("an id has no blanks in this format: use ndjson, or a file", **place)
            line = " ".join(cells)
        else:
            line = _cell(row, number)
            if "\n" in line or "\r" in line:
                raise BadRows("a line has no line break", **place)
        lines.append(line + "\n")
    return "".join(lines).encode()


def _snap(columns: Sequence[str] | None, rows: Any) -> bytes:
    content = _blanks(columns, rows)
    if content.startswith(b"#") or b"\n#" in content:
        raise BadRows("an id does not begin with #, the mark of a comment", pointer="/rows")
    return content


def _ndjson(_: Sequence[str] | None, rows: Any) -> bytes:
    return "".join(_dumped(row, number) + "\n" for number, row in enumerate(_listed(rows))).encode()


def _json(_: Sequence[str] | None, rows: Any) -> bytes:
    return _dumped(rows, 0).encode()


def _dumped(value: Any, row: int) -> str:
    def number(exact: Decimal) -> float:
        result = float(exact)
        if not result or abs(result) == float("inf"):
            reason = "a number is too large or too small"
            raise BadRows(reason, pointer=f"/rows/{row}", extra={"row": row})
        return result

    return json.dumps(_exact(value), default=number)


_WRITERS: Final[Mapping[str, Callable[[Sequence[str] | None, Any], bytes]]] = {
    "csv": _csv,
    "text": _blanks,
    "snap": _snap,
    "ndjson": _ndjson,
    "json": _json,
}


# --- what an operator is shown -------------------------------------------------------------------


def _numeric(dataset: Any) -> dict[str, Any]:
    return {
        "rows": dataset.rows,
        "columns": [{"name": name, "type": "number"} for name in dataset.columns],
        "has_label": dataset.labels is not None,
        "has_curator": dataset.curators is not None,
    }


def _series(dataset: Any) -> dict[str, Any]:
    return {
        "rows": int(dataset.rounds.size),
        "columns": [{"name": name, "type": "number"} for name in dataset.columns],
        "has_label": dataset.labels is not None,
    }


def _table(dataset: Any) -> dict[str, Any]:
    return {
        "rows": dataset.rows,
        "columns": [{"name": name, "type": "text"} for name in dataset.columns],
    }


def _universe(dataset: Any) -> dict[str, Any]:
    return {"rows": len(dataset.items), "has_groups": dataset.groups is not None}


def _records(dataset: Any) -> dict[str, Any]:
    return {"rows": int(dataset.records)}


def _graph(dataset: Any) -> dict[str, Any]:
    return {
        "rows": dataset.edges,
        "vertices": dataset.count,
        "vertices_declared": dataset.declared,
        "loops_dropped": dataset.loops,
        "duplicates_merged": dataset.duplicates,
    }


def _network(dataset: Any) -> dict[str, Any]:
    return {
        "rows": dataset.network.size,
        "edges": len(dataset.network.edges),
        "path_vertices": int(dataset.path.size),
    }


_ROLES = ("label", "curator")
_ITEMS = ("universe",)
_HERE = "algorithms.datasets."
_ITEM_FILES = "tacit.records.item_files"
KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind(
            "numeric-table",
            "Rows of finite numbers",
            "record",
            {
                "csv": Format(
                    _HERE + "table_files", "read_numeric_csv", "CSV with a header", _ROLES
                ),
                "parquet": Format(_HERE + "table_files", "read_numeric_parquet", "Parquet", _ROLES),
            },
            _numeric,
            units=("record", "curator"),
            roles=_ROLES,
        ),
        Kind(
            "user-series",
            "Readings of users, round by round",
            "reading",
            {
                "csv": Format(_HERE + "table_files", "read_series_csv", "CSV with a header"),
                "parquet": Format(_HERE + "table_files", "read_series_parquet", "Parquet"),
            },
            _series,
            units=("reading", "level", "user", "radius"),
        ),
        Kind(
            "transactions",
            "Sets of items",
            "record",
            {
                "text": Format(
                    _ITEM_FILES,
                    "read_text",
                    "a record a line, items between blanks",
                    _ITEMS,
                ),
                "ndjson": Format(_ITEM_FILES, "read_ndjson", "a list a line", _ITEMS),
                "parquet": Format(_ITEM_FILES, "read_parquet", "a column of lists", _ITEMS),
            },
            _records,
            units=("record",),
        ),
        Kind(
            "sequences",
            "Sequences of items",
            "sequence",
            {
                "text": Format(
                    _ITEM_FILES, "read_text_sequences", "a line each, between blanks", _ITEMS
                ),
                "spmf": Format(
                    _ITEM_FILES,
                    "read_spmf",
                    "-1 after an item, -2 at the end",
                    _ITEMS,
                ),
                "ndjson": Format(_ITEM_FILES, "read_ndjson_sequences", "a list a line", _ITEMS),
                "msnbc": Format(_ITEM_FILES, "read_msnbc", "the layout of that file", _ITEMS),
            },
            lambda dataset: {"rows": dataset.count, "items": int(dataset.items.size)},
            units=("sequence",),
        ),
        Kind(
            "trajectories",
            "Paths of places and times, with sensitive attributes",
            "record",
            {
                "ndjson": Format(_HERE + "trajectories", "read_ndjson", "a record a line"),
                "csv": Format(
                    _HERE + "trajectories",
                    "read_csv",
                    "two files, points and sensitive",
                    parts=("sensitive", "points"),
                ),
            },
            _records,
            units=("record",),
        ),
        Kind(
            "edge-list",
            "A simple undirected graph",
            "edge",
            {
                "snap": Format(
                    _HERE + "edge_list",
                    "read_snap",
                    "two ids a line, between blanks or tabs",
                    _ITEMS,
                ),
            },
            _graph,
            units=("edge",),
        ),
        Kind(
            "network-path",
            "A network and a path in it",
            "path-edge",
            {"json": Format("tacit.paths.network", "read_json", "{vertices, edges, path}")},
            _network,
            units=("path-edge", "vertex-pair"),
        ),
        Kind(
            "table",
            "Any columns, of cells as they are written",
            None,
            {
                "csv": Format(_HERE + "table_files", "read_csv", "CSV with a header"),
                "parquet": Format(_HERE + "table_files", "read_parquet", "Parquet"),
            },
            _table,
            budgeted=False,
        ),
        Kind(
            "universe",
            "A public list of items",
            None,
            {
                "text": Format(
                    _HERE + "tables", "read_universe", "an id a line, a tab and its group"
                )
            },
            _universe,
            budgeted=False,
        ),
    )
}
