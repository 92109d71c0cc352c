"""Sequences: the frozen arrays and the readers of their files."""

from __future__ import annotations

import gzip
import io
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.records import item_files
from tacit.records.item_files import (
    read_msnbc,
    read_ndjson_sequences,
    read_spmf,
    read_text_sequences,
)
from tacit.records.items import Sequences
from tacit.records.text_files import MAX_LINE_BYTES, MalformedRow, UnknownItem

MSNBC = Path(__file__).parents[4] / "shared" / "data" / "msnbc990928.seq.gz"
HEADER = b"% Different categories:\n\none two three\n\n\n% Sequences:\n\n"

Reader = Callable[[io.BytesIO], Sequences]


def lists(dataset: Sequences) -> list[list[str]]:
    return [
        [dataset.universe[place] for place in dataset.items[low:high].tolist()]
        for low, high in itertools.pairwise(dataset.starts.tolist())
    ]


@pytest.mark.parametrize(
    ("universe", "items", "starts"),
    [
        (("a", "a"), [0], [0, 1]),
        (("a",), [0], []),
        (("a",), [0], [1, 1]),
        (("a",), [0], [0, 2]),
        (("a",), [0, 0], [0, 2, 1, 2]),
        (("a",), [1], [0, 1]),
        (("a",), [-1], [0, 1]),
    ],
)
def test_arrays_that_do_not_fit(
    universe: tuple[str, ...], items: list[int], starts: list[int]
) -> None:
    with pytest.raises(ValueError):
        Sequences(universe, np.array(items, np.int32), np.array(starts, np.int64))


def test_another_universe() -> None:
    data = Sequences.of("abc", ["ab", "", "ba"])
    assert data.count == 3
    moved = data.over(("b", "x", "a"))
    assert lists(moved) == lists(data)
    assert moved.items.tolist() == [2, 0, 0, 2]
    assert data.over(("a", "b", "c")) is data
    with pytest.raises(UnknownItem) as wrong:
        data.over(("b",))
    assert (wrong.value.row, wrong.value.column) == (1, 1)
    with pytest.raises(UnknownItem) as wrong:
        Sequences.of("ab", ["a", "", "aab"]).over(("a",))
    assert (wrong.value.row, wrong.value.column) == (3, 3)
    with pytest.raises(KeyError):
        Sequences.of("a", ["b"])


@given(
    rows=st.lists(st.lists(st.sampled_from("ab#%"), max_size=6), max_size=20),
    block=st.integers(1, 40),
    end=st.booleans(),
)
def test_text_comes_back_whatever_the_blocks(rows: list[list[str]], block: int, end: bool) -> None:
    lines = [" ".join(row) for row in rows]
    content = "".join(line + "\n" for line in lines)
    if not end and lines and lines[-1]:
        content = content[:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(item_files, "BLOCK_BYTES", block)
        assert lists(read_text_sequences(io.BytesIO(content.encode()), list("ab#%"))) == rows


@given(rows=st.lists(st.lists(st.sampled_from(["1", "2", "17"]), max_size=6), max_size=20))
def test_all_formats_hold_the_same(rows: list[list[str]]) -> None:
    spmf = "@CONVERTED\n" + "".join("".join(f"{item} -1 " for item in row) + "-2\n" for row in rows)
    ndjson = "".join(json.dumps([int(item) for item in row]) + "\n" for row in rows)
    text = "".join(" ".join(row) + " \r\n" for row in rows)
    universe = ["1", "2", "17"]
    assert lists(read_spmf(io.BytesIO(spmf.encode()), universe)) == rows
    assert lists(read_ndjson_sequences(io.BytesIO(ndjson.encode()), universe)) == rows
    assert lists(read_text_sequences(io.BytesIO(text.encode()), universe)) == rows
    msnbc = HEADER.replace(b"\n", b"\r\n") + text.encode()
    assert lists(read_msnbc(io.BytesIO(msnbc), universe)) == rows


def test_an_empty_line_is_an_empty_sequence_and_the_end_is_none() -> None:
    found = read_text_sequences(io.BytesIO(b"\xef\xbb\xbfa\n\n \nb"))
    assert lists(found) == [["a"], [], [], ["b"]]
    assert found.universe == ("a", "b")
    assert lists(read_text_sequences(io.BytesIO(b""))) == []


def test_the_universe_of_the_msnbc_layout_is_its_header() -> None:
    found = read_msnbc(io.BytesIO(HEADER + b"3 1 \n2 "))
    assert found.universe == ("1", "2", "3")
    assert found.items.tolist() == [2, 0, 1]
    with pytest.raises(UnknownItem) as wrong:
        read_msnbc(io.BytesIO(HEADER + b"1 2\n3 4\n"))
    assert (wrong.value.row, wrong.value.column) == (9, 2)


@pytest.mark.parametrize(
    ("reader", "content", "row"),
    [
        (read_text_sequences, b"a\n\xff\n", 2),
        (read_spmf, b"# one\n1 -1 -2\n# two\n\xff -1 -2\n", 4),
        (read_text_sequences, b"a\n" + b"b" * (MAX_LINE_BYTES + 1), 2),
        (read_spmf, b"#" * (MAX_LINE_BYTES + 2) + b"\n", 1),
        (read_spmf, b"# c\n1 -1 2 -2\n", 2),
        (read_spmf, b"1 -1 -2\n1 -1\n", 2),
        (read_ndjson_sequences, b"[1]\n{}\n", 2),
        (read_ndjson_sequences, b'["a"]\n[1.5]\n', 2),
        (read_msnbc, b"one two\n1 2\n", 3),
        (read_msnbc, b"x" * (MAX_LINE_BYTES + 5), 1),
    ],
)
def test_a_malformed_row_is_named(reader: Reader, content: bytes, row: int) -> None:
    with pytest.raises(MalformedRow) as wrong:
        reader(io.BytesIO(content))
    assert wrong.value.row == row


def test_an_unknown_item_is_named_by_its_line_of_the_file_and_not_shown() -> None:
    with pytest.raises(UnknownItem) as wrong:
        read_spmf(io.BytesIO(b"% c\na -1 -2\n-2\n% c\na -1 secret -1 -2\n"), ["a"])
    assert (wrong.value.row, wrong.value.column) == (5, 2)
    assert "secret" not in str(wrong.value)


@pytest.mark.slow
@pytest.mark.skipif(not MSNBC.exists(), reason="the MSNBC file is not beside the repository")
def test_msnbc() -> None:
    with gzip.open(MSNBC) as stream:
        found = read_msnbc(stream)  # type: ignore[arg-type]
    lengths = np.diff(found.starts)
    assert (found.count, found.items.size, len(found.universe)) == (989_818, 4_698_794, 17)
    assert (lengths.max(), np.minimum(lengths, 20).sum()) == (14_795, 4_234_576)
