"""Graphs: the frozen arrays and the reader of their files."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.datasets import edge_list
from algorithms.datasets.declaration import DatasetDeclaration
from algorithms.datasets.edge_list import EdgeList, read_snap
from algorithms.datasets.kinds import KINDS, read, written
from tacit.records.item_files import BadUniverse
from tacit.records.text_files import MAX_LINE_BYTES, MalformedRow, TooManyRows, UnknownItem


def loaded(content: bytes, universe: Sequence[str] | None = None) -> EdgeList:
    return read_snap(io.BytesIO(content), universe)


def pairs(graph: EdgeList) -> list[tuple[Any, Any]]:
    ids = graph.vertices.tolist()
    return [(ids[a], ids[b]) for a, b in zip(graph.first, graph.second, strict=True)]


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        (b"-5 3\n3 20\n", [-5, 3, 20]),
        (b"07 3\n3 20\n", ["07", "20", "3"]),
        (b"1 2\n12345678901234567890 2\n", ["1", "12345678901234567890", "2"]),
        (b"0 1000000000000\n", [0, 10**12]),
    ],
    ids=["negative", "leading-zero", "long", "far-apart"],
)
def test_integers_only_where_they_can_be_written_back(content: bytes, ids: list[Any]) -> None:
    assert loaded(content).vertices.tolist() == ids


def test_a_universe_fixes_the_rows() -> None:
    graph = loaded(b"9 10\n9 2\n", ["10", "2", "77", "9"])
    assert graph.declared
    assert graph.vertices.tolist() == [10, 2, 77, 9]
    assert pairs(graph) == [(10, 9), (2, 9)]
    assert graph.appearance.tolist() == [3, 0, 1, 2]
    texts = loaded(b"9 x\n", ["x", "9"])
    assert pairs(texts) == [("x", "9")]


@pytest.mark.parametrize("content", [b"", b"\n", b"# nothing"], ids=["no-byte", "line", "comment"])
def test_no_edges_are_legal(content: bytes) -> None:
    assert (loaded(content).count, loaded(content).edges) == (0, 0)
    graph = loaded(content, ["a", "b"])
    assert (graph.count, graph.edges) == (2, 0)
    assert graph.appearance.tolist() == [0, 1]
    assert loaded(content, []).count == 0


ids = st.one_of(
    st.integers(-3, 40).map(str),
    st.integers(0, 2**63).map(str),
    st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=3),
)


@given(st.lists(st.tuples(ids, ids), max_size=30), st.integers(1, 40), st.booleans())
def test_any_blocks_give_what_a_plain_reader_gives(
    lines: list[tuple[str, str]], size: int, declared: bool
) -> None:
    content = "".join(f"{one}\t{other}\n" for one, other in lines).encode()
    seen = list(dict.fromkeys(each for line in lines for each in line))
    canonical = all(str(int(each)) == each for each in seen if each.lstrip("-").isdecimal()) and (
        all(each.lstrip("-").isascii() and each.lstrip("-").isdecimal() for each in seen)
        and all(len(each.lstrip("-")) <= 18 for each in seen)
    )
    universe = [*reversed(seen), "0x"] if declared else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge_list, "BLOCK_BYTES", size)
        graph = loaded(content, universe)
    expected = universe if universe is not None else sorted(seen, key=int if canonical else str)
    texts = [str(each) for each in graph.vertices.tolist()]
    assert texts == expected
    assert (graph.vertices.dtype == np.int64) == (canonical and not declared)
    found = {
        frozenset((texts[a], texts[b])) for a, b in zip(graph.first, graph.second, strict=True)
    }
    assert found == {frozenset(line) for line in lines if len(set(line)) == 2}
    assert [texts[place] for place in graph.appearance[: len(seen)]] == seen
    assert graph.loops == sum(one == other for one, other in lines)
    assert graph.edges + graph.loops + graph.duplicates == len(lines)


@pytest.mark.parametrize(
    ("content", "row", "column"),
    [
        (b"1 2\n\n3\n", 3, 2),
        (b"# 1 2 3\n1 2 3\n4 5\n", 2, 3),
        (b"1 2\n3 4 5 6", 2, 3),
        (b"1 2 3\n4\n", 1, 3),
        (b"1 2\n3 \xff\n", 2, None),
        (b"1 2\n3 " + b"4" * 1025 + b"\n", 2, 2),
        (b"1 2\n# " + b"4" * MAX_LINE_BYTES + b"\n", 2, None),
        (b"1 2\n3 4" + b" " * (1 << 24), 2, None),
    ],
    ids=["one", "three", "four", "three-one", "octets", "id", "line", "endless"],
)
@pytest.mark.parametrize("block", [4, 1 << 23], ids=["small-blocks", "one-block"])
def test_what_is_malformed_is_named_by_place(
    content: bytes, row: int, column: int | None, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if len(content) > 10_000 and block == 4:
        block = 1 << 19
    monkeypatch.setattr(edge_list, "BLOCK_BYTES", block)
    with pytest.raises(MalformedRow) as wrong:
        loaded(content)
    assert (wrong.value.row, wrong.value.column) == (row, column)


@pytest.mark.parametrize("universe", [["1", "2"], ["1", "2", "x"], []], ids=["int", "text", "none"])
def test_an_unknown_id_is_named_by_place(universe: list[str]) -> None:
    with pytest.raises(UnknownItem) as wrong:
        loaded(b"# x\n1 2\n2 444\n" if universe else b"\n\n444 1\n", universe)
    assert (wrong.value.row, wrong.value.column) == ((3, 2) if universe else (3, 1))
    assert "444" not in wrong.value.detail


def test_a_universe_names_every_vertex_once() -> None:
    with pytest.raises(BadUniverse):
        loaded(b"1 2\n", ["1", "2", "1"])


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_list, "MAX_VERTICES", 2)
    for content in (b"1 2\n2 3\n", b"1 2\n1 900000000000\n", b"a b\nb c\n"):
        with pytest.raises(TooManyRows):
            loaded(content)
    with pytest.raises(TooManyRows):
        loaded(b"", ["1", "2", "3"])
    monkeypatch.setattr(edge_list, "MAX_EDGES", 0)
    with pytest.raises(TooManyRows):
        loaded(b"1 2\n")
    monkeypatch.setattr(edge_list, "MAX_LINES", 1)
    with pytest.raises(TooManyRows):
        loaded(b"1 2\n2 1\n")


def test_the_kind() -> None:
    kind = KINDS["edge-list"]
    assert kind.default_privacy_unit == "edge"
    assert kind.items
    content = written("snap", None, [[1, 2], [2, 3], [2, 2], [2, 1]])
    declaration = DatasetDeclaration(kind="edge-list", format="snap", universe=("3", "2", "1", "0"))
    graph = read(declaration, io.BytesIO(content))
    assert graph.vertices.tolist() == [3, 2, 1, 0]
    assert kind.outline(graph) == {
        "rows": 2,
        "vertices": 4,
        "vertices_declared": True,
        "loops_dropped": 1,
        "duplicates_merged": 1,
    }


def test_a_graph_survives_its_way_to_a_worker() -> None:
    graph = loaded(b"a b\nb c\n")
    again = pickle.loads(pickle.dumps(graph))
    assert pairs(again) == pairs(graph)
    assert EdgeList.of([("a", "b"), ("c", "b")]).second.tolist() == [1, 2]
    assert EdgeList.of([]).count == 0
    assert EdgeList.of([(1, 0)], [2, 1, 0]).first.tolist() == [1]
