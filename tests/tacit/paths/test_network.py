"""Networks with a path: what is read, and that each error names its place and no id."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.datasets.declaration import DatasetDeclaration
from algorithms.datasets.kinds import KINDS, read
from simulation.samples import path_publishing
from tacit.compression import MalformedContent
from tacit.errors import Invalid
from tacit.paths.network import (
    DuplicateEdge,
    DuplicateVertex,
    EmptyNetwork,
    MalformedNetwork,
    NetworkMap,
    NetworkPath,
    PathRepeatsConsecutively,
    PathStepNotAnEdge,
    PathTooShort,
    SelfLoop,
    TooFewEdges,
    UnknownVertex,
    read_json,
    read_map,
)

SQUARE: dict[str, Any] = {
    "vertices": ["ann", "bob", "cid", "dora"],
    "edges": [["ann", "bob"], ["cid", "bob"], ["cid", "dora"], ["dora", "ann"]],
    "path": ["ann", "bob", "cid", "dora"],
}


def content(**changes: Any) -> io.BytesIO:
    kept = {key: value for key, value in (SQUARE | changes).items() if value is not ...}
    return io.BytesIO(json.dumps(kept).encode())


def test_a_network_is_read() -> None:
    found = read(DatasetDeclaration(kind="network-path", format="json"), content())
    assert isinstance(found, NetworkPath)
    assert found.network.vertices == ("ann", "bob", "cid", "dora")
    assert found.network.edges.tolist() == [[0, 1], [1, 2], [2, 3], [0, 3]]
    assert found.ids() == ("ann", "bob", "cid", "dora")
    assert (found.acyclic, found.spanning) == (True, True)
    assert KINDS["network-path"].outline(found) == {"rows": 4, "edges": 4, "path_vertices": 4}
    assert KINDS["network-path"].default_privacy_unit == "path-edge"
    assert KINDS["network-path"].units == ("path-edge", "vertex-pair")
    ring = read_json(content(path=["ann", "bob", "cid", "dora", "ann", "bob"]))
    assert (ring.acyclic, ring.spanning) == (False, True)
    part = read_json(content(path=["cid", "bob"]))
    assert (part.acyclic, part.spanning) == (True, False)
    (sample,) = path_publishing()
    assert read_json(io.BytesIO(sample.content)).ids() == (1, 2, 3, 4, 5, 6)


def test_a_map_may_have_a_path_beside_it_or_not() -> None:
    for given_path in (SQUARE["path"], ...):
        assert read_map(content(path=given_path)).codes().tolist() == [1, 3, 6, 11]


@pytest.mark.parametrize(
    ("changes", "problem", "pointer"),
    [
        ({"vertices": []}, EmptyNetwork, "/vertices"),
        ({"vertices": ["ann", "bob", "cid", "ann", "dora"]}, DuplicateVertex, "/vertices/3"),
        ({"vertices": ["ann", "bob", 3, "dora"]}, MalformedNetwork, "/vertices/2"),
        ({"vertices": [1, 2.5]}, MalformedNetwork, "/vertices/1"),
        ({"vertices": ["ann", "b" * 65]}, MalformedNetwork, "/vertices/1"),
        ({"vertices": ...}, MalformedNetwork, "/vertices"),
        ({"edges": {}}, MalformedNetwork, "/edges"),
        ({"edges": [["ann", "bob"], ["ann"]]}, MalformedNetwork, "/edges/1"),
        ({"edges": [["ann", "bob"], ["ann", "eve"]]}, UnknownVertex, "/edges/1"),
        ({"edges": [["ann", "bob"], ["bob", "bob"]]}, SelfLoop, "/edges/1"),
        ({"edges": [*SQUARE["edges"], ["bob", "ann"]]}, DuplicateEdge, "/edges/4"),
        ({"edges": SQUARE["edges"][:2], "path": ["ann", "bob"]}, TooFewEdges, "/edges"),
        ({"path": ["ann"]}, PathTooShort, "/path"),
        ({"path": ["ann", "eve"]}, UnknownVertex, "/path/1"),
        ({"path": ["ann", "bob", "bob"]}, PathRepeatsConsecutively, "/path/1"),
        ({"path": ["ann", "bob", "dora"]}, PathStepNotAnEdge, "/path/1"),
        ({"path": ...}, MalformedNetwork, "/path"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_is_wrong_where(changes: dict[str, Any], problem: type[Invalid], pointer: str) -> None:
    with pytest.raises(problem) as wrong:
        read_json(content(**changes))
    assert wrong.value.pointer == pointer
    said = str(wrong.value) + str(wrong.value.extra)
    for name in ("ann", "bob", "cid", "dora", "eve"):
        assert name not in said


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(MalformedNetwork):
        read_json(content(notes=[]))


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b'{"vertices": NaN}', b"\xff\xfe", b'"x"'], ids=range(6)
)
def test_what_is_no_json_object(text: bytes) -> None:
    with pytest.raises(MalformedContent):
        read_json(io.BytesIO(text))


@given(st.data())
def test_ids_are_only_names(data: st.DataObject) -> None:
    """Any ids, edges in any order and direction: the same network over places."""
    size = data.draw(st.integers(2, 8))
    pairs = [(one, other) for one in range(size) for other in range(one + 1, size)]
    chosen = data.draw(st.sets(st.sampled_from(pairs)))
    edges = list(chosen | {(at, at + 1) for at in range(size - 1)})
    ids = data.draw(
        st.one_of(
            st.lists(st.integers(-(2**62), 2**62), min_size=size, max_size=size, unique=True),
            st.lists(st.text(min_size=1, max_size=64), min_size=size, max_size=size, unique=True),
        )
    )
    turned = data.draw(st.permutations([data.draw(st.permutations(edge)) for edge in edges]))
    made = NetworkPath.of(ids, [[ids[a], ids[b]] for a, b in turned], ids)
    assert sorted(map(tuple, made.network.edges.tolist())) == sorted(edges)
    assert made.path.tolist() == list(range(size))
    assert made.step_codes().tolist() == [at * size + at + 1 for at in range(size - 1)]


def test_arrays_that_do_not_fit() -> None:
    good = np.array([[0, 1], [1, 2]])
    for edges in (good[:, 0], good[:, ::-1], good + 1, good - 1, np.array([[1, 1]])):
        with pytest.raises(ValueError):
            NetworkMap((1, 2, 3), edges)
    network = NetworkMap((1, 2, 3), good)
    for path in ([0], [0, 3], [-1, 0], [[0, 1]]):
        with pytest.raises(ValueError):
            NetworkPath(network, np.array(path))
