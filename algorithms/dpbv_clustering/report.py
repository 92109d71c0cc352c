"""The privacy report of dpbv-clustering: what Theorem 4 claims, and what holds.

Spec: dpbv-clustering, sections 4 and 9; jobs, "Privacy report". Figures of bits come from
`common.encoders.dpbv_clustering_loss`, rounded upwards. Nothing here depends on the data; where the
bounds were taken from the data, no figure is stated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import Stance
from algorithms.dpbv_clustering.attack import attack
from algorithms.dpbv_clustering.baselines import gaussian_epsilon
from algorithms.dpbv_clustering.distances import Decoder
from algorithms.dpbv_clustering.grid import laplace_deviation
from algorithms.dpbv_clustering.parameters import BitPlan, Method, Parameters
from common.accounting.randomised_response import delta_of_responses, total_epsilon
from common.encoders.dpbv_clustering import Flip
from common.encoders.dpbv_clustering_cells import POINT_STEPS, point_scale
from common.encoders.dpbv_clustering_loss import (
    claimed_delta,
    log10_complement,
    most_differing,
)
from common.encoders.reports import Cost
from common.models.base import format_exact
from common.models.report import (
    AccountingStatement,
    Charge,
    Claim,
    CurvePoint,
    MechanismStatement,
    NoiseStatement,
    PrivacyReport,
    SensitivityStatement,
    Subject,
    VerifiedStatement,
)
from common.noise import sampler_delta
from common.report import amount, delta_amount, epsilon_amount

VERSION: Final = "1"
NAME: Final = "dpbv-clustering"
SCENARIO: Final = "recipient"
CURVE_DELTAS: Final = (Fraction(1, 10**9), Fraction(1, 10**6), Fraction(1, 10**3))
NO_UTILITY: Final = "no_utility_expected"
_LEAST_CLAIM: Final = Decimal("1e-99")

_ASSUMPTIONS: Final = (
    "one release per record: what an earlier release lost adds up",
    "a record is one row: a person with several rows is protected that many times less",
    "coins and noise come from a generator that nobody can predict",
)
_DEFECTS: Final = (
    "Theorem 4 bounds the probability of each single output; a guarantee has to hold for every set "
    "of outputs, and its excesses add up over 2^s of them. At the claimed epsilon the true delta "
    "is close to 1",
    "Section VI chooses more bits for a smaller delta: more bits lose more",
    "Section V-C calls DPBV more private than additive noise of sigma 2: by the same measure it is "
    "tens of times less private",
)
ROWS_ARE_PUBLIC: Final = "the number of rows"
_DPBV_PARAMETERS: Final = (
    "points r, half window t, bits s, bounds, flip probability: every curator holds them, and no "
    "credit is taken for hiding them",
    ROWS_ARE_PUBLIC,
)


@dataclass(frozen=True)
class Released:
    """What the lines of a report say of a release. epsilon None: infinite."""

    lines: tuple[VerifiedStatement, ...]
    epsilon: Fraction | None
    delta: Fraction


# ------------------------------------------------------------------------------- the bits' lines


def _none(reason: str) -> VerifiedStatement:
    return VerifiedStatement(
        scenario=SCENARIO,
        key=SCENARIO,
        model="none",
        privacy_unit="record",
        neighbouring="any-two-values",
        epsilon="inf",
        delta="1",
        reason=reason,
    )


def _bit_line(
    plan: BitPlan,
    differing: int,
    unit: str,
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
        total_epsilon(differing, kept, each): each for each in (*CURVE_DELTAS, at) if at and each
    }
    if at:
        points[plan.epsilon_bit] = delta_of_responses(differing, kept, plan.epsilon_bit)
    line = VerifiedStatement(
        scenario=SCENARIO,
        key=SCENARIO,
        description="whoever sees all bits and knows all points, and every other record",
        model="pure-dp" if at == 0 else "approximate-dp",
        privacy_unit="radius" if unit == "radius" else "record",
        neighbouring="any-two-values",
        epsilon=epsilon_amount(epsilon),
        delta=delta_amount(at),
        curve=tuple(
            CurvePoint(epsilon=epsilon_amount(each), delta=delta_amount(points[each]))
            for each in sorted(points)
        ),
        conditions=conditions,
    )
    return line, epsilon


def _below(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, 0.0)


def _bits_released(params: Parameters, plan: BitPlan, stance: Stance) -> Released:
    if plan.epsilon_bit is None:
        reason = "plain bit vectors are a fixed function of the record"
        return Released((_none(reason),), None, Fraction(1))
    if stance == "paper" and params.bounds is None:
        reason = "the bounds are the data's own: every record's bits depend on the extreme records"
        return Released((_none(reason),), None, Fraction(1))
    if params.partition != "horizontal":
        reason = "Alice's attributes enter the distances exactly"
        if params.partition == "vertical-decomposed":
            reason += ", and Bob's are encoded afresh for every pair"
        return Released((_none(reason),), None, Fraction(1))
    at = params.delta
    target = params.epsilon if stance == "sound" else None
    lines = []
    if plan.near is not None:
        assert params.radius is not None
        lengths = ", ".join(f"{each:g}" for each in params.radius)
        conditions = (
            f"only pairs of records within ({lengths}) of each other in every attribute; pairs "
            "farther apart are protected as the record line says",
        )
        lines.append(_bit_line(plan, plan.near, "radius", at, conditions, target)[0])
    line, epsilon = _bit_line(plan, plan.differing, "record", at, (), target)
    lines.append(line)
    if at:
        lines.append(_bit_line(plan, plan.differing, "record", Fraction(0), ())[0])
    return Released(tuple(lines), epsilon, at)


def _bit_details(params: Parameters, plan: BitPlan, released: Released) -> dict[str, Any]:
    if params.bounds is None:  # what follows from measured ranges is not for a report
        return {
            "k_differing": {"worst_case": params.s * len(plan.codes)},
            "flip_probability": format_exact(plan.flip.probability),
            "data_dependent_leaks": _leaks(params),
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
        "data_dependent_leaks": _leaks(params),
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
            seen = attack(plan.codes[0], plan.flip, stated, float(released.delta), params.r_seed)
            details["attack"] = {
                "llr_error_at": {
                    "pair": list(seen.pair),
                    "differing": seen.differing,
                    "error": seen.error,
                },
                "dp_floor": seen.floor,
                "claimed_floor": 1 / (1 + math.exp(bit)),
                "value_recovery_mae": seen.recovery,
            }
    return details


def _leaks(params: Parameters) -> list[str]:
    leaks = []
    if params.bounds is None:
        leaks.append("bounds: the smallest and largest value of every attribute")
    if params.partition != "horizontal":
        leaks.append("Alice's attributes")
    return leaks


def bit_error(plan: BitPlan) -> dict[str, Any]:
    """Predicted standard deviation of a decoded distance at t, and whether that leaves any use."""
    deviations, useless = [], False
    for code in plan.codes:
        decoder = Decoder.of(code, plan.flip)
        middle = min(code.half_window, code.upper - code.lower)
        deviation = math.sqrt(decoder.variance(middle))
        deviations.append(deviation)
        useless = useless or deviation > code.upper - code.lower
    return {
        "predicted_sd_distance": max(deviations),
        "warning": NO_UTILITY if useless else None,
    }


# ------------------------------------------------------------------------------------ the reports


def paper_report(params: Parameters, plan: BitPlan, *, reproducible: bool) -> PrivacyReport:
    """DPBV as the source publishes it, and what it is worth."""
    released = _bits_released(params, plan, "paper")
    details = _bit_details(params, plan, released)
    if params.baselines:
        details["baselines"] = baseline_figures(params)
    return _report(
        "paper",
        MechanismStatement(name="dpbv", parameters=_bit_parameters(params, plan)),
        released,
        claimed=_claim(params, plan),
        charged=Charge(ledger="dataset", privacy_unit="record", outside_budget=True),
        noise=(_coin(plan.flip, "every bit"),),
        public_parameters=_DPBV_PARAMETERS,
        source_defects=_DEFECTS,
        error=None if params.bounds is None else bit_error(plan),
        details=details,
        reproducible=reproducible,
        evaluation=params.evaluate or bool(params.baselines),
    )


def exact_report(params: Parameters, plan: BitPlan, *, reproducible: bool) -> PrivacyReport:
    """`dpbv-exact`: the budget of a bit follows from that of a record."""
    released = _bits_released(params, plan, "sound")
    return _report(
        "sound",
        MechanismStatement(name="dpbv-exact", parameters=_bit_parameters(params, plan)),
        released,
        charged=_charge(released),
        noise=(_coin(plan.flip, "every bit"),),
        public_parameters=_DPBV_PARAMETERS,
        error=bit_error(plan),
        details=_bit_details(params, plan, released),
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


def exact_cost(params: Parameters, plan: BitPlan) -> Cost:
    """What `dpbv-exact` charges for a record."""
    charge = _charge(_bits_released(params, plan, "sound"))
    assert charge.epsilon is not None
    assert charge.delta is not None
    return Cost(Fraction(charge.epsilon), Fraction(charge.delta))


def grid_core_report(
    params: Parameters, per_axis: int, dimension: int, *, reproducible: bool
) -> PrivacyReport:
    """Counts with discrete Laplace noise of scale 2 / epsilon."""
    epsilon = params.epsilon
    scale = 2 / epsilon
    cells = per_axis**dimension
    lines = [
        _exact_line("replace", epsilon, ("the number of rows is public",)),
    ]
    if params.cells_per_axis is not None:
        lines.append(
            _exact_line(
                "add-remove",
                epsilon / 2,
                ("cells_per_axis was declared, so that nothing follows from the number of rows",),
            )
        )
    released = Released(tuple(lines), epsilon, Fraction(0))
    return _report(
        "sound",
        MechanismStatement(name="grid-core", parameters={"cells_per_axis": per_axis}),
        released,
        neighbouring="replace",
        sensitivity=(SensitivityStatement(value="2", norm="l1", source="declared"),),
        charged=_charge(released),
        noise=(
            NoiseStatement(
                layer="count", distribution="discrete-laplace", scale=amount(scale), draws=cells
            ),
        ),
        sampler=sampler_delta(cells, epsilon),
        public_parameters=("grid and bounds", ROWS_ARE_PUBLIC),
        error={"sd_of_a_count": laplace_deviation(scale)},
        details={"cells": cells, "data_dependent_leaks": []},
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


def grid_ldp_report(
    params: Parameters, per_axis: int, dimension: int, *, reproducible: bool
) -> PrivacyReport:
    """Optimised unary encoding of one cell."""
    flip = Flip.of_epsilon(params.epsilon)
    released = Released(
        (_exact_line("any-two-values", params.epsilon, ()),), params.epsilon, Fraction(0)
    )
    quotient = float(flip.probability * (1 - flip.probability)) ** 0.5
    return _report(
        "sound",
        MechanismStatement(name="grid-ldp", parameters={"cells_per_axis": per_axis}),
        released,
        charged=_charge(released),
        noise=(_coin(flip, "every other cell"), _coin(None, "the own cell")),
        public_parameters=("grid and bounds", ROWS_ARE_PUBLIC, "flip probabilities"),
        error={"sd_of_a_share_times_sqrt_rows": quotient / (0.5 - float(flip.probability))},
        details={
            "cells": per_axis**dimension,
            "flip_probability": format_exact(flip.probability),
            "data_dependent_leaks": [],
        },
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


def points_report(params: Parameters, dimension: int, *, reproducible: bool) -> PrivacyReport:
    """Every coordinate with discrete Laplace noise."""
    released = Released(
        (_exact_line("any-two-values", params.epsilon, ()),), params.epsilon, Fraction(0)
    )
    scale = point_scale(dimension, params.epsilon)
    return _report(
        "sound",
        MechanismStatement(name="laplace-points", parameters={"steps": POINT_STEPS}),
        released,
        sensitivity=(
            SensitivityStatement(
                value=amount(dimension * POINT_STEPS), norm="l1", source="declared"
            ),
        ),
        charged=_charge(released),
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
        error={"sd_of_a_coordinate_over_its_range": math.sqrt(2) * float(scale) / POINT_STEPS},
        details={"data_dependent_leaks": []},
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


def unplanned_report(params: Parameters) -> PrivacyReport:
    """A paper job whose bounds come from the data, before there is data."""
    reason = "the bounds are the data's own: every record's bits depend on the extreme records"
    return _report(
        "paper",
        MechanismStatement(name="dpbv"),
        Released((_none(reason),), None, Fraction(1)),
        charged=Charge(ledger="dataset", privacy_unit="record", outside_budget=True),
        public_parameters=_DPBV_PARAMETERS,
        source_defects=_DEFECTS,
        details={"data_dependent_leaks": _leaks(params)},
        reproducible=False,
        evaluation=params.evaluate or bool(params.baselines),
    )


def sound_report(
    params: Parameters, method: Method, per_axis: int, *, reproducible: bool
) -> PrivacyReport:
    """Of the methods that take no bits."""
    assert params.bounds is not None
    dimension = len(params.bounds)
    match method:
        case "grid-core":
            return grid_core_report(params, per_axis, dimension, reproducible=reproducible)
        case "grid-ldp":
            return grid_ldp_report(params, per_axis, dimension, reproducible=reproducible)
        case "laplace-points":
            return points_report(params, dimension, reproducible=reproducible)
        case _:
            raise ValueError("bits have a plan")


def baseline_figures(params: Parameters) -> dict[str, Any]:
    """The true guarantees of the baselines, were their noisy records released."""
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


# ------------------------------------------------------------------------------------- the pieces


def _bit_parameters(params: Parameters, plan: BitPlan) -> dict[str, Any]:
    found: dict[str, Any] = {
        "s": params.s,
        "epsilon_bit": "inf" if plan.epsilon_bit is None else amount(plan.epsilon_bit),
        "r_seed": params.r_seed,
    }
    if params.bounds is not None:
        found["t"] = [code.half_window for code in plan.codes]
        found["ranges"] = [[code.lower, code.upper] for code in plan.codes]
    return found


def _claim(params: Parameters, plan: BitPlan) -> Claim | None:
    if plan.epsilon_bit is None:
        return None
    said = claimed_delta(params.s, plan.epsilon_bit)
    return Claim(
        model="approximate-dp",
        epsilon=amount(plan.epsilon_bit),
        delta=amount(Fraction(max(said, _LEAST_CLAIM))),
        theorem="Theorem 4",
        text=f"each value's {params.s} bits are (eps, delta)-locally private with "
        f"delta = p^s - e^eps q^s = {said:.2e}",
    )


def _coin(flip: Flip | None, part: str) -> NoiseStatement:
    """A coin per bit; None is a fair one."""
    probability = Fraction(1, 2) if flip is None else flip.probability
    return NoiseStatement(
        layer="bit",
        part=part,
        distribution="randomised-response",
        probability=amount(probability) if probability else "0",
    )


def _exact_line(
    neighbouring: str, epsilon: Fraction, conditions: tuple[str, ...]
) -> VerifiedStatement:
    return VerifiedStatement.model_validate(
        {
            "scenario": SCENARIO,
            "key": SCENARIO,
            "model": "pure-dp",
            "privacy_unit": "record",
            "neighbouring": neighbouring,
            "epsilon": epsilon_amount(epsilon),
            "delta": "0",
            "conditions": conditions,
        }
    )


def _charge(released: Released) -> Charge:
    return Charge(
        ledger="dataset",
        privacy_unit="record",
        epsilon=epsilon_amount(released.epsilon),
        delta=delta_amount(released.delta),
    )


def _report(
    stance: Stance,
    mechanism: MechanismStatement,
    released: Released,
    *,
    details: dict[str, Any],
    public_parameters: tuple[str, ...],
    reproducible: bool,
    evaluation: bool,
    charged: Charge,
    neighbouring: str = "any-two-values",
    claimed: Claim | None = None,
    sensitivity: tuple[SensitivityStatement, ...] = (),
    noise: tuple[NoiseStatement, ...] = (),
    sampler: Fraction = Fraction(0),
    source_defects: tuple[str, ...] = (),
    error: dict[str, Any] | None = None,
) -> PrivacyReport:
    outside = Charge(ledger="dataset", privacy_unit="record", outside_budget=True)
    voided = (
        ("the generator is seeded: the output can be repeated, hence nothing is private",)
        if reproducible
        else ()
    )
    return PrivacyReport.model_validate(
        {
            "subject": Subject(kind="job", id="", algorithm=NAME, version=VERSION),
            "stance": stance,
            "mechanism": mechanism,
            "privacy_unit": released.lines[0].privacy_unit,
            "neighbouring": neighbouring,
            "sensitivity": sensitivity,
            "claimed": claimed,
            "verified": released.lines,
            "charged": charged if not reproducible else outside,
            "noise": noise,
            "sampler_delta": delta_amount(sampler),
            "sampler_epsilon": "0",
            "accounting": AccountingStatement(
                method="exact profile of independent randomised responses; closed forms otherwise; "
                "rounded up",
                library="tacit common.accounting.randomised_response",
                version=VERSION,
            ),
            "public_parameters": public_parameters,
            "post_processing": ("distances, labels, centres and plots are made of the release",),
            "not_protected": ("that a record is in the data",)
            if neighbouring == "any-two-values"
            else (),
            "source_defects": source_defects,
            "voided_by": voided,
            "assumptions": _ASSUMPTIONS,
            "reproducible": reproducible,
            "evaluation_attached": evaluation,
            "error": error,
            "details": details,
        }
    )
