"""How far the released file's counts of items are from the true ones, by simulation.

Between the noisy counts and the file lie steps with errors that no formula of the noise states:
lengths that noise hides, items that records did not keep, the levelling of counts that are too
large together, the drawing of records. All of them are done again, with other noise, on a truth
that looks like the release; what differs is the error. A function of noisy counts and of public
parameters, so that it costs no privacy. Spec: set-valued, section 10.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from algorithms.counts.released_files import RUNS, SEED, FileErrors, Seen, by_class, probes
from algorithms.set_valued.lengths import SIZES, LengthCounts
from algorithms.set_valued.margins import Margins, deviation_of, items_kept
from algorithms.set_valued.remainder import Measured, Remainder, kept_shares, remainder
from tacit.randomness import SeededRandom
from tacit.records.items import Ints

Floats = NDArray[np.float64]


def errors_of_items(
    margins: Margins,
    measured: Measured,
    epsilon: Fraction,
    beat: Callable[[], None],
    draws: Fraction = Fraction(1),
) -> FileErrors:
    """By classes of counts, up to the largest. epsilon: of the whole job; draws: whole noises that
    a sum holds. What the file holds of each item is as expected before its rows were drawn."""
    truth = _Truth.of(margins, measured)
    generator = SeededRandom(SEED).generator
    runs = []
    for _ in range(RUNS):
        beat()
        runs.append(_released_again(truth, epsilon, draws, generator))
    items = measured.universe
    known = Seen.together([run.part(slice(None, items)) for run in runs])
    probed = Seen.together([run.part(slice(items, None)) for run in runs])
    return FileErrors(by_class(known, probed), (truth.in_rows + truth.rest)[:items])


@dataclass(frozen=True, eq=False)
class _Truth:
    """A population that looks like the release: its items, then the probes, which no row has and
    which change nothing for the others. in_rows: records of DiffPart's rows; rest: the others."""

    margins: Margins
    measured: Measured
    left: Remainder
    in_rows: Floats
    rest: Floats
    share: Floats
    """Of `in_rows`, what is true: where rows hold more of an item than was counted, some are
    false."""

    @classmethod
    def of(cls, margins: Margins, measured: Measured) -> _Truth:
        left = remainder(margins, measured)
        in_rows, rest = measured.items(), left.fit.expected(left.records)[left.fit.place]
        false = (rest == 0) & (margins.items < in_rows)
        share = np.where(false, np.maximum(margins.items, 0) / np.maximum(in_rows, 1), 1.0)
        more = probes(float(rest.max(initial=0.0)))
        none = np.zeros(more.size)
        return cls(
            margins,
            measured,
            left,
            np.concatenate((in_rows, none)),
            np.concatenate((rest, more)),
            np.concatenate((share, none)),
        )


def _released_again(
    truth: _Truth, epsilon: Fraction, draws: Fraction, generator: np.random.Generator
) -> Seen:
    margins, measured, left = truth.margins, truth.measured, truth.left
    items, records = measured.universe, left.records
    scale = 1 / (epsilon * margins.shares.lengths)
    noisy_lengths = margins.lengths + _noise(generator, draws, scale, SIZES.size)
    lengths = LengthCounts.of(noisy_lengths, items, scale, draws)
    rate = epsilon * margins.shares.items
    kept = items_kept(lengths.counts, epsilon, margins.shares, items)
    totals = left.fit.expected(records)
    counted = _along(truth.rest, totals, left.fit.expected(records * kept_shares(kept)))
    thinned = np.sqrt(counted * (1 - counted / np.maximum(truth.rest, 1)).clip(0))
    counted = counted + thinned * generator.standard_normal(counted.size)
    noise = _noise(generator, draws, kept / rate, counted.size)
    rows = np.zeros(counted.size)
    rows[:items] = measured.items(kept)
    noisy = np.rint(counted + truth.share * rows).astype(np.int64) + noise
    again = remainder(
        Margins(
            lengths.counts,
            kept,
            noisy[:items],
            deviation=deviation_of(kept / rate, draws),
            deviations_of_lengths=lengths.deviations,
        ),
        measured,
    )
    most = int(again.lengths.sum())
    expected = _along(
        again.levelled.of(noisy - rows),
        np.append(again.fit.counts, again.levelled.most),
        np.append(again.fit.expected(again.records), most),
    )
    drawn = np.floor(np.clip(expected, 0, most) + generator.random(expected.size))
    short, long = _other_lengths(truth)
    true_rows, released = truth.share * truth.in_rows, truth.in_rows + drawn
    return Seen(
        true_rows + truth.rest, released, released - true_rows - short, released - true_rows - long
    )


def _other_lengths(truth: _Truth) -> tuple[Floats, Floats]:
    """Records of the rest that hold each item if the records in which it was counted were as long
    as all records are; and if long ones were preferred twice as much as drawing prefers them
    (in proportion to the square of the length), and all records were there that noise may hide,
    with the greatest length. What was not counted lies in records of more than l items alone."""
    records = truth.left.records
    shares = kept_shares(truth.margins.kept)
    fit = truth.left.fit
    counted = _along(truth.rest, fit.expected(records), fit.expected(records * shares))
    if not records.any():
        return truth.rest, truth.rest
    short = counted / (records @ shares / records.sum())
    long = counted / (records * SIZES**2 @ shares / (records @ SIZES**2))
    most = counted + records @ (1 - shares)
    longest = int(np.flatnonzero(records)[-1])
    time = fit.times[longest] * SIZES[-1] / SIZES[longest]
    weights = _along(truth.rest, fit.expected(records), fit.weights)
    hidden = -truth.margins.hidden * np.expm1(-weights * time)
    return np.minimum(short, truth.rest), np.maximum(np.minimum(long, most), truth.rest) + hidden


def _noise(generator: np.random.Generator, draws: Fraction, scale: Fraction, count: int) -> Ints:
    """Differences of two negative binomials; of weight 1 they are discrete Laplace."""
    chance = -math.expm1(-1 / float(scale))
    both = generator.negative_binomial(float(draws), chance, (2, count)).astype(np.int64)
    result: Ints = both[0] - both[1]
    return result


def _along(values: Floats, known: Floats, there: Floats) -> Floats:
    """A rising function that is known at `known`, and 0 at 0."""
    result: Floats = np.interp(values, np.append(0.0, known), np.append(0.0, there))
    return result
