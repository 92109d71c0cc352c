"""The error before anything is collected: averages, histograms, classifiers; and the way back.

Spec: crowd-tasking, section 3.4; source: chapter 12, Theorems 12.3, 12.4 and 12.5. `bounds` of the
source are true and loose (they hold with probability 1 - delta); ours are exact, or Monte-Carlo
means over public choices. Notation: n users, k coordinates, c parts of noise of scale b in one
coordinate (for a budget epsilon and range sigma of the coordinate, b = sigma / epsilon).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from algorithms.crowd_tasking.noise_law import Floats, cumulative, tail
from algorithms.crowd_tasking.smoothing import subset_shares
from tacit.accounting.error import laplace_mean_absolute
from tacit.encoders.crowd_tasking.bounded import Subset
from tacit.randomness import PublicRandom

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

    c = 3 in the source; None where n < ln(2k/delta) / c, to which it does not apply.
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
    """(m, m) P(noisy reading in bucket j | reading uniform in bucket i); ends take what is beyond.

    edges (m+1,) ascending, in the unit of `scale`.
    """
    buckets = edges.size - 1
    points = min(_POINTS, max(_FEWEST_POINTS, _MOST_CELLS // buckets**2))
    places = (np.arange(points) + 0.5) / points
    readings = edges[:-1, None] + places * np.diff(edges)[:, None]
    limits = np.concatenate([[-np.inf], edges[1:-1], [np.inf]])
    reached = cumulative(limits - readings[..., None], scale, parts)
    found = np.diff(reached, axis=-1).mean(axis=1)
    return np.asarray(found.reshape(buckets, buckets), np.float64)


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
    """The same of subset reports: shares by their counts, as they are published."""
    before = source.generator.multinomial(n, reference, size=DRAWS)
    own = source.generator.binomial(before, float(law.own))
    held = own + source.generator.binomial(n - before, float(law.other))
    found = np.stack([subset_shares(law, each, n) for each in held])
    errors = np.abs(found - before / n).sum(axis=1) / 2
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
    """d_avg: mean L2 distance of points of two classes, over pairs of classes; 0 of one class.

    points (n, k), labels (n,). Classes of more than `limit` points enter by evenly spaced ones.
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
