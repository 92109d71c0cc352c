"""Statistical tests of curators: whether one adds its noise, and who may be polluting a deployment.

Whether a curator adds its noise is a one-sided test (spec: budget, section 4). In local mode the
aggregator sees y_t = f_t + Z_t, Z_t discrete Laplace of scale b. For compliant noise and *any* f_t,
unknown, varying, even chosen from all that went before,

    |1/T sum_t e^(i u y_t)| <= phi(u) + sqrt(4 ln(4/alpha) / T)    with probability 1 - alpha,
    phi(u) = E e^(iuZ) = (1-a)^2 / (1 - 2 a cos u + a^2),  a = e^(-1/b):

given the past, e^(i u y_t) has a mean of absolute value phi(u); its real and imaginary part lie in
intervals of length 2, and Azuma's inequality bounds each of them at half of the squared distance.

The frequency is u = 2 pi / P with the whole number P >= 2 next to 2 pi b / 3, that is u = 3/b and
phi = 0.1 but for rounding: y is reduced modulo P exactly before a float is made of it.

It is post-processing of noisy values and costs no budget. What it cannot do:

- distinguish missing noise from data that varies by b or more: it then makes no statement;
- detect noise that is known to others, or only slightly too small;
- make a statement in shared modes, where no one sees a single y_t.

A value above the threshold is a reason to ask; only an operator makes a curator `non_compliant`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_FLOATS = 1e-9
"""What floats may add to a mean of unit vectors: given to the curator."""


def characteristic(frequency: Floats, scale: Floats) -> Floats:
    """phi(u) of discrete Laplace noise of scale b (ring units), elementwise, in (0, 1]."""
    a = np.exp(-1 / scale)
    gap = -np.expm1(-1 / scale)
    ratios: Floats = gap**2 / (gap**2 + 4 * a * np.sin(frequency / 2) ** 2)
    return ratios


def threshold(phi: Floats, rounds: Ints, alpha: float) -> Floats:
    """What compliant noise passes with probability at most alpha; infinite before a first round."""
    if not 0 < alpha < 1:
        raise ValueError("alpha lies in (0, 1)")
    with np.errstate(divide="ignore"):
        bound: Floats = phi + np.sqrt(4 * math.log(4 / alpha) / rounds) + _FLOATS
    return bound


@dataclass(frozen=True)
class Verdict:
    """One look: what was measured, what compliant noise may show, and who showed more."""

    flagged: Flags
    strength: Floats
    threshold: Floats
    alpha_each: float


@dataclass(frozen=True)
class NoiseAudit:
    """The sums of cos(u y) and sin(u y) of each curator, over the rounds in which it took part.

    All (n,): `period` P in ring units, `phi` in (0, 1], `rounds` counts. One row is one
    coordinate of one curator: an audit of d coordinates uses d rows a curator, and n counts them
    all.
    """

    period: Ints
    phi: Floats
    rounds: Ints
    cosines: Floats
    sines: Floats

    @classmethod
    def of_scales(cls, scales: Sequence[Fraction]) -> NoiseAudit:
        """An audit that has seen nothing yet, of curators whose declared noise has these scales
        (ring units)."""
        if any(scale <= 0 for scale in scales):
            raise ValueError("a noise scale is above 0")
        scale = np.array([float(scale) for scale in scales])
        period = np.maximum(2, np.rint(2 * np.pi * scale / 3)).astype(np.int64)
        zeros = np.zeros(scale.size)
        phi = characteristic(2 * np.pi / period, scale)
        return cls(period, phi, np.zeros(scale.size, np.int64), zeros, zeros)

    def plus(self, values: Ints, invited_flags: Flags | None = None) -> NoiseAudit:
        """The audit after one more round: (n,) noisy values in ring units, of the curators that
        took part."""
        if values.shape != self.period.shape or values.dtype != np.int64:
            raise ValueError("one whole value for each curator")
        here = np.ones(values.shape, np.bool_) if invited_flags is None else invited_flags
        angle = (values % self.period) * (2 * np.pi / self.period)
        return NoiseAudit(
            self.period,
            self.phi,
            self.rounds + here,
            self.cosines + np.cos(angle) * here,
            self.sines + np.sin(angle) * here,
        )

    @property
    def strength(self) -> Floats:
        """|mean_t e^(i u y_t)|, in [0, 1]; 0 where no round was seen."""
        return np.hypot(self.cosines, self.sines) / np.maximum(self.rounds, 1)

    def verdict(self, alpha: float, look: int) -> Verdict:
        """Look number `look` (1, 2, ...): which curators vary less than compliant noise makes them.

        Each row is tested at alpha / (n look (look + 1)): over all rows and all looks ever
        taken, an honest deployment has any flag with probability at most alpha.
        """
        if look < 1:
            raise ValueError("looks are counted from 1")
        level = alpha / (max(1, self.period.size) * look * (look + 1))
        limit = threshold(self.phi, self.rounds, level)
        strength = self.strength
        return Verdict(strength > limit, strength, limit, level)


def rounds_to_tell(alpha: float, phi: float = 0.1) -> int:
    """After how many rounds a constant value without noise exceeds the threshold at this alpha."""
    return math.floor(4 * math.log(4 / alpha) / (1 - phi) ** 2) + 1


# Who may be polluting a deployment (spec: budget, section 4). Three screens, none of which touches
# private data:
#
# - `far_bounds`: a declared sensitivity or contribution far from those of all others;
# - `missed_rounds`: rounds missed more often than the deployment's rate explains;
# - `far_values`: local mode, where each noisy value is seen: an outlier that noise cannot explain.
#
# A proposal is a question to an operator, never a verdict: a large industrial meter has large
# bounds, a weak radio misses rounds. A curator that lies within the bounds of the others is not
# seen here.

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

    `declared`: (n,) positive, any unit. A curator is proposed if |ln x - median| exceeds both
    `deviations` robust standard deviations and ln(factor): if nearly all declare the same, the
    deviation is 0 and the factor decides.
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
    """Curators that missed more rounds than chance explains. (n,) counts, 0 <= missed <= invited.

    If misses fall on invitations at random, a curator's count is hypergeometric given the total:
    the exact upper tail times n (Bonferroni) must stay above alpha. Under that hypothesis any
    curator is proposed with probability at most alpha. Outages that several rounds share break
    the hypothesis, so this only proposes.
    """
    if (missed < 0).any() or (missed > invited).any():
        raise ValueError("a curator misses no more rounds than it was invited to")
    total, lost = int(invited.sum()), int(missed.sum())
    if not lost:
        return ()
    cases, which = np.unique(np.stack([invited, missed]), axis=1, return_inverse=True)
    tails = [upper_tail(total, lost, asked, count) for asked, count in cases.T.tolist()]
    tail: Floats = np.array(tails)[which.reshape(-1)]
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


def upper_tail(total: int, lost: int, drawn: int, least: int) -> float:
    """The probability that at least `least` of `drawn` are among the `lost` of `total`: the tail
    of the hypergeometric law, summed from its smaller side."""
    above = least * total > drawn * lost
    count = least if above else least - 1
    if not max(0, drawn + lost - total) <= count <= min(drawn, lost):
        return 0.0 if above else 1.0
    logarithm = (
        _log_choices(lost, count)
        + _log_choices(total - lost, drawn - count)
        - _log_choices(total, drawn)
    )
    term, tail = math.exp(logarithm), 0.0
    while term > 0 and tail + term != tail:
        tail += term
        others = total - lost - drawn + count
        if above:
            term *= (lost - count) * (drawn - count) / ((count + 1) * (others + 1))
            count += 1
        else:
            term *= count * others / ((lost - count + 1) * (drawn - count + 1))
            count -= 1
    return min(1.0, tail) if above else max(0.0, 1.0 - tail)


def _log_choices(of: int, chosen: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(chosen + 1) - math.lgamma(of - chosen + 1)


def far_values(
    noisy: Ints, scales: Floats, alpha: float = 1e-3, deviations: float = 6.0
) -> tuple[Proposal, ...]:
    """Local mode, one round: noisy values that lie further out than noise can explain.

    (n,) noisy values and noise scales b_i, ring units. Over all n draws, |Z_i| <= b_i
    ln(2n/alpha) except with probability alpha (P(|Z| > t) <= 2 e^(-t/b)). A curator is proposed
    if its distance from the median, less that bound, exceeds `deviations` robust standard
    deviations of all noisy values: except with probability alpha, no curator whose true value
    lies within them is proposed.
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
