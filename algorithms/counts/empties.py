"""Empty cells that pass by their noise alone: which ones, of very many.

Spec: sequential-prefix-tree, section 3, step 4 (Theorem 6.1); set-valued, section 3.3, step 8.
Every cell has a coin of its own. The source draws a binomial number and then places instead, which
gives the same law.

    skipped   for small chances: the runs of tails between two heads are geometric, so that they are
              skipped; heads of occupied cells are thrown away, those are decided by their counts
    tossed    a coin for each empty cell, block by block
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
Empties = Callable[
    [int, Ints, Fraction, NoiseSource, Callable[[], None], Callable[[int], None]], Ints
]
"""Places of the empty cells that pass (rising), of so many cells: those that are occupied (rising),
the chance of each, a stream, what is called a few times a second, a limit of their number."""

COIN_BLOCK: Final = 1 << 20
_BATCH: Final = 1 << 16
_COIN_BITS: Final = 128


def skipped(
    cells: int,
    taken: Ints,
    chance: Fraction,
    source: NoiseSource,
    beat: Callable[[], None],
    _limit: Callable[[int], None],
) -> Ints:
    """By the runs between heads; the number that is to be expected is for the caller to check."""
    return without(heads(cells, chance, source, beat), taken)


def tossed(
    cells: int,
    taken: Ints,
    chance: Fraction,
    source: NoiseSource,
    beat: Callable[[], None],
    limit: Callable[[int], None],
) -> Ints:
    """By a coin for each. The limit is asked after each block: where empty ones alone pass it, so
    does the sum, whatever is occupied."""
    coin, found, total = Bernoulli(chance), [np.zeros(0, np.int64)], 0
    coins = cells - taken.size
    for start in range(0, coins, COIN_BLOCK):
        beat()
        shown = coin.draw(source, min(COIN_BLOCK, coins - start))
        found.append(start + np.flatnonzero(shown))
        total += found[-1].size
        limit(total)
    return free_places(taken, np.concatenate(found))


def free_places(taken: Ints, ranks: Ints) -> Ints:
    """The places that are not taken, of these ranks among them; all rise and count from 0."""
    return ranks + np.searchsorted(taken - np.arange(taken.size), ranks, side="right")


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
