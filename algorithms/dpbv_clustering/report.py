"""The privacy reports of every method, and how far off distances of noisy bits are.

Without bits: noisy counts of a grid, one cell of each record, noisy points, and `grid-core` by the
plan of k-means. With bits: dpbv as Theorem 4 claims it, and `dpbv-exact`.
Spec: dpbv-clustering, section 3.10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import Stance, by_error, with_verdict, without_verdict
from algorithms.dpbv_clustering.clustering_methods import gaussian_epsilon
from algorithms.dpbv_clustering.forecasts import (
    bit_error,
    error_of_bits,
    error_of_plan,
    even_distance,
    with_verdict_of_grid,
)
from algorithms.dpbv_clustering.grid import laplace_deviation, unary_deviation
from algorithms.dpbv_clustering.paper import attack
from algorithms.dpbv_clustering.parameters import BitPlan, Method, Parameters
from tacit.accounting.randomised_response import delta_of_responses, total_epsilon
from tacit.encoders.dpbv_clustering import (
    POINT_STEPS,
    Flip,
    claimed_delta,
    log10_complement,
    most_differing,
    point_scale,
)
from tacit.encoders.sums import Cost
from tacit.noise import sampler_delta
from tacit.report.builder import NOTHING_HOLDS, ReportBuilder, pure_dp
from tacit.report.figures import amount, delta_amount, epsilon_amount
from tacit.report.model import (
    Charge,
    Claim,
    CurvePoint,
    Neighbouring,
    NoiseStatement,
    PrivacyReport,
    SensitivityStatement,
    Unit,
    VerifiedStatement,
)
from tacit.wire import format_exact

NAME: Final = "dpbv-clustering"
SCENARIO: Final = "recipient"
ROWS_ARE_PUBLIC: Final = "the number of rows"
OUTSIDE: Final = Charge(ledger="dataset", privacy_unit="record", outside_budget=True)
BUILDER: Final = ReportBuilder(
    NAME, "tacit tacit.accounting.randomised_response", "sound", "record", "any-two-values"
)

_ASSUMPTIONS: Final = (
    "one release per record: what each release loses adds up",
    "a record is one row: a person with several rows is protected that many times less",
    "coins and noise come from a generator that nobody can predict",
)


@dataclass(frozen=True)
class Released:
    """What the lines of a report state about a release. epsilon None: infinite."""

    lines: tuple[VerifiedStatement, ...]
    epsilon: Fraction | None
    delta: Fraction = Fraction(0)

    @property
    def charge(self) -> Charge:
        """What the data set's ledger is charged for a record."""
        return Charge(
            ledger="dataset",
            privacy_unit="record",
            epsilon=epsilon_amount(self.epsilon),
            delta=delta_amount(self.delta),
        )


def nothing(reason: str) -> Released:
    """The line for an adversary against whom nothing is protected."""
    line = BUILDER.line(SCENARIO, None, NOTHING_HOLDS, reason=reason)
    return Released((line,), None, Fraction(1))


def pure_line(
    epsilon: Fraction, neighbouring: Neighbouring = "any-two-values", *conditions: str
) -> VerifiedStatement:
    """A record's line with delta 0."""
    return BUILDER.line(
        SCENARIO, None, pure_dp(epsilon), neighbouring=neighbouring, conditions=conditions
    )


def coin(flip: Flip | None, part: str) -> NoiseStatement:
    """A coin per bit; None is a fair one."""
    probability = Fraction(1, 2) if flip is None else flip.probability
    return NoiseStatement(
        layer="bit",
        part=part,
        distribution="randomised-response",
        probability=amount(probability),
    )


def assembled(
    stance: Stance,
    mechanism: str,
    parameters: dict[str, Any],
    released: Released,
    *,
    reproducible: bool,
    evaluation: bool,
    neighbouring: Neighbouring = "any-two-values",
    sampler: Fraction = Fraction(0),
    **fields: Any,
) -> PrivacyReport:
    """A report of these parts; a seeded generator makes its guarantee void. `fields`: its
    further fields."""
    seeded = ("the generator is seeded: the output can be repeated, hence nothing is private",)
    unit = released.lines[0].privacy_unit
    builder = replace(BUILDER, stance=stance, unit=unit, neighbouring=neighbouring)
    return builder.report(
        mechanism,
        parameters,
        verified=released.lines,
        charged=OUTSIDE if builder.paper or reproducible else released.charge,
        sampler_delta=delta_amount(sampler),
        sampler_epsilon="0",
        method="exact profile of independent randomised responses; closed forms otherwise; rounded "
        "up",
        post_processing=("distances, labels, centres and plots are made of the release",),
        not_protected=("that a record is in the data",) if neighbouring == "any-two-values" else (),
        voided_by=seeded if reproducible else (),
        assumptions=_ASSUMPTIONS,
        reproducible=reproducible,
        evaluation_attached=evaluation,
        **fields,
    )


# The privacy report of each sound method of dpbv-clustering that takes no bits: noisy counts of a
# grid, one cell of each record, noisy points.


def sound_report(
    params: Parameters, method: Method, per_axis: int, rows: int | None, *, reproducible: bool
) -> PrivacyReport:
    """The report of a method without bits; rows: public number or hint. Raises ValueError for
    bits."""
    assert params.bounds is not None
    dimension = len(params.bounds)
    match method:
        case "grid-core":
            return grid_core_report(params, per_axis, dimension, rows, reproducible=reproducible)
        case "grid-ldp":
            return _grid_ldp_report(params, per_axis, dimension, rows, reproducible=reproducible)
        case "laplace-points":
            return _points_report(params, dimension, reproducible=reproducible)
        case _:
            raise ValueError("bits have a plan")


def grid_core_report(
    params: Parameters,
    per_axis: int,
    dimension: int,
    rows: int | None,
    *,
    reproducible: bool,
    noise_share: Fraction = Fraction(1),
) -> PrivacyReport:
    """Counts with discrete Laplace noise of scale 2 / epsilon; noise_share: in units of it."""
    epsilon = params.epsilon
    scale = 2 / epsilon
    cells = per_axis**dimension
    deviation = laplace_deviation(scale) * math.sqrt(noise_share)
    error = {
        "basis": "the noise alone, of the count of a cell. Masses and centres of clusters are of "
        "the cells that stand out of it: what the others hold is missing from them",
        "sd_of_a_count": deviation,
    }
    lines = [pure_line(epsilon, "replace", "the number of rows is public")]
    if params.cells_per_axis is not None:
        declared = "cells_per_axis was declared, so that nothing follows from the number of rows"
        lines.append(pure_line(epsilon / 2, "add-remove", declared))
    return assembled(
        "sound",
        "grid-core",
        {"cells_per_axis": per_axis},
        Released(tuple(lines), epsilon),
        neighbouring="replace",
        sensitivity=(SensitivityStatement(value="2", source="declared"),),
        noise=(
            NoiseStatement(
                layer="count", distribution="discrete-laplace", scale=amount(scale), draws=cells
            ),
        ),
        sampler=sampler_delta(cells, epsilon),
        public_parameters=("grid and bounds", ROWS_ARE_PUBLIC),
        error=with_verdict_of_grid(error, params, per_axis, dimension, deviation, rows),
        details={"cells": cells, "data_dependent_leaks": []},
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


def _grid_ldp_report(
    params: Parameters, per_axis: int, dimension: int, rows: int | None, *, reproducible: bool
) -> PrivacyReport:
    """Optimised unary encoding of one cell."""
    flip = Flip.of_epsilon(params.epsilon)
    of_one = unary_deviation(float(flip.probability), 1)
    error = {
        "basis": "the noise alone, of the share of rows in an empty cell. Masses and centres of "
        "clusters are of the cells that stand out of it: what the others hold is missing",
        "sd_of_a_share_times_sqrt_rows": of_one,
    }
    if rows is None:
        error = without_verdict(error, "needs the number of rows, or n_hint")
    else:
        deviation = of_one * math.sqrt(rows)
        error = with_verdict_of_grid(error, params, per_axis, dimension, deviation, rows)
    return assembled(
        "sound",
        "grid-ldp",
        {"cells_per_axis": per_axis},
        Released((pure_line(params.epsilon),), params.epsilon),
        noise=(coin(flip, "every other cell"), coin(None, "the own cell")),
        public_parameters=("grid and bounds", ROWS_ARE_PUBLIC, "flip probabilities"),
        error=error,
        details={
            "cells": per_axis**dimension,
            "flip_probability": format_exact(flip.probability),
            "data_dependent_leaks": [],
        },
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


def _points_report(params: Parameters, dimension: int, *, reproducible: bool) -> PrivacyReport:
    """Every coordinate with discrete Laplace noise."""
    scale = point_scale(dimension, params.epsilon)
    deviation = math.sqrt(2) * float(scale) / POINT_STEPS
    relative = deviation / even_distance(params, dimension)
    figure = (
        f"a record's coordinate errs by {relative:.2g} of the distance of {params.k} even centres"
    )
    return assembled(
        "sound",
        "laplace-points",
        {"steps": POINT_STEPS},
        Released((pure_line(params.epsilon),), params.epsilon),
        sensitivity=(
            SensitivityStatement(value=amount(dimension * POINT_STEPS), source="declared"),
        ),
        noise=(
            NoiseStatement(
                layer="coordinate",
                distribution="discrete-laplace",
                scale=amount(scale),
                draws=dimension,
            ),
        ),
        sampler=sampler_delta(dimension, params.epsilon),
        public_parameters=("bounds", ROWS_ARE_PUBLIC),
        error=with_verdict(
            {"sd_of_a_coordinate_over_its_range": deviation}, by_error(relative), figure
        ),
        details={"data_dependent_leaks": []},
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


_MOST_DRAWS = 200_000
"""Coordinates with noise, at most: both histograms and a zone round of 256 clusters."""


def adaptive_report(
    params: Parameters, *, reproducible: bool, noise_share: Fraction | None = None
) -> PrivacyReport:
    """From the parameters only: the number of rows or its hint determines the plan, which is in
    the result with its error. noise_share: over curators, of a sum in units of noise that hides
    two records; None for stored rows."""
    over_curators = noise_share is not None
    size = "n_hint" if over_curators else ROWS_ARE_PUBLIC
    lines = [pure_line(params.epsilon, "replace", f"{size} is public")]
    if over_curators:
        declared = "n_hint was declared, so that nothing follows from the number of rows"
        lines.append(pure_line(params.epsilon / 2, "add-remove", declared))
    method = {
        "asked": params.grid or "auto",
        "chosen": "adaptive",
        "rule": "adaptive for kcluster, at most 6 columns and no cells_per_axis; over curators if "
        "n_hint is given",
        "not_of_the_source": True,
    }
    return assembled(
        "sound",
        "grid-core",
        {"grid": "adaptive"},
        Released(tuple(lines), params.epsilon),
        neighbouring="replace",
        sensitivity=(
            SensitivityStatement(value="2", source="declared", part="counts of cells"),
            SensitivityStatement(source="public-output", part="offsets of a zone"),
        ),
        noise=(
            NoiseStatement(
                layer="count", part="counts, offsets, distances", distribution="discrete-laplace"
            ),
        ),
        sampler=sampler_delta(_MOST_DRAWS, params.epsilon),
        public_parameters=("bounds", size),
        error=error_of_plan(params, noise_share),
        details={"method": method, "data_dependent_leaks": []},
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


CURVE_DELTAS: Final = (Fraction(1, 10**9), Fraction(1, 10**6), Fraction(1, 10**3))
BOUNDS_FROM_DATA: Final = (
    "the bounds are the data's own: every record's bits depend on the extreme records"
)


def bits_released(params: Parameters, plan: BitPlan, stance: Stance) -> Released:
    """The lines of a release of bits."""
    if plan.epsilon_bit is None:
        return nothing("plain bit vectors are a fixed function of the record")
    if stance == "paper" and params.bounds is None:
        return nothing(BOUNDS_FROM_DATA)
    if params.partition != "horizontal":
        reason = "Alice's attributes enter the distances exactly"
        if params.partition == "vertical-decomposed":
            reason += ", and Bob's are encoded afresh for every pair"
        return nothing(reason)
    at = params.delta
    target = params.epsilon if stance == "sound" else None
    lines = []
    if plan.near is not None:
        assert params.radius is not None
        lengths = ", ".join(f"{radiu:g}" for radiu in params.radius)
        conditions = (
            f"only pairs of records within ({lengths}) of each other in every attribute; pairs "
            "farther apart are protected as the record line says",
        )
        lines.append(_line(plan, plan.near, "radius", at, conditions, target)[0])
    line, epsilon = _line(plan, plan.differing, "record", at, (), target)
    lines.append(line)
    if at:
        lines.append(_line(plan, plan.differing, "record", Fraction(0), ())[0])
    return Released(tuple(lines), epsilon, at)


def _line(
    plan: BitPlan,
    differing: int,
    unit: Unit,
    at: Fraction,
    conditions: tuple[str, ...],
    target: Fraction | None = None,
) -> tuple[VerifiedStatement, Fraction]:
    """The line at delta `at` (0: pure), and its epsilon."""
    assert plan.epsilon_bit is not None
    pure = differing * plan.epsilon_bit
    kept = Fraction(plan.flip.epsilon)
    epsilon = pure if at == 0 else min(pure, total_epsilon(differing, kept, at))
    if target is not None and at and delta_of_responses(differing, kept, target) <= at:
        epsilon = min(epsilon, target)  # a bisection ends a hair above it
    points = {
        total_epsilon(differing, kept, delta): delta
        for delta in (*CURVE_DELTAS, at)
        if at and delta
    }
    if at:
        points[plan.epsilon_bit] = delta_of_responses(differing, kept, plan.epsilon_bit)
    line = BUILDER.line(
        SCENARIO,
        "anyone who sees all bits and knows all points, and every other record",
        {
            "model": "pure-dp" if at == 0 else "approximate-dp",
            "epsilon": epsilon_amount(epsilon),
            "delta": delta_amount(at),
        },
        privacy_unit=unit,
        curve=tuple(
            CurvePoint(epsilon=epsilon_amount(point), delta=delta_amount(points[point]))
            for point in sorted(points)
        ),
        conditions=conditions,
    )
    return line, epsilon


def leaks(params: Parameters) -> list[str]:
    """Which data the release contains unchanged."""
    result = []
    if params.bounds is None:
        result.append("bounds: the smallest and largest value of every attribute")
    if params.partition != "horizontal":
        result.append("Alice's attributes")
    return result


# Spec: dpbv-clustering, sections 4, 6 and 9; jobs, "Privacy report".

_LEAST_CLAIM: Final = Decimal("1e-99")
_DEFECTS: Final = (
    "Theorem 4 bounds the probability of each single output; a guarantee has to hold for every set "
    "of outputs, and its excesses add up over 2^s of them. At the claimed epsilon the true delta "
    "is close to 1",
    "Section VI chooses more bits for a smaller delta: more bits lose more",
    "Section V-C calls DPBV more private than additive noise of sigma 2: by the same measure it is "
    "tens of times less private",
)
_DPBV_PARAMETERS: Final = (
    "points r, half window t, bits s, bounds, flip probability: every curator holds them, and no "
    "credit is taken for hiding them",
    ROWS_ARE_PUBLIC,
)


def paper_report(params: Parameters, plan: BitPlan, *, reproducible: bool) -> PrivacyReport:
    """DPBV as the source publishes it, and its verified guarantee."""
    released = bits_released(params, plan, "paper")
    details = _bit_details(params, plan, released)
    if params.baselines:
        details["baselines"] = baseline_figures(params)
    return assembled(
        "paper",
        "dpbv",
        _bit_parameters(params, plan),
        released,
        claimed=_claim(params, plan),
        noise=(coin(plan.flip, "every bit"),),
        public_parameters=_DPBV_PARAMETERS,
        source_defects=_DEFECTS,
        error=None if params.bounds is None else bit_error(plan),
        details=details,
        reproducible=reproducible,
        evaluation=params.evaluate or bool(params.baselines),
    )


def exact_report(params: Parameters, plan: BitPlan, *, reproducible: bool) -> PrivacyReport:
    """`dpbv-exact`: the budget of a bit follows from that of a record."""
    released = bits_released(params, plan, "sound")
    return assembled(
        "sound",
        "dpbv-exact",
        _bit_parameters(params, plan),
        released,
        noise=(coin(plan.flip, "every bit"),),
        public_parameters=_DPBV_PARAMETERS,
        error=error_of_bits(params, plan),
        details=_bit_details(params, plan, released),
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


def exact_cost(params: Parameters, plan: BitPlan) -> Cost:
    """The cost of `dpbv-exact` for one record."""
    charge = bits_released(params, plan, "sound").charge
    assert charge.epsilon is not None
    assert charge.delta is not None
    return Cost(Fraction(charge.epsilon), Fraction(charge.delta))


def unplanned_report(params: Parameters) -> PrivacyReport:
    """A paper job whose bounds come from the data, before there is data."""
    return assembled(
        "paper",
        "dpbv",
        {},
        nothing(BOUNDS_FROM_DATA),
        public_parameters=_DPBV_PARAMETERS,
        source_defects=_DEFECTS,
        details={"data_dependent_leaks": leaks(params)},
        reproducible=False,
        evaluation=params.evaluate or bool(params.baselines),
    )


def _bit_details(params: Parameters, plan: BitPlan, released: Released) -> dict[str, Any]:
    if params.bounds is None:  # what follows from measured ranges is not for a report
        return {
            "k_differing": {"worst_case": params.s * len(plan.codes)},
            "flip_probability": format_exact(plan.flip.probability),
            "data_dependent_leaks": leaks(params),
        }
    per_attribute = [most_differing(code) for code in plan.codes]
    details: dict[str, Any] = {
        "k_differing": {
            "worst_case": params.s * len(plan.codes),
            "realised": sum(per_attribute),
            "per_attribute": per_attribute,
            "accounted": plan.differing,
        },
        "r_public": True,
        "flip_probability": format_exact(plan.flip.probability),
        "consistency": plan.consistency,
        "composition": {
            "attributes": len(plan.codes),
            "encodings_per_record": 1,
            "earlier_releases": 0,
        },
        "data_dependent_leaks": leaks(params),
    }
    if plan.near is not None:
        details["k_differing"]["within_radius"] = plan.near
    if plan.epsilon_bit is not None:
        bit = float(plan.epsilon_bit)
        details["epsilon_bit"] = amount(plan.epsilon_bit)
        details["log10_one_minus_delta_at_epsilon_bit"] = round(
            log10_complement(plan.differing, plan.flip.epsilon, bit), 1
        )
        if plan.near is None:
            stated = min(float(released.epsilon or Fraction(1000)), 1000.0)
            attacked = attack(
                plan.codes[0], plan.flip, stated, float(released.delta), params.r_seed
            )
            details["attack"] = {
                "llr_error_at": {
                    "pair": list(attacked.pair),
                    "differing": attacked.differing,
                    "error": attacked.error,
                },
                "dp_floor": attacked.floor,
                "claimed_floor": 1 / (1 + math.exp(bit)),
                "value_recovery_mae": attacked.recovery,
            }
    return details


def _bit_parameters(params: Parameters, plan: BitPlan) -> dict[str, Any]:
    result: dict[str, Any] = {
        "s": params.s,
        "epsilon_bit": "inf" if plan.epsilon_bit is None else amount(plan.epsilon_bit),
        "r_seed": params.r_seed,
    }
    if params.bounds is not None:
        result["t"] = [code.half_window for code in plan.codes]
        result["ranges"] = [[code.lower, code.upper] for code in plan.codes]
    return result


def _claim(params: Parameters, plan: BitPlan) -> Claim | None:
    if plan.epsilon_bit is None:
        return None
    claimed = claimed_delta(params.s, plan.epsilon_bit)
    return Claim(
        model="approximate-dp",
        epsilon=amount(plan.epsilon_bit),
        delta=amount(Fraction(max(claimed, _LEAST_CLAIM))),
        theorem="Theorem 4",
        text=f"each value's {params.s} bits are (eps, delta)-locally private with "
        f"delta = p^s - e^eps q^s = {claimed:.2e}",
    )


def baseline_figures(params: Parameters) -> dict[str, Any]:
    """The true guarantees that the baselines would have if their noisy records were released."""
    figures: dict[str, Any] = {}
    if "kmeans" in params.baselines:
        figures["kmeans"] = {"model": "none"}
    if "adp" in params.baselines and params.bounds is not None:
        diameter = math.sqrt(sum((high - low) ** 2 for low, high in params.bounds))
        at = params.delta or Fraction(1, 10**6)
        figures["adp"] = {
            "sigma": format_exact(params.adp_sigma),
            "l2_diameter": diameter,
            "epsilon": amount(
                Fraction(gaussian_epsilon(_below(at), float(params.adp_sigma), diameter))
            ),
            "delta": delta_amount(at),
            "condition": "for real-valued noise; floating point protects less",
        }
    if "rsp" in params.baselines:
        figures["rsp"] = {
            "model": "none",
            "reason": "one linear map for all records: known pairs invert it",
        }
    return figures


def _below(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, 0.0)
