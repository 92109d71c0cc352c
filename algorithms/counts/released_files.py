"""Released files: a multiset of item lists as files, and how far its counts are from the true ones.

For the algorithms on sets and sequences. Spec: jobs, "Result".
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import ResultFile, by_error, with_verdict
from tacit.randomness import SeededRandom
from tacit.records.text_files import line_of, listed

Named = tuple[list[str], int]
"""The ids of a list's items, and how often it is there."""


def multiset_files(name: str, about: str, rows: Iterable[Named]) -> tuple[ResultFile, ResultFile]:
    """`name`.csv and `name`.ndjson. The ids of a list are one cell of the table (`listed`)."""
    table, lines = io.StringIO(), io.StringIO()
    table.write(line_of(("count", "length", "items")))
    for items, count in rows:
        table.write(line_of((count, len(items), listed(items))))
        lines.write(json.dumps({"items": items, "count": count}, ensure_ascii=False) + "\n")
    return (
        ResultFile.csv(
            f"{name}.csv",
            table.getvalue(),
            f"{about}; ids between blanks, in quotes where an id has one",
        ),
        ResultFile(
            f"{name}.ndjson",
            "application/x-ndjson",
            lines.getvalue().encode(),
            "the same, a JSON object a line",
        ),
    )


# Post-processing of noisy counts and of public parameters: it costs no privacy, and anyone who has
# the release can repeat it. A class's range holds for the things whose true count is in the class
# and for those whose released one is. Spec: federated-counting, section 14.

Floats = NDArray[np.float64]

SEED: Final = 1
"""Public: the simulation can be repeated."""
RUNS: Final = 40
_EDGES: Final = (0, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
_PROBES: Final = 400
_INSIDE: Final = (0.025, 0.975)
_NEAR: Final = 5
_COMMONEST: Final = 100
_CLEAR: Final = 3


@dataclass(frozen=True)
class ErrorOfCounts:
    """The differences of released and true counts, for released counts from `first` to `last`
    (None: no end): mean, standard deviation, and the range of 95 in 100."""

    first: int
    last: int | None
    bias: float
    deviation: float
    low: float
    high: float

    def json(self) -> dict[str, Any]:
        """As JSON values for a report."""
        return {
            "count_from": self.first,
            "count_to": self.last,
            "bias": str(round(self.bias, 1)),
            "standard_deviation": str(round(self.deviation, 1)),
            "off_by_95": [math.floor(self.low), math.ceil(self.high)],
        }


@dataclass(frozen=True, eq=False)
class Seen:
    """Counts of a simulation (things,): true and released; the greatest error (`short`: the truth
    may be lower than assumed) and the least."""

    truth: Floats
    released: Floats
    short: Floats
    long: Floats

    @classmethod
    def of(cls, truth: Floats, released: Floats) -> Seen:
        """Counts with one error, released minus true."""
        return cls(truth, released, released - truth, released - truth)

    @property
    def error(self) -> Floats:
        """Released counts minus true counts."""
        return self.released - self.truth

    def part(self, chosen: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Seen:
        """The chosen things."""
        parts = (self.truth, self.released, self.short, self.long)
        return Seen(*(part[chosen] for part in parts))

    @staticmethod
    def together(runs: Sequence[Seen]) -> Seen:
        """All runs as one."""
        parts = zip(*((run.truth, run.released, run.short, run.long) for run in runs), strict=True)
        return Seen(*(np.concatenate(part) for part in parts))


@dataclass(frozen=True)
class Cut:
    """Noisy counts below `least` are not in the file; `others`: how many of the things that were
    counted, or may have been, the file omits."""

    least: float
    others: int


@dataclass(frozen=True, eq=False)
class FileErrors:
    """Errors by class, and the file's count of each thing (things,); cut: what it omits."""

    by_class: tuple[ErrorOfCounts, ...]
    released: Floats
    cut: Cut | None = None

    def json(self) -> list[dict[str, Any]]:
        """As JSON values for a report."""
        return [error.json() for error in self.by_class]

    def with_verdict(self, stated: Mapping[str, Any], things: str) -> dict[str, Any]:
        """A forecast that begins with the expected error of the 100 largest counts, over their
        sum; a count that the file omits has an error of half of what noise can hide. what: what
        is counted, in the plural."""
        largest = np.sort(self.released)[-_COMMONEST:]
        total = float(largest.sum())
        if total <= 0:
            return with_verdict(stated, "noise", f"no {things} stand out from the noise")
        expected = 0.0
        for error in self.by_class:
            beyond = math.inf if error.last is None else error.last + 0.5
            inside = (largest >= error.first - 0.5) & (largest < beyond)
            expected += float(np.count_nonzero(inside)) * math.hypot(error.bias, error.deviation)
        if self.cut is not None:
            missing = min(self.cut.others, _COMMONEST - largest.size) * self.cut.least / 2
            expected, total = expected + missing, total + missing
        relative = expected / total
        figure = f"counts of the commonest {things} err by {relative:.2g} of their sum"
        return with_verdict(stated, by_error(relative), figure)


def probes(largest: float) -> Floats:
    """True counts all over each class up to the largest, of things that no file holds."""
    spread = [
        np.linspace(first, min(last - 1, largest), _PROBES)
        for first, last in pairwise((*_EDGES, math.inf))
        if first <= largest
    ]
    return np.concatenate((np.zeros(0), *spread))


def by_class(known: Seen, probed: Seen, absent: float = 0.0) -> tuple[ErrorOfCounts, ...]:
    """Bias and spread, by the probes if there are any. absent: the largest true count at which
    the file omits things more often than once in 20 times."""
    classes = []
    for first, last in pairwise((*_EDGES, math.inf)):
        inside = [
            part.part((np.rint(counts_of_part) >= first) & (np.rint(counts_of_part) < last))
            for part, counts_of_part in ((probed, probed.truth), (known, known.truth))
        ]
        of_class = next(
            (counts_of_part for counts_of_part in inside if counts_of_part.truth.size), None
        )
        # In each quarter of the class, so that the range does not rest on how counts spread in it.
        sets = [*_quarters(inside[0]), inside[1]]
        shown = (np.rint(known.released) >= first) & (np.rint(known.released) < last)
        sets = [
            counts_of_part
            for counts_of_part in (*sets, known.part(shown))
            if counts_of_part.truth.size
        ]
        if sets:
            error = sets[0].released - sets[0].truth if of_class is None else of_class.error
            low = min(float(np.quantile(each.long, _INSIDE[0])) for each in sets)
            high = max(float(np.quantile(each.short, _INSIDE[1])) for each in sets)
            classes.append(
                ErrorOfCounts(
                    int(first),
                    None if math.isinf(last) else int(last) - 1,
                    float(error.mean()),
                    float(error.std()),
                    low if first else min(low, -absent),
                    high,
                )
            )
    return tuple(classes)


def _quarters(counts: Seen) -> list[Seen]:
    order = np.argsort(counts.truth, kind="stable")
    return [counts.part(places) for places in np.array_split(order, 4)]


def errors_of_counts(
    noisy: Floats, released: Floats, scale: float, draws: float, cut: Cut | None = None
) -> tuple[ErrorOfCounts, ...]:
    """Of a file whose counts follow from noisy ones (things,), unbiased, with Laplace noise of this
    scale, each with this many draws.

    What the file makes of a noisy count is taken from things with about that count: its part of a
    clear one, what was added to it otherwise.
    """
    if not noisy.size:
        return ()
    generator = SeededRandom(SEED).generator
    order = np.argsort(noisy, kind="stable")
    noisy, released = noisy[order], released[order]

    def made(again: Floats) -> Floats:
        near = np.searchsorted(noisy, again)
        near = near + generator.integers(-_NEAR, _NEAR + 1, again.size)
        like = np.clip(near, 0, noisy.size - 1)
        clear = noisy[like] > _CLEAR * scale
        part = np.divide(released[like], noisy[like], out=np.zeros(again.size), where=clear)
        changed = np.where(clear, again * part, again + released[like] - noisy[like])
        if cut is not None:
            changed = np.where(again < cut.least, 0.0, changed)
        return np.maximum(np.rint(changed), 0.0)

    true = np.tile(probes(float(released.max())), RUNS)
    probed = Seen.of(true, made(true + _noise(generator, scale, draws, true.size)))
    noisy_again = np.tile(noisy, RUNS)
    truth = np.maximum(noisy_again - _noise(generator, scale, draws, noisy_again.size), 0.0)
    counts_known = [Seen.of(truth, np.tile(released, RUNS))]
    if cut is not None:
        nobody = np.zeros(RUNS * cut.others)  # who passes by noise alone
        passed = Seen.of(nobody, made(_noise(generator, scale, draws, nobody.size)))
        counts_known.append(passed.part(passed.released > 0))
    absent = 0.0 if cut is None else cut.least + math.log(10) * scale * math.sqrt(draws)
    return by_class(Seen.together(counts_known), probed, max(absent, 0.0))


def _noise(generator: np.random.Generator, scale: float, draws: float, count: int) -> Floats:
    """Differences of two gammas; of weight 1 they are Laplace."""
    both = generator.gamma(draws, scale, (2, count))
    result: Floats = both[0] - both[1]
    return result
