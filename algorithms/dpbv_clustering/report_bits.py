"""The privacy reports of bits: dpbv as Theorem 4 claims it, and `dpbv-exact`.

Spec: dpbv-clustering, sections 4 and 9; jobs, "Privacy report".
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from algorithms.dpbv_clustering.attack import attack
from algorithms.dpbv_clustering.parameters import BitPlan, Parameters
from algorithms.dpbv_clustering.report_baselines import baseline_figures
from algorithms.dpbv_clustering.report_bit_lines import (
    BOUNDS_FROM_DATA,
    bit_error,
    bits_released,
    leaks,
)
from algorithms.dpbv_clustering.report_parts import (
    OUTSIDE,
    ROWS_ARE_PUBLIC,
    Released,
    assembled,
    charge_of,
    coin,
    nothing,
)
from common.encoders.dpbv_clustering_loss import claimed_delta, log10_complement, most_differing
from common.encoders.reports import Cost
from common.models.base import format_exact
from common.models.report import Claim, MechanismStatement, PrivacyReport
from common.report.figures import amount

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
    """DPBV as the source publishes it, and what it is worth."""
    released = bits_released(params, plan, "paper")
    details = _bit_details(params, plan, released)
    if params.baselines:
        details["baselines"] = baseline_figures(params)
    return assembled(
        "paper",
        MechanismStatement(name="dpbv", parameters=_bit_parameters(params, plan)),
        released,
        claimed=_claim(params, plan),
        charged=OUTSIDE,
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
        MechanismStatement(name="dpbv-exact", parameters=_bit_parameters(params, plan)),
        released,
        charged=charge_of(released),
        noise=(coin(plan.flip, "every bit"),),
        public_parameters=_DPBV_PARAMETERS,
        error=bit_error(plan),
        details=_bit_details(params, plan, released),
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


def exact_cost(params: Parameters, plan: BitPlan) -> Cost:
    """What `dpbv-exact` charges for a record."""
    charge = charge_of(bits_released(params, plan, "sound"))
    assert charge.epsilon is not None
    assert charge.delta is not None
    return Cost(Fraction(charge.epsilon), Fraction(charge.delta))


def unplanned_report(params: Parameters) -> PrivacyReport:
    """A paper job whose bounds come from the data, before there is data."""
    return assembled(
        "paper",
        MechanismStatement(name="dpbv"),
        nothing(BOUNDS_FROM_DATA),
        charged=OUTSIDE,
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
