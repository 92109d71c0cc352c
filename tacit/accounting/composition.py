"""Budgets over many rounds: sums over windows of time, and the composed guarantees of all rounds
that touch a record or a curator.

Spec: budget, section 3. A record touches only rounds whose window covers its instant, and windows
are half-open, [start, end). Sums of amounts that are not negative are largest where a window
starts, so no other instants are tried.

Columns (k,) int64 describe k windows: `starts` and `ends` are times in any one unit, `amounts` are
whole numbers in any one unit (micro-epsilons, or numerators over a common denominator). An amount
without a finite figure is the caller's: it has no number here.

Limits in zCDP, stated as epsilon at delta, and what sums of zCDP guarantee.

Releases that are delta_i-approximate rho_i-zCDP, chosen one after the other or not, are together
approximate zCDP of the sums (M. Bun and T. Steinke, "Concentrated differential privacy", TCC 2016;
adaptively: J. Whitehouse, A. Ramdas, R. Rogers and Z. S. Wu, "Fully-adaptive composition in
differential privacy", ICML 2023). They keep a limit (epsilon, delta) if

    zcdp_delta(sum of rho, epsilon) + sum of delta <= delta (1 - 10^-9).

Sums are whole numbers, rho in 10^-9 and delta in 10^-15, so the limit is a largest whole rho for
each sum of deltas. Spec: profiles, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.amounts import FEMTO, MICRO, MOST_RHO, NANO, SMALLEST_DELTA, UNVERIFIED, Cost
from tacit.accounting.charges import unit_cost
from tacit.accounting.guarantees import counts_clamping, gaussian_mu_squared, honest_noise
from tacit.accounting.scenarios import Scenario, honest_draws
from tacit.noise.gaussian_privacy import gaussian_epsilon, zcdp_delta, zcdp_epsilon
from tacit.query.mechanisms import is_gaussian
from tacit.query.query import Query
from tacit.query.terms import Mechanism, PrivacyUnit

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Worst:
    """The largest summed amount, and an instant at which it is reached (None: there is no
    window)."""

    amount: int
    instant: int | None


def worst_instant(starts: Ints, ends: Ints, amounts: Ints) -> Worst:
    """The largest sum of the amounts of windows that cover one instant, and the first such instant.
    O(k log k).

    Raises ValueError as `check_windows`.
    """
    check_windows(starts, ends, amounts)
    if not starts.size:
        return Worst(0, None)
    instants = np.unique(starts)
    totals = sums_at(starts, ends, amounts, instants)
    place = int(np.argmax(totals))
    return Worst(int(totals[place]), int(instants[place]))


def worst_move(starts: Ints, ends: Ints, amounts: Ints) -> int:
    """The largest sum of the amounts of windows that cover one *or* the other of two instants.

    It bounds a reading that is moved in time: a removal at one instant and an addition at
    another, so at most twice the worst instant. A window that covers both instants counts once:
    it sees one reading replaced by another, which its sensitivity covers. O(k^2 log k). Raises
    ValueError as `check_windows`.
    """
    check_windows(starts, ends, amounts)
    instants, worst = np.unique(starts), 0
    for instant in instants:
        here = (starts <= instant) & (instant < ends)
        elsewhere = sums_at(starts[~here], ends[~here], amounts[~here], instants)
        worst = max(worst, int(amounts[here].sum() + elsewhere.max()))
    return worst


def sums_at(starts: Ints, ends: Ints, amounts: Ints, instants: Ints) -> Ints:
    """What windows add up to at each of these instants."""
    return _sums_until(starts, amounts, instants) - _sums_until(ends, amounts, instants)


def covering(starts: Ints, ends: Ints, instant: int) -> NDArray[np.intp]:
    """The places of the windows that cover an instant, rising."""
    return np.flatnonzero((starts <= instant) & (instant < ends))


def covering_each(
    starts: Ints, ends: Ints, instants: Ints
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """For each of these ascending instants, which windows cover it (their indices).

    Halves the instants and examines only windows near each half: O(k log n) plus the size of the
    answer.
    """

    def cover(first: int, last: int, near: NDArray[np.intp]) -> Iterator[tuple[int, Any]]:
        near = near[(starts[near] <= instants[last]) & (instants[first] < ends[near])]
        if first == last:
            yield first, near
        else:
            middle = (first + last) // 2
            yield from cover(first, middle, near)
            yield from cover(middle + 1, last, near)

    if instants.size:
        around = (starts <= instants[-1]) & (instants[0] < ends)
        yield from cover(0, instants.size - 1, np.flatnonzero(around))


def covering_within(
    starts: Ints, ends: Ints, start: int, end: int
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """The instants of [start, end) at which a sum can be largest, ascending, and the indices of
    the windows that cover each."""
    instants = np.unique([start, *starts[(start < starts) & (starts < end)]])
    for place, near in covering_each(starts, ends, instants):
        yield int(instants[place]), near


def _sums_until(times: Ints, amounts: Ints, instants: Ints) -> Ints:
    """The sum of the amounts whose time is not after each instant."""
    order = np.argsort(times, kind="stable")
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(amounts[order])])
    sums_at: Ints = sums[np.searchsorted(times[order], instants, side="right")]
    return sums_at


def check_windows(starts: Ints, ends: Ints, amounts: Ints) -> None:
    """Raise ValueError for columns of different lengths, windows that end before they start,
    negative amounts, and sums beyond 62 bits."""
    if not starts.shape == ends.shape == amounts.shape or starts.ndim != 1:
        raise ValueError("one start, one end and one amount for each window")
    if (ends < starts).any() or (amounts < 0).any():
        raise ValueError("a window ends after its start, and an amount is not negative")
    if float(amounts.sum(dtype=np.float64)) >= 2.0**62:
        raise ValueError("the amounts add up to more than 62 bits")


# Budgets over many rounds (spec: budget, section 3).
#
# Three figures, each over the rounds that touch one and the same secret:
#
# - *basic*: epsilons and deltas add up. It holds even when later rounds and their epsilons depend
#   on earlier results (fully adaptive): the only figure that a limit may be enforced by.
# - *worst instant* (unit record, `sweep`): a reading touches the rounds whose window covers its
#   instant, and no others. The figure is the largest sum over all instants of time.
# - *tight*: numerical composition of privacy-loss distributions. **It holds only for a schedule
#   that was fixed beforehand**: never stop or extend a schedule by it.
#
# How a round's loss enters the tight figure. Where every part holds one whole discrete Laplace that
# is certainly drawn, everything else is post-processing. The dominating pair is then that law
# against itself, shifted by the whole sensitivity in one coordinate (`loss`, facts 1 and 3). With
# P(z) = (1-a)/(1+a) a^|z|, its loss takes the values
#
#     Delta/b          with probability 1/(1+a)            (z <= 0)
#     (Delta - 2z)/b   with probability (1-a) a^z/(1+a)    (0 < z < Delta)
#     -Delta/b         with probability a^Delta/(1+a)      (z >= Delta).
#
# The parts of one round change together, and their pairs compose. Every other round enters by its
# certified (epsilon, delta): loss infinite with probability delta, else randomised response (the
# pair that dominates every such mechanism: P. Kairouz, S. Oh and P. Viswanath, 2015, theorem 3.3).
#
# Gaussian rounds alone compose exactly, to one Gaussian. Beside others they enter as certified
# rounds do, or all rounds by their zCDP, whichever gives less.
#
# Losses are put on a grid by splitting each atom (p, q) between its two neighbours so that the sums
# of p and of q stay ("connecting the dots", V. Doroshenko and others, 2022): max(0, p - e^epsilon
# q) is subadditive, so no delta gets smaller. Convolution and inversion are dp_accounting's, with
# pessimistic tails. Its Fourier transforms err by an absolute amount that grows with the rounds: we
# ask for a delta that is smaller by more than that (`_margin`), and add to epsilon what floats may
# have lost. Below a delta of about 1e-12 (1e-9 for a year of quarter hours) no smaller delta
# remains to ask for: the basic figure is used.

Floats = NDArray[np.float64]

FIXED_SCHEDULE: Final = (
    "holds only for a schedule fixed beforehand; enforced limits add up epsilons, or rho"
)
"""The label of every tight figure."""

_MOST_ATOMS: Final = 1 << 17
_CELLS: Final = 1 << 16
_DEVIATIONS: Final = 24
_RELATIVE: Final = 1e-4
_UPWARDS: Final = 1 + 1e-7
_LARGEST_EPSILON: Final = 500
_SMALLEST_DELTA, _MOST_GAUSSIAN = 1e-20, 50.0
"""Within these, 10^-67 (1 + e^epsilon) a coordinate and round is far below what `_RELATIVE` leaves
of delta."""


def basic(rounds: Iterable[tuple[Cost, int]]) -> Cost:
    """Basic composition: the sum of (epsilon, delta), each taken its number of times.

    (None, None) if a round is unverified, or if the deltas reach 1, which guarantees nothing.
    """
    epsilon, delta = Fraction(0), Fraction(0)
    for cost, count in rounds:
        if count == 0:
            continue
        if cost.epsilon is None or cost.delta is None:
            return UNVERIFIED
        epsilon += count * cost.epsilon
        delta += count * cost.delta
    return UNVERIFIED if delta >= 1 else Cost(epsilon, delta)


@dataclass(frozen=True, slots=True)
class RoundLoss:
    """An upper bound of what one round loses: its certified cost, and a more exact law if one is
    known.

    `laplaces`: (sensitivity, scale) in ring units of each part, if a whole discrete Laplace is
    certain to be drawn for every part; else empty. `mu_squared`: for a Gaussian round, that of a
    continuous Gaussian of which the round is a function.
    """

    cost: Cost
    laplaces: tuple[tuple[int, Fraction], ...] = ()
    mu_squared: Fraction | None = None


def laplace_round(sensitivity: int, scale: Fraction) -> RoundLoss:
    """A round that is one discrete Laplace of this scale over this sensitivity (ring units)."""
    if sensitivity < 1 or scale <= 0:
        raise ValueError("a sensitivity is at least one ring unit, and a scale above 0")
    return RoundLoss(Cost(sensitivity / scale, Fraction(0)), ((sensitivity, scale),))


def round_loss(
    query: Query,
    scenario: Scenario,
    unit: PrivacyUnit,
    operators: Sequence[str] | None = None,
) -> RoundLoss:
    """The loss of one round of a query, in a collusion scenario and a privacy unit (see
    `unit_cost`).

    A sum without noise, which ledgers list separately, has no bounded loss.
    """
    if query.mechanism is Mechanism.EXACT:
        return RoundLoss(UNVERIFIED)
    cost = unit_cost(query, scenario, unit, operators)
    if cost.epsilon is None:
        return RoundLoss(UNVERIFIED)
    if counts_clamping(query, cost.epsilon):  # it is in the cost alone
        return RoundLoss(cost)
    if is_gaussian(query):
        honest = honest_draws(query, scenario, None, operators)
        return RoundLoss(cost, mu_squared=gaussian_mu_squared(query, honest, unit))
    laplaces = []
    for part in honest_noise(query, honest_draws(query, scenario, None, operators), unit):
        weights: dict[Fraction, Fraction] = {}
        for layer in part.draws:
            if layer.probability == 1:
                weights[layer.scale] = weights.get(layer.scale, Fraction(0)) + layer.total
        whole_scales = [scale for scale, weight in weights.items() if weight >= 1]
        if not whole_scales:
            return RoundLoss(cost)
        laplaces.append((part.sensitivity, max(whole_scales)))
    return RoundLoss(cost, tuple(laplaces))


def tight(
    rounds: Iterable[tuple[RoundLoss, int]], delta: Fraction, cells: int = _CELLS
) -> Fraction | None:
    """epsilon at this delta of all rounds together, each taken its number of times; at most basic.

    None: no finite epsilon is known (an unverified round, or deltas that add up beyond delta).
    `cells`: the length of the grid; fewer are faster and give a larger figure. Every figure must be
    shown with the label `FIXED_SCHEDULE`. Raises ValueError unless 0 <= delta < 1.
    """
    if not 0 <= delta < 1:
        raise ValueError("delta lies in [0, 1)")
    counted: dict[RoundLoss, int] = {}
    for loss, count in rounds:
        if count:
            counted[loss] = counted.get(loss, 0) + count
    return _tight(tuple(counted.items()), delta, cells)


@lru_cache(maxsize=4096)
def _tight(
    rounds: tuple[tuple[RoundLoss, int], ...], delta: Fraction, cells: int
) -> Fraction | None:
    if any(loss.cost.epsilon is None for loss, _ in rounds):
        return None
    plain, candidates = basic((loss.cost, count) for loss, count in rounds), []
    total = sum(count for _, count in rounds)
    if plain.epsilon is not None and plain.delta is not None and plain.delta <= delta:
        if total <= 1:
            return plain.epsilon
        candidates.append(plain.epsilon)
    if (in_rho := _in_rho(rounds, delta)) is not None:
        candidates.append(in_rho)
    spare_delta = float(delta) * (1 - _RELATIVE) - _margin(total)
    if all(loss.mu_squared is not None for loss, _ in rounds):
        candidates += _gaussian(rounds, delta)
    elif spare_delta > 0:
        numerical = _numerical(rounds, spare_delta, cells)
        if math.isfinite(numerical):
            candidates.append(_raised(numerical))
    return min(candidates, default=None)


def _raised(epsilon: float) -> Fraction:
    return Fraction(epsilon * _UPWARDS + 1e-9)


def _in_rho(rounds: tuple[tuple[RoundLoss, int], ...], delta: Fraction) -> Fraction | None:
    """epsilon at this delta by adding up what each round is in zCDP."""
    rho = spent_delta = Fraction(0)
    for loss, count in rounds:
        zcdp = loss.cost.zcdp
        assert zcdp is not None  # unverified rounds have no tight figure
        rho, spent_delta = rho + count * zcdp[0], spent_delta + count * zcdp[1]
    spare = float((delta - spent_delta) * (1 - Fraction(_RELATIVE)))
    return _raised(zcdp_epsilon(float(rho), spare)) if spare > 0 else None


def _gaussian(rounds: tuple[tuple[RoundLoss, int], ...], delta: Fraction) -> list[Fraction]:
    """The exact epsilon of Gaussian rounds together, which are one Gaussian of the sum of their
    mu^2 (J. Dong, A. Roth and W. Su, 2022, corollary 3.3); none where the difference of whole
    numbers and reals could matter."""
    mu_squared = sum(count * loss.mu_squared for loss, count in rounds if loss.mu_squared)
    spare_delta = float(delta) * (1 - _RELATIVE)
    if not mu_squared or spare_delta < _SMALLEST_DELTA:
        return []
    epsilon = gaussian_epsilon(1 / math.sqrt(mu_squared), spare_delta, 1.0)
    return [_raised(epsilon)] if epsilon <= _MOST_GAUSSIAN else []


def tight_at_worst_instant(
    starts: Ints, ends: Ints, losses: Sequence[RoundLoss], delta: Fraction
) -> Fraction | None:
    """The largest `tight` over all instants: rounds with half-open windows, one loss each.

    The instant of the largest basic sum need not be that of the largest tight figure, so every
    maximal set of rounds that cover one instant is composed. None as for `tight`.
    """
    check_windows(starts, ends, np.ones(len(losses), np.int64))
    if not losses:
        return Fraction(0)
    kinds = list(dict.fromkeys(losses))
    place = {loss: column for column, loss in enumerate(kinds)}
    kind = np.array([place[loss] for loss in losses])
    instants = np.unique(starts)
    counts = np.stack(
        [
            sums_at(starts, ends, mine, instants)
            for mine in ((kind == column).astype(np.int64) for column in range(len(kinds)))
        ],
        axis=1,
    )
    worst = Fraction(0)
    for row in _largest_rows(np.unique(counts, axis=0)).tolist():
        epsilon = tight(zip(kinds, row, strict=True), delta)
        if epsilon is None:
            return None
        worst = max(worst, epsilon)
    return worst


def _largest_rows(rows: Ints) -> Ints:
    """The rows that no other row reaches in every column; rows differ."""
    largest = [row for row in rows if ((rows >= row).all(axis=1)).sum() == 1]
    return np.array(largest)


def _margin(rounds: int) -> float:
    """By how much the numerical transforms can be wrong in delta: an estimate, not a proof.

    Coefficients of absolute value at most 1 have an error of about 1e-15, the n-th power
    multiplies it by n, and about ten coefficients matter: 1e-14 n, doubled. Compared with exact
    sums of randomised response, an error of 1e-12 was seen at 35,040 rounds, where this allows
    7e-10.
    """
    return 2e-14 * rounds + 1e-12


def _numerical(rounds: tuple[tuple[RoundLoss, int], ...], spare_delta: float, cells: int) -> float:
    """dp_accounting's epsilon of all rounds at the delta asked, on a grid that fits them."""
    from dp_accounting.pld import pld_pmf  # two seconds of import: only where it is used

    kinds: list[tuple[Floats, Floats, float, int]] = []
    for loss, count in rounds:
        for values, masses, infinite in _atoms(loss):
            kinds.append((values, masses, infinite, count))
    tops = np.array([values[0] for values, _, _, _ in kinds])
    if tops.max() > _LARGEST_EPSILON:
        return math.inf
    counts = np.array([count for _, _, _, count in kinds])
    step = float(min(2 * (counts @ tops), _DEVIATIONS * math.sqrt(counts @ tops**2))) / cells
    composed: Any = None
    for values, masses, infinite, count in kinds:
        lowest, probabilities = _on_grid(values, masses, step)
        one = pld_pmf.DensePLDPmf(step, lowest, probabilities, infinite, True)
        many = one.self_compose(count) if count > 1 else one
        composed = many if composed is None else composed.compose(many, 1e-15)
    return float(composed.get_epsilon_for_delta(spare_delta))


def _atoms(loss: RoundLoss) -> list[tuple[Floats, Floats, float]]:
    """(losses falling, their probabilities, probability of an infinite loss), one for each part."""
    if loss.laplaces:
        return [(*_laplace_atoms(sensitivity, scale), 0.0) for sensitivity, scale in loss.laplaces]
    assert loss.cost.epsilon is not None
    assert loss.cost.delta is not None
    epsilon, infinite = float(loss.cost.epsilon), float(loss.cost.delta)
    likely = 1 / (1 + math.exp(-epsilon))
    masses = (1 - infinite) * np.array([likely, math.exp(-epsilon) * likely])
    return [(np.array([epsilon, -epsilon]), masses, infinite)]


def _laplace_atoms(sensitivity: int, scale: Fraction) -> tuple[Floats, Floats]:
    """The loss of one discrete Laplace.

    For a large sensitivity it is computed on a coarser grid of values, of which the finer law is
    a function (`loss`, fact 5): the result is larger by at most one part in 2^16.
    """
    units = -(-sensitivity // _MOST_ATOMS)
    sensitivity, scale = -(-sensitivity // units), scale / units
    rate = float(1 / scale)
    z = np.arange(sensitivity + 1, dtype=np.float64)
    losses = (sensitivity - 2 * z) * rate
    masses = -math.expm1(-rate) / (1 + math.exp(-rate)) * np.exp(-rate * z)
    masses[0] = 1 / (1 + math.exp(-rate))
    masses[-1] = math.exp(-rate * sensitivity) / (1 + math.exp(-rate))
    return losses, masses


def _on_grid(losses: Floats, masses: Floats, step: float) -> tuple[int, Floats]:
    """Each atom split between the grid points around it, P and Q mass kept: (lowest index, P).

    An atom at l between g and g + step gives the upper point the part
    (1 - e^(g - l)) / (1 - e^(-step)) of its probability.
    """
    lower = np.floor(losses / step)
    upper_part = np.expm1(lower * step - losses) / math.expm1(-step)
    upper_part = np.clip(upper_part, 0.0, 1.0)
    index = lower.astype(np.int64)
    lowest = int(index.min())
    grid = np.zeros(int(index.max()) - lowest + 2)
    np.add.at(grid, index - lowest, masses * (1 - upper_part))
    np.add.at(grid, index - lowest + 1, masses * upper_part)
    return lowest, grid


Bits = NDArray[np.bool_]

LARGEST_EPSILON: Final = 10**4
"""Of a limit; sums of rho that reach `MOST_RHO` keep none."""
STATED_DELTA: Final = Fraction(1, 10**6)
"""The delta at which a rho is stated as an epsilon, where none is given."""
_SMALLEST: Final = Fraction(SMALLEST_DELTA)
_KEPT: Final = 1 - Fraction(1, NANO)
"""How much of a limit's delta is used: floats err by less than the rest."""


class Currency(StrEnum):
    """What a limit counts: sums of epsilon (basic composition), or of zCDP."""

    EPSILON = "epsilon"
    ZCDP = "zcdp"


class ZcdpLimit(NamedTuple):
    """At most `epsilon` in [0, 10^4] at `delta` in (0, 1)."""

    epsilon: Fraction
    delta: Fraction

    def most_rho(self, spent_delta: int = 0) -> int:
        """The largest sum of rho, in 10^-9, that keeps the limit when the deltas sum to this, in
        10^-15; -1: none does."""
        return _most_rho(self, spent_delta)

    def exceeded(self, rho: Ints, delta: Ints) -> Bits:
        """Which sums (n,) in 10^-9 and 10^-15 the limit does not admit."""
        if not rho.size:
            return np.zeros(rho.shape, np.bool_)
        fewest, most = int(delta.min()), int(delta.max())
        over: Bits = rho > self.most_rho(fewest)
        # The more delta, the less rho: only what lies between the bounds of a range of deltas needs
        # a closer look, and of many sums that all differ few do.
        waiting = [np.flatnonzero(~over & (rho > self.most_rho(most)))]
        while waiting:
            places = waiting.pop()
            if not places.size:
                continue
            middle = int(np.sort(delta[places])[places.size // 2])
            above = rho[places] > self.most_rho(middle)
            over[places[above & (delta[places] >= middle)]] = True
            waiting.append(places[above & (delta[places] < middle)])
            waiting.append(places[~above & (delta[places] > middle)])
        return over


@lru_cache(maxsize=4096)
def _most_rho(limit: ZcdpLimit, spent_delta: int) -> int:
    spare_delta = limit.delta * _KEPT - Fraction(spent_delta, FEMTO)
    if spare_delta < _SMALLEST:
        return 0 if spare_delta >= 0 else -1  # without rho there is no delta
    most, epsilon = float(spare_delta), float(limit.epsilon)

    def holds(rho: int) -> bool:
        return zcdp_delta(rho / NANO, epsilon) <= most

    low, high = 0, MOST_RHO  # sums that reach it may be larger than they say
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def stated_epsilon(rho: int, delta: int, at: Fraction = STATED_DELTA) -> Fraction | None:
    """The epsilon that sums of rho (in 10^-9) and delta (in 10^-15) guarantee at the delta `at`,
    rounded up to 10^-6; None if none is guaranteed."""
    spare_delta = at * _KEPT - Fraction(delta, FEMTO)
    if rho >= MOST_RHO or spare_delta < _SMALLEST:
        return None
    epsilon = Fraction(zcdp_epsilon(rho / NANO, float(spare_delta)))
    return Fraction(math.ceil(epsilon * MICRO), MICRO)
