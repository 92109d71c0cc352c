"""Sets of items: the frozen arrays and the readers of their files."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.compression import MalformedContent
from tacit.records import item_files
from tacit.records.item_files import BadUniverse, read_ndjson, read_parquet, read_text
from tacit.records.items import Transactions
from tacit.records.text_files import MAX_LINE_BYTES, MalformedRow, TooManyRows, UnknownItem


def records(dataset: Transactions) -> list[list[str]]:
    bounds = dataset.offsets.tolist()
    return [
        [dataset.items[place] for place in dataset.values[low:high].tolist()]
        for low, high in itertools.pairwise(bounds)
    ]


def parquet(rows: Any, kind: Any = None, name: str = "items") -> io.BytesIO:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(rows, kind)}), stream)
    stream.seek(0)
    return stream


def test_text_keeps_order_duplicates_and_empty_records() -> None:
    found = read_text(io.BytesIO(b"a b\tb\n\n  c a \r\nb"))
    assert records(found) == [["a", "b", "b"], [], ["c", "a"], ["b"]]
    assert found.items == ("a", "b", "c")
    assert found.records == 4


@pytest.mark.parametrize("content", [b"", b"\n"])
def test_nothing_is_legal(content: bytes) -> None:
    found = read_text(io.BytesIO(content))
    assert found.records == len(content)
    assert found.values.size == 0
    assert read_ndjson(io.BytesIO(b"")).records == 0


item = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=4)


@given(st.lists(st.lists(item, max_size=5), max_size=30), st.integers(1, 40))
def test_the_size_of_blocks_does_not_matter(rows: list[list[str]], size: int) -> None:
    content = "".join(" ".join(row) + "\n" for row in rows).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(item_files, "BLOCK_BYTES", size)
        found = read_text(io.BytesIO(content))
    assert records(found) == rows
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    assert records(read_ndjson(io.BytesIO(lines))) == rows


def test_lists_of_parquet() -> None:
    rows = [["a", "b"], [], ["b", "b", "c"]]
    assert records(read_parquet(parquet(rows))) == rows
    assert records(read_parquet(parquet([[3, 1], [2]]), ["1", "2", "3"])) == [["3", "1"], ["2"]]
    assert read_parquet(parquet([], _strings())).records == 0


def _strings() -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.list_(pa.string())


@pytest.mark.parametrize(
    ("content", "row", "column"),
    [
        (b"a b\n\nb z\n", 3, 2),
        (b"z", 1, 1),
    ],
    ids=["third", "first"],
)
def test_an_unknown_item_is_named_by_place(content: bytes, row: int, column: int) -> None:
    with pytest.raises(UnknownItem) as wrong:
        read_text(io.BytesIO(content), ["a", "b"])
    assert (wrong.value.row, wrong.value.column) == (row, column)
    assert "z" not in wrong.value.detail


@pytest.mark.parametrize(
    ("content", "row"),
    [
        (b"a\n\xff\n", 2),
        (b"a\n" + b"b" * (MAX_LINE_BYTES + 1) + b"\nc\n", 2),
        (b"a\n" + b"b " * (1 << 23), 2),
        (b"a\nb\n" + b"c" * 1025 + b"\n", 3),
    ],
    ids=["bytes", "line", "endless", "item"],
)
def test_malformed_text(content: bytes, row: int) -> None:
    with pytest.raises(MalformedRow) as wrong:
        read_text(io.BytesIO(content))
    assert wrong.value.row == row


@pytest.mark.parametrize(
    "line",
    ["", "{}", "[", '["a", null]', "[NaN]", "[1.5]", "[true]", '[""]', '["\\ud800"]', "[" * 10000],
    ids=["blank", "object", "open", "null", "nan", "float", "bool", "empty", "surrogate", "deep"],
)
def test_malformed_ndjson(line: str) -> None:
    with pytest.raises(MalformedRow) as wrong:
        read_ndjson(io.BytesIO(f'["a"]\n{line}\n'.encode()))
    assert wrong.value.row == 2


@pytest.mark.parametrize("rows", [[["a"], None], [["a"], ["b", None]], [["a"], [""]]])
def test_malformed_lists_of_parquet(rows: Sequence[Any]) -> None:
    with pytest.raises(MalformedRow) as wrong:
        read_parquet(parquet(rows, _strings()))
    assert wrong.value.row == 2


def test_files_that_are_no_parquet_of_lists() -> None:
    pytest.importorskip("pyarrow")
    for stream, column in (
        (io.BytesIO(b"PAR1"), None),
        (parquet([1, 2]), None),
        (parquet([["a"]]), "another"),
        (parquet([[1.5]]), None),
    ):
        with pytest.raises(MalformedContent):
            read_parquet(stream, column=column)


def test_a_universe_names_every_item_once() -> None:
    for reader in (read_text, read_ndjson, read_parquet):
        with pytest.raises(BadUniverse):
            reader(io.BytesIO(b""), ["a", "b", "a"])


def test_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_files, "MAX_RECORDS", 2)
    with pytest.raises(TooManyRows):
        read_text(io.BytesIO(b"a\nb\nc\n"))
    monkeypatch.setattr(item_files, "MAX_ITEMS", 2)
    with pytest.raises(TooManyRows):
        read_text(io.BytesIO(b"a b c\n"))


@pytest.mark.parametrize(
    ("items", "values", "offsets"),
    [
        (("a", "a"), [0], [0, 1]),
        (("a",), [0], []),
        (("a",), [0], [1]),
        (("a",), [0], [0, 2]),
        (("a", "b"), [0, 1], [0, 2, 1, 2]),
        (("a",), [1], [0, 1]),
        (("a",), [-1], [0, 1]),
    ],
)
def test_arrays_that_do_not_fit(items: Any, values: list[int], offsets: list[int]) -> None:
    with pytest.raises(ValueError):
        Transactions(items, np.array(values, np.int32), np.array(offsets, np.int64))
