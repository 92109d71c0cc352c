"""Graph release as the catalogue knows it: run, preview, check, and what a result holds.

Spec: graph-der, section 2; jobs, "Catalogue" and "Result".
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.contract import (
    Algorithm,
    Context,
    FederatedRounds,
    NotOverCurators,
    Outcome,
    PrivacyScope,
    ResultFile,
    SequentialContext,
    Stance,
    by_rounds,
)
from algorithms.datasets.edge_list import EdgeList, Items, Octets
from algorithms.graph_der.block_graph import BlockRelease, publish_blocks, synthetic
from algorithms.graph_der.evaluation import DRAWINGS, evaluate, evaluation_pictures, plots_of
from algorithms.graph_der.parameters import (
    BadGroup,
    BadShares,
    BadVertices,
    Labelling,
    Parameters,
    block_plan_of,
    check_parameters,
    labelling_of,
    resolved,
    resolved_blocks,
)
from algorithms.graph_der.publication import Release, order_of, publish
from algorithms.graph_der.regions import BlockPlan, Measured, sides_of
from algorithms.graph_der.report import (
    NAME,
    Seen,
    SeenBlocks,
    blocks_report,
    budget_table,
    graph_der_report,
)
from tacit.encoders.graph_der_blocks import BlockSum, Coarse, Fine, Ints, Labels
from tacit.encoders.sums import RecordSum
from tacit.query.terms import MAX_DIMENSION, MOST_RECORDS
from tacit.report.model import PrivacyReport

_BEAT_ROWS: Final = 65_536

RESULT: Final = {
    "method": "blocks; absent where the tree was taken",
    "vertices": "how many there are, public",
    "edges": "how many synthetic edges there are",
    "noisy_edges": "how many edges the graph seemed to have before the grid was cut (blocks)",
    "ranges": "ranges of labels on each side of the coarse grid (blocks)",
    "regions": "how many leaves the tree has, or parts the fine grid (blocks)",
    "height": "most splits from the whole matrix to a leaf",
    "step": "labels between two grid lines",
    "labelling": "how vertices are numbered",
    "thresholds": "few: a region with a noisy count below it is not split; dense: nor one with "
    "this part of its cells",
    "budget_table": "by the depth of a leaf: what its path has spent on what",
    "edges.txt": "the synthetic graph, two ids a line",
    "regions.csv": "one line for each leaf (blocks: for each part, without depth): labels of its "
    "rows and columns (from, to without), "
    "depth, cells, noisy count, and that count made whole: the edges that lie in it",
    "degrees.csv": "a line for each vertex in the order of labels: its noisy degree, and the "
    "estimate from the law of all (blocks, where degrees are measured); of aim degree_sequence a "
    "line for each place in ascending order",
    "vertices.txt": "the ids in the order of their labels, an id a line",
}


def check(dataset: EdgeList, params: Parameters, stance: Stance) -> None:
    """Refuse parameters that do not fit the graph. Raises what `resolved`, `resolved_blocks`
    raise."""
    check_parameters(params, stance)
    if params.method_of(stance) == "blocks":
        resolved_blocks(params, dataset)
    else:
        resolved(params, stance, dataset)


def run(dataset: EdgeList, params: Parameters, stance: Stance, context: Context) -> Outcome:
    """A release. Raises what `check` raises, Cancelled."""
    check_parameters(params, stance)
    if params.method_of(stance) == "blocks":
        block_plan, labelling = resolved_blocks(params, dataset)
        blocks = publish_blocks(dataset, block_plan, labelling, params.labelling_seed, context)
        release: Release | BlockRelease = blocks
        outcome = published_blocks(dataset, blocks, params, context)
    else:
        plan, labelling = resolved(params, stance, dataset)
        release = tree = publish(dataset, plan, labelling, params.labelling_seed, context)
        published = Seen(plan, labelling, dataset.declared, tree.tree)
        outcome = Outcome(
            result={
                "vertices": dataset.count,
                "edges": release.edges,
                "regions": release.counts.size,
                "height": plan.height,
                "step": plan.grid.step,
                "labelling": labelling,
                "thresholds": {"few": float(f"{plan.few:.6g}"), "dense": plan.dense},
                "budget_table": budget_table(plan),
            },
            report=graph_der_report(params, stance, published),
            files=_files(dataset, tree, _leaf_regions(tree, context), context),
            plots=plots_of(tree),
            public_seeds=_seeds(params, labelling),
        )
    context.progress(0.97, "releasing")
    if params.metrics is None:
        return outcome
    return replace(outcome, evaluation=evaluate(dataset, release, params.metrics, context))


def _seeds(params: Parameters, labelling: Labelling) -> dict[str, int]:
    return {"labelling_seed": params.labelling_seed} if labelling == "random" else {}


def published_blocks(
    vertices: EdgeList, release: BlockRelease, params: Parameters, context: Context
) -> Outcome:
    """Everything that a run of `blocks` publishes; only public parts of `vertices` are read."""
    measured, labelling = release.measured, release.labelling
    published = SeenBlocks(release.plan, labelling, vertices.declared, measured)
    return Outcome(
        result={
            "method": "blocks",
            "vertices": vertices.count,
            "edges": release.edges,
            "noisy_edges": measured.size,
            "ranges": measured.fine.grid.ranges,
            "regions": release.counts.size,
            "labelling": labelling,
        },
        report=blocks_report(params, published),
        files=_files(vertices, release, _parts(release, context), context)
        + _degrees(vertices, release, context),
        plots=plots_of(release),
        public_seeds=_seeds(params, labelling),
    )


def preview(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report of a run, before any data. Raises what `check_parameters` raises."""
    check_parameters(params, stance)
    if params.method_of(stance) == "blocks":
        return blocks_report(params)
    return graph_der_report(params, stance)


# ----------------------------------------------------------------------------------------- files


def _files(
    graph: EdgeList, release: Release | BlockRelease, regions: bytes, context: Context
) -> tuple[ResultFile, ...]:
    names = _names(graph.vertices[release.order])
    edges, vertices = io.BytesIO(), io.BytesIO()
    for span in _spans(release.edges, context):
        edges.write(_named(names, release.low[span], release.high[span]))
    labels = np.arange(graph.count, dtype=np.int32)
    for span in _spans(graph.count, context):
        vertices.write(_named(names, labels[span]))
    return (
        ResultFile("edges.txt", "text/plain", edges.getvalue(), "the synthetic graph, SNAP text"),
        ResultFile("regions.csv", "text/csv", regions, "regions and their counts"),
        ResultFile(
            "vertices.txt",
            "text/plain",
            vertices.getvalue(),
            "ids in the order of their labels",
        ),
    )


def _names(ids: Items) -> list[str] | Octets:
    """Of each label; of numbers (n, width) octets, with zeros behind the shorter ones."""
    if ids.dtype.kind != "i" or not ids.size:
        return list(map(str, ids.tolist()))
    width = max(len(str(end)) for end in (ids.min(), ids.max()))
    return ids.astype(f"S{width}").view(np.uint8).reshape(-1, width)


def _named(names: list[str] | Octets, *columns: Labels) -> bytes:
    """Lines of names, with tabs between."""
    if isinstance(names, list):
        rows = zip(*(map(names.__getitem__, each.tolist()) for each in columns), strict=True)
        return _lines(map("\t".join, rows))
    octets = np.full((columns[0].size, len(columns), names.shape[1] + 1), ord("\t"), np.uint8)
    for place, labels in enumerate(columns):
        octets[:, place, :-1] = names[labels]
    octets[:, -1, -1] = ord("\n")
    return octets[octets > 0].tobytes()


def _parts(release: BlockRelease, context: Context) -> bytes:
    text = io.BytesIO()
    text.write(b"row_from,row_to,column_from,column_to,cells,noisy,count\n")
    columns = *release.bounds.T, release.room, release.measured.parts, release.counts
    for span in _spans(release.room.size, context):
        rows = zip(*(column[span].tolist() for column in columns), strict=True)
        text.write(_lines(map("%d,%d,%d,%d,%d,%d,%d".__mod__, rows)))
    return text.getvalue()


def _degrees(vertices: EdgeList, release: BlockRelease, context: Context) -> tuple[ResultFile, ...]:
    noisy, estimates = release.measured.degrees, release.degrees
    if noisy is None or estimates is None:
        return ()
    in_order = release.plan.sorted_degrees
    text = io.BytesIO()
    text.write(b"place,noisy,degree\n" if in_order else b"vertex,noisy,degree\n")
    ids = np.arange(noisy.size) + 1 if in_order else vertices.vertices[release.order]
    for span in _spans(noisy.size, context):
        names = ids[span].tolist()
        rows = zip(names, noisy[span].tolist(), estimates[span].tolist(), strict=True)
        text.write(_lines(map("%s,%d,%.6g".__mod__, rows)))
    described = "noisy degrees and estimates of the true ones"
    return (ResultFile("degrees.csv", "text/csv", text.getvalue(), described),)


def _leaf_regions(release: Release, context: Context) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ("row_from", "row_to", "column_from", "column_to", "depth", "cells", "noisy", "count")
    )
    tree, leaves = release.tree, release.tree.leaves
    columns = np.column_stack((release.bounds, tree.depth[leaves], tree.cells[leaves]))
    for span in _spans(leaves.size, context):
        noisy = [f"{value:.10g}" for value in tree.estimate[leaves[span]].tolist()]
        for row, estimate, count in zip(
            columns[span].tolist(), noisy, release.counts[span].tolist(), strict=True
        ):
            writer.writerow((*row, estimate, count))
    return text.getvalue().encode()


def _lines(rows: Iterable[str]) -> bytes:
    return ("\n".join(rows) + "\n").encode()


def _spans(size: int, context: Context) -> Iterator[slice]:
    """Some rows at a time."""
    for first in range(0, size, _BEAT_ROWS):
        context.progress(0.88, "writing")
        yield slice(first, first + _BEAT_ROWS)


# --- `blocks` over curators -----------------------------------------------------------------------


FEDERATED_CELLS: Final = 16_384
"""Parts of the fine grid at most, over curators: 128 kB a piece."""


@dataclass(frozen=True, eq=False)
class FederatedState:
    """What was opened so far: the number of edges, coarse counts, then all."""

    params: Parameters
    plan: BlockPlan
    size: int | None = None
    coarse: Ints | None = None
    measured: Measured | None = None

    @property
    def grid(self) -> Coarse:
        """The coarse one; the number of edges is known."""
        assert self.size is not None
        return Coarse.of(self.plan.vertices, self.plan.ranges(self.size))


def over_curators(params: Parameters) -> Parameters:
    """The parameters for rounds over curators. Raises NotOverCurators, BadVertices, BadGroup."""
    if params.method not in (None, "auto", "blocks"):
        raise NotOverCurators("the method is blocks over curators", pointer="/params/method")
    if params.aim == "degree_sequence":
        raise NotOverCurators(
            "a sum over curators cannot sort degrees: take degrees", pointer="/params/aim"
        )
    if params.metrics is not None:
        raise NotOverCurators("nobody has the truth to compare with", pointer="/params/evaluate")
    if params.vertices is None:
        raise BadVertices("over curators their number is needed", pointer="/params/vertices")
    if params.k != 1:
        raise BadGroup("is 1 over curators: k edges at k epsilon", pointer="/params/k")
    if params.labelling == "random":
        raise NotOverCurators("curators have labels already", pointer="/params/labelling")
    cells = min(params.max_cells, FEDERATED_CELLS)
    return params.model_copy(update={"max_cells": cells, "labelling": "given"})


def plan_of(params: Parameters, noise_share: Fraction) -> BlockPlan:
    """The public choices. Raises what `over_curators` and `block_plan_of` raise, BadShares."""
    resolved = over_curators(params)
    assert resolved.vertices is not None
    plan = block_plan_of(resolved, resolved.vertices, noise_share)
    most = MAX_DIMENSION - (plan.max_cells if plan.grid else 0)
    if plan.degrees and plan.vertices > most:
        raise BadShares(
            f"degrees of more than {most} vertices do not fit into a round: give them 0",
            pointer="/params/block_shares",
        )
    return plan


def start(params: Parameters, columns: Sequence[str], noise_share: Fraction) -> FederatedState:
    """Before any sum. Raises what `plan_of` raises, BadVertices."""
    plan = plan_of(params, noise_share)
    if len(columns) != 2:
        raise BadVertices("an edge has two columns", pointer="/federation/columns")
    return FederatedState(params, plan)


def next_sum(state: FederatedState) -> BlockSum | None:
    """The next sum to open."""
    plan = state.plan
    size, degrees, coarse, fine = (plan.epsilon * share for share in plan.shares)
    if state.measured is not None:
        return None
    if not plan.grid:
        return BlockSum(plan.vertices, "degrees", (degrees,))
    if state.size is None:
        return BlockSum(plan.vertices, "size", (size,))
    if state.coarse is None:
        return BlockSum(plan.vertices, "coarse", (coarse,), grid=state.grid)
    parts = Fine.of(state.grid, sides_of(state.grid, state.coarse, plan))
    if not plan.degrees:
        return BlockSum(plan.vertices, "fine", (fine,), fine=parts)
    return BlockSum(plan.vertices, "fine", (fine, degrees), fine=parts, degrees=True)


def take(state: FederatedState, record_sum: RecordSum, opened: Ints) -> FederatedState:
    """The state after a sum was opened."""
    assert isinstance(record_sum, BlockSum)
    if record_sum.kind == "degrees":
        return replace(state, measured=Measured.of_degrees(opened))
    if state.size is None:
        return replace(state, size=max(1, int(opened[0])))
    if state.coarse is None:
        return replace(state, coarse=opened)
    assert record_sum.fine is not None
    parts = record_sum.fine.room.size
    degrees = opened[parts:] if record_sum.degrees else None
    measured = Measured(state.size, state.coarse, record_sum.fine, opened[:parts], degrees)
    return replace(state, measured=measured)


def aborted(_state: FederatedState, _asked: RecordSum) -> FederatedState | None:
    """None: without any of its sums there is no graph."""
    return None


def release(state: FederatedState) -> Outcome:
    """Everything that is published; a function of opened noisy sums and public choices."""
    measured, plan = state.measured, state.plan
    assert measured is not None
    params = over_curators(state.params)
    opened = (np.array([measured.size]), measured.coarse, measured.parts, measured.degrees)
    digest = hashlib.sha256(b"tacit graph-der blocks")
    for counts in opened:
        digest.update(b"" if counts is None else counts.astype("<i8").tobytes())
    context = SequentialContext(seed=digest.digest())
    vertices = EdgeList.of([], range(plan.vertices))
    labelling = labelling_of(params, declared=True)
    order = order_of(vertices, labelling, params.labelling_seed)
    graph = synthetic(measured, plan, labelling, order, context)
    outcome = published_blocks(vertices, graph, params, context)
    return replace(outcome, report=by_rounds(outcome.report))


def preview_rounds(params: Parameters, noise_share: Fraction) -> PrivacyReport:
    """The report of a run, before any sum. Raises what `plan_of` raises."""
    plan_of(params, noise_share)
    return by_rounds(blocks_report(over_curators(params)))


ROUNDS: Final = FederatedRounds(
    scope=lambda _params: PrivacyScope("record", MOST_RECORDS, 1, every_record=True),
    first=start,
    next_sum=next_sum,
    absorb=take,
    aborted=aborted,
    release=release,
    preview=preview_rounds,
    planned=lambda state: 3 if state.plan.grid else 1,
    when="stance sound, method blocks, edges as rows of two columns",
    budget=lambda params: params.epsilon,
)


ALGORITHM: Final = Algorithm(
    name=NAME,
    title="A graph by the densities of its regions",
    source="Chen's thesis, chapter 7, Algorithms 7.1 and 7.2, section 7.4.2",
    purpose="a synthetic graph on the same vertices that keeps how dense groups of vertices are "
    "connected, for cut queries between ranges of labels and coarse degrees, so that no edge can "
    "be inferred; as good as the public labelling is",
    dataset_kind="edge-list",
    params=Parameters,
    stances=("sound", "paper"),
    run=run,
    preview=preview,
    result=RESULT,
    complexity="blocks: time O(edges + parts + vertices), memory some 65 bytes for each edge and "
    "vertex and 100 for each part; der, sound: time O(height x lines^2 + edges), memory O(lines^2 "
    "+ edges), at most 2,048 lines unless a smaller step is given; paper: O(height x vertices^2) "
    "and O(vertices^2)",
    check=check,
    drawings=DRAWINGS,
    evaluation_pictures=evaluation_pictures,
    rounds=ROUNDS,
)
