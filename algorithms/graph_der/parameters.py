"""The parameters of `graph-der`, their ranges, what stance and graph require of them, and errors.

From them follow a run's public choices: grid, height of the tree, the geometric budget of its
levels, sensitivities, labels. Spec: graph-der.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from algorithms.contract import MethodNeedsSound, Stance, asked_metrics, schema_range
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der.regions import BlockPlan, BlockShares, Grid, Ints
from tacit.encoders.graph_der_blocks import MOST_VERTICES
from tacit.errors import Invalid, TooLarge
from tacit.noise import SCALE_LIMIT
from tacit.wire import Exact, WireModel


class BadEpsilon(Invalid):
    """Outside its range, or too small for the noise of this many levels."""

    name = "bad_epsilon"
    title = "Epsilon is not valid"


class BadGroup(Invalid):
    """`k` outside its range, or more edges than the graph can have."""

    name = "bad_k"
    title = "The number of edges that are protected together is not valid"


class BadShares(Invalid):
    """Not three positive shares that sum to 1."""

    name = "bad_shares"
    title = "The shares of the budget are not valid"


class BadStep(Invalid):
    """Outside 1 to half the number of vertices."""

    name = "bad_step"
    title = "The grid step is not valid"


class BadDensity(Invalid):
    """The density is out of range."""

    name = "bad_density_stop"
    title = "The density at which a region is not split is not valid"


class BadCells(Invalid):
    """A number of cells, or a guess at the edges, outside its range."""

    name = "bad_cells"
    title = "The number of cells is not valid"


class BadLabelling(Invalid):
    """The order of a vertex set that was not given."""

    name = "bad_labelling"
    title = "The labelling is not valid"


class LabellingDependsOnEdges(Invalid):
    """A labelling that gives edges away, outside any budget."""

    name = "labelling_depends_on_edges"
    title = "The labelling depends on the edges"


class BadVertices(Invalid):
    """Fewer than two vertices, or no edge to take them from."""

    name = "bad_universe"
    title = "The vertex set is not valid"


class GraphTooLarge(TooLarge):
    """More vertices than a dense matrix is kept of, or a grid that is too fine."""

    name = "too_large"
    title = "The graph is too large"


# Source: Chen's thesis, section 7.4.1, equation 7.4. Spec: graph-der, section 3.1. All follows from
# public numbers; budgets are rationals, so that what a path spends can be added up exactly.

Shares = tuple[Fraction, Fraction, Fraction]
"""Of the budget: for counts, for choosing splitting points, for arranging edges."""

_GRAIN: Final = 1 << 40
_ROOT: Final = 2 ** (1 / 3)
SPARSE: Final = 0.8
"""A region with a noisy count below this part of the mean leaf's cells is not split."""


def tree_height(cells: int, budget: Fraction, sensitivity: int) -> int:
    """The largest height at which an average leaf has twice the cells of its count's deviation.

    cells: of the whole matrix; budget: for counts; sensitivity: of one count.
    """
    most = (_ROOT - 1) * cells * float(budget) / (2 * math.sqrt(2) * sensitivity)
    height = 0
    while _ROOT * 4.0 ** (height + 1) - 2 ** (5 * (height + 1) / 3) <= most:
        height += 1
    return height


@dataclass(frozen=True)
class Budget:
    """What each step on a path from root to leaf spends.

    levels: of the counts at depths 1 to height - 1; leaf: of a leaf's count, in addition to them
    where it is above the height; splitting: of one choice of a point; reconstruct: of a leaf's
    arrangement.
    """

    epsilon: Fraction
    height: int
    counting: Fraction
    levels: tuple[Fraction, ...]
    leaf: Fraction
    splitting: Fraction
    reconstruct: Fraction

    @classmethod
    def of(cls, epsilon: Fraction, shares: Shares, height: int) -> Budget:
        """Geometric by depth; the root's part goes to the leaves. Each is rounded down."""
        counting, partition, reconstruct = (epsilon * share for share in shares)
        if height == 0:
            arranging = reconstruct + partition
            return cls(epsilon, 0, counting, (), counting, Fraction(0), arranging)
        unit = (_ROOT - 1) * float(counting) / (2 ** ((height + 1) / 3) - 1)
        levels = tuple(_down(2 ** (depth / 3) * unit) for depth in range(1, height))
        rest = counting - sum(levels, Fraction(0))
        leaf = min(rest, _down((2 ** (height / 3) + 1) * unit))
        splitting = partition / height
        return cls(epsilon, height, counting, levels, leaf, splitting, reconstruct)

    def level(self, depth: int) -> Fraction:
        """Of the count at a depth from 1 to the height."""
        return self.levels[depth - 1] if depth < self.height else self.leaf

    def left(self, depth: int) -> Fraction:
        """Of the counts below a leaf at this depth: its arrangement gets it."""
        if depth == self.height:
            return Fraction(0)
        return self.counting - sum(self.levels[:depth], Fraction(0)) - self.leaf

    def arrangement(self, depth: int) -> Fraction:
        """The budget for arranging a leaf at this depth."""
        return self.reconstruct + self.left(depth)

    def path(self, depth: int) -> Iterator[tuple[str, Fraction]]:
        """What a leaf at this depth has spent: (what for, how much)."""
        for number in range(1, min(depth, self.height - 1) + 1):
            yield f"count at depth {number}", self.levels[number - 1]
        yield "count of the leaf", self.leaf
        # a region may stop because no point is admissible: that is public and costs nothing
        yield "splitting points", self.splitting * depth
        yield "arrangement", self.arrangement(depth)

    def spent(self, depth: int) -> Fraction:
        """The budget that a whole path spends; at most epsilon."""
        return sum((share for _, share in self.path(depth)), Fraction(0))


def _down(value: float) -> Fraction:
    return Fraction(math.floor(value * _GRAIN), _GRAIN)


# Spec: graph-der, sections 2 and 3. Everything here follows from parameters and the public vertex
# set.

MOST_LINES: Final = 2_048
"""Of the grid that `sound` uses by default."""
LIMIT_LINES: Final = 20_001
"""Of any grid: a table of 1.6 GB."""
MOST_DENSE: Final = 20_000
"""Vertices of the whole matrix that `paper` keeps."""


@dataclass(frozen=True)
class Plan:
    """k: edges that are protected together at epsilon; dense: the density from which a region is
    not split."""

    grid: Grid
    budget: Budget
    k: int
    dense: float
    consistency: bool
    stance: Stance

    @classmethod
    def of(
        cls,
        vertices: int,
        epsilon: Fraction,
        shares: Shares,
        k: int,
        step: int,
        dense: float,
        stance: Stance,
        *,
        consistency: bool,
    ) -> Plan:
        """For this many vertices."""
        grid = Grid(vertices, step, stance == "sound")
        sensitivity = k if stance == "sound" else 2 * k
        height = tree_height(grid.size, epsilon * shares[0], sensitivity)
        return cls(grid, Budget.of(epsilon, shares, height), k, dense, consistency, stance)

    @property
    def height(self) -> int:
        """The height of the tree."""
        return self.budget.height

    @property
    def few(self) -> float:
        """A region with a noisy count below it is not split."""
        return float(SPARSE * self.grid.size / 4.0**self.height)

    def least(self, depth: int) -> float:
        """Fewest cells of a part at this depth; it bounds the sensitivity of scores."""
        return float(self.grid.size / 4.0 ** (depth + 1))

    def held(self, depth: int) -> float:
        """Fewest cells that are requested: as printed, none of leaves."""
        if self.stance == "paper" and depth == self.height:
            return 0.0
        return self.least(depth)

    def sensitivity(self, regions: Ints) -> Ints:
        """(n,) of the counts and arrangements of regions (n, 4)."""
        if self.stance == "sound":
            return np.full(len(regions), self.k, np.int64)
        most = np.where(self.grid.diagonal(regions) > 0, 2 * self.k, self.k)
        return np.minimum(most, self.grid.cells(regions))

    def rate(self, regions: Ints, depth: int) -> NDArray[np.float64]:
        """(n,) what scores of splits of regions at this depth are multiplied by."""
        sensitivity = np.full(len(regions), float(self.k))
        if self.stance == "paper":
            sensitivity[self.grid.diagonal(regions) > 0] *= 2
        return float(self.budget.splitting) * self.least(depth + 1) / (2 * sensitivity)


# Spec: graph-der, section 2; jobs, "Parameters".

MOST_EPSILON: Final = Fraction(100)
MOST_GROUP: Final = 10_000
MOST_CELLS: Final = 50_000_000
SHARES: Final = (Fraction(1, 2), Fraction(1, 10), Fraction(2, 5))

Aim = Literal["ranges", "degrees", "degree_sequence", "cuts", "balanced"]

BLOCK_SHARES: Final[Mapping[Aim, BlockShares]] = {
    "ranges": (Fraction(3, 100), Fraction(10, 100), Fraction(348, 1000), Fraction(522, 1000)),
    "degrees": (Fraction(0), Fraction(1), Fraction(0), Fraction(0)),
    "degree_sequence": (Fraction(0), Fraction(1), Fraction(0), Fraction(0)),
    "cuts": (Fraction(2, 100), Fraction(68, 100), Fraction(12, 100), Fraction(18, 100)),
    "balanced": (Fraction(3, 100), Fraction(30, 100), Fraction(268, 1000), Fraction(402, 1000)),
}
"""Of `blocks`, for the number of edges, degrees, coarse and fine counts."""

Labelling = Literal["given", "id", "random", "first_appearance"]
Method = Literal["der", "blocks"]


class Metrics(WireModel):
    """What an evaluation compares with the true graph."""

    queries: Annotated[
        int, Field(ge=0, le=100_000, description="cut queries of each of the five sizes")
    ] = 2_000
    query_seed: Annotated[int, Field(ge=0, lt=1 << 63, description="drives the queries")] = 0
    degrees: bool = Field(True, description="divergence of the degree distribution")
    structure: bool = Field(
        False, description="mean distance of 1,000 pairs, clustering, assortativity"
    )


class Parameters(WireModel):
    """Parameters of `graph-der`. The public vertex set is the `universe` of the dataset."""

    model_config = ConfigDict(title="GraphDerParameters")

    epsilon: Exact = Field(description="budget of the job, above 0, at most 100")
    method: Method | Literal["auto"] | None = Field(
        None,
        description="der: the source's tree (default of paper, which has no other); blocks: an "
        "adaptive grid and degrees; auto: blocks (default of sound)",
    )
    k: int = Field(
        1,
        description="this many edges together are protected at epsilon, one at epsilon / k",
        json_schema_extra=schema_range(minimum=1, maximum=MOST_GROUP),
    )
    labelling: Labelling | None = Field(
        None,
        description="how vertices are numbered: given (the order of the dataset's universe; "
        "default with one), id (ascending), random (by labelling_seed; default without), "
        "first_appearance (in the file; paper only, it gives edges away)",
    )
    labelling_seed: Annotated[
        int, Field(ge=0, lt=1 << 63, description="of the random labelling; public")
    ] = 0
    shares: tuple[Exact, Exact, Exact] = Field(
        SHARES,
        description="der: parts of epsilon for counting, for splitting points, for arranging "
        "edges; they sum to 1",
    )
    aim: Aim = Field(
        "balanced",
        description="blocks: what epsilon is spent on: ranges (edges between ranges of labels), "
        "degrees, degree_sequence (sorted degrees: which vertex has which is not measured, and "
        "the graph does not show it), cuts (edges between any two sets of vertices), balanced",
    )
    block_shares: tuple[Exact, Exact, Exact, Exact] | None = Field(
        None,
        description="blocks: in place of the aim's, parts of epsilon for the number of edges, "
        "degrees (0: none; 1: these alone), coarse and fine counts; they sum to 1",
    )
    max_cells: int = Field(
        4_000_000,
        description="blocks: counts of the fine grid at most; it is cut less finely to fit",
        json_schema_extra=schema_range(minimum=16, maximum=MOST_CELLS),
    )
    edges_hint: int | None = Field(
        None,
        description="a public guess at the number of edges, for the forecast alone; unless given "
        "10 for each vertex",
        json_schema_extra=schema_range(minimum=1),
    )
    vertices: int | None = Field(
        None,
        description="over curators: how many vertices there are, public; a row of the two columns "
        "is an edge between labels 0 to vertices - 1",
        json_schema_extra=schema_range(minimum=2, maximum=MOST_VERTICES),
    )
    step: int | None = Field(
        None,
        description="der: labels between two grid lines, 1 to half the vertices; unless given the "
        "smallest with at most 2,048 lines (paper: 1)",
        json_schema_extra=schema_range(minimum=1),
    )
    density_stop: Exact = Field(
        Fraction(4, 5), description="der: a region this dense is not split, 0.5 to 1"
    )
    consistency: bool | None = Field(
        None, description="der: make the counts of regions add up (default: sound yes, paper no)"
    )
    evaluate: bool | Metrics = False

    @property
    def metrics(self) -> Metrics | None:
        """What to evaluate; None: nothing."""
        return asked_metrics(self.evaluate, Metrics)

    @property
    def shares_of_blocks(self) -> BlockShares:
        """As given, or the aim's."""
        return self.block_shares or BLOCK_SHARES[self.aim]

    def method_of(self, stance: Stance) -> Method:
        """The one that runs: `auto` is `blocks`, whatever the graph."""
        if self.method is None:
            return "der" if stance == "paper" else "blocks"
        return "blocks" if self.method == "auto" else self.method


def check_parameters(params: Parameters, stance: Stance) -> None:
    """All that does not need the graph.

    Raises BadEpsilon, BadGroup, LabellingDependsOnEdges, BadShares, BadStep, BadDensity, BadCells,
    MethodNeedsSound; each names the field.
    """
    if stance == "paper" and params.method not in (None, "der"):
        raise MethodNeedsSound("the source has der alone", pointer="/params/method")
    if not 0 < params.epsilon <= MOST_EPSILON:
        raise BadEpsilon("must be above 0 and at most 100", pointer="/params/epsilon")
    if not 1 <= params.k <= MOST_GROUP:
        raise BadGroup(f"must be between 1 and {MOST_GROUP}", pointer="/params/k")
    if params.labelling == "first_appearance" and stance == "sound":
        raise LabellingDependsOnEdges(
            "the order of first appearance gives edges away, outside any epsilon; give a public "
            "order, or take random",
            pointer="/params/labelling",
        )
    if min(params.shares) <= 0 or sum(params.shares) != 1:
        raise BadShares("are positive and sum to 1", pointer="/params/shares")
    shares = params.shares_of_blocks
    positive = shares[1] == 1 or min(shares[0], *shares[2:]) > 0
    if min(shares) < 0 or not positive or sum(shares) != 1:
        raise BadShares(
            "sum to 1 and are positive, but for that of the degrees; or these have all",
            pointer="/params/block_shares",
        )
    if params.block_shares is not None and params.aim == "degree_sequence":
        raise BadShares(
            "none are given with degree_sequence, which has all of epsilon",
            pointer="/params/block_shares",
        )
    if not 16 <= params.max_cells <= MOST_CELLS:
        raise BadCells(f"must be between 16 and {MOST_CELLS}", pointer="/params/max_cells")
    if params.edges_hint is not None and params.edges_hint < 1:
        raise BadCells("must be 1 at least", pointer="/params/edges_hint")
    if params.step is not None and params.step < 1:
        raise BadStep("must be 1 at least", pointer="/params/step")
    if not Fraction(1, 2) <= params.density_stop <= 1:
        raise BadDensity("must be between 0.5 and 1", pointer="/params/density_stop")


def labelling_of(params: Parameters, *, declared: bool) -> Labelling:
    """The labelling that a run takes. Raises BadLabelling."""
    if params.labelling is None:
        return "given" if declared else "random"
    if params.labelling == "given" and not declared:
        raise BadLabelling(
            "the dataset has no universe whose order could be taken", pointer="/params/labelling"
        )
    return params.labelling


def block_plan_of(
    params: Parameters, vertices: int, noise_share: Fraction = Fraction(1)
) -> BlockPlan:
    """The public choices of `blocks` for this many vertices.

    Raises what `check_parameters` raises, BadVertices, BadGroup, BadEpsilon.
    """
    check_parameters(params, "sound")
    _check_vertices(params, vertices)
    plan = BlockPlan(
        vertices,
        params.epsilon,
        params.shares_of_blocks,
        params.k,
        params.max_cells,
        noise_share,
        params.aim == "degree_sequence",
    )
    if max(plan.scale(query) for query in range(4) if plan.shares[query]) > SCALE_LIMIT:
        raise BadEpsilon("too small for the noise of this share", pointer="/params/epsilon")
    return plan


def _check_vertices(params: Parameters, vertices: int) -> None:
    if vertices < 2:
        raise BadVertices("a graph has two vertices at least", pointer="/dataset")
    if params.k > vertices * (vertices - 1) // 2:
        raise BadGroup("is more than there are pairs of vertices", pointer="/params/k")


def plan_of(params: Parameters, stance: Stance, vertices: int) -> Plan:
    """A run's public choices for this many vertices.

    Raises what `check_parameters` raises, and BadVertices, BadGroup, BadStep, GraphTooLarge.
    """
    check_parameters(params, stance)
    _check_vertices(params, vertices)
    if stance == "paper" and vertices > MOST_DENSE:
        raise GraphTooLarge(
            f"stance paper keeps the whole matrix of at most {MOST_DENSE} vertices",
            pointer="/dataset",
            extra={"max_vertices": MOST_DENSE},
        )
    step = params.step
    if step is None:  # the smallest with at most 2,048 lines; 1 as printed
        step = 1 if stance == "paper" else max(1, -(-vertices // (MOST_LINES - 1)))
    if step > max(1, vertices // 2):
        raise BadStep("is half the number of vertices at most", pointer="/params/step")
    if -(-vertices // step) >= LIMIT_LINES:
        raise GraphTooLarge(
            f"a grid has at most {LIMIT_LINES} lines: take a larger step",
            pointer="/params/step",
            extra={"max_lines": LIMIT_LINES},
        )
    consistency = stance == "sound" if params.consistency is None else params.consistency
    plan = Plan.of(
        vertices,
        params.epsilon,
        params.shares,
        params.k,
        step,
        float(params.density_stop),
        stance,
        consistency=consistency,
    )
    counted = [*plan.budget.levels, plan.budget.leaf]
    if min(counted) <= 0 or params.k / min(counted) > SCALE_LIMIT:
        raise BadEpsilon("too small for the noise of this many levels", pointer="/params/epsilon")
    return plan


def resolved(params: Parameters, stance: Stance, graph: EdgeList) -> tuple[Plan, Labelling]:
    """What a run of `der` on this graph takes. Raises what `plan_of` and `labelling_of` raise."""
    check_ends(graph)
    plan = plan_of(params, stance, graph.count)
    return plan, labelling_of(params, declared=graph.declared)


def resolved_blocks(params: Parameters, graph: EdgeList) -> tuple[BlockPlan, Labelling]:
    """The same of `blocks`. Raises what `block_plan_of` and `labelling_of` raise."""
    check_ends(graph)
    if params.vertices not in (None, graph.count):
        raise BadVertices("is for curators: the dataset has its own", pointer="/params/vertices")
    plan = block_plan_of(params, graph.count)
    return plan, labelling_of(params, declared=graph.declared)


def check_ends(graph: EdgeList) -> None:
    """Raises BadVertices for a graph that has no vertices to speak of."""
    if not graph.declared and not graph.edges:
        raise BadVertices(
            "no edge to take vertices from: declare the dataset with its universe",
            pointer="/dataset",
        )
