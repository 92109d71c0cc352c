"""The privacy reports of bits: dpbv as Theorem 4 claims it, and `dpbv-exact`.

What the bits of a record lose: the verified lines of dpbv, and how far off its distances are.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import Stance
from algorithms.dpbv_clustering.clustering_methods import gaussian_epsilon
from algorithms.dpbv_clustering.distances import Decoder
from algorithms.dpbv_clustering.paper import attack
from algorithms.dpbv_clustering.parameters import BitPlan, Parameters
from algorithms.dpbv_clustering.report import (
    BUILDER,
    ROWS_ARE_PUBLIC,
    SCENARIO,
    Released,
    assembled,
    coin,
    nothing,
)
from tacit.accounting.randomised_response import delta_of_responses, total_epsilon
from tacit.encoders.dpbv_clustering.encoder import claimed_delta, log10_complement, most_differing
from tacit.encoders.reports import Cost
from tacit.report.figures import amount, delta_amount, epsilon_amount
from tacit.report.model import Claim, CurvePoint, PrivacyReport, Unit, VerifiedStatement
from tacit.wire import format_exact

CURVE_DELTAS: Final = (Fraction(1, 10**9), Fraction(1, 10**6), Fraction(1, 10**3))
NO_UTILITY: Final = "no_utility_expected"
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
        total_epsilon(differing, kept, each): each for each in (*CURVE_DELTAS, at) if at and each
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
        error=bit_error(plan),
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
    said = claimed_delta(params.s, plan.epsilon_bit)
    return Claim(
        model="approximate-dp",
        epsilon=amount(plan.epsilon_bit),
        delta=amount(Fraction(max(said, _LEAST_CLAIM))),
        theorem="Theorem 4",
        text=f"each value's {params.s} bits are (eps, delta)-locally private with "
        f"delta = p^s - e^eps q^s = {said:.2e}",
    )


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


def _below(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, 0.0)
