"""Privacy loss of flipped bits: how many can differ, and figures besides the accountant's.

Spec: dpbv-clustering, sections 4.1 to 4.3. Two inputs whose clean bits differ in k places give
product laws, and equal bits cancel: the release is k randomised responses, accounted exactly by
`tacit.accounting.randomised_response`. Its delta never falls as k grows. Here are k
for given public points, the delta that the source claims (falsely), how close the true one is to 1,
and the error of the best test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Final

import numpy as np

from tacit.encoders.dpbv_clustering.encoder import Code, Floats, Ints

_UP: Final = Context(prec=40, rounding=ROUND_CEILING, Emin=MIN_EMIN)


# ---------------------------------------------------------------------------- figures of k bits


def log10_complement(differing: int, epsilon_bit: float, epsilon: float) -> float:
    """log10(1 - delta): how close delta is to 1, where that is beyond a float.

    1 - delta = sum_j C(k, j) p^j q^(k-j) min(1, e^(E - eps (2j - k))).
    """
    if differing < 0 or not epsilon_bit > 0 or not epsilon >= 0:
        raise ValueError("bits are counted, and budgets are positive")
    if not differing or epsilon >= differing * epsilon_bit:
        return 0.0
    if math.isinf(epsilon_bit):
        return -math.inf
    first = _first_gain(differing, epsilon_bit, epsilon)
    mean = differing / (1 + math.exp(-epsilon_bit))
    peak = min(max(first, differing - mean), mean)
    reach = _reach(differing, epsilon_bit)
    j = np.arange(max(0, math.floor(peak - reach)), min(differing, math.ceil(peak + reach)) + 1)
    logs = _log_masses(differing, epsilon_bit, j)
    logs += np.minimum(0.0, epsilon - epsilon_bit * (2 * j - differing))
    highest = float(logs.max())
    return (highest + math.log(float(np.exp(logs - highest).sum()))) / math.log(10)


def claimed_delta(bits: int, epsilon_bit: Fraction) -> Decimal:
    """What Theorem 4 of the source says: p^s - e^eps q^s. It is no delta of anything."""
    exponent = _UP.divide(Decimal(epsilon_bit.numerator), Decimal(epsilon_bit.denominator))
    growth = _UP.exp(exponent)
    keep = _UP.power(_UP.divide(growth, _UP.add(1, growth)), bits)
    turned = _UP.power(_UP.divide(Decimal(1), _UP.add(1, growth)), bits)
    return max(_UP.subtract(keep, _UP.multiply(growth, turned)), Decimal(0))


def ratio_test_error(differing: int, flip: float) -> float:
    """The error of the likelihood-ratio test between two inputs, equal priors.

    It errs where more than half of the differing bits were turned, and half the time at a tie.
    """
    if not differing:
        return 0.5
    if not flip:
        return 0.0
    epsilon_bit = math.log1p((1 - 2 * flip) / flip)
    turned = np.arange(-(-differing // 2), differing + 1)
    mass = _masses(differing, epsilon_bit, differing - turned)
    return float(np.where(2 * turned == differing, 0.5, 1.0) @ mass)


def _first_gain(differing: int, epsilon_bit: float, epsilon: float) -> int:
    """j0 = floor((k + E / eps) / 2) + 1, the first j whose loss exceeds E."""
    return math.floor((differing + epsilon / epsilon_bit) / 2) + 1


def _reach(differing: int, epsilon_bit: float) -> float:
    turned = 1 / (1 + math.exp(epsilon_bit))
    return 60 * math.sqrt(differing * turned * (1 - turned)) + 200


def _log_masses(differing: int, epsilon_bit: float, j: Ints) -> Floats:
    """ln of C(k, j) p^j q^(k-j)."""
    from scipy.special import gammaln

    ways = gammaln(differing + 1) - gammaln(j + 1) - gammaln(differing - j + 1)
    turned = math.log1p(math.exp(-epsilon_bit))  # -ln p; -ln q = that + eps
    logs: Floats = ways - differing * turned - (differing - j) * epsilon_bit
    return logs


def _masses(differing: int, epsilon_bit: float, j: Ints) -> Floats:
    masses: Floats = np.exp(_log_masses(differing, epsilon_bit, j))
    return masses


# ------------------------------------------------------------------------- how many bits may differ


@dataclass(frozen=True)
class _Steps:
    """The distinct codes of [L, U] in order: a value of each (c,), its first one and its end."""

    values: Floats
    low: Ints
    high: Ints


def most_differing(code: Code, radius: float = math.inf) -> int:
    """The largest number of clean bits in which two values of [L, U] differ, for these points.

    Only pairs with |x - y| <= radius count. Codes are runs lo..hi-1 of ones, and neither end
    falls as x rises. So a pair whose runs overlap differs in (lo' - lo) + (hi' - hi)
    bits, largest for the farthest partner, and a pair that does not differs in all of its ones.
    """
    steps = _steps(code)
    ends = steps.low + steps.high
    ones = steps.high - steps.low
    count = len(ends)
    last = np.searchsorted(
        steps.values, np.nextafter(steps.values + radius, math.inf), side="right"
    )
    apart = np.searchsorted(steps.low, steps.high, side="left")  # the first partner that is apart
    near = np.minimum(last, np.maximum(apart, np.arange(count) + 1)) - 1
    overlapping = int((ends[near] - ends).max())
    found = np.flatnonzero(apart < last)
    if not found.size:
        return overlapping
    separate = ones[found] + _range_maximum(ones, apart[found], last[found])
    return max(overlapping, int(separate.max()))


def _steps(code: Code) -> _Steps:
    """Every code that a float of [L, U] can have: a value at each end of each run of equal codes.

    A code changes where x passes r_i - t or r_i + t; rounding moves that by a few units in the last
    place, so the neighbours of each such place are tried too.
    """
    edges = np.concatenate((code.points - code.half_window, code.points + code.half_window))
    unit = np.spacing(np.abs(code.points).max() + code.half_window)
    tried = (edges[:, None] + unit * np.arange(-4, 5)).ravel()
    inside = tried[(tried >= code.lower) & (tried <= code.upper)]
    values = np.unique(np.concatenate((inside, [code.lower, code.upper])))
    return _Steps(values, *code.window(values))


def _range_maximum(values: Ints, first: Ints, end: Ints) -> Ints:
    """max(values[first:end]) for many non-empty ranges, by doubling."""
    levels = [values]
    while 2 ** len(levels) <= len(values):
        half = 2 ** (len(levels) - 1)
        levels.append(np.maximum(levels[-1][:-half], levels[-1][half:]))
    power = np.frexp((end - first).astype(np.float64))[1] - 1
    found = np.empty(len(first), np.int64)
    for level in np.unique(power).tolist():
        chosen = np.flatnonzero(power == level)
        table = levels[level]
        found[chosen] = np.maximum(table[first[chosen]], table[end[chosen] - 2**level])
    return found
