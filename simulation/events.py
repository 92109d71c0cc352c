"""What happens to curators from round to round, as a seeded stream.

    join, leave        a curator enters or leaves, and may return later
    refresh            its data changed: it holds the readings of a curator drawn at random
    dropout            it sends nothing in this round
    straggler          it sends late, by an exponential delay; past the deadline that is a dropout
    liar               it reports `max_readings` readings at the upper bound: the worst that an
                       honest clamp lets through
    non-compliant      it adds no noise to its contribution (thesis, 5.3, case 1.2)

A rate is a probability per curator and round, independent of everything else; joins are drawn
among those outside, all others among those enrolled. Simulation only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tacit.randomness import SeededRandom
from tacit.sets import Bits

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """Probabilities per curator and round; `outside`: of being outside before the first round."""

    outside: float = 0.0
    join: float = 0.0
    leave: float = 0.0
    refresh: float = 0.0
    dropout: float = 0.0
    straggler: float = 0.0
    straggler_s: float = 60.0
    liar: float = 0.0
    non_compliant: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "straggler_s":
                if value < 0:
                    raise ValueError("straggler_s is not below 0")
            elif not 0 <= value <= 1:
                raise ValueError(f"{field.name} is a probability, 0..1")


@dataclass(frozen=True, eq=False)
class RoundEvents:
    """One round's events over n curators; all arrays are (n,), in the order of the population.

    `enrolled`: who is in the deployment; `sends`: who of them sends anything; `late_s`: seconds of
    a straggler's delay, 0 for the punctual; `readings_of`: whose readings each curator holds.
    """

    number: int
    enrolled: Bits
    joined: Bits
    left: Bits
    refreshed: Bits
    sends: Bits
    late_s: Floats
    lying: Bits
    non_compliant: Bits
    readings_of: Ints


def quiet(curators: int, number: int = 0) -> RoundEvents:
    """A round in which every curator behaves."""
    none = np.zeros(curators, np.bool_)
    everybody = np.ones(curators, np.bool_)
    return RoundEvents(
        number,
        enrolled=everybody,
        joined=none,
        left=none,
        refreshed=none,
        sends=everybody,
        late_s=np.zeros(curators),
        lying=none,
        non_compliant=none,
        readings_of=np.arange(curators),
    )


def stream(curators: int, rates: Rates, source: SeededRandom) -> Iterator[RoundEvents]:
    """The events of round 0, 1, ... without end; the same seed gives the same stream."""
    generator = source.generator

    def among(members: Bits, rate: float) -> Bits:
        if rate == 0:
            return np.zeros(curators, np.bool_)
        return members & (generator.random(curators) < rate)

    everybody = np.ones(curators, np.bool_)
    enrolled = everybody & ~among(everybody, rates.outside)
    readings_of = np.arange(curators)
    number = 0
    while True:
        joined = among(~enrolled, rates.join) if number else np.zeros(curators, np.bool_)
        left = among(enrolled, rates.leave) if number else np.zeros(curators, np.bool_)
        enrolled = (enrolled | joined) & ~left
        refreshed = among(enrolled, rates.refresh) if number else np.zeros(curators, np.bool_)
        if refreshed.any():
            readings_of = readings_of.copy()
            readings_of[refreshed] = generator.integers(0, curators, int(refreshed.sum()))
        sends = enrolled & ~among(enrolled, rates.dropout)
        late_s = np.zeros(curators)
        stragglers = among(sends, rates.straggler)
        late_s[stragglers] = generator.exponential(rates.straggler_s, int(stragglers.sum()))
        lying = among(sends, rates.liar)
        non_compliant = among(sends, rates.non_compliant)
        yield RoundEvents(
            number,
            enrolled,
            joined,
            left,
            refreshed,
            sends,
            late_s,
            lying,
            non_compliant,
            readings_of,
        )
        number += 1
