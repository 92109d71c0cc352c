"""Empty candidates that pass by their noise alone, without looking at every one.

Spec: sequential-prefix-tree, section 3, step 4 (Theorem 6.1). Every candidate has a coin of its
own; the runs of tails between two heads are geometric, so that they are skipped. The source draws a
binomial number and then places instead, which gives the same law. Heads of occupied candidates are
thrown away: those are decided by their counts.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.noise import SCALE_LIMIT, Bernoulli, DiscreteLaplace
from tacit.noise.alias import PRECISE, decimal
from tacit.randomness import NoiseSource

Ints = NDArray[np.int64]
_BATCH: Final = 1 << 16
_COIN_BITS: Final = 128


def heads(
    coins: int, chance: Fraction, source: NoiseSource, beat: Callable[[], None] = lambda: None
) -> Ints:
    """Places of the heads among this many independent coins, rising. 0 <= chance <= 1/2.

    A run of tails has P(G = g) = (1 - a) a^g, drawn with a = e^(-1/b) for a whole b <= (1 -
    chance) / chance: since -ln(1 - p) <= p / (1 - p), a coin that is thrown so shows heads at least
    as often as it should, and a second coin takes the surplus away.
    """
    if not coins or not chance:
        return np.zeros(0, np.int64)
    scale = min(max(1, (1 - chance) // chance), SCALE_LIMIT)
    law, rest = DiscreteLaplace(Fraction(scale)), Bernoulli(_kept(chance, scale))
    often = float(chance / rest.probability)
    found: list[Ints] = []
    place = -1
    while place < coins - 1:
        beat()
        expected = (coins - 1 - place) * often
        drawn = law.draw(source, min(int(expected + 4 * expected**0.5) + 16, _BATCH))
        # Z is G or -1 - G with a coin that does not depend on G.
        places = place + np.cumsum((drawn ^ (drawn >> 63)) + 1)
        found.append(places[rest.draw(source, places.size)])
        place = int(places[-1])
    all_places = np.concatenate(found)
    inside: Ints = all_places[: np.searchsorted(all_places, coins)]
    return inside


def _kept(chance: Fraction, scale: int) -> Fraction:
    """chance / (1 - e^(-1 / scale))."""
    tails = PRECISE.exp(decimal(Fraction(-1, scale)))
    exact = Fraction(PRECISE.divide(decimal(chance), PRECISE.subtract(1, tails)))
    return min(Fraction(round(exact * 2**_COIN_BITS), 2**_COIN_BITS), Fraction(1))


def without(places: Ints, occupied: Ints) -> Ints:
    """The places that are not occupied; both rise."""
    if not occupied.size:
        return places
    at = np.minimum(np.searchsorted(occupied, places), occupied.size - 1)
    found: Ints = places[occupied[at] != places]
    return found
