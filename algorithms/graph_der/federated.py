"""Method `blocks` over curators: its counts as the sums of three rounds.

Edges lie at curators, each once: a row of two columns, labels of its ends. Round 1 opens how many
there are, round 2 the coarse grid, round 3 its parts and the degrees, as two blocks of one sum. The
synthetic graph follows from what was opened: what it draws comes from a stream that everybody can
repeat, so that a release that is made again is the same.

Spec: graph-der, section 10.5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.contract import FederatedRounds, Outcome, PrivacyScope, SequentialContext, by_rounds
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der.algorithm import published_blocks
from algorithms.graph_der.block_graph import synthetic
from algorithms.graph_der.blocks import BlockPlan, Measured, sides_of
from algorithms.graph_der.parameters import (
    BadGroup,
    BadShares,
    BadVertices,
    Parameters,
    block_plan_of,
    labelling_of,
)
from algorithms.graph_der.publication import order_of
from algorithms.graph_der.report import blocks_report
from algorithms.parameters import NotOverCurators
from tacit.encoders.graph_der_blocks import BlockSum, Coarse, Fine, Ints
from tacit.encoders.sums import MOST_RECORDS, RecordSum
from tacit.query.terms import MAX_DIMENSION
from tacit.report.model import PrivacyReport

FEDERATED_CELLS: Final = 16_384
"""Parts of the fine grid at most, over curators: 128 kB a piece."""
ROUNDS_IN_ALL: Final = 3


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
    """With what rounds can answer. Raises NotOverCurators, BadVertices, BadGroup."""
    if params.method not in (None, "auto", "blocks"):
        raise NotOverCurators("the method is blocks over curators", pointer="/params/method")
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
    own = over_curators(params)
    assert own.vertices is not None
    plan = block_plan_of(own, own.vertices, noise_share)
    if plan.degrees and plan.vertices + plan.max_cells > MAX_DIMENSION:
        raise BadShares(
            f"degrees of more than {MAX_DIMENSION - plan.max_cells} vertices do not fit into a "
            "round: give them 0",
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
    if state.size is None:
        return BlockSum(plan.vertices, "size", (size,))
    if state.coarse is None:
        return BlockSum(plan.vertices, "coarse", (coarse,), grid=state.grid)
    parts = Fine.of(state.grid, sides_of(state.grid, state.coarse, plan))
    if not plan.degrees:
        return BlockSum(plan.vertices, "fine", (fine,), fine=parts)
    return BlockSum(plan.vertices, "fine", (fine, degrees), fine=parts, degrees=True)


def take(state: FederatedState, asked: RecordSum, opened: Ints) -> FederatedState:
    """After a sum was opened."""
    assert isinstance(asked, BlockSum)
    if state.size is None:
        return replace(state, size=max(1, int(opened[0])))
    if state.coarse is None:
        return replace(state, coarse=opened)
    assert asked.fine is not None
    parts = asked.fine.room.size
    degrees = opened[parts:] if asked.degrees else None
    measured = Measured(state.size, state.coarse, asked.fine, opened[:parts], degrees)
    return replace(state, measured=measured)


def aborted(_state: FederatedState, _asked: RecordSum) -> FederatedState | None:
    """Without one of them there is no graph."""
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
    found = synthetic(measured, plan, labelling, order, context)
    outcome = published_blocks(vertices, found, params, context)
    return replace(outcome, report=by_rounds(outcome.report))


def preview(params: Parameters, noise_share: Fraction) -> PrivacyReport:
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
    preview=preview,
    planned=lambda _state: ROUNDS_IN_ALL,
    when="stance sound, method blocks, edges as rows of two columns",
    budget=lambda params: params.epsilon,
)
