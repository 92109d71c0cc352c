"""Who may be polluting a deployment: proposals from public figures alone (spec: budget, section 4).

Three screens, none of which touches private data:

- `far_bounds`: a declared sensitivity or contribution far from everybody else's;
- `missed_rounds`: rounds missed more often than the deployment's rate explains;
- `far_values`: local mode, where each noisy value is seen: an outlier that noise cannot explain.

A proposal is a question to an operator, never a verdict: a large industrial meter has large bounds,
a weak radio misses rounds. A curator that lies within the bounds of the others is not seen here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NORMAL: Final = 1.4826
"""A median absolute deviation times this is the standard deviation of normal data."""


class Reason(StrEnum):
    """Why a curator is proposed."""

    FAR_BOUNDS = "declared bounds far from those of the others"
    MISSED_ROUNDS = "misses rounds more often than the deployment's rate explains"
    FAR_VALUE = "a noisy value farther out than its noise explains"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One curator (its index in the arrays given), the reason, and the public figures behind it."""

    curator: int
    reason: Reason
    figures: dict[str, float]


def far_bounds(
    declared: Floats, deviations: float = 6.0, factor: float = 10.0
) -> tuple[Proposal, ...]:
    """Declared amounts that are outliers on a logarithmic scale, above or below.

    `declared`: (n,) positive, any unit. Proposed where |ln x - median| is beyond both `deviations`
    robust standard deviations and ln(factor): where nearly all declare the same, the deviation is
    0 and the factor decides.
    """
    if (declared <= 0).any() or not np.isfinite(declared).all():
        raise ValueError("declared bounds are above 0 and finite")
    if not declared.size:
        return ()
    logarithms = np.log(declared)
    middle = float(np.median(logarithms))
    distance = np.abs(logarithms - middle)
    spread = NORMAL * float(np.median(distance))
    far = np.flatnonzero(distance > max(deviations * spread, math.log(factor)))
    typical = math.exp(middle)
    return tuple(
        Proposal(
            index,
            Reason.FAR_BOUNDS,
            {
                "declared": float(declared[index]),
                "median": typical,
                "factor": float(declared[index]) / typical,
                "robust_deviation": spread,
            },
        )
        for index in far.tolist()
    )


def missed_rounds(invited: Ints, missed: Ints, alpha: float = 1e-3) -> tuple[Proposal, ...]:
    """Curators that missed more rounds than chance explains.

    (n,) counts, 0 <= missed <= invited. If misses fall on invitations at random, then given their
    total, a curator's count is hypergeometric: the exact upper tail, times n (Bonferroni), must
    stay above alpha. Under that hypothesis any curator is proposed with probability at most alpha.
    Outages that several rounds share break the hypothesis, hence a proposal only.
    """
    if (missed < 0).any() or (missed > invited).any():
        raise ValueError("a curator misses no more rounds than it was invited to")
    from scipy.stats import hypergeom

    total, lost = int(invited.sum()), int(missed.sum())
    if not lost:
        return ()
    tail: Floats = hypergeom.sf(missed - 1, total, lost, invited)
    chance = np.where(missed > 0, np.minimum(1.0, tail * invited.size), 1.0)
    return tuple(
        Proposal(
            index,
            Reason.MISSED_ROUNDS,
            {
                "invited": float(invited[index]),
                "missed": float(missed[index]),
                "deployment_rate": lost / total,
                "probability": float(chance[index]),
            },
        )
        for index in np.flatnonzero(chance <= alpha).tolist()
    )


def far_values(
    noisy: Ints, scales: Floats, alpha: float = 1e-3, deviations: float = 6.0
) -> tuple[Proposal, ...]:
    """Local mode, one round: noisy values out of line by more than noise can explain.

    (n,) noisy values and noise scales b_i, ring units. With all n draws, |Z_i| <= b_i ln(2n/alpha)
    but for probability alpha (P(|Z| > t) <= 2 e^(-t/b)). A curator is proposed where the rest of
    its distance to the median exceeds `deviations` robust standard deviations of all noisy values:
    except with probability alpha, no curator whose true value lies within them is proposed.
    """
    if noisy.shape != scales.shape or (scales <= 0).any():
        raise ValueError("one noise scale above 0 for each value")
    if not noisy.size:
        return ()
    values = noisy.astype(np.float64)
    middle = float(np.median(values))
    distance = np.abs(values - middle)
    spread = NORMAL * float(np.median(distance))
    explained = scales * math.log(2 * noisy.size / alpha)
    far = np.flatnonzero(distance - explained > deviations * spread)
    return tuple(
        Proposal(
            index,
            Reason.FAR_VALUE,
            {
                "distance": float(distance[index]),
                "explained_by_noise": float(explained[index]),
                "robust_deviation": spread,
            },
        )
        for index in far.tolist()
    )
