"""The privacy report of a run: claimed and verified guarantees, for both stances.

Spec: kmeans, sections 4 and 11; jobs, "Privacy report". Made of public parameters and published
values alone. Epsilons are exact and rounded up when written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from algorithms.contract import by_error, with_verdict
from algorithms.kmeans.parameters import Parameters
from algorithms.kmeans.plan import CLEAR, LIFT_RADIUS, LIFT_SPLIT, ZONE_SPLIT, Plan, StartMethod
from algorithms.kmeans.sound_run import Release, State
from algorithms.kmeans.starts import THRESHOLD
from tacit.encoders.kmeans import PROJECTED, Floats, Grid, NoiseBlock
from tacit.encoders.kmeans_sums import FineCells, Query
from tacit.noise import sampler_delta
from tacit.report.builder import (
    ADD_SAMPLER_DELTA,
    NOISE_SOURCE,
    NOTHING_HOLDS,
    ONE_RELEASE,
    OPERATORS_EVALUATION,
    OUTSIDE_BUDGET,
    RECIPIENT,
    ReportBuilder,
    pure_dp,
)
from tacit.report.figures import amount, epsilon_amount
from tacit.report.model import (
    Claim,
    NoiseStatement,
    PrivacyReport,
    SensitivityStatement,
    VerifiedStatement,
)
from tacit.wire import format_exact

NAME: Final = "kmeans"
LIBRARY: Final = "tacit algorithms.kmeans"
THEOREM: Final = "Lu's thesis, chapter 7, Theorem 7.5"

DEFECTS: Final = (
    "Zones: the published zone of a pass is an exact function of unprotected means (in the prior "
    "strategy |P - S| + r = |S - c|; in the posterior one P lies on the line from S to X at a "
    "share that r fixes). Who knows all other records recovers the last one from one published "
    "pass; the neighbour without it contradicts the equations. Delta is 1.",
    "Support: even with the zones hidden, the set where a sampled centre can lie moves with the "
    "data. With the old centre (0,0), records (0,0), (1,0) put it outside the convergence zone of "
    "the records (0,0), (1,0), (0.4,0) with probability 0.2355; those put it there with "
    "probability 0.",
    "Exact sums: the final noise touches counts only, so a centre lies on the ray of its exact "
    "sum. One cluster of (0.1,0.2), (0.3,0.4) always gives y/x = 1.5; with (0.6,0.2) added always "
    "0.8. In two dimensions and more delta is 1; in one the density ratio has no bound.",
    "The proof compares two outputs on one data set; differential privacy compares one output on "
    "two data sets.",
    "The start is k raw records, the scaling uses exact extremes, and the number of passes, hence "
    "the total that is claimed, depends on the data.",
    "Parallel composition over clusters fails in the posterior strategy: the controller of a "
    "cluster depends on the means of all.",
    "Noise scaled to local sensitivity, as the source's experiments have it, is not private.",
)


# ------------------------------------------------------------------------------------------ sound


def sound_report(
    params: Parameters, grid: Grid, plan: Plan, state: State | None, release_made: Release | None
) -> PrivacyReport:
    """The report of a sound central run; without `state` and `found`, of one that is planned."""
    epsilon = plan.epsilon if state is None else state.spent
    asked_queries = () if state is None else state.asked
    early = state is not None and epsilon < plan.epsilon
    builder = ReportBuilder(NAME, LIBRARY, "sound", params.privacy_unit)
    return builder.report(
        "noisy synopsis and zone rounds",
        {"mode": plan.mode, "rounds": plan.rounds, "queries": plan.queries},
        sensitivity=_sensitivities(plan, asked_queries),
        claimed=Claim(
            **pure_dp(epsilon),
            text="this mechanism is not the source's: the claim is our own and equals what is "
            "verified",
        ),
        verified=_verified(params, builder, epsilon, early),
        charged=builder.charge(epsilon, reserved=plan.epsilon),
        noise=_noise(plan, asked_queries, builder),
        sampler=sampler_delta(_draws(plan, state), epsilon),
        method="basic composition of pure epsilon over adaptive queries; within a query the "
        "weighted L1 distance of its blocks",
        public_parameters=_PUBLIC,
        post_processing=_POST_PROCESSING,
        not_protected=_not_protected(params),
        voided_by=(
            "bounds, n_hint, k or any other parameter chosen after looking at the data",
            "noise drawn from a source that someone else can predict",
        ),
        assumptions=_assumptions(params),
        caveats=_caveats(params, state, early),
        error=error_of_centres(params.n_hint, grid, plan, release_made),
        details=_details(params, plan, state),
    )


_PUBLIC: Final = (
    "every parameter of the job: bounds, n_hint, k, epsilon, mode, rounds, max_cells",
    "the number of columns, and their names",
    "public_seed, which drives the start of clusterings, packings and projections",
)
_POST_PROCESSING: Final = (
    "cells below three noise scales are dropped; weighted k-means of the rest gives centres and "
    "zone radii",
    "a noisy mean offset is shortened by 1 - d variance / length^2, at least 0, and limited to its "
    "zone",
    "centres are limited to the box and rounded to the grid; counts below 0 become 0",
    "of several zone rounds the inverse-variance mean of those that agree with the last",
)


def _verified(
    params: Parameters, builder: ReportBuilder, epsilon: Fraction, early: bool
) -> tuple[VerifiedStatement, ...]:
    unit = params.privacy_unit
    conditions = (
        "the run ended early by a rule on released values alone: the loss of this outcome; before "
        "the run the bound was what was reserved",
    )
    return builder.neighbour_lines(
        epsilon,
        "one record more or less"
        if unit == "record"
        else f"all records of one curator, of which {params.contribution_bound} count",
        f"the data of one {unit} replaced by other data",
        conditions=conditions if early else (),
    )


def _largest(
    queries: Sequence[Query], measure: Callable[[NoiseBlock], Fraction | int]
) -> dict[tuple[str, str], Fraction | int]:
    """The largest `measure` among the blocks of a kind, for each query: keys are (the words that a
    report prints, the kind)."""
    largest: dict[tuple[str, str], Fraction | int] = {}
    for place, query in enumerate(queries, start=1):
        for block in query.blocks:
            kind = f"{query.kind} {place}: {block.name}, at most", block.name
            largest[kind] = max(largest.get(kind, 0), measure(block))
    return largest


def _sensitivities(plan: Plan, queries: Sequence[Query]) -> tuple[SensitivityStatement, ...]:
    """Of each query's parts, in ring units, for the privacy unit."""
    if queries:
        return tuple(
            SensitivityStatement(
                value=amount(value * plan.records),
                source="public-output" if name == "offsets" else "declared",
                part=part,
            )
            for (part, name), value in _largest(queries, lambda block: block.sensitivity).items()
        )
    records = plan.records
    planned: list[SensitivityStatement] = []
    if plan.epsilon_marginals is not None:
        planned.append(_declared(PROJECTED * records, "marginal: bins"))
    if plan.epsilon_histogram is not None:
        planned.append(_declared(records, "hist: cells"))
    if plan.two_level is not None:
        planned.append(_declared(records, "fine: cells"))
    if plan.epsilon_lift is not None:
        radius = int(LIFT_RADIUS * plan.dimension * plan.steps)
        planned.append(_declared(radius * records, "lift: offsets"))
        planned.append(_declared(records, "lift: counts"))
    if plan.rounds:
        planned.append(SensitivityStatement(source="public-output", part="zone: offsets"))
        planned.append(_declared(records, "zone: counts"))
        planned.append(_declared(plan.levels * records, "zone: distances"))
    return tuple(planned)


def _declared(value: int, part: str) -> SensitivityStatement:
    return SensitivityStatement(value=amount(value), source="declared", part=part)


def _noise(
    plan: Plan, queries: Sequence[Query], builder: ReportBuilder
) -> tuple[NoiseStatement, ...]:
    """One statement for each kind of block of each query; the largest scale of a kind."""
    largest = _largest(queries, lambda block: block.scale(plan.records))
    noises = tuple(builder.noise(part, Fraction(scale)) for (part, _), scale in largest.items())
    return noises or (builder.noise(None, None),)


def _draws(plan: Plan, state: State | None) -> int:
    """Coordinates that carry noise."""
    if state is not None:
        return sum(query.length for query in state.asked)
    zones = plan.rounds * plan.clusters * (plan.dimension + 2)
    if plan.per_side is None:
        return zones
    if plan.two_level is not None:
        return zones + plan.two_level.coarse_cells + plan.two_level.max_cells
    if plan.epsilon_lift is None:
        return zones + int(plan.per_side**plan.dimension)
    lift = 3 * plan.clusters * (plan.dimension + 1)
    return zones + plan.per_side**PROJECTED + 2 * 128 + lift


def _not_protected(params: Parameters) -> tuple[str, ...]:
    sentences = ["n_hint, bounds, k, the number and names of columns, public_seed"]
    if params.privacy_unit == "record":
        sentences.append(
            "The unit record hides one row. A person with several rows is protected once for each, "
            "not as one."
        )
    else:
        sentences.append("A person behind several curators is protected once for each, not as one.")
    sentences.append(
        "What a group has in common is what the centres are there to show; it is not hidden."
    )
    return tuple(sentences)


def _assumptions(params: Parameters) -> tuple[str, ...]:
    sentences = [
        "The coordinator keeps the rows and is trusted with them; what is protected is what its "
        "result is given to others.",
        "Bounds and n_hint were declared without looking at the data. Values outside the bounds "
        "are moved to them; their number is not published.",
        NOISE_SOURCE,
        "Run time, memory and progress are for the submitter; they are not protected and never "
        "published.",
    ]
    if params.privacy_unit == "curator":
        sentences.append("The column with the role curator names the owner of each row truly.")
    return tuple(sentences)


def _caveats(params: Parameters, state: State | None, early: bool) -> tuple[str, ...]:
    sentences = [
        ONE_RELEASE,
        ADD_SAMPLER_DELTA,
    ]
    if params.evaluate is not False:
        sentences.append(f"{OPERATORS_EVALUATION}.")
    if early:
        sentences.append("The run ended early: no step of the last round stood out from its noise.")
    if state is not None and state.rounds and state.rounds[-1].starved.any():
        sentences.append(
            "Clusters with too few records to tell from noise kept their centres: error.starved."
        )
    return tuple(sentences)


def error_of_centres(
    size: int | None, grid: Grid, plan: Plan, release_made: Release | None
) -> dict[str, Any]:
    """The noise of a centre's coordinate (standard deviation) in the unit of its column. size:
    public number of records, needed if there is a zone round and no result yet."""
    if not plan.rounds:
        assert plan.per_side is not None
        coarse: dict[str, Any] = {
            "basis": "no zone round: centres are as coarse as the cells of the noisy histogram",
            "cell_widths": [
                amount(Fraction(width)) for width in _half_sides(grid) * 2 / plan.per_side
            ],
        }
        return _with_verdict(coarse, 1 / plan.per_side, plan, "half a cell, ")
    if release_made is None or release_made.deviations is None:
        assert size is not None
        count = max(size / plan.clusters, 1.0)
        scale = plan.inflation * plan.dimension / float(plan.epsilon_round * ZONE_SPLIT[0])
        deviation = math.sqrt(2) * scale / count
        widest = deviation * _half_sides(grid)
        stated: dict[str, Any] = {
            "basis": "at most, for clusters of n / k records (n: n_hint, or rows whose number is "
            "public) and the widest zones",
            "standard_deviation": [amount(Fraction(value)) for value in widest],
        }
        return _with_verdict(stated, deviation, plan, "at most ")
    stated = {
        "basis": "the noise of the last zone round and its noisy counts; for each cluster, for "
        "each column",
        "standard_deviation": [
            [amount(Fraction(value)) for value in deviation * _half_sides(grid)]
            for deviation in release_made.deviations
        ],
        "starved": list(release_made.starved),
    }
    typical = float(np.median(release_made.deviations))
    return _with_verdict(stated, typical, plan, "")


def _with_verdict(
    stated: dict[str, Any], deviation: float, plan: Plan, limit: str
) -> dict[str, Any]:
    """deviation: of a centre's coordinate, in half sides of the box; k even centres lie 2 / k^(1/d)
    of them apart."""
    relative = deviation * plan.clusters ** (1 / plan.dimension) / 2
    figure = (
        f"a centre's coordinate errs by {limit}{relative:.2g} of the distance of "
        f"{plan.clusters} even centres"
    )
    return with_verdict(stated, by_error(relative), figure)


def _half_sides(grid: Grid) -> Floats:
    halves: Floats = (np.array(grid.upper) - np.array(grid.lower)) / 2
    return halves


def _details(params: Parameters, plan: Plan, state: State | None) -> dict[str, Any]:
    details: dict[str, Any] = {
        "released": [
            "the noisy histogram (projected data: noisy marginals, histogram and lifted sums)"
            if plan.mode != "packing+zone"
            else "no synopsis: the start is data-free",
            "the noisy sums of every zone round, and all that follows from them",
        ],
        "trust": "trusted service: the coordinator holds the rows",
        "split": planned_split(plan),
        "method": _method(params, plan, state),
    }
    if params.privacy_unit == "curator":
        details["contribution_bound"] = params.contribution_bound
    if state is not None:
        details["refund"] = epsilon_amount(plan.epsilon - state.spent)
    return details


def start_name(plan: Plan) -> StartMethod | None:
    """Which synopsis the plan has; None: none of the whole box."""
    if plan.mode not in ("synopsis", "synopsis+zone"):
        return None
    return "grid" if plan.two_level is None else "two-level"


def _method(params: Parameters, plan: Plan, state: State | None) -> dict[str, Any]:
    """What was asked, what runs, by which rule, and what it will see."""
    described: dict[str, Any] = {"asked": params.start, "chosen": start_name(plan)}
    choices = plan.two_level_forecast
    if choices is None:
        return described
    assert params.n_hint is not None
    described |= {
        "rule": "two-level if n_hint is at least 8 k times the threshold of a coarse cell",
        "n_hint_needed": math.ceil(CLEAR * choices.clusters * choices.threshold),
        "forecast": {
            "two-level": {
                "coarse_cells_per_side": choices.per_side,
                "smallest_visible_cluster": math.ceil(choices.visible),
            },
            "grid": {"smallest_visible_cell": _grid_threshold(plan)},
        },
        "forecast_note": "records from which a cluster narrower than a coarse cell is seen, about; "
        "from which one cell of the single grid is",
    }
    if plan.two_level is None:
        return described
    described["not_of_the_source"] = True
    described["publication"] = "adaptive grids: Qardaji, Yang and Li, ICDE 2013"
    described["caps"] = {"max_cells": choices.max_cells}
    if state is not None:
        fine = [query for query in state.asked if isinstance(query, FineCells)]
        described["kept_coarse_cells"] = sum(query.kept.size for query in fine)
        described["fine_cells"] = sum(query.length for query in fine)
        described["one_grid_instead"] = any(query.per_side != choices.per_side for query in fine)
    return described


def _grid_threshold(plan: Plan) -> int:
    assert plan.epsilon_histogram is not None
    return math.ceil(THRESHOLD * plan.inflation / float(plan.epsilon_histogram))


def _histograms(plan: Plan) -> tuple[tuple[str, Fraction | None, tuple[Fraction, ...]], ...]:
    if plan.two_level is None:
        return (("hist", plan.epsilon_histogram, ()),)
    coarse, fine = plan.two_level.epsilon_coarse, plan.two_level.epsilon_fine
    return (("hist", coarse, ()), ("fine", fine, ()))


def planned_split(plan: Plan) -> list[dict[str, Any]]:
    """Each query's budget: exact rationals as text, in the order of the queries."""
    queries = (
        ("marginal", plan.epsilon_marginals, ()),
        *_histograms(plan),
        ("lift", plan.epsilon_lift, LIFT_SPLIT),
        *(("zone", plan.epsilon_round, ZONE_SPLIT),) * plan.rounds,
    )
    return [
        {"kind": kind, "epsilon": format_exact(epsilon)}
        | {
            name: format_exact(epsilon * share)
            for name, share in zip(("e_s", "e_c", "e_v"), shares, strict=False)
        }
        for kind, epsilon, shares in queries
        if epsilon is not None
    ]


# ------------------------------------------------------------------------------------------ paper


def paper_report(params: Parameters, passes: int | None) -> PrivacyReport:
    """The report of a run of the source's algorithm; without `passes`, of one that is planned."""
    final = params.epsilon if params.final_epsilon is None else params.final_epsilon
    claimed = None if passes is None else epsilon_amount(final + passes * params.epsilon)
    builder = ReportBuilder(NAME, LIBRARY, "paper", "record")
    return builder.report(
        "sampling zones",
        {
            "strategy": params.strategy,
            "stop": params.stop,
            "measure": params.measure,
            "max_passes": params.max_passes,
        },
        privacy_unit=None,
        neighbouring=None,
        sensitivity=(SensitivityStatement(source="data-dependent"),),
        claimed=Claim(
            model="pure-dp",
            epsilon=claimed,
            delta="0",
            theorem=THEOREM,
            text="epsilon of the final counts plus epsilon of a step for each pass; the number of "
            "passes depends on the data and is known afterwards",
        ),
        verified=(
            builder.line(
                "a",
                RECIPIENT,
                NOTHING_HOLDS,
                reason="zones are exact functions of unprotected means; the support of a sampled "
                "centre moves with the data; final centres lie on the rays of exact sums: one "
                "cluster of (0.1,0.2), (0.3,0.4) always gives y/x = 1.5, with (0.6,0.2) added "
                "always 0.8",
            ),
        ),
        charged=builder.charge(),
        noise=(builder.noise("final counts", 1 / final, weight=None),),
        method="none: nothing is verified",
        public_parameters=("every parameter of the job",),
        post_processing=("centres are limited to the box of the data",),
        not_protected=("everything",),
        source_defects=DEFECTS,
        caveats=(
            "NO PRIVACY: stance paper repeats the source's figures and protects nobody.",
            OUTSIDE_BUDGET,
        ),
        details={
            "released": ["zones and centres of each pass", "their number", "final centres"],
            "trust": "trusted service",
            "split": {
                "per_pass": format_exact(params.epsilon),
                "final": format_exact(final),
            },
        },
    )
