"""The privacy report of method `blocks`. Spec: graph-der, sections 10.3 and 10.4."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from algorithms.graph_der.block_graph import laplace_variance
from algorithms.graph_der.blocks import BlockPlan, Measured
from algorithms.graph_der.parameters import Labelling, Parameters, plan_of
from algorithms.graph_der.report import NAME, labelling_words, leaf_error, vertex_conditions
from tacit.errors import Invalid
from tacit.noise import sampler_delta
from tacit.report.builder import (
    FOR_SUBMITTER,
    NOISE_SOURCE,
    RUN_TIME_UNSEEN,
    ReportBuilder,
    voided_by,
)
from tacit.report.figures import amount
from tacit.report.model import PrivacyReport, SensitivityStatement
from tacit.wire import format_exact

QUERIES: Final = ("number of edges", "degrees", "coarse counts", "fine counts")
TOUCHED: Final = (1, 2, 1, 1)
"""L1 sensitivity of each to one edge."""
HINTED_DEGREE: Final = 10
_AREAS: Final = (Fraction(1, 10), Fraction(1, 4))
"""Where the forecast holds within a factor 2 (spec: utility, section 2). Of smaller ones borders
count more."""
_PUBLICATION: Final = (
    "two noisy grids as of points: Qardaji, Yang and Li, ICDE 2013; noisy degrees of the beta "
    "model: Karwa and Slavkovic, 2012"
)


@dataclass(frozen=True)
class SeenBlocks:
    """What is known when the graph is there; measured: after the run."""

    plan: BlockPlan
    labelling: Labelling
    declared: bool
    measured: Measured


def blocks_report(params: Parameters, seen: SeenBlocks | None = None) -> PrivacyReport:
    """The report of a run, planned or done."""
    builder = ReportBuilder(NAME, "tacit algorithms.graph_der", "sound", "edge")
    said: dict[str, Any] = {"conditions": vertex_conditions(seen is None or seen.declared)}
    lines = [
        builder.laplace_line(
            "a", "one undirected edge more or less", params.epsilon / params.k, **said
        )
    ]
    if params.k > 1:
        change = f"any {params.k} edges together"
        lines.append(builder.laplace_line("b", change, params.epsilon, privacy_unit=None, **said))
    asked = [
        (name, touched, share)
        for name, touched, share in zip(QUERIES, TOUCHED, params.block_shares, strict=True)
        if share
    ]
    return builder.report(
        "adaptive grid of noisy counts, and noisy degrees",
        {
            "method": "blocks",
            "k": params.k,
            "block_shares": [format_exact(share) for share in params.block_shares],
        },
        sensitivity=tuple(
            SensitivityStatement(value=str(touched * params.k), source="declared", part=name)
            for name, touched, _ in asked
        ),
        verified=tuple(lines),
        charged=builder.charge(params.epsilon / params.k),
        noise=tuple(
            builder.noise(name, touched * params.k / (params.epsilon * share))
            for name, touched, share in asked
        ),
        sampler=sampler_delta(5 * params.k, params.epsilon),
        method="four queries whose parts of epsilon add up exactly, as fractions; an edge is one "
        "coarse cell, one part of it, and an end of two vertices; the fine grid is a function of "
        "coarse counts that were released (adaptive composition of pure DP); all scales are k "
        "times as large",
        public_parameters=(
            "vertex set, its number, labelling",
            "epsilon, k, block_shares, max_cells",
        ),
        post_processing=(
            "fine counts made to add up to coarse ones, none below 0 or above its pairs",
            "degrees drawn towards their mean; edges drawn by them inside each part",
        ),
        not_protected=(
            "Vertices: who is in the vertex set is public.",
            "A vertex with more than k edges: its degree, and that it is a hub.",
            "What many edges have in common, such as how dense two groups are: that is what the "
            "release shows.",
            FOR_SUBMITTER,
        ),
        voided_by=voided_by(
            "a labelling made by looking at the edges (clustered, crawled, sorted by degree)",
            "parameters tuned on the true graph",
        ),
        assumptions=(
            "The coordinator keeps the graph and is trusted with it.",
            labelling_words(None if seen is None else seen.labelling),
            "Edges of different people are independent, but for at most k - 1 others that tell of "
            "one.",
            "Every parameter was chosen without looking at the data.",
            RUN_TIME_UNSEEN,
            NOISE_SOURCE,
        ),
        caveats=builder.caveats(evaluated=params.metrics is not None),
        evaluation_attached=params.metrics is not None,
        error=_forecast(params, seen),
        details=_details(params, seen, asked),
    )


def _forecast(params: Parameters, seen: SeenBlocks | None) -> dict[str, Any]:
    """From the released number of edges, or the guessed one; none without either."""
    shares, epsilon = params.block_shares, params.epsilon / params.k
    found: dict[str, Any] = {
        "basis": "edges in a rectangle of labels over a part of all pairs: the noise of the coarse "
        "and fine counts in it together, within a factor of 2 on the graphs tried, and in addition "
        "at most half the edges of the parts that its border cuts",
    }
    if shares[1]:
        found["degree_deviation"] = math.sqrt(laplace_variance(float(2 / (epsilon * shares[1]))))
    if seen is not None:
        plan, size, parts = seen.plan, seen.measured.size, seen.measured.parts.size
    elif (size := params.edges_hint) is not None:
        plan = BlockPlan(2 * size, params.epsilon, shares, params.k, params.max_cells)
        parts = plan.expected_cells(size)
    else:
        return found | {"reason": "needs edges_hint, or the number of edges that is released"}
    ranges = plan.ranges(size)
    return found | {
        "edges": size,
        "cells": parts,
        "rectangle_deviation": {
            format_exact(area): plan.rectangle_deviation(area, ranges, parts) for area in _AREAS
        },
    }


def _forecast_of_der(params: Parameters, seen: SeenBlocks | None) -> dict[str, Any]:
    """Of the source's method at the same epsilon, once the number of vertices is known."""
    if seen is None:
        return {"reason": "needs the number of vertices"}
    try:
        return leaf_error(plan_of(params, "sound", seen.plan.vertices))
    except Invalid as problem:
        return {"reason": problem.detail}


def _details(
    params: Parameters, seen: SeenBlocks | None, asked: list[tuple[str, int, Fraction]]
) -> dict[str, Any]:
    details: dict[str, Any] = {
        "method": {
            "asked": params.method or "auto",
            "chosen": "blocks",
            "rule": "auto takes blocks for every graph; der on request and in stance paper",
            "forecast": {
                "blocks": _forecast(params, seen),
                "der": _forecast_of_der(params, seen),
            },
        },
        "not_of_the_source": True,
        "publication": _PUBLICATION,
        "spent": {
            name: {
                "epsilon": amount(params.epsilon * share),
                "sensitivity": touched * params.k,
                "scale": amount(touched * params.k / (params.epsilon * share)),
            }
            for name, touched, share in asked
        },
        "caps": {"max_cells": params.max_cells},
        "per_edge": format_exact(params.epsilon / params.k),
        "per_k_edges": format_exact(params.epsilon),
        "evaluation_is_private": True,
    }
    if seen is None:
        return details
    return details | {
        "vertices": seen.plan.vertices,
        "vertex_set": "declared" if seen.declared else "taken from the edges",
        "labelling": seen.labelling,
        "noisy_edges": seen.measured.size,
        "ranges": seen.measured.fine.grid.ranges,
        "cells": seen.measured.parts.size,
    }
