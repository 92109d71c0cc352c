"""The forms of a published path on the wire, and the form sealed for named recipients.

The forms of a published path on the wire. Spec: path-publishing, section 2.4.

Every list is sorted before it is published: the order in which an algorithm makes things is the
order of the path.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from tacit.crypto.sealing import NONCE_BYTES, SealBroken, SealKey, SealPublicKey, length_prefixed
from tacit.paths.network import Ints, MalformedPublication, NotARecipient, VertexId
from tacit.wire import canonical_json, encode_binary, parse_binary

GRAPH_PATH: Final = "tacit.graph-path/1"
COMPLEMENT: Final = "tacit.complement/1"
RANDOMIZED: Final = "tacit.randomized-labels/1"
SEALED: Final = "tacit.sealed-path/1"
_BEAT_EDGES: Final = 1 << 17


@dataclass(frozen=True)
class Direction:
    """bit 1: the path begins at the smaller of its end ids; truthful with probability
    e^epsilon / (1 + e^epsilon)."""

    bit: int
    epsilon: str


@dataclass(frozen=True)
class Node:
    """A piece of a sub-vertex of a base vertex; level 0 is the top."""

    base: VertexId
    sub: int
    piece: int
    level: int


@dataclass(frozen=True)
class LevelledGraph:
    """A levelled, transitively closed DAG: edges (upper, lower) between places of nodes.

    canonical: made of the published edges alone, without the path's order; its roots then reveal no
    direction.
    """

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    canonical: bool = False


@dataclass(frozen=True, eq=False)
class ComplementEdges:
    """The map's edges off the path: sorted ids, and (k, 2) places of them, the smaller first."""

    vertices: tuple[VertexId, ...]
    edges: Ints
    direction: Direction | None = None


@dataclass(frozen=True, eq=False)
class RandomizedLabels:
    """One noisy label for each pair of sorted ids in lexicographic order; true: H, not in G."""

    vertices: tuple[VertexId, ...]
    labels: NDArray[np.bool_]
    epsilon: str
    direction: Direction | None = None


@dataclass(frozen=True)
class SealedPath:
    """A path encrypted under a content key, and that key for each recipient. `name`: what the
    seals are bound to."""

    name: str
    nonce: bytes
    ciphertext: bytes
    keys: tuple[bytes, ...]


Published: TypeAlias = LevelledGraph | ComplementEdges | RandomizedLabels | SealedPath


def form(published: Published) -> str:
    """The name of its form."""
    return _FORMS[type(published)]


def document(published: Published) -> dict[str, Any]:
    """The JSON object."""
    match published:
        case LevelledGraph():
            shown: dict[str, Any] = {
                "format": GRAPH_PATH,
                "nodes": [
                    {"base": each.base, "sub": each.sub, "piece": each.piece, "level": each.level}
                    for each in published.nodes
                ],
                "edges": [list(edge) for edge in published.edges],
            }
            return {**shown, "canonical": True} if published.canonical else shown
        case ComplementEdges():
            ids = published.vertices
            return {
                "format": COMPLEMENT,
                "vertices": list(ids),
                "edges": [[ids[low], ids[high]] for low, high in published.edges.tolist()],
                "direction": _shown_direction(published.direction),
            }
        case RandomizedLabels():
            return {
                "format": RANDOMIZED,
                "vertices": list(published.vertices),
                "labels": base64.b64encode(np.packbits(published.labels).tobytes()).decode(),
                "epsilon": published.epsilon,
                "direction": _shown_direction(published.direction),
            }
        case SealedPath():
            return {
                "format": SEALED,
                "name": published.name,
                "nonce": encode_binary(published.nonce),
                "ciphertext": encode_binary(published.ciphertext),
                "keys": [encode_binary(key) for key in published.keys],
            }


def written(published: Published, beat: Callable[[], None] = lambda: None) -> bytes:
    """The bytes of the file: JSON without blanks. `beat` is called several times a second."""
    if not isinstance(published, ComplementEdges):
        return _plain(document(published)) + b"\n"
    # a long list of edges takes a while: one by one, so that progress can be reported in between
    names = [_plain(each).decode() for each in published.vertices]
    parts = []
    for first in range(0, len(published.edges), _BEAT_EDGES):
        beat()
        some = published.edges[first : first + _BEAT_EDGES].tolist()
        parts.append(",".join([f"[{names[low]},{names[high]}]" for low, high in some]))
    head = f'{{"format":"{COMPLEMENT}","vertices":[{",".join(names)}],"edges":['
    tail = b'],"direction":' + _plain(_shown_direction(published.direction)) + b"}\n"
    return head.encode() + ",".join(parts).encode() + tail


def _plain(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _shown_direction(direction: Direction | None) -> dict[str, Any] | None:
    return None if direction is None else {"bit": direction.bit, "epsilon": direction.epsilon}


def read(content: bytes | str | dict[str, Any]) -> Published:
    """A published object from its bytes or its JSON object. Raises MalformedPublication."""
    if not isinstance(content, dict):
        try:
            content = json.loads(content)
        except (ValueError, RecursionError):
            raise MalformedPublication("not JSON") from None
    named = content.get("format") if isinstance(content, dict) else None
    reader = _READERS.get(named) if isinstance(named, str) else None
    if reader is None:
        raise MalformedPublication("no known format")
    try:
        published: Published = reader(content)
    except MalformedPublication:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        raise MalformedPublication from None
    return published


def _ids(listed: Any) -> tuple[VertexId, ...]:
    ids = tuple(listed)
    if not ids or not (set(map(type, ids)) == {int} or set(map(type, ids)) == {str}):
        raise MalformedPublication("ids are texts, or whole numbers")
    if len(set(ids)) != len(ids):
        raise MalformedPublication("a vertex is listed twice")
    return ids


def _graph(content: dict[str, Any]) -> LevelledGraph:
    nodes = tuple(Node(*(node[key] for key in _NODE)) for node in content["nodes"])
    _ids(dict.fromkeys(node.base for node in nodes))
    if any(type(part) is not int for node in nodes for part in (node.sub, node.piece, node.level)):
        raise MalformedPublication("sub, piece and level are whole numbers")
    if len({(node.base, node.sub, node.piece) for node in nodes}) != len(nodes):
        raise MalformedPublication("a node is listed twice")
    edges = tuple((upper, lower) for upper, lower in content["edges"])
    places = range(len(nodes))
    if any(type(end) is not int or end not in places for edge in edges for end in edge):
        raise MalformedPublication("an edge joins two places of nodes")
    if any(nodes[upper].level >= nodes[lower].level for upper, lower in edges):
        raise MalformedPublication("an edge goes down")
    return LevelledGraph(nodes, edges, content.get("canonical") is True)


def _complement(content: dict[str, Any]) -> ComplementEdges:
    ids = _ids(content["vertices"])
    places = {vertex: place for place, vertex in enumerate(ids)}
    edges = np.array(
        [(places[one], places[other]) for one, other in content["edges"]], np.int64
    ).reshape(-1, 2)
    edges.sort(axis=1)
    if (edges[:, 0] == edges[:, 1]).any():
        raise MalformedPublication("an edge joins two vertices")
    return ComplementEdges(ids, edges, _direction(content["direction"]))


def _labels(content: dict[str, Any]) -> RandomizedLabels:
    ids = _ids(content["vertices"])
    pairs = len(ids) * (len(ids) - 1) // 2
    try:
        packed = base64.b64decode(content["labels"], validate=True)
    except binascii.Error:
        raise MalformedPublication("labels are base64") from None
    if len(packed) != -(-pairs // 8):
        raise MalformedPublication("one label for each pair")
    labels = np.unpackbits(np.frombuffer(packed, np.uint8), count=pairs).astype(np.bool_)
    return RandomizedLabels(ids, labels, str(content["epsilon"]), _direction(content["direction"]))


def _sealed(content: dict[str, Any]) -> SealedPath:
    name, keys = content["name"], content["keys"]
    if not isinstance(name, str) or not isinstance(keys, list):
        raise MalformedPublication
    return SealedPath(
        name,
        parse_binary(content["nonce"]),
        parse_binary(content["ciphertext"]),
        tuple(parse_binary(each) for each in keys),
    )


def _direction(shown: Any) -> Direction | None:
    if shown is None:
        return None
    if type(shown["bit"]) is not int or shown["bit"] not in (0, 1):
        raise MalformedPublication("a direction is 0 or 1")
    try:
        Decimal(shown["epsilon"].partition("/")[0])
    except InvalidOperation:
        raise MalformedPublication("an epsilon is a decimal text") from None
    return Direction(shown["bit"], shown["epsilon"])


_FORMS: Final[dict[type, str]] = {
    LevelledGraph: GRAPH_PATH,
    ComplementEdges: COMPLEMENT,
    RandomizedLabels: RANDOMIZED,
    SealedPath: SEALED,
}
_NODE: Final = ("base", "sub", "piece", "level")
_READERS: Final[dict[Any, Any]] = {
    GRAPH_PATH: _graph,
    COMPLEMENT: _complement,
    RANDOMIZED: _labels,
    SEALED: _sealed,
}


# A path for named recipients only, encrypted under a new random key (spec: path-publishing, section
# 3.10; keys, section 2.7). The content key goes to each recipient by
# HPKE (RFC 9180, base mode): X-Wing, HKDF-SHA256, AES-256-GCM. The path is under ChaCha20-Poly1305,
# padded so that its length reveals only a bucket of 1 KiB. Keys, nonce and name come from the
# operating system.
#
# Nothing here receives the map, and nothing may be derived from it: anyone who knows all of a map
# but one edge can try the few completions offline, whatever the hash.

BUCKET_BYTES: Final = 1024
MOST_RECIPIENTS: Final = 10_000
_KEY_BYTES: Final = 32
_LENGTH_BYTES: Final = 8
_BEAT: Final = 256


def check_recipient(raw: bytes) -> None:
    """Raise ValueError for bytes that are no recipient's public key."""
    SealPublicKey(raw).seal(b"", b"")  # SealBroken, a ValueError, for a half of small order


def sealed(
    path: Sequence[VertexId],
    recipients: Sequence[bytes],
    name: str,
    beat: Callable[[], None] = lambda: None,
) -> SealedPath:
    """A path for the holders of these public keys (1,216 or 32 bytes).

    `name` is bound into each seal. Raises ValueError for an invalid key.
    """
    bound = length_prefixed(SEALED.encode(), name.encode())
    key, nonce = os.urandom(_KEY_BYTES), os.urandom(NONCE_BYTES)
    ciphertext = ChaCha20Poly1305(key).encrypt(nonce, _padded(path), bound)
    keys = []
    for number, raw in enumerate(recipients):
        if number % _BEAT == 0:
            beat()
        keys.append(SealPublicKey(raw).seal(key, bound))
    return SealedPath(name, nonce, ciphertext, tuple(keys))


def opened(published: SealedPath, private_key: SealKey) -> tuple[VertexId, ...]:
    """The path, for a recipient. Raises NotARecipient for anyone else, and for anything that was
    altered."""
    bound = length_prefixed(SEALED.encode(), published.name.encode())
    for key_box in published.keys:
        try:
            key = private_key.open(key_box, bound)
        except SealBroken:
            continue
        try:
            plain = ChaCha20Poly1305(key).decrypt(published.nonce, published.ciphertext, bound)
        except (InvalidTag, ValueError):
            break
        length = int.from_bytes(plain[:_LENGTH_BYTES], "big")
        return tuple(json.loads(plain[_LENGTH_BYTES : _LENGTH_BYTES + length]))
    raise NotARecipient


def _padded(path: Sequence[VertexId]) -> bytes:
    text = canonical_json(list(path))
    plain = len(text).to_bytes(_LENGTH_BYTES, "big") + text
    return plain + bytes(-len(plain) % BUCKET_BYTES)
