"""A check of the samplers when a service starts; its outcome is in every privacy report.

Each sampler draws N values into cells of known probability p_i, and Pearson's statistic
X^2 = sum (n_i - N p_i)^2 / (N p_i) is compared with a limit. For a chi-square variable of D
degrees of freedom P(X >= D + 2 sqrt(D x) + 2 x) <= e^-x (Laurent and Massart, Ann. Statist. 28
(2000), lemma 1); with x = ln(checks / rate) healthy samplers fail with probability below `rate`
in all, as far as X^2 is chi-square (every cell expects at least 50 values, and the bound leaves
a factor of more than ten).

It finds a broken build, a wrong table, a stuck or biased source. It cannot tell a predictable
source from a secret one. The values are drawn for this check, counted and forgotten.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.noise.bits import Bernoulli
from tacit.noise.discrete_laplace import DiscreteLaplace
from tacit.noise.polya import PolyaShare
from tacit.randomness import NoiseSource

FALSE_ALARM: Final = 1e-9
"""How often a healthy service fails its check."""

_DRAWS: Final = 50_000
_LAPLACE_SCALE: Final = Fraction(1000)
_SHARE_SCALE: Final = Fraction(3)
_COIN: Final = Fraction(1, 3)
_CHECKS: Final = 4


@dataclass(frozen=True, slots=True)
class SamplerCheck:
    """Pearson's statistic of one sampler, and the limit below which it must stay."""

    sampler: str
    draws: int
    statistic: float
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the sampler looks like its law."""
        return self.statistic < self.limit


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The outcome of the check of all samplers."""

    checks: tuple[SamplerCheck, ...]
    false_alarm: float = FALSE_ALARM

    @property
    def passed(self) -> bool:
        """Whether every sampler passed."""
        return all(check.passed for check in self.checks)


def self_test(source: NoiseSource) -> SelfTest:
    """Draw from every sampler and compare with its exact law."""
    words = source.words(_DRAWS).view(np.uint8)
    coins = Bernoulli(_COIN).draw(source, _DRAWS)
    noise = DiscreteLaplace(_LAPLACE_SCALE).draw(source, _DRAWS)
    shares = PolyaShare(_SHARE_SCALE, Fraction(1, 2)).draw(source, _DRAWS)
    edges, masses = _laplace_cells(float(_LAPLACE_SCALE))
    reach = 6
    return SelfTest(
        (
            _check("keystream", np.bincount(words, minlength=256), np.full(256, 1 / 256)),
            _check(
                "bernoulli",
                np.bincount(coins, minlength=2),
                np.array([float(1 - _COIN), float(_COIN)]),
            ),
            _check(
                "discrete_laplace",
                np.bincount(np.searchsorted(edges, noise, side="right"), minlength=len(masses)),
                masses,
            ),
            _check(
                "polya_share",
                np.bincount(np.clip(shares, -reach, reach) + reach, minlength=2 * reach + 1),
                _half_share_cells(float(_SHARE_SCALE), reach),
            ),
        )
    )


def _check(sampler: str, counts: NDArray[np.int64], law: NDArray[np.float64]) -> SamplerCheck:
    draws = int(counts.sum())
    expected = law * draws
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = len(law) - 1
    x = math.log(_CHECKS / FALSE_ALARM)
    limit = freedom + 2 * math.sqrt(freedom * x) + 2 * x
    return SamplerCheck(sampler, draws, statistic, limit)


def _laplace_cells(scale: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Cells of about equal mass, symmetric: P(Z >= m) = P(Z <= -m) = a^m / (1 + a), m >= 1."""
    marks = np.unique(np.ceil(-scale * np.log(np.arange(1, 16) / 16)).astype(np.int64))
    tails = np.exp(-marks / scale) / (1 + math.exp(-1 / scale))
    edges = np.concatenate([1 - marks[::-1], marks])
    below = np.concatenate([tails[::-1], 1 - tails])
    return edges, np.diff(below, prepend=0.0, append=1.0)


def _half_share_cells(scale: float, reach: int) -> NDArray[np.float64]:
    """The law of X - Y, X, Y ~ NegativeBinomial(1/2, a), with both tails in the end cells."""
    a, terms = math.exp(-1 / scale), math.ceil(50 * scale)
    k = np.arange(1, terms)
    one_side = math.sqrt(1 - a) * np.concatenate([[1.0], np.cumprod((k - 0.5) / k * a)])
    middle = np.array(
        [one_side[: terms - z] @ one_side[z:] for z in range(reach)], dtype=np.float64
    )
    tail = (1 - middle[0] - 2 * middle[1:].sum()) / 2
    return np.concatenate([[tail], middle[:0:-1], middle, [tail]])
