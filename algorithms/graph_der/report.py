"""The privacy report of a run: claimed and verified guarantees, for both stances.

What draws in floating point add to epsilon and delta; and the report of method `blocks`.
Spec: graph-der, sections 10.3 and 10.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from algorithms.contract import Stance, by_error, by_size, with_verdict, without_verdict
from algorithms.datasets.edge_list import MAX_EDGES
from algorithms.graph_der.degrees import laplace_variance
from algorithms.graph_der.exploration import Tree
from algorithms.graph_der.parameters import (
    LIMIT_LINES,
    Labelling,
    Parameters,
    Plan,
    check_parameters,
    plan_of,
)
from algorithms.graph_der.publication import CUT_MASS
from algorithms.graph_der.regions import BlockPlan, Measured
from tacit.errors import Invalid
from tacit.noise import DRAW_DISTANCE, sampler_delta
from tacit.report.builder import (
    EVALUATED,
    FOR_SUBMITTER,
    NOISE_SOURCE,
    NOT_VERIFIED,
    ONE_RELEASE,
    OUTSIDE_BUDGET,
    RUN_TIME_UNSEEN,
    ReportBuilder,
    pure_dp,
    voided_by,
)
from tacit.report.figures import amount
from tacit.report.model import (
    Claim,
    NoiseStatement,
    PrivacyReport,
    SensitivityStatement,
    VerifiedStatement,
)
from tacit.wire import format_exact

RELATIVE: Final = Fraction(1, 10**10)
"""Error of one probability, unless the scores are large enough for a larger rounding error."""
HIGHEST: Final = 26
"""Above any tree's height."""
_ROUNDING: Final = Fraction(1, 1 << 53)
_WIDEST: Final = 1 << 18
"""Numbers of kept edges that are weighed at most."""


@dataclass(frozen=True)
class Slack:
    """An additive term of a guarantee."""

    epsilon: Fraction
    delta: Fraction


def slack_of(params: Parameters, plan: Plan | None) -> Slack:
    """Of a run; a bound for any graph while the plan is not known."""
    height = HIGHEST if plan is None else plan.height
    lines = LIMIT_LINES if plan is None else plan.grid.blocks + 1
    most = MAX_EDGES if plan is None else min(MAX_EDGES, plan.grid.size)
    # score times cells is at most the edges: an exponent is off by a few roundings of this
    exponent = params.epsilon * params.shares[1] * most / (2 * params.k)
    relative = max(RELATIVE, 8 * _ROUNDING * exponent / max(1, height))
    splits = height * 6 * lines * _ROUNDING
    extended = Fraction(float(np.finfo(np.longdouble).eps))
    arrangement = 3 * _WIDEST * extended + Fraction(CUT_MASS)
    per_distance = sampler_delta(1, params.epsilon / params.k) / DRAW_DISTANCE
    counts = sampler_delta(2 * (height + 1), params.epsilon / params.k)
    delta = min(Fraction(1), counts + per_distance * (splits + arrangement))
    return Slack(2 * relative * (height + 1), delta)


# Spec: graph-der, sections 4 and 9; jobs, "Privacy report". Made of parameters, the public vertex
# set and the published regions alone.

NAME: Final = "graph-der"
THEOREM: Final = "Chen's thesis, chapter 7, Theorem 7.12"

_FLOATING: Final = (
    "floating-point Laplace: what holds of this output in real arithmetic is in the details. "
    "No figure is stated."
)
_DEFECTS: Final = (
    "Parallel composition on the whole matrix is wrong: an edge is two cells, and once they lie in "
    "two mirrored regions both paths are charged. Empty graph against one edge, first split in the "
    "middle: both counts at least 1 is e^(2 eps_1/k) times as likely, not e^(eps_1/k) times. Sound "
    "takes the upper triangle only.",
    "The cap min(2k, cells) of a region's sensitivity is wrong: a small region's count changes by "
    "1 at a scale of cells/eps. Sound has no cap.",
    "Leaves are exempt from the least size, so the last split's score can change by 1 where the "
    "proof has 4^(h+1) k/|V|^2: up to 26 times its share at 5,242 vertices. Sound keeps the least "
    "size at every depth.",
    "Theorem 7.6's weights of two counts are better than one count, and not optimal; its gamma "
    "omits the root's share. Sound weighs by inverse variance.",
    "The labelling is assumed independent of the edges; the experiments take the order of first "
    "appearance, in which 32.8 % of neighbouring labels of ca-GrQc are edges. That publishes edges "
    "outside any epsilon, and it makes the utility. Sound refuses it.",
    "Claimed for correlated edges: it holds where an edge's evidence lies in at most k - 1 other "
    "edges and nowhere else, and for no other form of correlation.",
)


@dataclass(frozen=True)
class Seen:
    """What is known of the public inputs when the graph is there; tree: after the run."""

    plan: Plan
    labelling: Labelling
    declared: bool
    tree: Tree | None = None


def graph_der_report(
    params: Parameters, stance: Stance, facts: Seen | None = None
) -> PrivacyReport:
    """The report of a run, planned or done. Raises what `check_parameters` raises."""
    check_parameters(params, stance)
    builder = ReportBuilder(NAME, "tacit algorithms.graph_der", stance, "edge")
    paper = builder.paper
    slack = slack_of(params, None if facts is None else facts.plan)
    return builder.report(
        "density-based exploration and reconstruction",
        {
            "k": params.k,
            "shares": [format_exact(share) for share in params.shares],
            "density_stop": format_exact(params.density_stop),
        },
        sensitivity=_sensitivity(params, paper),
        claimed=Claim(
            **pure_dp(params.epsilon),
            theorem=THEOREM,
            text=f"(epsilon, k)-differential privacy with k = {params.k}: each edge at epsilon/k",
        ),
        verified=_verified(params, builder, facts is None or facts.declared),
        charged=builder.charge(params.epsilon / params.k),
        noise=_noise(params, builder, facts),
        sampler=slack.delta,
        sampler_epsilon=None if paper else amount(slack.epsilon),
        method="an edge is one cell, and the regions that hold it are one path from root to leaf; "
        "its counts, choices of points and one arrangement add up to epsilon at most, exactly as "
        "fractions; where it continues follows from noisy counts and public geometry (adaptive "
        "composition of pure DP); all scales are k times as large",
        public_parameters=(
            "vertex set, its number, labelling",
            "epsilon, k, shares, step, density_stop; height and thresholds, which follow",
        ),
        post_processing=(
            "consistency of counts, rounding"
            if params.consistency is not False and not paper
            else "rounding of counts",
            *(("symmetric edges",) if paper else ()),
        ),
        not_protected=(
            "Vertices: who is in the vertex set is public.",
            "A vertex with more than k edges: its degree, and that it is a hub.",
            "What many edges have in common, such as how dense two groups are: that is what the "
            "release shows.",
            FOR_SUBMITTER,
        ),
        source_defects=_DEFECTS,
        voided_by=voided_by(
            "a labelling made by looking at the edges (clustered, crawled, sorted by degree)",
            "parameters tuned on the true graph",
        ),
        assumptions=_assumptions(facts),
        caveats=_caveats(params, paper, facts),
        evaluation_attached=params.metrics is not None,
        error=None if facts is None else leaf_error(facts.plan),
        details=_details(params, stance, facts, slack),
    )


def _sensitivity(params: Parameters, paper: bool) -> tuple[SensitivityStatement, ...]:
    counted = tuple(
        SensitivityStatement(
            value=str(2 * params.k if paper else params.k), source="declared", part=part
        )
        for part in ("counts of regions", "arrangement of a leaf's edges")
    )
    part = "score of a splitting point: k over the least cells of a part"
    return (*counted, SensitivityStatement(source="declared", part=part))


def vertex_conditions(declared: bool) -> tuple[str, ...]:
    """What the lines suppose of vertices and labels."""
    if declared:
        return ("vertex set and labelling do not depend on the edges",)
    return (
        "the labelling does not depend on the edges",
        "both graphs have the same vertex set: here it is taken from the edges, and which "
        "vertices have one is not protected",
    )


def _verified(
    params: Parameters, builder: ReportBuilder, declared: bool
) -> tuple[VerifiedStatement, ...]:
    conditions = vertex_conditions(declared)
    common: dict[str, Any] = {"floating": _FLOATING, "conditions": conditions}
    one = builder.laplace_line(
        "a", "one undirected edge more or less", params.epsilon / params.k, **common
    )
    if params.k == 1:
        return (one,)
    change = f"any {params.k} edges together"
    return one, builder.laplace_line("b", change, params.epsilon, privacy_unit=None, **common)


def _noise(
    params: Parameters, builder: ReportBuilder, facts: Seen | None
) -> tuple[NoiseStatement, ...]:
    if facts is None:
        return (builder.noise("counts of regions", None),)
    budget = facts.plan.budget
    parts = {
        f"counts at depth {depth}": level for depth, level in enumerate(budget.levels, start=1)
    }
    parts["counts of leaves"] = budget.leaf
    touched = params.k * (1 + builder.paper)
    return tuple(builder.noise(part, touched / level) for part, level in parts.items())


def labelling_words(labelling: Labelling | None) -> str:
    """How vertices were numbered, once that is known."""
    how = "Labelling and vertex set were chosen without looking at the edges"
    if labelling is None:
        return f"{how}."
    chosen = {
        "given": "the order of the declared vertex set",
        "id": "ascending ids, which say nothing about edges",
        "random": "a permutation from a public seed",
        "first_appearance": "the order of first appearance in the file: this does NOT hold",
    }
    return f"{how} (here: {chosen[labelling]})."


def _assumptions(facts: Seen | None) -> tuple[str, ...]:
    return (
        "The coordinator keeps the graph and is trusted with it.",
        labelling_words(None if facts is None else facts.labelling),
        "Edges of different people are independent, but for at most k - 1 others that tell of one.",
        "Every parameter was chosen without looking at the data.",
        RUN_TIME_UNSEEN,
        NOISE_SOURCE,
    )


def _caveats(params: Parameters, paper: bool, facts: Seen | None) -> tuple[str, ...]:
    sentences = [ONE_RELEASE]
    if facts is not None and not facts.declared:
        sentences.append(
            "The vertex set is taken from the edges: vertices without an edge are missing, and "
            "that a vertex has an edge is not protected."
        )
    if paper:
        sentences += [NOT_VERIFIED, OUTSIDE_BUDGET]
    else:
        sentences.append(
            "Add sampler_epsilon to the epsilon of every line and sampler_delta to its delta: "
            "points and kept edges are drawn from distribution functions in floating point."
        )
    if params.metrics is not None:
        sentences.append(EVALUATED)
    return tuple(sentences)


def leaf_error(plan: Plan) -> dict[str, Any]:
    """What is known in advance about the counts of leaves, from public values only."""
    deviation = math.sqrt(2) * plan.k * (2 if plan.stance == "paper" else 1)
    return {
        "basis": "the noise alone, of the count of a leaf at the height. The released edges are "
        "further off: a leaf gets a whole number of them, none below 0 and none above its cells, "
        "so that empty leaves gain what noise adds; inside a leaf edges lie all but anywhere",
        "noise_standard_deviation_of_leaf": amount(Fraction(deviation / float(plan.budget.leaf))),
        "mean_cells_of_leaf": amount(Fraction(plan.grid.size, 4**plan.height)),
    }


def budget_table(plan: Plan) -> dict[str, dict[str, str]]:
    """By the depth of a leaf: what its path has spent on each step, and what is left over."""
    table = {}
    for depth in range(plan.height + 1):
        row = {use: amount(much) for use, much in plan.budget.path(depth) if much}
        row["unspent"] = amount(plan.budget.epsilon - plan.budget.spent(depth))
        table[str(depth)] = row
    return table


def _details(
    params: Parameters, stance: Stance, facts: Seen | None, slack: Slack
) -> dict[str, Any]:
    details: dict[str, Any] = {
        "method": {"asked": params.method or "der", "chosen": "der"},
        "per_edge": format_exact(params.epsilon / params.k),
        "per_k_edges": format_exact(params.epsilon),
        "evaluation_is_private": True,
    }
    if stance == "sound":
        details["numerical_slack"] = amount(slack.epsilon)
    if facts is None:
        return details
    plan = facts.plan
    details |= {
        "vertices": plan.grid.vertices,
        "vertex_set": "declared" if facts.declared else "taken from the edges",
        "labelling": facts.labelling,
        "height": plan.height,
        "budget_table": budget_table(plan),
    }
    if stance == "paper" and facts.tree is not None:
        details["in_real_arithmetic"] = in_real_arithmetic(params, facts, facts.tree)
    return details


def in_real_arithmetic(params: Parameters, facts: Seen, tree: Tree) -> dict[str, Any]:
    """What would bound the ratio for this output of the literal algorithm without floating point:
    2 epsilon / k for an edge, unless a cap was active, a region was split at the last level, or
    labels depend on edges. It is no guarantee for all outputs.

    A last split counts however large its parts came out: its other points, whose parts may be of
    one cell, have a share in every chance.
    """
    plan = facts.plan
    uncapped = np.where(plan.grid.diagonal(tree.bounds) > 0, 2 * plan.k, plan.k)
    capped = bool((tree.cells < uncapped).any())
    last = plan.height > 0 and bool((tree.depth == plan.height).any())
    public = facts.labelling != "first_appearance"
    holds = public and not capped and not last
    return {
        "epsilon_per_edge": format_exact(2 * params.epsilon / params.k) if holds else "inf",
        "labels_public": public,
        "cap_active": capped,
        "last_level_split": last,
    }


QUERIES: Final = ("number of edges", "degrees", "coarse counts", "fine counts")
SEQUENCE: Final = "sorted degrees"
TOUCHED: Final = (1, 2, 1, 1)
"""L1 sensitivity of each to one edge."""
_AREAS: Final = (Fraction(1, 10), Fraction(1, 4))
"""Where the forecast holds within a factor 2 (spec: utility, section 2). Of smaller ones borders
count more."""
_PUBLICATION: Final = (
    "two noisy grids as of points: Qardaji, Yang and Li, ICDE 2013; noisy degrees of the beta "
    "model: Karwa and Slavkovic, 2012"
)


_METHOD: Final = (
    "queries whose parts of epsilon add up exactly, as fractions; an edge is one coarse "
    "cell, one part of it, and an end of two vertices; the fine grid is a function of coarse "
    "counts that were released (adaptive composition of pure DP); all scales are k times as "
    "large"
)
_SEQUENCE_METHOD: Final = (
    "one query with all of epsilon; an edge more raises two degrees by 1 and lowers none, so that "
    "sorted no place falls and their sum rises by 2; k edges move them by 2 k at most, and the "
    "scale is k times as large"
)
NO_VERTEX: Final = (
    "Which vertex has which degree was not measured. Ids in the released graph say nothing about "
    "it: degrees are given to them in ascending order."
)


@dataclass(frozen=True)
class SeenBlocks:
    """What is known when the graph is there; measured: after the run."""

    plan: BlockPlan
    labelling: Labelling
    declared: bool
    measured: Measured


def blocks_report(params: Parameters, facts: SeenBlocks | None = None) -> PrivacyReport:
    """The report of a run, planned or done."""
    builder = ReportBuilder(NAME, "tacit algorithms.graph_der", "sound", "edge")
    common: dict[str, Any] = {"conditions": vertex_conditions(facts is None or facts.declared)}
    sequence = params.aim == "degree_sequence"
    lines = [
        builder.laplace_line(
            "a", "one undirected edge more or less", params.epsilon / params.k, **common
        )
    ]
    if params.k > 1:
        change = f"any {params.k} edges together"
        lines.append(builder.laplace_line("b", change, params.epsilon, privacy_unit=None, **common))
    queries = [
        (SEQUENCE if sequence else name, touched, share)
        for name, touched, share in zip(QUERIES, TOUCHED, params.shares_of_blocks, strict=True)
        if share
    ]
    return builder.report(
        "noisy sorted degrees" if sequence else "adaptive grid of noisy counts, and noisy degrees",
        {
            "method": "blocks",
            "aim": params.aim,
            "k": params.k,
            "block_shares": [format_exact(share) for share in params.shares_of_blocks],
        },
        sensitivity=tuple(
            SensitivityStatement(value=str(touched * params.k), source="declared", part=name)
            for name, touched, _ in queries
        ),
        verified=tuple(lines),
        charged=builder.charge(params.epsilon / params.k),
        noise=tuple(
            builder.noise(name, touched * params.k / (params.epsilon * share))
            for name, touched, share in queries
        ),
        sampler=sampler_delta(5 * params.k, params.epsilon),
        method=_SEQUENCE_METHOD if sequence else _METHOD,
        public_parameters=(
            "vertex set, its number, labelling",
            "epsilon, k, aim, block_shares, max_cells",
        ),
        post_processing=(
            "the law of degrees estimated from the noisy ones, then each place's degree from the "
            "law and the whole sequence",
            "edges drawn by these degrees, ends moved to fit them; the first label gets the "
            "smallest degree, the last the largest",
        )
        if sequence
        else (
            "fine counts made to add up to coarse ones, these to the number of edges, none below 0 "
            "or above its pairs",
            "the law of degrees estimated from noisy ones, and each vertex's degree from both",
            "edges drawn by degrees inside each part, ends moved within it to fit them",
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
            labelling_words(None if facts is None else facts.labelling),
            "Edges of different people are independent, but for at most k - 1 others that tell of "
            "one.",
            "Every parameter was chosen without looking at the data.",
            RUN_TIME_UNSEEN,
            NOISE_SOURCE,
        ),
        caveats=builder.caveats(*(NO_VERTEX,) * sequence, evaluated=params.metrics is not None),
        evaluation_attached=params.metrics is not None,
        error=_forecast(params, facts),
        details=_block_details(params, facts, queries),
    )


def _forecast(params: Parameters, facts: SeenBlocks | None) -> dict[str, Any]:
    """From the released number of edges, or the guessed one; none without either."""
    shares, epsilon = params.shares_of_blocks, params.epsilon / params.k
    if params.aim == "degree_sequence":
        return _forecast_of_sequence(float(2 / epsilon), facts)
    if shares[1] == 1:
        error: dict[str, Any] = {
            "basis": "the noise of a degree, before it is drawn to the law of all degrees; edges "
            "between ranges of labels follow from degrees alone, and have no forecast",
            "degree_deviation": math.sqrt(laplace_variance(float(2 / epsilon))),
        }
        size = params.edges_hint if facts is None else facts.measured.size
        vertices = params.vertices if facts is None else facts.plan.vertices
        if size is None or vertices is None:
            return by_size(error, error["degree_deviation"], "a mean degree")
        mean = 2 * size / vertices
        relative = error["degree_deviation"] / mean
        figure = f"the noise of a degree is {relative:.2g} of their mean, {mean:.3g}"
        return with_verdict(error, by_error(relative), figure)
    error = {
        "basis": "edges in a rectangle of labels over a part of all pairs: the noise of the coarse "
        "and fine counts in it together, within a factor of 2 on the graphs tried, and in addition "
        "at most half the edges of the parts that its border cuts",
    }
    if shares[1]:
        error["degree_deviation"] = math.sqrt(laplace_variance(float(2 / (epsilon * shares[1]))))
    size = params.edges_hint
    if facts is not None:
        plan, size, parts = facts.plan, facts.measured.size, facts.measured.parts.size
    elif size is not None:
        plan = BlockPlan(2 * size, params.epsilon, shares, params.k, params.max_cells)
        parts = plan.expected_cells(size)
    else:
        return without_verdict(error, "needs edges_hint, or the number of edges that is released")
    ranges = plan.ranges(size)
    deviations = {area: plan.rectangle_deviation(area, ranges, parts) for area in _AREAS}
    relative = deviations[_AREAS[0]] / float(_AREAS[0] * size)
    figure = f"a tenth of all pairs errs by {relative:.2g} of a tenth of the edges"
    error |= {
        "edges": size,
        "cells": parts,
        "rectangle_deviation": {
            format_exact(area): deviation for area, deviation in deviations.items()
        },
    }
    return with_verdict(error, by_error(relative), figure)


def _forecast_of_sequence(scale: float, facts: SeenBlocks | None) -> dict[str, Any]:
    """Isotonic regression of r equal places with noise of variance v leaves v (1 + 1/2 + .. + 1/r)
    of the sum of its squares; m edges have at most (1 + sqrt(1 + 16 m)) / 2 different degrees."""
    deviation = math.sqrt(laplace_variance(scale))
    error: dict[str, Any] = {
        "basis": "root mean square over the sorted degrees: half of what isotonic regression "
        "leaves of the noise if the graph has the most different degrees that its edges allow; "
        "0.1 to 1.7 of that on the graphs tried",
        "noise_deviation": deviation,
    }
    if facts is None:
        return without_verdict(error, "needs the number of vertices, and of edges as released")
    vertices, size = facts.plan.vertices, facts.measured.size
    equal = max(1.0, vertices / ((1 + math.sqrt(1 + 16 * size)) / 2))
    harmonic = math.log(equal) + 1 / (2 * equal) + np.euler_gamma if equal > 1 else 1.0
    error["sequence_deviation"] = deviation * min(1.0, math.sqrt(harmonic / equal)) / 2
    mean = 2 * size / vertices
    relative = error["sequence_deviation"] / mean
    figure = f"a sorted degree errs by {relative:.2g} of their mean, {mean:.3g}"
    return with_verdict(error, by_error(relative), figure)


def _forecast_of_der(params: Parameters, facts: SeenBlocks | None) -> dict[str, Any]:
    """Of the source's method at the same epsilon, once the number of vertices is known."""
    if facts is None:
        return {"reason": "needs the number of vertices"}
    try:
        return leaf_error(plan_of(params, "sound", facts.plan.vertices))
    except Invalid as problem:
        return {"reason": problem.detail}


def _block_details(
    params: Parameters, facts: SeenBlocks | None, queries: list[tuple[str, int, Fraction]]
) -> dict[str, Any]:
    details: dict[str, Any] = {
        "method": {
            "asked": params.method or "auto",
            "chosen": "blocks",
            "rule": "auto takes blocks for every graph; der on request and in stance paper",
            "forecast": {
                "blocks": _forecast(params, facts),
                "der": _forecast_of_der(params, facts),
            },
        },
        "not_of_the_source": True,
        "publication": _PUBLICATION,
        "aim": params.aim if params.block_shares is None else "block_shares",
        "spent": {
            name: {
                "epsilon": amount(params.epsilon * share),
                "sensitivity": touched * params.k,
                "scale": amount(touched * params.k / (params.epsilon * share)),
            }
            for name, touched, share in queries
        },
        "caps": {"max_cells": params.max_cells},
        "per_edge": format_exact(params.epsilon / params.k),
        "per_k_edges": format_exact(params.epsilon),
        "evaluation_is_private": True,
    }
    if facts is None:
        return details
    return details | {
        "vertices": facts.plan.vertices,
        "vertex_set": "declared" if facts.declared else "taken from the edges",
        "labelling": facts.labelling,
        "noisy_edges": facts.measured.size,
        "ranges": facts.measured.fine.grid.ranges,
        "cells": facts.measured.parts.size,
    }
