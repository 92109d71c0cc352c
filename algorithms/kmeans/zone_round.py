"""What an opened zone round says: steps, their noise, the next centres and radii.

Spec: kmeans, section 5.2 (post-processing). Floats, and nothing private: everything here is a
function of published noisy values. Lengths are in half sides of the box: the box is [-1, 1]^d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.kmeans.starts import LEAST_RADIUS
from tacit.encoders.kmeans.encoder import Floats, Ints, Zone

WIDENING: Final = 1.6
"""The next radius over the noisy mean distance."""
_LEAST_SHARE: Final = 0.02
_STARVED_SCALES: Final = 2
_AGREEING: Final = 16
_STARVED_WEIGHT: Final = 1e-9


@dataclass(frozen=True, eq=False)
class ZoneEstimate:
    """One round: what was requested (`zone`), and the result for each of k clusters.

    counts (k,): noisy numbers of records; estimates (k, d): centre plus noisy mean offset, the
    offset limited to the zone and the sum to the box; variances (k,): of the noise of one
    coordinate; gains (k,): the share of the step that is trusted; starved (k,); mean_distances
    (k,): noisy mean L1 distances; centres (k, d), radii (k,): the next ones.
    """

    zone: Zone
    counts: Floats
    estimates: Floats
    variances: Floats
    gains: Floats
    starved: NDArray[np.bool_]
    mean_distances: Floats
    centres: Floats
    radii: Floats

    @property
    def no_signal(self) -> bool:
        """Whether no step is distinguishable from its noise."""
        return not self.gains.any()


def estimate(zone: Zone, opened: Ints, inflation: float) -> ZoneEstimate:
    """Read the opened sums (k (d + 2),) of a zone; `inflation`: nu B of the plan."""
    clusters, dimension = zone.centres.shape
    rows = opened.reshape(clusters, dimension + 2).astype(np.float64)
    offsets, counts, distances = rows[:, :dimension], rows[:, dimension], rows[:, dimension + 1]
    old = zone.centres / zone.steps
    radii = zone.radii / zone.steps
    least = _STARVED_SCALES * inflation / float(zone.epsilon_counts)

    held = np.maximum(counts, max(least, 1.0))
    steps = offsets / (zone.steps * held[:, None])
    scales = inflation * radii / float(zone.epsilon_sums)
    variances = 2 * np.square(scales / held)
    lengths = np.square(steps).sum(axis=1)
    noise = dimension * variances
    gains = np.where(lengths > noise, 1 - noise / np.maximum(lengths, noise), 0.0)
    starved = counts < least
    gains[starved] = 0.0

    taken = _limited(gains[:, None] * steps, radii)
    share = np.clip(distances / (zone.levels * held), _LEAST_SHARE, 1.0)
    wanted = np.maximum(WIDENING * radii * share, LEAST_RADIUS * dimension)
    return ZoneEstimate(
        zone=zone,
        counts=np.maximum(counts, 0.0),
        estimates=np.clip(old + _limited(steps, radii), -1, 1),
        variances=variances,
        gains=gains,
        starved=starved,
        mean_distances=radii * np.clip(distances / (zone.levels * held), 0.0, 1.0),
        centres=np.where(starved[:, None], old, np.clip(old + taken, -1, 1)),
        radii=np.where(starved, radii, np.minimum(wanted, radii)),
    )


def combined(rounds: Sequence[ZoneEstimate]) -> Floats:
    """The centres (k, d) of a run: of one round its own, of several their weighted mean.

    Weights are inverse variances, over the rounds whose estimate lies within four standard
    deviations of the last centre; the last always counts, and a starved round hardly.
    """
    last = rounds[-1]
    if len(rounds) == 1:
        return last.centres
    dimension = last.centres.shape[1]
    total = np.zeros_like(last.centres)
    mass = np.zeros(len(total))
    for each in rounds:
        gaps = np.square(each.estimates - last.centres).sum(axis=1)
        agrees = gaps <= _AGREEING * dimension * each.variances
        if each is last:
            agrees = np.ones_like(agrees)
        weights = np.where(agrees, 1 / each.variances, 0.0)
        weights *= np.where(each.starved, _STARVED_WEIGHT, 1.0)
        total += weights[:, None] * each.estimates
        mass += weights
    return total / mass[:, None]


def _limited(steps: Floats, radii: Floats) -> Floats:
    """Steps (k, d), those longer than their zone's L1 radius (k,) scaled down to it."""
    norms = np.abs(steps).sum(axis=1)
    factors = np.where(norms > radii, radii / np.maximum(norms, radii), 1.0)
    limited: Floats = steps * factors[:, None]
    return limited
