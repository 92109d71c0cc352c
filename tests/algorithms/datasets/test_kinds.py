"""Kinds and their readers of columns; compressed content: `tests/tacit/test_compression.py`."""

from __future__ import annotations

import csv
import io
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from algorithms.datasets import table_files
from algorithms.datasets.declaration import ColumnRoles, DatasetDeclaration, DatasetReference
from algorithms.datasets.kinds import BadRows, WrongKind, joined, kind_of, read, split, written
from algorithms.datasets.tables import Table, Texts, Universe
from tacit.compression import MalformedContent
from tacit.records.text_files import LARGEST_NUMBER, SMALLEST_NUMBER, MalformedRow, TooManyRows
from tests.property_examples import examples

SIZES = st.floats(SMALLEST_NUMBER, LARGEST_NUMBER)
NUMBERS = st.just(0.0) | SIZES | SIZES.map(lambda size: -size)


def declared(kind: str, form: str = "csv", **roles: str) -> DatasetDeclaration:
    return DatasetDeclaration(kind=kind, format=form, roles=ColumnRoles(**roles))


def loaded(content: bytes, kind: str = "numeric-table", form: str = "csv", **roles: str) -> Any:
    return read(declared(kind, form, **roles), io.BytesIO(content))


def packed(columns: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out)
    return out.getvalue()


@given(rows=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40), block=st.integers(16, 200))
@examples(60)
def test_numbers_come_back_exactly_whatever_the_blocks(
    rows: list[tuple[float, float]], block: int
) -> None:
    text = "x,y\n" + "".join(f"{one!r},{other!r}\n" for one, other in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_files, "BLOCK_BYTES", block)
        found = loaded(text.encode())
    assert found.columns == ("x", "y")
    assert np.array_equal(found.values, np.array(rows).reshape(-1, 2))


@given(
    lines=st.lists(
        st.sampled_from(("1,2", "-1e3,.5", "1", "1,2,3", "a,1", "1,", ",", "1,nan", '"1",2', "")),
        min_size=1,
        max_size=12,
    ),
    block=st.integers(16, 60),
    last=st.booleans(),
)
@examples(150)
def test_the_first_bad_line_is_the_one_that_a_plain_reader_finds(
    lines: list[str], block: int, last: bool
) -> None:
    """Against the specification: one line after the other, with the csv module."""
    content = "x,y\n" + "\n".join(lines) + ("\n" if last else "")
    kept = content.rstrip("\n").split("\n")[1:]

    def first_bad() -> int | None:
        for row, line in enumerate(kept, 2):
            fields = next(csv.reader([line]), [])
            try:
                good = len(fields) == 2 and all(np.isfinite(float(field)) for field in fields)
            except ValueError:
                good = False
            if not good:
                return row
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_files, "BLOCK_BYTES", block)
        expected = first_bad()
        if expected is None:
            assert loaded(content.encode()).rows == len(kept)
            return
        with pytest.raises(MalformedRow) as found:
            loaded(content.encode())
    nan = [row for row, line in enumerate(kept, 2) if "nan" in line]
    # a block that pyarrow takes is looked at for NaN after it was parsed as a whole
    assert found.value.row == expected or expected in nan


@pytest.mark.parametrize("end", ["\n", "\r\n", "", "\n\n\n"])
def test_ends_of_files_and_lines(end: str) -> None:
    text = "\ufeffx,y\r\n1,2\r\n3,4" + end
    assert loaded(text.encode()).values.tolist() == [[1, 2], [3, 4]]


def test_empty_and_one_row_tables_are_legal() -> None:
    assert loaded(b"x,y\n").values.shape == (0, 2)
    assert loaded(b"x,y").values.shape == (0, 2)
    assert loaded(b"x,y\n1,2").values.shape == (1, 2)
    empty = loaded(b"user,round,x1\n", "user-series")
    assert empty.users.tolist() == []


def test_roles_are_text_as_it_is_written() -> None:
    content = b"a,c,who\n1,red,30\n2,blue,10\n3,red,030\n4,red,30.0\n"
    found = loaded(content, label="c", curator="who")
    assert found.columns == ("a",)
    assert found.labels.tolist() == ["red", "blue", "red", "red"]
    assert found.curators.tolist() == ["30", "10", "030", "30.0"]
    again = loaded(packed({"a": [1, 2], "c": ["x", "y"], "who": [5, 6]}), form="parquet", label="c",
                   curator="who")  # fmt: skip
    assert again.curators.tolist() == ["5", "6"]
    assert again.labels.tolist() == ["x", "y"]
    for empty in (b"a,who\n1,30\n2,\n", b'a,who\n1,30\n2,"  "\n'):
        with pytest.raises(MalformedRow) as error:
            loaded(empty, curator="who")
        assert (error.value.row, error.value.column) == (3, "who")


def test_parquet_names_row_and_column() -> None:
    good = {"x": [1, 2, 3], "y": pa.array([1.5, 2.5, 3.5], pa.float32())}
    assert loaded(packed(good), form="parquet").values[:, 1].tolist() == [1.5, 2.5, 3.5]
    for bad, place in (
        ({"x": [1.0, None, 3.0]}, (2, "x")),
        ({"x": [1.0, 2.0, float("nan")]}, (3, "x")),
        ({"x": ["1", "2", "3"]}, (1, "x")),
        ({"x": [True, False, True]}, (1, "x")),
    ):
        with pytest.raises(MalformedRow) as found:
            loaded(packed({"z": [0, 0, 0], **bad}), form="parquet")
        assert (found.value.row, found.value.column) == place
    for content in (b"", b"PAR1", packed(good)[:-10]):
        with pytest.raises(MalformedContent):
            loaded(content, form="parquet")


def test_user_series() -> None:
    content = b"user,round,x1,x2,label\nann,1,1,2,a\nbob,1,3,4,b\nann,2,5,6,a\n"
    found = loaded(content, "user-series")
    assert found.columns == ("x1", "x2")
    assert found.users.tolist() == ["ann", "bob", "ann"]
    assert found.rounds.tolist() == [1, 1, 2]
    assert found.labels.tolist() == ["a", "b", "a"]
    for bad, place in (
        (b"user,x1\n1,1\n", (1, "round")),
        (b"user,round\n1,1\n", (1, None)),
        (b"user,round,x1\n1,1.5,1\n", (2, "round")),
        (b"user,round,x1\n1,1,1\n2,1,1\n1,1,1\n2,1,1\n", (4, "round")),
    ):
        with pytest.raises(MalformedRow) as error:
            loaded(bad, "user-series")
        assert (error.value.row, error.value.column) == place


def test_cells_of_a_table_are_text_as_it_is_written() -> None:
    found = loaded(b'who,age,cm,note\nann,30,1.5,"a, b"\nbob,030,1.50,\n', "table")
    assert found.rows == 2
    assert found.column("age").tolist() == ["30", "030"]
    assert found.column("cm").tolist() == ["1.5", "1.50"]
    assert found.column("note").tolist() == ["a, b", ""]
    assert loaded(b"who\n", "table").rows == 0
    with pytest.raises(KeyError):
        found.column("nobody")
    one = Texts.of("x")
    for columns, cells in (
        (("a",), ()),
        (("a", "a"), (one, one)),
        (("a", "b"), (one, Texts.of("xy"))),
    ):
        with pytest.raises(ValueError):
            Table(columns, cells)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([1840000000000000000, 1840000000000000001]), None),
        (pa.array([2**64 - 1, 2**64 - 2], pa.uint64()), None),
        (pa.array([Decimal("0.0000000100"), Decimal(10) ** 20]), None),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([0.1, 7.0], pa.float32()), ["0.1", "7.0"]),
        (pa.array(["b", "a"]).dictionary_encode(), ["b", "a"]),
        (pa.array([date(2026, 1, 2), date(1, 1, 1)]), ["2026-01-02", "0001-01-01"]),
        (pa.array([" a", "a"]), [" a", "a"]),
    ],
)
def test_cells_of_parquet_have_one_text_each(values: Any, texts: list[str] | None) -> None:
    found = loaded(packed({"x": values}), "table", "parquet").column("x").tolist()
    plain = [format(v, "f") if isinstance(v, Decimal) else str(v) for v in values.to_pylist()]
    assert found == (texts or plain)
    assert len(set(found)) == 2


@pytest.mark.parametrize("values", [[1.0, 2.0**54], [1.0, float("nan")], [1.0, None], [[1], [2]]])
def test_cells_of_parquet_that_have_no_text_are_refused(values: Any) -> None:
    with pytest.raises(MalformedRow) as error:
        loaded(packed({"x": values}), "table", "parquet")
    assert error.value.column == "x"


def test_universes() -> None:
    assert loaded(b"b\na\n", "universe", "text") == Universe(("b", "a"))
    for bad, row in ((b"a\n\nb\n", 2), (b"a\tx\ty\n", 1), (b"a\nb\na\n", 3)):
        with pytest.raises(MalformedRow) as error:
            loaded(bad, "universe", "text")
        assert error.value.row == row
    with pytest.raises(ValueError):
        Universe(("a", "a"))


def test_no_value_of_the_data_is_in_an_error() -> None:
    for content in (b"x\n1\nsecret\n", b"x\n1\n31337,5\n", b"user,round,x1\n1,-777,2\n"):
        kind = "user-series" if b"user" in content else "numeric-table"
        with pytest.raises(MalformedRow) as error:
            loaded(content, kind)
        for private in ("secret", "31337", "777"):
            assert private not in str(error.value) + str(error.value.extra)


def test_what_a_kind_does_not_have() -> None:
    for declaration, pointer in (
        (declared("numbers"), "/kind"),
        (declared("table", "snap"), "/format"),
        (declared("user-series", label="x"), "/roles/label"),
        (declared("table").model_copy(update={"universe": ("a",)}), "/universe"),
    ):
        with pytest.raises(WrongKind) as error:
            kind_of(declaration)
        assert error.value.pointer == pointer
    reference = declared("transactions", "text").model_copy(
        update={"universe": DatasetReference(dataset="0" * 36)}
    )
    with pytest.raises(ValueError, match="not resolved"):
        read(reference, io.BytesIO(b"a\n"))


def test_limits_of_rows_and_columns() -> None:
    with pytest.raises(TooManyRows):
        table_files.read_numeric_csv(io.BytesIO(b"x\n1\n2\n3\n"), max_rows=2)
    with pytest.raises(TooManyRows):
        table_files.read_numeric_parquet(io.BytesIO(packed({"x": [1, 2, 3]})), max_rows=2)
    assert table_files.read_numeric_csv(io.BytesIO(b"x\n1\n2\n"), max_rows=2).rows == 2


def test_parts_are_joined_and_split() -> None:
    parts = {"sensitive": (3, io.BytesIO(b"abc")), "points": (0, io.BytesIO(b""))}
    found = {name: part.read() for name, part in split(joined(parts), "points")}
    assert found == {"sensitive": b"abc", "points": b""}
    assert dict(split(io.BytesIO(b"x"), "points"))["points"].read() == b"x"


def test_trajectories_come_in_two_files() -> None:
    points = b"record,location,time\n1,a,1\n1,b,2\n2,c,1\n"
    sensitive = b"record,disease\n1,flu\n2,hiv\n"
    stream = joined(
        {
            "sensitive": (len(sensitive), io.BytesIO(sensitive)),
            "points": (len(points), io.BytesIO(points)),
        }
    )
    found = read(declared("trajectories"), stream)
    assert found.records == 2
    assert found.attributes[0].values == ("flu", "hiv")
    assert read(declared("trajectories"), io.BytesIO(points)).attributes == ()


def test_rows_become_files() -> None:
    assert written("csv", ["a", "b"], [[1, 'x,"y"'], [2.5, "z"]]) == b'a,b\n1,"x,""y"""\n2.5,z\n'
    assert written("csv", ["a"], [["x\ny"]]) == b'a\n"x\ny"\n'
    assert written("csv", None, [{"a": 1}, {"a": 2}]) == b"a\n1\n2\n"
    assert written("text", None, [["a", "b"], [], "c"]) == b"a b\n\nc\n"
    assert written("ndjson", None, [["a"], {"b": 1}]) == b'["a"]\n{"b": 1}\n'
    assert written("json", None, {"a": 1}) == b'{"a": 1}'
    for columns, rows in (
        (None, [[1]]),
        (["a"], [[1, 2]]),
        (["a"], [{"b": 1}]),
        (["a"], [[True]]),
        (["a"], 5),
    ):
        with pytest.raises(BadRows):
            written("csv", columns, rows)
    for blank in (["New York"], [""], ["a", "b\tc"]):
        with pytest.raises(BadRows):
            written("text", None, [blank])
    with pytest.raises(WrongKind):
        written("parquet", None, [])
