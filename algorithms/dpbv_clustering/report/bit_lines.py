"""What the bits of a record lose: the verified lines of dpbv, and how far off its distances are.

Spec: dpbv-clustering, sections 4 and 9. Figures come from `tacit.encoders.dpbv_clustering.loss`,
rounded upwards.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import Stance
from algorithms.dpbv_clustering.distances import Decoder
from algorithms.dpbv_clustering.parameters import BitPlan, Parameters
from algorithms.dpbv_clustering.report.parts import BUILDER, SCENARIO, Released, nothing
from tacit.accounting.randomised_response import delta_of_responses, total_epsilon
from tacit.report.figures import delta_amount, epsilon_amount
from tacit.report.model import CurvePoint, Unit, VerifiedStatement

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
        lengths = ", ".join(f"{each:g}" for each in params.radius)
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
        "whoever sees all bits and knows all points, and every other record",
        {
            "model": "pure-dp" if at == 0 else "approximate-dp",
            "epsilon": epsilon_amount(epsilon),
            "delta": delta_amount(at),
        },
        privacy_unit=unit,
        curve=tuple(
            CurvePoint(epsilon=epsilon_amount(each), delta=delta_amount(points[each]))
            for each in sorted(points)
        ),
        conditions=conditions,
    )
    return line, epsilon


def leaks(params: Parameters) -> list[str]:
    """Which data the release contains unchanged."""
    found = []
    if params.bounds is None:
        found.append("bounds: the smallest and largest value of every attribute")
    if params.partition != "horizontal":
        found.append("Alice's attributes")
    return found


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
