"""delta of one part of a query at an epsilon, and the epsilon without delta: the front door."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from tacit.accounting.loss.coins import mixture_delta
from tacit.accounting.loss.fractional import log_concave_delta, share_delta, share_pure_epsilon
from tacit.accounting.loss.rounding import ONE, Certified, Draws, decimal_up
from tacit.accounting.loss.whole import whole_delta


def pure_epsilon(sensitivity: int, draws: tuple[Draws, ...], dimension: int = 1) -> Decimal | None:
    """The epsilon from which delta = 0 is certain; None if there is none or it is not known.

    Only draws that are sure to happen count.
    """
    weights: dict[Fraction, Fraction] = {}
    for layer in draws:
        if layer.probability == 1 and layer.parties:
            weights[layer.scale] = weights.get(layer.scale, Fraction(0)) + layer.total
    ratios = [sensitivity / scale for scale, weight in weights.items() if weight >= 1]
    if ratios:
        return decimal_up(min(ratios))
    if dimension > 1 or not weights:
        return None
    return min(share_pure_epsilon(sensitivity, scale, weight) for scale, weight in weights.items())


def delta_at(
    epsilon: Fraction, sensitivity: int, draws: tuple[Draws, ...], dimension: int = 1
) -> Certified:
    """An upper bound of delta at this epsilon for one part of a query; 1 if nothing is known.

    At most two layers. Shares of fractional weight are used in one scale only; of two such
    scales the better one counts.
    """
    if any(layer.probability != 1 for layer in draws if layer.parties):
        return Certified(mixture_delta(((epsilon, sensitivity, draws, dimension),)))
    weights: dict[Fraction, Fraction] = {}
    for layer in draws:
        if layer.parties:
            weights[layer.scale] = weights.get(layer.scale, Fraction(0)) + layer.total
    candidates = [ONE]
    whole_draws = tuple((int(weight), scale) for scale, weight in weights.items() if weight >= 1)
    if len(whole_draws) == 2:
        candidates.append(whole_delta(epsilon, sensitivity, whole_draws))
    for scale, weight in weights.items():
        if weight >= 1:
            candidates.append(log_concave_delta(epsilon, sensitivity, scale, weight))
        elif dimension == 1:
            candidates.append(share_delta(epsilon, sensitivity, scale, weight))
    return Certified(min(candidates))
