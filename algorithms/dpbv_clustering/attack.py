"""What an adversary who holds the public points makes of a record's bits.

Spec: dpbv-clustering, sections 3.8, 4.2 and 9. Public figures only: the error of the
likelihood-ratio test between two stated values is computed, and how well a value is recovered is
simulated on invented values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from algorithms.dpbv_clustering.matched import recover
from tacit.encoders.dpbv_clustering.encoder import Code, Flip, encode
from tacit.encoders.dpbv_clustering.loss import ratio_test_error
from tacit.randomness import SeededRandom

PAIR: Final = (0.486, 0.524)
"""The source's own pair, 24.3 and 26.2 of [0, 50], as shares of the range."""
_INVENTED: Final = 64


@dataclass(frozen=True)
class Attack:
    """pair: two values; differing: their clean bits that differ; error: of the test, equal priors;
    floor: the least error that the stated guarantee allows; recovery: mean absolute error."""

    pair: tuple[float, float]
    differing: int
    error: float
    floor: float
    recovery: float


def attack(code: Code, flip: Flip, epsilon: float, delta: float, seed: int) -> Attack:
    """On one attribute, against a guarantee of (epsilon, delta): floor (1 - delta)/(1 + e^eps)."""
    width = code.upper - code.lower
    pair = (code.lower + PAIR[0] * width, code.lower + PAIR[1] * width)
    one, other = code.clean(np.array(pair))
    differing = int((one != other).sum())
    return Attack(
        pair,
        differing,
        ratio_test_error(differing, float(flip.probability)),
        (1 - delta) * math.exp(-epsilon) / (1 + math.exp(-epsilon)),
        recovery_error(code, flip, _INVENTED, SeededRandom(seed)),
    )


def recovery_error(code: Code, flip: Flip, values: int, source: SeededRandom) -> float:
    """The matched decoder's mean absolute error on uniform values."""
    invented = source.generator.uniform(code.lower, code.upper, values)
    words = encode(invented[:, None], (code,), flip, source)
    return float(np.abs(recover(words[:, 0], code) - invented).mean())
