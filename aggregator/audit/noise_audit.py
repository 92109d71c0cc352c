"""What is kept of a local round for the noise audit and the screening: pure steps.

Spec: budget, section 4. Under `sharing: none` this aggregator opens every noisy contribution
y = f + Z. Of each audited value it keeps two sums, of cos(u y) and of sin(u y), the number of
rounds, the number of rounds in which the value was farther out than noise explains, and how far.
All of it is computed from noisy values, which were seen anyway, and costs no budget. It outlives
the round's pieces, and after a single round the two sums still determine y modulo 2 pi / u. The
mathematics is that of `tacit.accounting.noise_audit` and `tacit.accounting.screening`.

**Which values.** The first coordinate of each of the first `FIRST_PARTS` parts. Every coordinate
could be audited: each has its own noise, drawn afresh every round, so each is one more row of the
test, valid for any data. But d coordinates cost d times the store and the work of every round, and
divide alpha by a further d, while a curator that adds no noise omits it in its first coordinate
too. The price: a curator that omits noise in other coordinates only is not detected. Each part is
audited because each has its own scale, and a count, which hardly varies, reveals more than the sum
next to it.

**Which rounds.** Mechanism local in the sound stance, where the query alone fixes the scale. Under
the paper stance the scale follows from private data: there is nothing to test against.

**Families.** Rounds add up where the same curator draws the same noise: per part and exact scale
(in ring units), for any query. One family may hold values of several queries; the test is valid
for data that varies in any way, it only has less power.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.noise_audit import NoiseAudit
from tacit.accounting.screening import far_values
from tacit.query.functions import parts
from tacit.query.mechanisms import curator_plan
from tacit.query.query import Query
from tacit.query.words import Mechanism, Stance

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Records = NDArray[np.void]

FIRST_PARTS: Final = 4
"""At most this many parts are audited: all parts of a function, except for vectors of many
blocks."""
FAR_ALPHA: Final = 1e-3
"""The probability that an honest deployment ever has a value classified as far (see
`unexplained`)."""
CHUNK: Final = 4096
"""Curators of one record array in the store (115 kB)."""
RECORD: Final = np.dtype(
    [
        ("rounds", "<u4"),
        ("far", "<u4"),
        ("unexplained", "<f4"),
        ("cosines", "<f8"),
        ("sines", "<f8"),
    ]
)
"""One curator of one family. `far`: rounds in which its value was classified as far; `unexplained`:
its largest distance in ring units beyond what noise explains."""

CANNOT: Final = (
    "The audit cannot tell missing noise from data that varies by the noise scale or more, and "
    "then says nothing; it cannot see noise that is drawn but known to others, noise that is "
    "smaller by a little, or noise left out in coordinates that are not audited; and it can say "
    "nothing of rounds with shared contributions, where no one sees a single value. A far value "
    "may be a true one. A proposal is a question: only an operator turns it into flagged or "
    "non_compliant."
)


@dataclass(frozen=True)
class Audited:
    """One audited value of a contribution: its coordinate, its part, its noise scale."""

    place: int
    part: str
    scale: Fraction


def audited(query: Query) -> tuple[Audited, ...]:
    """Which values of a query's contributions are audited; none where that would not be sound."""
    if query.mechanism is not Mechanism.LOCAL or query.stance is not Stance.SOUND:
        return ()
    plan = curator_plan(query)
    assert plan is not None
    places = accumulate(plan.dimensions, initial=0)
    found = zip(parts(query), plan.scales, places, strict=False)
    return tuple(Audited(place, part.name, scale) for part, scale, place in found)[:FIRST_PARTS]


@dataclass(frozen=True)
class Noisy:
    """The audited values of one round: roster numbers (n,), rising, and values (n, audited)."""

    numbers: Ints
    values: Ints


class Listener:
    """Takes in what a pass over the pieces of a local round opens, the audited values only."""

    def __init__(self, items: Sequence[Audited]) -> None:
        self._places = [item.place for item in items]
        self._numbers: list[Ints] = []
        self._values: list[Ints] = []

    def __call__(self, numbers: Ints, words: Words) -> None:
        """`words`: (n, d) opened words of the curators of these numbers."""
        if self._places:
            self._numbers.append(numbers.astype(np.int64))
            self._values.append(words[:, self._places].view(np.int64))

    def heard(self) -> Noisy:
        """All of it, in the order of roster numbers."""
        if not self._numbers:
            return Noisy(np.zeros(0, np.int64), np.zeros((0, len(self._places)), np.int64))
        numbers = np.concatenate(self._numbers)
        order = np.argsort(numbers)
        return Noisy(numbers[order], np.concatenate(self._values)[order])


def unexplained(values: Ints, scale: Fraction, screen: int) -> Floats:
    """(n,) ring units by which a value exceeds what noise explains; 0 where it does not.

    `screen`: the number of this screening, 1, 2, ... over all rounds and parts; it is done at
    `FAR_ALPHA / (screen (screen + 1))`, so that over all screenings an honest deployment (every
    true value within six robust deviations of its round) has any far value with probability at
    most `FAR_ALPHA`.
    """
    if screen < 1:
        raise ValueError("screenings are counted from 1")
    found = np.zeros(values.size)
    alpha = FAR_ALPHA / (screen * (screen + 1))
    for proposal in far_values(values, np.full(values.size, float(scale)), alpha):
        figures = proposal.figures
        found[proposal.curator] = figures["distance"] - figures["explained_by_noise"]
    return found


def chunks_of(numbers: Ints) -> Iterator[tuple[int, slice]]:
    """The chunks that rising roster numbers lie in, and which of the numbers lie in each."""
    found, starts = np.unique(numbers // CHUNK, return_index=True)
    ends = [*starts[1:].tolist(), numbers.size]
    for chunk, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
        yield chunk, slice(start, end)


def empty() -> Records:
    """A chunk of curators of whom nothing was seen."""
    return np.zeros(CHUNK, RECORD)


def with_round(
    records: Records, scale: Fraction, places: Ints, values: Ints, far: Floats
) -> Records:
    """A chunk with one more round: (m,) places in the chunk, values, and `unexplained` of them."""
    seen = np.zeros(records.size, np.bool_)
    seen[places] = True
    placed = np.zeros(records.size, np.int64)
    placed[places] = values
    audit = audit_of(records, scale).plus(placed, seen)
    result = records.copy()
    result["rounds"], result["cosines"], result["sines"] = audit.rounds, audit.cosines, audit.sines
    result["far"][places] += far > 0
    result["unexplained"][places] = np.maximum(result["unexplained"][places], far)
    return result


def audit_of(records: Records, scale: Fraction) -> NoiseAudit:
    """The sums of these records as the mathematics takes them."""
    one = NoiseAudit.of_scales([scale])
    return NoiseAudit(
        np.repeat(one.period, records.size),
        np.repeat(one.phi, records.size),
        records["rounds"].astype(np.int64),
        records["cosines"].astype(np.float64),
        records["sines"].astype(np.float64),
    )


def joined(audits: Sequence[NoiseAudit]) -> NoiseAudit:
    """All rows of several audits as one, which alpha is divided by."""
    none = NoiseAudit.of_scales([])
    every = [none, *audits]
    return NoiseAudit(
        np.concatenate([item.period for item in every]),
        np.concatenate([item.phi for item in every]),
        np.concatenate([item.rounds for item in every]),
        np.concatenate([item.cosines for item in every]),
        np.concatenate([item.sines for item in every]),
    )
