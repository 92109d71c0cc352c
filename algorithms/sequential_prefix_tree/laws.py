"""The noise of both stances: thresholds, and the chance that an empty candidate passes.

Spec: sequential-prefix-tree, section 3. A threshold is given as a multiple of 1 / budget. `sound`:
discrete Laplace, the threshold rounded up to an integer. `paper`: Laplace in floating point.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from algorithms.contract import Stance
from algorithms.counts.contract import CountTest
from algorithms.counts.laws import COIN_BITS, FloatingTest, IntegerTest
from algorithms.counts.thresholds import threshold as threshold_of
from tacit.noise.alias import PRECISE, decimal
from tacit.randomness import NoiseSource, SeededRandom

ONE_DRAW: Final = Fraction(1)
_DEVIATION: Final = Fraction(math.sqrt(2))
"""Standard deviations of Laplace noise of scale 1."""


def group_multiple() -> Fraction:
    """The source's threshold of groups: four standard deviations."""
    return 4 * _DEVIATION


def item_multiple(items: int, stance: Stance, *, hybrid: bool) -> Fraction:
    """The threshold of items: two standard deviations.

    Without groups an empty node has items * e^-multiple / 2 empty children in expectation, which
    the source's threshold leaves above 1 from 34 items on; `sound` keeps it near 1/2, below 1.
    """
    multiple = 2 * _DEVIATION
    if stance == "sound" and not hybrid:
        multiple = max(multiple, Fraction(math.log(items)))
    return multiple


def count_test(
    rate: Fraction, multiple: Fraction, stance: Stance, draws: Fraction = ONE_DRAW
) -> CountTest:
    """What one count costs (rate), must reach, and an empty one's chance.

    draws: whole noises that a sum holds (sound, from 1 on); the chance is that of one, and the
    threshold is higher (spec: federated-counting, section 3).
    """
    if stance == "paper":
        exact = float(multiple)
        return FloatingTest(rate, exact / float(rate), Fraction(math.exp(-exact) / 2))
    threshold = max(1, math.ceil(multiple / rate))
    a = PRECISE.exp(decimal(-rate))
    tail = PRECISE.exp(decimal(-rate * threshold))
    chance = Fraction(PRECISE.divide(tail, PRECISE.add(1, a)))
    if draws != ONE_DRAW:
        threshold = threshold_of(draws, 1 / rate, float(chance))
    return IntegerTest(rate, threshold, Fraction(round(chance * 2**COIN_BITS), 2**COIN_BITS))


def source_of(secret: NoiseSource, stance: Stance) -> NoiseSource:
    """What the draws are taken from; floating noise needs a generator that can be repeated."""
    if stance == "sound":
        return secret
    return SeededRandom(int.from_bytes(secret.bytes(16)))
