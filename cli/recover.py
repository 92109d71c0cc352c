"""`tacit recover`, and for its owner `tacit attack-path`: published paths, without any service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from algorithms.path_publishing.evaluation import (
    candidates,
    label_posterior,
    level_sort,
    replay,
    single_steps,
)
from cli.context import Answer, TextTable, console, printed, say
from cli.services.sealed_files import private_key
from tacit.errors import DomainError
from tacit.paths import Rule, read_map, read_published, recover
from tacit.paths.network import NetworkPath, read_json
from tacit.paths.published import (
    ComplementEdges,
    LevelledGraph,
    Published,
    RandomizedLabels,
    SealedPath,
    form,
)

Json = dict[str, Any]
PublishedFile = Annotated[
    Path, typer.Argument(metavar="PUBLISHED", help="published.json of a job.")
]


@printed
def recover_path(
    map_file: Annotated[
        Path, typer.Argument(metavar="MAP", help="JSON with exactly vertices and edges.")
    ],
    published_file: PublishedFile,
    key: Annotated[
        Path | None,
        typer.Option(help="Private key of a sealed path's recipient (`tacit recipient-key`)."),
    ] = None,
    direction: Annotated[
        Rule, typer.Option(help="How the start of a graph-path is found.")
    ] = "combined",
    use_copy_order: Annotated[
        bool, typer.Option(help="Of a cyclic graph-path: trust the numbers of copies.")
    ] = False,
) -> Answer:
    """Recover a published path from the map that it was made of. Nothing leaves this machine."""
    with _plain_words():
        with map_file.open("rb") as file:
            network = read_map(file)
        recovered = recover(
            network,
            published_file.read_bytes(),
            direction=direction,
            use_copy_order=use_copy_order,
            private_key=None if key is None else private_key(key),
        )
    shown: Json = {
        "paths": [list(path) for path in recovered.paths],
        "direction_confidence": recovered.direction_confidence,
        "ties": recovered.ties,
    }

    def human() -> None:
        for path in recovered.paths:
            typer.echo(" ".join(str(vertex) for vertex in path))
        typer.echo(f"direction: {_DIRECTION[recovered.direction_confidence]}", err=True)
        if recovered.ties > 1:
            typer.echo(f"{recovered.ties} paths are as likely as this one", err=True)

    return Answer(shown, human)


_DIRECTION = {
    "certain": "certain",
    "likely": "likely, not certain",
    "none": "undecided, both are shown",
}


@printed
def attack_path(
    network_file: Annotated[
        Path, typer.Argument(metavar="NETWORK", help="JSON with vertices, edges and path.")
    ],
    published_file: PublishedFile,
    step: Annotated[
        int | None, typer.Option(help="Only this step of the path, counted from 0.")
    ] = None,
    search_budget: Annotated[
        int, typer.Option(min=100, help="The search_budget of the job, of a graph-path.")
    ] = 2000,
) -> Answer:
    """What an adversary finds who knows the map and all but one step of the path. For the owner."""
    with _plain_words():
        with network_file.open("rb") as file:
            network = read_json(file)
        published = read_published(published_file.read_bytes())
        steps = single_steps(network)
        if step is not None and step not in steps:
            raise ValueError("no such step whose edge the path takes only once")
        if not isinstance(published, SealedPath) and set(_vertices(published)) != set(
            network.network.vertices
        ):
            raise ValueError("publication and network have different vertices")
        chosen = steps if step is None else [step]
        rows = [_attacked(network, published, step, search_budget) for step in chosen]
    attack: Json = {"format": form(published), "steps": rows, "summary": _summary(rows)}
    if isinstance(published, LevelledGraph) and not published.canonical:
        sorted_by_level = level_sort(published, network.ids())
        attack["level_sort"] = {
            "whole_path": sorted_by_level.whole_path,
            "share_of_path_edges": sorted_by_level.edges_read,
        }

    def human() -> None:
        names = ["step", "candidates", "left", "the true edge"]
        cells = [
            [str(row["step"]), str(row["candidates"]), str(row["left"]), _certainty(row)]
            for row in rows
        ]
        console.print(TextTable("Who knows all but one step", names, cells))
        say(
            f"found by the publication: {attack['summary']['identified']} of {len(rows)} steps; "
            f"known beforehand: {attack['summary']['known_beforehand']}"
        )
        if "level_sort" in attack:
            share = attack["level_sort"]["share_of_path_edges"]
            say(f"a stranger without the map reads {share:.0%} of the path's edges")

    return Answer(attack, human)


def _attacked(network: NetworkPath, published: Published, step: int, search_budget: int) -> Json:
    """For one step: candidates before and after, and the probability of the true edge then."""
    before = candidates(network, step)
    match published:
        case LevelledGraph() if not published.canonical:
            tried = replay(published, network, step, search_budget)
            remaining = len(tried.after_levels)
            if before[0].pair not in tried.after_levels:
                raise ValueError("the publication was not made of this network and search_budget")
            posterior = 1 / remaining
        case RandomizedLabels():
            remaining = len(before)
            chances = label_posterior(published, network, step, float(Fraction(published.epsilon)))
            posterior = chances[before[0].pair]
        case LevelledGraph() | ComplementEdges() | SealedPath():
            remaining = len(before)  # the bytes do not depend on the edge, or are ciphertext
            posterior = 1 / remaining
    return {
        "step": step,
        "candidates": len(before),
        "left": remaining,
        "posterior": posterior,
        "known_beforehand": len(before) == 1,
        "identified": remaining == 1 < len(before),
    }


def _certainty(row: Json) -> str:
    if row["known_beforehand"]:
        return "known beforehand"
    return "found" if row["identified"] else f"{row['posterior']:.0%} likely"


def _summary(rows: list[Json]) -> Json:
    return {name: sum(row[name] for row in rows) for name in ("identified", "known_beforehand")}


def _vertices(published: Published) -> list[Any]:
    if isinstance(published, LevelledGraph):
        return [node.base for node in published.nodes]
    assert not isinstance(published, SealedPath)
    return list(published.vertices)


@contextmanager
def _plain_words() -> Iterator[None]:
    try:
        yield
    except DomainError as error:
        place = f" ({error.pointer})" if error.pointer else ""
        raise ValueError(f"{error.name}: {error.detail}{place}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}") from None
