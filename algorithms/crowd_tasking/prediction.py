"""The law of the noise, and the error of averages, histograms, classifiers before any collection.

The noise in one coordinate of one report is c Laplaces of one scale b added up. Shares of
neighbouring buckets are smoothed as far as their own noise calls for: post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dct, idct

from algorithms.simplex import on_simplex
from tacit.accounting.expected_error import laplace_mean_absolute
from tacit.encoders.crowd_tasking_bounded import Subset
from tacit.randomness import PublicRandom

Floats: TypeAlias = NDArray[np.float64]

_MEAN: Final = {1: 1.0, 2: 1.5, 3: 1.875}
_TAIL: Final = {1: (1.0,), 2: (1.0, 0.5), 3: (1.0, 0.625, 0.125)}
"""Coefficients of the polynomial factor of e^-u in P(|Z| > ub)."""
_DENSITY: Final = {1: (0.5,), 2: (0.25, 0.25), 3: (3 / 16, 3 / 16, 1 / 16)}
_FARTHEST: Final = 80.0


def mean_absolute(parts: int) -> float:
    """E|Z| / b."""
    return _MEAN[parts]


def variance(parts: int) -> float:
    """Var Z / b^2."""
    return 2.0 * parts


def tail(u: ArrayLike, parts: int) -> Floats:
    """P(|Z| > u b) for u >= 0, elementwise."""
    at = np.asarray(u, np.float64)
    polynomial = np.polynomial.polynomial.polyval(at, _TAIL[parts])
    return np.asarray(np.exp(-at) * polynomial, np.float64)


def cumulative(z: ArrayLike, scale: float, parts: int) -> Floats:
    """P(Z <= z), elementwise; `scale` b in the unit of z. Infinite z are allowed."""
    at = np.asarray(z, np.float64) / scale
    half = tail(np.minimum(np.abs(at), 700.0), parts) / 2
    return np.where(at < 0, half, 1 - half)


def autocovariance(lag: int, components: tuple[str, ...], persistence: float) -> float:
    """Cov(Z_t, Z_(t+lag)) / b^2 = 2 (Y at lag 0, G always, L with p^lag)."""
    factor = float("Y" in components and lag == 0) + float("G" in components)
    if "L" in components:
        factor += math.pow(persistence, lag)
    return 2 * factor


@lru_cache(maxsize=256)
def mean_shift(dimension: int, parts: int) -> float:
    """E ||(Z_1, ..., Z_k)||_2 / b: how far a reading moves, to about 1e-4 of its value.

    E sqrt(S) = pi^(-1/2) int_0^infinity (1 - E e^(-t^2 S)) t^-2 dt with S = sum Z_j^2, and
    E e^(-t^2 S) is a k-th power.
    """
    nodes, weights = np.polynomial.legendre.leggauss(32)
    edges = np.concatenate([[0.0], np.geomspace(1e-4, _FARTHEST, 60)])
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    u = (middle[:, None] + half[:, None] * nodes).ravel()
    polynomial = np.polynomial.polynomial.polyval(u, _DENSITY[parts])
    mass = 2 * np.exp(-u) * polynomial * (half[:, None] * weights).ravel()
    t = np.geomspace(1e-5, 1e4, 1500)
    below = np.array([float(-(mass * np.expm1(-((at * u) ** 2))).sum()) for at in t])
    inside = -np.expm1(dimension * np.log1p(-np.minimum(below, 1 - 1e-15))) / t**2
    inner = float(np.trapezoid(inside * t, np.log(t)))
    first = dimension * variance(parts) * t[0]  # (1 - L^k) / t^2 tends to k Var
    return float((inner + first + 1 / t[-1]) / math.sqrt(math.pi))


# Readings of a sensor vary smoothly, and the noise of unbiased shares does not: it is the same in
# every wave of their cosine transform. So short waves are lowered, by 1 / (1 + (wave / c)^4), with
# the c of least estimated error. Histograms of a few spikes are better served by the simplex alone,
# and estimated errors show that, too. No choice reads more than the noisy shares. Sources: unbiased
# estimates of risk (C. Stein, 1981), of a projection by its free dimensions (R. Tibshirani and J.
# Taylor, 2012). Spec: crowd-tasking, section 10.

_CUTS: Final = 40
_SHARPNESS: Final = 4


def subset_shares(law: Subset, counts: Floats, reports: int) -> Floats:
    """Shares (d,) on the simplex, from the number of subset reports and how many contain each
    bucket."""
    unbiased = law.shares(counts, reports)
    return smoothed(unbiased, law.wave_variance(reports))


def smoothed(unbiased: Floats, variance: float) -> Floats:
    """Shares (d,) on the simplex, the smoothed ones if their estimated squared error is lower.

    unbiased (d,): with a sum of 1; variance: of each of the d - 1 waves of its cosine transform.
    """
    waves = dct(unbiased, norm="ortho")
    kept_shares = _kept(unbiased.size)
    lost = np.square(1 - kept_shares) @ np.square(waves)
    smooth = lost + variance * (2 * kept_shares - 1)[:, 1:].sum(axis=1)
    plain = on_simplex(unbiased)
    free = 2 * (np.count_nonzero(plain) - 1) - (unbiased.size - 1)
    best = int(smooth.argmin())
    if smooth[best] >= np.square(plain - unbiased).sum() + variance * free:
        return plain
    return on_simplex(idct(kept_shares[best] * waves, norm="ortho"))


@lru_cache(maxsize=16)
def _kept(buckets: int) -> Floats:
    """(cuts, d): what is kept of each wave, from all but none to nearly all."""
    cuts = np.geomspace(0.5, 4 * buckets, _CUTS)[:, None]
    result: Floats = 1 / (1 + (np.arange(buckets) / cuts) ** _SHARPNESS)
    return result


# The error before anything is collected: averages, histograms, classifiers; and the way back. Spec:
# crowd-tasking, section 3.4; source: chapter 12, Theorems 12.3, 12.4 and 12.5. `bounds` of the
# source are true and loose (they hold with probability 1 - delta); ours are exact, or Monte- Carlo
# means over public choices. Notation: n users, k coordinates, c parts of noise of scale b in one
# coordinate (for a budget epsilon and range sigma of the coordinate, b = sigma / epsilon).

NORMAL_95: Final = 1.959963984540054
DRAWS: Final = 300
"""Of the Monte-Carlo prediction of a histogram."""
_NORMAL_FROM: Final = 10
_POINTS: Final = 64
"""Places in a bucket at which readings are taken to lie; fewer where there are many buckets."""
_FEWEST_POINTS, _MOST_CELLS = 4, 2_000_000
_FEWEST_DRAWS, _MANY_BUCKETS = 50, 100


@dataclass(frozen=True)
class Predicted:
    """A predicted error: its mean and 95 % point, and the source's bound (None: not applicable)."""

    mean: float
    point_95: float
    bound: float | None


# -------------------------------------------------------------------------------------- averages


def average_deviation(n: int, scale: float, parts: int) -> float:
    """Standard deviation of the mean of n reports in one coordinate: b sqrt(2c / n)."""
    return scale * math.sqrt(2 * parts / n)


def average_error(n: int, scale: float, parts: int) -> float:
    """E |error| of the mean of n reports in one coordinate.

    b sqrt(4c / (pi n)) from 10 users on; below, exactly the mean of |sum of cn Laplaces| / n.
    """
    if n < _NORMAL_FROM:
        return laplace_mean_absolute(parts * n, scale) / n
    return scale * math.sqrt(4 * parts / (math.pi * n))


def average_bound(n: int, scale: float, dimension: int, parts: int, delta: float) -> float | None:
    """Theorem 12.3 on the L1 error over k coordinates: 2 k b sqrt(2 c ln(2k/delta) / n).

    c = 3 in the source; None for n < ln(2k/delta) / c, to which it does not apply.
    """
    logarithm = math.log(2 * dimension / delta)
    if parts * n < logarithm:
        return None
    return 2 * dimension * scale * math.sqrt(2 * parts * logarithm / n)


def epsilon_for_average(max_error: float, n: int, width: float, parts: int) -> float:
    """The budget per coordinate at which E |error| = max_error: both are as 1 / epsilon."""
    return average_error(n, width, parts) / max_error


# ------------------------------------------------------------------------------------- histograms


def transition(edges: Floats, scale: float, parts: int) -> Floats:
    """(m, m) P(noisy reading in bucket j | reading uniform in bucket i); the end buckets include
    what lies beyond.

    edges (m+1,) ascending, in the unit of `scale`.
    """
    buckets = edges.size - 1
    points = min(_POINTS, max(_FEWEST_POINTS, _MOST_CELLS // buckets**2))
    places = (np.arange(points) + 0.5) / points
    readings = edges[:-1, None] + places * np.diff(edges)[:, None]
    limits = np.concatenate([[-np.inf], edges[1:-1], [np.inf]])
    reached = cumulative(limits - readings[..., None], scale, parts)
    step = np.diff(reached, axis=-1).mean(axis=1)
    return np.asarray(step.reshape(buckets, buckets), np.float64)


def histogram_error(
    n: int,
    reference: Floats,
    edges: Floats,
    scale: float,
    parts: int,
    source: PublicRandom,
    delta: float = 0.05,
) -> Predicted:
    """Half the L1 distance between bucket shares of n readings and of their reports.

    reference (m,): a public guess of the shares, readings uniform inside a bucket. Mean and 95 %
    point of 300 draws (fewer beyond 100 buckets), made bucket by bucket: at a cost that does not
    depend on n. The bound is Theorem
    12.4 with Qbar of the reference, capped at 1.
    """
    moves = np.maximum(transition(edges, scale, parts), 0)
    moves /= moves.sum(axis=1, keepdims=True)
    fewer = (_MANY_BUCKETS / max(_MANY_BUCKETS, reference.size)) ** 2
    draws = max(_FEWEST_DRAWS, round(DRAWS * fewer))
    before = source.generator.multinomial(n, reference, size=draws)
    after = np.zeros_like(before)
    for bucket, law in enumerate(moves):
        after += source.generator.multinomial(before[:, bucket], law)
    errors = np.abs(after - before).sum(axis=1) / (2 * n)
    changed = float((reference * (1 - np.diag(moves))).sum())
    return Predicted(
        float(errors.mean()),
        float(np.quantile(errors, 0.95)),
        min(1.0, histogram_bound(n, changed, delta)),
    )


def subset_error(n: int, reference: Floats, law: Subset, source: PublicRandom) -> Predicted:
    """The same for subset reports, whose shares are estimated from their counts."""
    before = source.generator.multinomial(n, reference, size=DRAWS)
    own_reports = source.generator.binomial(before, float(law.own))
    reported = own_reports + source.generator.binomial(n - before, float(law.other))
    estimates = np.stack([subset_shares(law, counts, n) for counts in reported])
    errors = np.abs(estimates - before / n).sum(axis=1) / 2
    return Predicted(float(errors.mean()), float(np.quantile(errors, 0.95)), None)


def histogram_bound(n: int, changed: float, delta: float) -> float:
    """Theorem 12.4: Qbar + sqrt(2 ln(1/delta) / n), with probability 1 - delta."""
    return changed + math.sqrt(2 * math.log(1 / delta) / n)


def centred_change(width: float, scale: float, parts: int) -> float:
    """P(a reading in the middle of a bucket of this width leaves it); u = width / (2b).

    One part: e^-u, which is the source's figure; three: e^-u (1 + 5u/8 + u^2/8).
    """
    return float(tail(width / (2 * scale), parts))


# ------------------------------------------------------------------------------------ classifiers


def shift_bound(scale: float, dimension: int, parts: int, delta: float) -> float:
    """Theorem 12.5: c b sqrt(k) ln(ck/delta), which ||noise||_2 of a report exceeds with
    probability at most delta (c = 3 in the source)."""
    return parts * scale * math.sqrt(dimension) * math.log(parts * dimension / delta)


def class_distance(points: Floats, labels: Floats | np.ndarray, limit: int = 400) -> float:
    """d_avg: mean L2 distance of points of two classes, over pairs of classes; 0 for one class.

    points (n, k), labels (n,). A class of more than `limit` points is represented by evenly
    spaced ones.
    """
    groups = []
    for label in np.unique(labels):
        members = points[labels == label]
        step = max(1, -(-members.shape[0] // limit))
        groups.append(members[::step])
    distances = [
        float(np.sqrt(((one[:, None, :] - other[None, :, :]) ** 2).sum(axis=-1)).mean())
        for place, one in enumerate(groups)
        for other in groups[place + 1 :]
    ]
    return float(np.mean(distances)) if distances else 0.0


def accuracy_outlook(ratio: float) -> str:
    """The source's rule of thumb for d / d_avg, in words."""
    if ratio < 0.5:
        return "about as without noise"
    return "falling" if ratio <= 1 else "collapsed"
