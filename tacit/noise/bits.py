"""Exact coins: Bernoulli draws for any rational probability.

A uniform real U in [0, 1), read 64 binary digits at a time, is compared with the binary
expansion of p: the first word decides unless it equals floor(2^64 p), and then the rest of U is
compared with the rest of p, the rational 2^64 p - floor(2^64 p), in the same way. The coin
shows 1 with probability p exactly. A further word is needed with probability 2^-64, so that the
time does not tell the outcome. p = 0 and p = 1 draw the same words and decide alike each time.
"""

from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational

import numpy as np
from numpy.typing import NDArray

from tacit.randomness import NoiseSource


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """A coin that shows true with exactly this probability.

    comparison_bits: how many digits the first word decides; with fewer than 64 the continuation
    is frequent, for tests.
    """

    probability: Fraction
    comparison_bits: int = 64

    def __post_init__(self) -> None:
        if not isinstance(self.probability, Rational):
            raise TypeError("a probability is an exact rational")
        if not 0 <= self.probability <= 1:
            raise ValueError("a probability lies between 0 and 1")
        if not 1 <= self.comparison_bits <= 64:
            raise ValueError("a word has 64 bits")

    def draw(self, source: NoiseSource, count: int) -> NDArray[np.bool_]:
        """`count` independent coins."""
        words = source.words(count) >> np.uint64(64 - self.comparison_bits)
        if self.probability == 1:
            return np.ones(count, dtype=np.bool_)
        threshold, rest = _leading_digits(self.probability, self.comparison_bits)
        shown = words < np.uint64(threshold)
        for tie in np.flatnonzero(words == np.uint64(threshold)):
            shown[tie] = exact_coin(rest, source)
        return shown


def exact_coin(probability: Fraction, source: NoiseSource) -> bool:
    """One coin with exactly this probability below 1, for the rare continuation."""
    while probability:
        threshold, probability = _leading_digits(probability, 64)
        word = int(source.words(1)[0])
        if word != threshold:
            return word < threshold
    return False


def _leading_digits(probability: Fraction, digits: int) -> tuple[int, Fraction]:
    whole, rest = divmod(probability * (1 << digits), 1)
    return int(whole), rest
