"""Delimited text: cut and read as RFC 4180 says, whatever the pieces in which it arrives."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.records import text_files
from tacit.records.text_files import (
    AFTER_QUOTE,
    BARE_RETURN,
    STRAY_QUOTE,
    UNCLOSED,
    MalformedRow,
    Records,
    exact_number,
    json_float,
    number,
)
from tests.property_examples import examples

CELLS = st.text(st.sampled_from('ab,;"\n\r\ufeff #é'), max_size=6)
TABLES = st.lists(st.lists(CELLS, min_size=2, max_size=4), min_size=1, max_size=8)


def pieces(content: bytes, size: int, delimiter: str = ",") -> list[text_files.Lot]:
    records = Records(delimiter)
    found = [records.feed(content[at : at + size]) for at in range(0, len(content), size)]
    return [*found, records.end()]


def read(content: bytes, size: int, delimiter: str = ",") -> list[tuple[int, list[str]]]:
    """What a reader gets that feeds pieces of this size."""
    between = delimiter.encode()
    return [
        (line, [cell.decode() for cell in text_files.split(record, between)])
        for lot in pieces(content, size, delimiter)
        for line, record in zip(lot.lines, lot.records, strict=True)
    ]


@given(
    table=TABLES,
    size=st.integers(1, 30),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
    delimiter=st.sampled_from([",", ";", "\t", "é"]),
)
@examples(300)
def test_cells_in_quotes_come_back_whatever_the_pieces(
    table: list[list[str]], size: int, end: str, mark: bool, delimiter: str
) -> None:
    """Against the definition: every cell in quotes, which are doubled inside."""
    content, expected, line = b"\xef\xbb\xbf" * mark, [], 1
    for row in table:
        expected.append((line, row))
        text = delimiter.join('"' + cell.replace('"', '""') + '"' for cell in row) + end
        content, line = content + text.encode(), line + text.count("\n")
    assert read(content, size, delimiter) == expected
    assert read(content.removesuffix(end.encode()), size, delimiter) == expected
    assert all(not lot.faults for lot in pieces(content, size, delimiter))


@given(table=TABLES)
def test_what_is_written_is_read_here_and_elsewhere(table: list[list[str]]) -> None:
    content = text_files.written(table)
    assert [row for _, row in read(content.encode(), 9)] == table
    assert list(csv.reader(io.StringIO(content, newline=""), strict=True)) == table


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_fault_is_named_by_its_line_and_spoils_no_other(size: int) -> None:
    content = b'a,"b\nc"\n5" pipe,x\n"y"z,1\nd\re,f\ng,"h"\n'
    found = pieces(content, size)
    faults = [fault for lot in found for fault in lot.faults]
    assert faults == [(3, STRAY_QUOTE), (4, AFTER_QUOTE), (5, BARE_RETURN)]
    assert read(content, size) == [(1, ["a", "b\nc"]), (6, ["g", "h"])]
    open_quote = pieces(content + b'i,"j\nk,l\nm,n\n', size)
    assert [fault for lot in open_quote for fault in lot.faults][3:] == [(7, UNCLOSED)]


def test_a_record_that_never_ends_is_refused_with_the_line_where_it_begins() -> None:
    records = Records(most=100)
    with pytest.raises(MalformedRow, match="quotes may not be closed") as found:
        records.feed(b'a,b\n"x",1\n,"y\n' + b"more\n" * 100)
    assert found.value.row == 3
    with pytest.raises(MalformedRow) as plain:
        list(text_files.rows(io.BytesIO(b"a,b\n" + b"x" * (1 << 20) + b"y,1\n")))
    assert plain.value.row == 2


def test_two_columns_of_one_name_are_refused() -> None:
    assert text_files.distinct(["a", "", ""]) == ("a", "", "")
    with pytest.raises(MalformedRow) as found:
        text_files.distinct(["a", "b", "a"], 4)
    assert (found.value.row, found.value.column) == (4, 3)


@pytest.mark.parametrize(
    "text", ["1_000", "0x10", "nan", "inf", "\uff11", "1,5", "", "1e", "--1", "1e5000", "1e-400"]
)
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError):
        number(text)


def test_numbers() -> None:
    assert [number(text) for text in (" 1.50", "+4", ".5", "0e-999", "-0.000")] == [
        1.5,
        4,
        0.5,
        0,
        0,
    ]
    one, other = exact_number("1840000000000000000"), exact_number("1840000000000000001.0")
    assert one is not None and other is not None and other - one == 1
    assert json_float("0.0e-999") == 0
    for text in ("1e-400", "-0." + "0" * 400 + "1"):
        with pytest.raises(ValueError):
            json_float(text)
