"""The catalogue: every algorithm that runs as a job, by its name on the wire.

Spec: jobs, section "Catalogue". An algorithm is one module or package of this directory, named as
the algorithm with underscores, that has `ALGORITHM`; its entry here is its name. A module is
imported on first use: a service that runs no job loads none of them.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Any, Final

from algorithms.contract import Algorithm
from tacit.errors import NotFound

NAMES: Final = (
    "kmeans",
    "dpbv-clustering",
    "crowd-tasking",
    "set-valued",
    "sequential-prefix-tree",
    "sequential-ngram",
    "trajectory-kcl",
    "graph-der",
    "graph-random-matrix",
    "privacy-check",
    "path-publishing",
)


class UnknownAlgorithm(NotFound):
    """The catalogue has no algorithm of this name."""

    name = "unknown_algorithm"
    title = "There is no such algorithm"


def none_such(name: str) -> str:
    """Message for an unknown name: the most similar algorithm, or a list of all."""
    near = get_close_matches(name, NAMES, n=1)
    suggestion = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
    return f"{UnknownAlgorithm.title}: {suggestion}"


@cache
def find(name: str) -> Algorithm:
    """The algorithm of this name. Raises UnknownAlgorithm."""
    if name not in NAMES:
        raise UnknownAlgorithm(none_such(name))
    module = import_module(f"algorithms.{name.replace('-', '_')}")
    result: Algorithm = module.ALGORITHM
    return result


@cache
def shown(name: str) -> dict[str, Any]:
    """An entry as JSON values; `parameters` is a JSON Schema. Raises UnknownAlgorithm."""
    algorithm = find(name)
    return {
        "name": algorithm.name,
        "title": algorithm.title,
        "source": algorithm.source,
        "purpose": algorithm.purpose,
        "dataset_kind": algorithm.dataset_kind,
        "stances": list(algorithm.stances),
        "federated": None if algorithm.federated is None else dict(algorithm.federated),
        "parameters": algorithm.params.model_json_schema(),
        "result": dict(algorithm.result),
        "complexity": algorithm.complexity,
    }
