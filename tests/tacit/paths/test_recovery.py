"""Recovery at the user's side: every form, its errors, and publications that are none."""

from __future__ import annotations

import inspect
import itertools
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.sealing import SealKey
from tacit.paths import published as sealing
from tacit.paths.network import (
    MalformedPublication,
    MapMismatch,
    MapTooLarge,
    NetworkMap,
    NotAPath,
    NotARecipient,
    walked,
)
from tacit.paths.published import (
    ComplementEdges,
    Direction,
    LevelledGraph,
    Node,
    RandomizedLabels,
    check_recipient,
    document,
    opened,
    read,
    sealed,
    written,
)
from tacit.paths.recovery import NO_EDGE, best_paths, recover


def square(*more: str) -> NetworkMap:
    """a-b-c-d and further edges."""
    return NetworkMap.of(list("abcd"), [list(pair) for pair in ("ab", "bc", "cd", *more)])


# ----------------------------------------------------------------------------------------- walking


@given(st.permutations(range(9)), st.data())
def test_edges_in_any_order_are_walked(path: list[int], data: st.DataObject) -> None:
    edges = data.draw(st.permutations([sorted(pair) for pair in itertools.pairwise(path)]))
    low, high = np.array(edges).T
    found = walked(low, high, 9).tolist()
    assert found in (path, path[::-1])
    assert found[0] < found[-1]


@pytest.mark.parametrize(
    "edges",
    [
        [],
        [(0, 1), (1, 2), (0, 2)],
        [(0, 1), (2, 3)],
        [(0, 1), (0, 2), (0, 3)],
        [(0, 1), (2, 3), (3, 4), (2, 4)],
    ],
    ids=["nothing", "ring", "two", "star", "path-and-ring"],
)
def test_what_is_not_one_path(edges: list[tuple[int, int]]) -> None:
    ends = np.array(edges, np.int64).reshape(-1, 2)
    with pytest.raises(NotAPath):
        walked(ends[:, 0], ends[:, 1], 5)


# -------------------------------------------------------------------------------------- complement


def test_a_complement_is_subtracted() -> None:
    published = ComplementEdges(tuple("abcd"), np.array([[0, 3], [1, 3]]))
    network = square("da", "db")
    found = recover(network, published)
    assert (found.paths, found.direction_confidence) == ((tuple("abcd"), tuple("dcba")), "none")
    assert recover(network, written(published)) == found
    for bit, first in ((1, "a"), (0, "d")):
        told = ComplementEdges(published.vertices, published.edges, Direction(bit, "2"))
        found = recover(network, document(told))
        assert (found.paths[0][0], len(found.paths)) == (first, 1)
        assert found.direction_confidence == "likely"


def test_another_map_is_noticed() -> None:
    published = ComplementEdges(tuple("abcd"), np.array([[0, 3]]))
    with pytest.raises(NotAPath):
        recover(square(), published)  # a published edge that the map lacks
    with pytest.raises(NotAPath):
        recover(square("ad", "ac"), published)
    with pytest.raises(MapMismatch):
        recover(NetworkMap.of(list("abce"), [list("ab"), list("bc"), list("ce")]), published)
    with pytest.raises(MapMismatch):
        recover(square("ad"), ComplementEdges(tuple("abc"), np.array([[0, 1]])))


# ---------------------------------------------------------------------------------- levelled graph


def chain(**changes: Any) -> LevelledGraph:
    """Of the complete map of four: the levels are the path a b c d."""
    nodes = tuple(Node(name, 0, 0, level) for level, name in enumerate("abcd"))
    return LevelledGraph(nodes, ((0, 2), (0, 3), (1, 3)), **changes)


def test_rules_for_the_direction() -> None:
    network = square("ac", "ad", "bd")
    for rule, confidence in (
        ("combined", "certain"),
        ("certain", "certain"),
        ("nearest-root", "likely"),
    ):
        found = recover(network, chain(), direction=rule)  # type: ignore[arg-type]
        assert (found.paths, found.direction_confidence) == ((tuple("abcd"),), confidence)
    plain = recover(network, chain(canonical=True))
    assert (len(plain.paths), plain.direction_confidence) == (2, "none")
    with pytest.raises(MapMismatch):
        recover(NetworkMap.of(list("abc"), [list("ab"), list("bc")]), chain())
    with pytest.raises(NotAPath):
        recover(square("ac", "ad"), LevelledGraph(chain().nodes, ((0, 2), (1, 3))))


def test_copy_numbers_are_looked_at_only_when_asked() -> None:
    """A walk from a over b and c back to a, whose later copy was put on top: the levels say one
    direction, the numbers the other."""
    network = NetworkMap.of(list("abc"), [list("ab"), list("bc"), list("ac")])
    nodes = (Node("a", 0, 0, 3), Node("a", 1, 0, 0), Node("b", 0, 0, 1), Node("c", 0, 0, 2))
    graph = LevelledGraph(nodes, ((1, 3), (2, 0)))
    by_levels = recover(network, graph)
    by_copies = recover(network, graph, use_copy_order=True)
    assert by_levels.paths == (tuple("abca"),)
    assert by_copies.paths == (tuple("acba"),)
    assert by_levels.direction_confidence == by_copies.direction_confidence == "certain"


# ----------------------------------------------------------------------------------------- decoding


@given(st.integers(2, 6), st.data())
def test_held_and_karp_agree_with_enumeration(size: int, data: st.DataObject) -> None:
    weights = np.full((size, size), NO_EDGE, np.int8)
    for one, other in itertools.combinations(range(size), 2):
        weights[one, other] = weights[other, one] = data.draw(st.sampled_from([-1, 1, NO_EDGE]))

    def total(path: tuple[int, ...]) -> int:
        return sum(int(weights[pair]) for pair in itertools.pairwise(path))

    every = {path: total(path) for path in itertools.permutations(range(size))}
    most = max(every.values())
    best = best_paths(weights)
    if most < -size:
        assert best is None
        return
    assert best.weight == most == total(best.path)
    assert best.count == sum(value == most for value in every.values()) // 2


def test_labels_are_decoded() -> None:
    network = square("ad", "ac", "bd")
    labels = np.array([True, False, False, True, False, True])  # ab ac ad bc bd cd
    published = RandomizedLabels(tuple("abcd"), labels, "20", Direction(0, "1"))
    found = recover(network, written(published))
    assert (found.paths, found.ties) == ((tuple("dcba"),), 1)
    blind = RandomizedLabels(tuple("abcd"), np.ones(6, np.bool_), "1")
    assert recover(network, blind).ties == 12  # every path of the complete map
    with pytest.raises(MapMismatch):
        recover(network, RandomizedLabels(tuple("abce"), labels, "1"))
    star = NetworkMap.of(list("abcd"), [list("ab"), list("ac"), list("ad")])
    with pytest.raises(NotAPath):
        recover(star, blind)
    large = NetworkMap.of(list(range(19)), [[at, at + 1] for at in range(18)])
    with pytest.raises(MapTooLarge):
        recover(large, RandomizedLabels(tuple(range(19)), np.ones(171, np.bool_), "1"))


# ------------------------------------------------------------------------------------------- sealed

KEYS = [SealKey(bytes([number]) * 32) for number in (1, 2, 3)]
PUBLIC = [key.public.raw for key in KEYS]


def test_recipients_open_and_nobody_else() -> None:
    network = square()
    made = sealed(list("dcba"), PUBLIC[:2], "job 7")
    for key in KEYS[:2]:
        found = recover(network, written(made), private_key=key)
        assert (found.paths, found.direction_confidence) == ((tuple("dcba"),), "certain")
    with pytest.raises(NotARecipient):
        recover(network, made, private_key=KEYS[2])
    with pytest.raises(NotARecipient):
        recover(network, made)
    for other, problem in ((square("ac"), None), (NetworkMap.of([1, 2], [[1, 2]]), MapMismatch)):
        if problem is None:
            recover(other, made, private_key=KEYS[0])
        else:
            with pytest.raises(problem):
                recover(other, made, private_key=KEYS[0])
    crossed = NetworkMap.of(list("abcd"), [list("ac"), list("cb"), list("bd")])
    with pytest.raises(NotAPath):
        recover(crossed, made, private_key=KEYS[0])


def test_keys_that_are_none() -> None:
    """Too short, too long, no ML-KEM key, and an X25519 half of small order."""
    good = SealKey(bytes(32)).public.raw
    check_recipient(good)
    for bad in (good[:-1], good + b"x", b"\xff" * 384 + good[384:], good[:-32] + bytes(32)):
        with pytest.raises(ValueError):
            check_recipient(bad)


def test_any_flipped_bit_fails() -> None:
    """Spec: path-publishing, section 8, check 12.

    Every bit of the nonce, and of one byte in 7 of the ciphertext and one in 97 of the sealed key,
    both ends included; the name is bound too.
    """
    made = sealed(list("abcd"), PUBLIC[:1], "job 7")

    def flips(text: bytes, step: int = 1) -> list[bytes]:
        places = sorted({*range(0, len(text), step), len(text) - 1})
        return [
            text[:at] + bytes([text[at] ^ 1 << bit]) + text[at + 1 :]
            for at in places
            for bit in range(8)
        ]

    altered = [
        *(type(made)(made.name, each, made.ciphertext, made.keys) for each in flips(made.nonce)),
        *(type(made)(made.name, made.nonce, each, made.keys) for each in flips(made.ciphertext, 7)),
        *(
            type(made)(made.name, made.nonce, made.ciphertext, (each,))
            for each in flips(made.keys[0], 97)
        ),
        type(made)("job 8", made.nonce, made.ciphertext, made.keys),
    ]
    for each in altered:
        with pytest.raises(NotARecipient):
            opened(each, KEYS[0])
    assert opened(made, KEYS[0]) == tuple("abcd")


def test_the_length_tells_a_bucket_only() -> None:
    lengths = {len(sealed(list(range(count)), PUBLIC, "x").ciphertext) for count in range(2, 200)}
    assert lengths == {1024 + 16}
    assert len(sealed(list(range(2000)), PUBLIC, "x").ciphertext) % 1024 == 16
    one, two = (sealed(list("ab"), PUBLIC, "x") for _ in range(2))
    assert one.ciphertext != two.ciphertext
    assert one.nonce != two.nonce


def test_sealing_is_never_given_the_map() -> None:
    """Spec: path-publishing, section 8, check 12: the signature is the promise."""
    assert list(inspect.signature(sealed).parameters) == ["path", "recipients", "name", "beat"]
    assert "NetworkMap" not in inspect.getsource(sealing)
    shown = document(sealed(list("ab"), PUBLIC, "x"))
    assert set(shown) == {"format", "name", "nonce", "ciphertext", "keys"}


# ---------------------------------------------------------------------------------------- the wire


@pytest.mark.parametrize(
    "published",
    [
        chain(),
        chain(canonical=True),
        ComplementEdges((1, 2, 3), np.array([[0, 2]]), Direction(1, "1/3")),
        ComplementEdges((1, 2, 3), np.zeros((0, 2), np.int64)),
        ComplementEdges(('"', "é\n", "\\]"), np.array([[0, 1], [1, 2]])),
        RandomizedLabels(("x", "y", "z"), np.array([True, False, True]), "0.5"),
        sealed([1, 2], PUBLIC, "x"),
    ],
    ids=["graph", "canonical", "complement", "empty", "texts", "labels", "sealed"],
)
def test_there_and_back(published: Any) -> None:
    plain = json.dumps(document(published), separators=(",", ":")).encode() + b"\n"
    assert written(published) == plain
    again = read(written(published))
    assert type(again) is type(published)
    assert document(again) == document(published) == json.loads(written(published))


GRAPH = document(chain())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        {},
        {"format": "tacit.graph-path/1"},
        {**GRAPH, "nodes": [{"base": 1}]},
        {**GRAPH, "nodes": GRAPH["nodes"] * 2},
        {**GRAPH, "edges": [[0, 9]]},
        {**GRAPH, "edges": [[2, 0]]},
        {**GRAPH, "edges": [[0, True]]},
        {"format": "tacit.complement/1", "vertices": [1, 2], "edges": [[1, 3]], "direction": None},
        {"format": "tacit.complement/1", "vertices": [1, "a"], "edges": [], "direction": None},
        {"format": "tacit.complement/1", "vertices": [1, 2], "edges": [], "direction": {"bit": 2}},
        {"format": "tacit.randomized-labels/1", "vertices": [1, 2], "labels": "!", "epsilon": "1"},
        {"format": "tacit.sealed-path/1", "name": 1, "nonce": "", "ciphertext": "", "keys": []},
    ],
    ids=range(14),
)
def test_what_is_no_publication(content: Any) -> None:
    with pytest.raises(MalformedPublication):
        read(content)


def test_a_holder_needs_neither_client_nor_services_nor_algorithms() -> None:
    program = "import sys, tacit.paths; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"algorithms", "coordinator", "curator", "aggregator", "sqlalchemy"}
    assert not loaded & {"httpx", "fastapi", "scipy", "numba", "matplotlib", "dask"}
