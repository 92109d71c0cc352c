"""Path publishing as the catalogue knows it: run, preview, check, and what a result holds.

Spec: path-publishing, sections 1 to 3; jobs, "Catalogue" and "Result".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from algorithms.contract import Algorithm, Context, Drawing, Outcome, Plot, ResultFile, Stance
from algorithms.path_publishing.evaluation import (
    complement_evaluation,
    graph_path_evaluation,
    randomized_evaluation,
)
from algorithms.path_publishing.levelled_graph import (
    drawn_copies,
    drawn_direction,
    drawn_relations,
    graph_path,
    labelled,
    layout_of,
    off_path,
)
from algorithms.path_publishing.parameters import (
    CyclicPathNotSupported,
    Mode,
    NetworkTooLarge,
    Parameters,
    PathNotSpanning,
    check_parameters,
)
from algorithms.path_publishing.report import NAME, path_report
from tacit.paths.network import NetworkPath
from tacit.paths.published import (
    ComplementEdges,
    LevelledGraph,
    Published,
    RandomizedLabels,
    SealedPath,
    form,
    sealed,
    written,
)
from tacit.paths.recovery import MOST_VERTICES
from tacit.randomness import SecureRandom
from tacit.report.model import PrivacyReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes


VERTICES: Final[dict[Mode, int]] = {
    "graph-path": 60,
    "complement": 10**6,
    "randomized": MOST_VERTICES,
    "sealed": 10**7,
}
LAYOUT_VERTICES: Final = 60
ADVISED_VERTICES: Final = 12
"""Beyond it most vertices of a levelled graph are split."""
SUB_VERTICES: Final = 240
_NAME_BYTES: Final = 16

RESULT: Final = {
    "mode": "graph-path, complement, randomized or sealed",
    "format": "the form of published.json",
    "vertices": "how many vertices are published (null where none are)",
    "edges": "how many edges are published (null where none are)",
    "bytes": "of published.json",
    "published.json": "the file to publish: users recover the path from it with `tacit recover`",
    "layout.json": "complement, where asked for: the published edges on levels",
}


def check(dataset: NetworkPath, params: Parameters, stance: Stance) -> None:
    """Refuse a network that does not fit the mode.

    Raises NetworkTooLarge, PathNotSpanning, CyclicPathNotSupported, and what parameters raise.
    """
    mode = check_parameters(params, stance)
    size = dataset.network.size
    most = LAYOUT_VERTICES if params.layout else VERTICES[mode]
    if size > most:
        raise NetworkTooLarge(f"at most {most} vertices", pointer="/dataset/vertices")
    if mode == "graph-path" and dataset.path.size > SUB_VERTICES:
        raise NetworkTooLarge(f"at most {SUB_VERTICES} visits", pointer="/dataset/path")
    if mode in ("graph-path", "randomized") and not dataset.spanning:
        raise PathNotSpanning(pointer="/dataset/path")
    if mode in ("complement", "randomized") and not dataset.acyclic:
        raise CyclicPathNotSupported(pointer="/dataset/path")


def run(dataset: NetworkPath, params: Parameters, stance: Stance, context: Context) -> Outcome:
    """A publication. Raises what `check` raises, NoGraphPath, Cancelled."""
    check(dataset, params, stance)
    context.progress(0.0, "publishing")
    return _RUN[params.mode_of(stance)](dataset, params, context)


def preview(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report of a run, before any data. Raises what `check_parameters` raises."""
    return path_report(params, stance)


# ------------------------------------------------------------------------------------------- modes


def _graph_path(dataset: NetworkPath, params: Parameters, context: Context) -> Outcome:
    epsilon_v = params.copies_epsilon(acyclic=dataset.acyclic)
    copies = drawn_copies(dataset, epsilon_v, context.noise("copies"))
    if sum(copies) > SUB_VERTICES:
        raise NetworkTooLarge(f"more than {SUB_VERTICES} copies", pointer="/params/epsilon_v")
    epsilon_e = None if params.epsilon_e is None else float(params.epsilon_e)
    relations = drawn_relations(dataset, copies, epsilon_e, context.noise("pairs"))
    beat = partial(context.progress, 0.2, "placing vertices on levels")
    graph, done = graph_path(
        relations, dataset.network.vertices, params.search_budget, split=params.split, beat=beat
    )
    evaluation = graph_path_evaluation(
        dataset, graph, relations, done, params.search_budget, context
    )
    outcome = _outcome(graph, params, "paper", context)
    if dataset.network.size > ADVISED_VERTICES:
        warned = f"more than {ADVISED_VERTICES} vertices: most of them are split"
        outcome = replace(outcome, result={**outcome.result, "warnings": [warned]})
    return replace(outcome, evaluation=evaluation)


def _complement(dataset: NetworkPath, params: Parameters, context: Context) -> Outcome:
    published = off_path(dataset, partial(context.progress, 0.1, "publishing"))
    if params.epsilon_dir is not None:
        direction = drawn_direction(
            _first_is_smaller(dataset), params.epsilon_dir, context.noise("direction")
        )
        published = replace(published, direction=direction)
    layout = layout_of(published) if params.layout else None
    evaluation_made = complement_evaluation(dataset, published) if params.evaluate else None
    return replace(
        _outcome(published, params, "sound", context, layout), evaluation=evaluation_made
    )


def _randomized(dataset: NetworkPath, params: Parameters, context: Context) -> Outcome:
    assert params.epsilon is not None
    published = labelled(dataset, params.epsilon, context.noise("labels"))
    if params.epsilon_dir is not None:
        direction = drawn_direction(
            _first_is_smaller(dataset), params.epsilon_dir, context.noise("direction")
        )
        published = replace(published, direction=direction)
    evaluation_made = None
    if params.evaluate:
        evaluation_made = randomized_evaluation(dataset, published, params.epsilon, context)
    return replace(_outcome(published, params, "sound", context), evaluation=evaluation_made)


def _sealed(dataset: NetworkPath, params: Parameters, context: Context) -> Outcome:
    # keys come from the operating system: a job's chosen seed must never open what it sealed
    name = SecureRandom().bytes(_NAME_BYTES).hex()
    beat = partial(context.progress, 0.4, "sealing")
    published = sealed(dataset.ids(), params.recipients, name, beat)
    return _outcome(published, params, "sound", context)


def _first_is_smaller(dataset: NetworkPath) -> bool:
    first, last = dataset.ids()[0], dataset.ids()[-1]
    return bool(first < last)  # type: ignore[operator]


# ------------------------------------------------------------------------------------------ result


def _outcome(
    published: Published,
    params: Parameters,
    stance: Stance,
    context: Context,
    layout: LevelledGraph | None = None,
) -> Outcome:
    context.progress(0.85, "writing")
    content = written(published, partial(context.progress, 0.85, "writing"))
    files = [
        ResultFile("published.json", "application/json", content, "the published object"),
    ]
    if layout is not None:
        files.append(
            ResultFile(
                "layout.json", "application/json", written(layout), "the same edges on levels"
            )
        )
    context.progress(0.97, "releasing")
    return Outcome(
        result={"mode": params.mode_of(stance), **_summary(published), "bytes": len(content)},
        report=path_report(params, stance),
        files=tuple(files),
        plots=plots_of(published, layout),
    )


def _summary(published: Published) -> dict[str, Any]:
    vertices = edges = None
    match published:
        case LevelledGraph():
            vertices = len({node.base for node in published.nodes})
            edges = len(published.edges)
        case ComplementEdges():
            vertices, edges = len(published.vertices), len(published.edges)
        case RandomizedLabels():
            vertices = len(published.vertices)
        case SealedPath():
            pass
    return {"format": form(published), "vertices": vertices, "edges": edges}


# --- plots of what is published ------------------------------------------------------------------


_INCHES: Final = (5.4, 4.6)
_BLUE: Final = "#1b6ca8"
_GREY: Final = "#b9c3cc"
_MOST_NODES: Final = 60
_MOST_MATRIX: Final = 60


def plots_of(published: Published, layout: LevelledGraph | None = None) -> tuple[Plot, ...]:
    """One or two plots; none of a sealed path."""
    plots = []
    for each in (published, layout):
        match each:
            case LevelledGraph() if len(each.nodes) <= _MOST_NODES:
                nodes = [
                    (_short(node.base), node.sub, node.piece, node.level) for node in each.nodes
                ]
                plots.append(Plot.of("levels", nodes=nodes, edges=each.edges))
            case ComplementEdges() if len(each.vertices) <= _MOST_MATRIX:
                names = _names(each.vertices)
                plots.append(Plot.of("edges", vertices=names, edges=each.edges))
            case ComplementEdges():
                degrees = np.bincount(each.edges.ravel(), minlength=len(each.vertices))
                counts = np.bincount(degrees)
                shown = np.flatnonzero(counts)
                plots.append(Plot.of("degrees", degrees=shown, vertices=counts[shown]))
            case RandomizedLabels():
                marked = np.packbits(~each.labels).tobytes().hex()
                plots.append(Plot.of("labels", vertices=_names(each.vertices), marked=marked))
            case _:
                pass
    return tuple(plots)


def _levels(axes: Axes, values: Mapping[str, Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Published graph, pieces on their levels")
    ranks: Counter[int] = Counter()
    nodes = values["nodes"]
    width = Counter(level for *_, level in nodes)
    places = []
    for *_, level in nodes:
        # rows that alternate by a little keep edges from running through nodes
        shift = 0.25 * (-1) ** level
        places.append((ranks[level] - (width[level] - 1) / 2 + shift, level))
        ranks[level] += 1
    for upper, lower in values["edges"]:
        (x0, y0), (x1, y1) = places[upper], places[lower]
        bend = 0.18 * ((upper + lower) % 3 - 1) + (0.35 if x0 == x1 and y1 - y0 > 1 else 0)
        axes.annotate(
            "",
            (x1, y1),
            (x0, y0),
            arrowprops={
                "arrowstyle": "-|>",
                "color": _GREY,
                "shrinkA": 9,
                "shrinkB": 9,
                "connectionstyle": f"arc3,rad={bend:.2f}",
            },
        )
    single = not any(copy or piece for _, copy, piece, _ in nodes)
    for (base, copy, piece, _), (x, y) in zip(nodes, places, strict=True):
        name = base if single else f"{base}.{copy}.{piece}"
        axes.text(
            x,
            y,
            name,
            ha="center",
            va="center",
            fontsize=8,
            color="white",
            parse_math=False,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": _BLUE, "edgecolor": "none"},
        )
    most = max(width.values(), default=1) / 2 + 0.5
    axes.set_xlim(-most, most)
    axes.set_ylim(max(width, default=0) + 0.6, -0.6)
    axes.set_xticks([])
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines["bottom"].set_visible(False)
    axes.set_ylabel("level (0 is the top)" + ("" if single else "; names: id.copy.piece"))


def _edges(axes: Axes, values: Mapping[str, Any]) -> None:
    axes.set_title("Published edges: the map without the path")
    size = len(values["vertices"])
    shown = np.zeros((size, size))
    for one, other in values["edges"]:
        shown[one, other] = 1
    _matrix(axes, shown + shown.T, values["vertices"])


def _labels(axes: Axes, values: Mapping[str, Any]) -> None:
    axes.set_title("Noisy labels (dark: said to be an edge off the path)")
    size = len(values["vertices"])
    shown = np.zeros((size, size))
    marked = np.unpackbits(np.frombuffer(bytes.fromhex(values["marked"]), np.uint8))
    shown[np.triu_indices(size, 1)] = marked[: size * (size - 1) // 2]
    _matrix(axes, shown + shown.T, values["vertices"])


def _matrix(axes: Axes, shown: Any, vertices: Sequence[str]) -> None:
    axes.imshow(shown, cmap="Blues", vmin=0, vmax=1.3, interpolation="nearest")
    if len(vertices) <= 20:
        names = list(vertices)
        axes.set_xticks(range(len(names)), names, rotation=0 if max(map(len, names)) < 3 else 90)
        axes.set_yticks(range(len(names)), names)
        for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            label.set_parse_math(False)  # an id may have a dollar sign
    shown_by = "vertex" if len(vertices) <= 20 else "place of the vertex in the published list"
    axes.set_xlabel(shown_by)
    axes.set_ylabel(shown_by)


def _degrees(axes: Axes, values: Mapping[str, Any]) -> None:
    axes.set_title("Published edges: degrees")
    axes.plot(values["degrees"], values["vertices"], ".", color=_BLUE)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("log")
    axes.set_xlabel("published edges at a vertex")
    axes.set_ylabel("vertices")


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= 10 else text[:9] + "…"


def _names(vertices: Sequence[Any]) -> list[str]:
    return [_short(vertex) for vertex in vertices]


DRAWINGS: Final = {
    "levels": Drawing(_levels, _INCHES),
    "edges": Drawing(_edges, _INCHES),
    "degrees": Drawing(_degrees, _INCHES),
    "labels": Drawing(_labels, _INCHES),
}


_RUN: Final[dict[Mode, Callable[[NetworkPath, Parameters, Context], Outcome]]] = {
    "graph-path": _graph_path,
    "complement": _complement,
    "randomized": _randomized,
    "sealed": _sealed,
}

ALGORITHM: Final = Algorithm(
    name=NAME,
    title="A path that holders of the map recover",
    source="Lu's thesis, chapter 6, Algorithms 6.1 to 6.6 (graph-path); the other modes are ours",
    purpose="publish something from which anyone who has the exact map (of contacts, of a network) "
    "rebuilds a path in it, while who knows the map and the path but for one edge does not learn "
    "that edge",
    dataset_kind="network-path",
    params=Parameters,
    stances=("sound", "paper"),
    run=run,
    preview=preview,
    result=RESULT,
    complexity="complement: O(E log E) time; randomized: O(V^2) to publish, O(2^V V^2) to recover; "
    "sealed: O(path + recipients); graph-path: at most a search budget for each sub-vertex, and "
    "memory O(pieces^2)",
    check=check,
    drawings=DRAWINGS,
)
