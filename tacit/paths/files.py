"""Reader of networks with a path: one JSON object `{"vertices": [...], "edges": [...], "path":
[...]}`.

Spec: path-publishing, sections 2.1 and 2.3. Edges are pairs of ids; errors name positions, counted
from 0, and never an id.
"""

from __future__ import annotations

import json
from typing import Any, BinaryIO, NoReturn

from tacit.compression import MalformedContent
from tacit.paths.network import MalformedNetwork, NetworkMap, NetworkPath


def read_json(stream: BinaryIO) -> NetworkPath:
    """A map with a path. Raises MalformedContent, and what `NetworkPath.of` raises."""
    found = _document(stream, ("vertices", "edges", "path"))
    return NetworkPath.of(found["vertices"], found["edges"], found["path"])


def read_map(stream: BinaryIO) -> NetworkMap:
    """A map; a path in the same file is ignored.

    Raises MalformedContent, and what `NetworkMap.of` raises.
    """
    found = _document(stream, ("vertices", "edges"))
    return NetworkMap.of(found["vertices"], found["edges"])


def _document(stream: BinaryIO, needed: tuple[str, ...]) -> dict[str, Any]:
    try:
        found = json.loads(stream.read(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise MalformedContent("the content is not a JSON object") from None
    if not isinstance(found, dict):
        raise MalformedContent("the content is not a JSON object")
    for name in needed:
        if name not in found:
            raise MalformedNetwork("the field is missing", pointer=f"/{name}")
    for name in sorted(found):
        if name not in ("vertices", "edges", "path"):
            raise MalformedNetwork("a network has the fields vertices, edges and path alone")
    return found


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError
