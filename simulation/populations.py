"""Populations of curators: whose readings a simulated round adds up.

A `Population` holds readings; a `Marginals` only what the bounds of Lu & Shen and the error of a
sum need of them (m_i, f(x_i), D_i of each curator), for data too large or not free to be held.

    normal_records            thesis, section 4.3.2: five readings ~ Normal(500, 1) a curator
    household_loads           `simulation.populations`
    factory_loads             two shifts on working days over a base load (model below)
    movielens, movielens_like MovieLens 100K: from its published marginals, or generated to them
    read_csv                  any table of meters, wide or long

Seeded: for simulation only. Nothing here is a real person's reading but what a file holds.

What happens to curators from round to round, as a seeded stream.

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

import gzip
import json
import lzma
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tacit.randomness import SeededRandom
from tacit.records import text_files
from tacit.records.text_files import MalformedRow, number
from tacit.sets import Bits

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = Ints | Floats

MOVIELENS: Final = "movielens-100k"
"""The name of the real ratings."""
MOVIELENS_FILE: Final = "movielens_100k_marginals.json"
MOVIELENS_USERS: Final = 943
MOVIELENS_FILMS: Final = 1_682
MOVIELENS_RATINGS: Final = 100_000
LARGEST_RATING: Final = 5


_COUNT_PLACES: Final = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
_COUNT_QUANTILES: Final = (20, 33, 65, 148, 246, 311, 500)
_RECORDS_PER_CURATOR: Final = 5
_SHIFT_HOURS: Final = range(6, 22)
_WORKDAYS: Final = range(5)


def shared_data() -> Path | None:
    """The folder of data sets next to the repository, where there is one."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


@dataclass(frozen=True, eq=False)
class Marginals:
    """What is known of each of n curators: m_i, f(x_i) = sum_j x_ij and D_i = max_j x_ij.

    counts (n,); totals (n,) and largest (n,) in `unit`, exact where integers. Readings >= 0.
    """

    name: str
    counts: Ints
    totals: Numbers
    largest: Numbers
    unit: str
    provenance: str

    def __post_init__(self) -> None:
        if not len(self.counts) == len(self.totals) == len(self.largest):
            raise ValueError("a count, a total and a largest reading for every curator")
        _freeze(self.counts, self.totals, self.largest)

    @property
    def curators(self) -> int:
        """n."""
        return len(self.counts)

    @property
    def largest_total(self) -> Fraction:
        """D_X = max_i f(x_i)."""
        return Fraction(self.totals.max().item())

    def largest_ratio(self) -> Fraction:
        """max_i D_i / f(x_i); 1, the supremum, for a curator whose total is 0."""
        return max(
            Fraction(most) / Fraction(total) if total else Fraction(1)
            for most, total in zip(self.largest.tolist(), self.totals.tolist(), strict=True)
        )

    def counting(self) -> Marginals:
        """The same curators counted instead of summed: every reading is worth 1."""
        ones: Ints = (self.counts > 0).astype(np.int64)
        return Marginals(self.name, self.counts, self.counts, ones, "1", self.provenance)


@dataclass(frozen=True, eq=False)
class Population:
    """Readings of n curators.

    counts (n,): readings of each; values (sum of counts,): the readings, one curator after the
    other, in `unit`, exact where integers. `bounds`, `max_readings`, `resolution` are what a query
    over them would declare; values may lie outside (real data do, and are then clamped).
    """

    name: str
    counts: Ints
    values: Numbers
    unit: str
    bounds: tuple[Fraction, Fraction]
    max_readings: int
    resolution: Fraction
    provenance: str

    def __post_init__(self) -> None:
        if self.counts.ndim != 1 or self.values.ndim != 1:
            raise ValueError("counts and values are flat arrays")
        if (self.counts < 0).any() or int(self.counts.sum()) != len(self.values):
            raise ValueError("the counts add up to the number of values")
        if self.bounds[0] >= self.bounds[1] or self.resolution <= 0 or self.max_readings < 1:
            raise ValueError("bounds rise, and resolution and max_readings are above 0")
        if not np.isfinite(self.values).all():
            raise ValueError("a reading is a finite number")
        _freeze(self.counts, self.values)

    @property
    def curators(self) -> int:
        """n."""
        return len(self.counts)

    def readings_of(self, curator: int) -> Numbers:
        """The readings of one curator, by its place from 0."""
        end = int(self.counts[: curator + 1].sum())
        return self.values[end - int(self.counts[curator]) : end]

    def totals(self) -> Numbers:
        """f(x_i), (n,) in `unit`; 0 for a curator without readings."""
        sums = cast(Numbers, np.zeros_like(self.values, shape=self.curators))
        np.add.at(sums, self._owners(), self.values)
        return sums

    def largest(self) -> Numbers:
        """D_i = max_j x_ij, (n,) in `unit`; 0 for a curator without readings."""
        most = cast(Numbers, np.zeros_like(self.values, shape=self.curators))
        full = self.counts > 0
        starts = np.concatenate([[0], np.cumsum(self.counts[full])[:-1]])
        if full.any():
            most[full] = np.maximum.reduceat(self.values, starts)
        return most

    def total(self) -> Fraction:
        """The sum of all readings, exactly."""
        if self.values.dtype == np.int64:
            return Fraction(sum(self.totals().tolist()))
        return Fraction(math.fsum(self.values.tolist()))

    def marginals(self) -> Marginals:
        """m_i, f(x_i), D_i. Raises ValueError if a reading is below 0, for which no bound is
        defined."""
        if (self.values < 0).any():
            raise ValueError("the sources' bounds are for readings that are not below 0")
        return Marginals(
            self.name, self.counts, self.totals(), self.largest(), self.unit, self.provenance
        )

    def _owners(self) -> Ints:
        return np.repeat(np.arange(self.curators), self.counts)


# ------------------------------------------------------------------------------------- generated


def normal_records(curators: int, source: SeededRandom) -> Population:
    """Five readings ~ Normal(500, 1) for each curator, positive, four decimals (thesis, 4.3.2)."""
    count = curators * _RECORDS_PER_CURATOR
    values = np.round(source.generator.normal(500, 1, count), 4)
    return Population(
        "normal-records",
        np.full(curators, _RECORDS_PER_CURATOR, np.int64),
        np.maximum(values, 1e-4),
        "1",
        (Fraction(0), Fraction(510)),
        _RECORDS_PER_CURATOR,
        Fraction(1, 10_000),
        "generated: five readings ~ Normal(500, 1) per curator, four decimals (thesis, 4.3.2)",
    )


def household_loads(households: int, days: int, source: SeededRandom) -> Population:
    """kWh per 15 minutes of whole days, with the statistics of Swiss households."""
    return _loads(
        "households",
        household_load(households, days, source),
        Fraction(5),
        "generated by the load model fitted to Swiss households (simulation.populations)",
    )


def factory_loads(factories: int, days: int, source: SeededRandom) -> Population:
    """kWh per 15 minutes of whole days, from a Monday on, of sites that work in two shifts.

    A site of log-normal size (median 100 kWh, sigma 0.5) draws 40 % of it at all times and all of
    it from 6 to 22 h on working days, times log-normal noise of sigma 0.05. So a factory exceeds
    every household at any time, the case in which McSherry's condition holds (thesis, 5.1).
    """
    generator = source.generator
    step = np.arange(days * INTERVALS_PER_DAY)
    day, hour = step // INTERVALS_PER_DAY % 7, step % INTERVALS_PER_DAY // 4
    working = np.isin(day, list(_WORKDAYS)) & np.isin(hour, list(_SHIFT_HOURS))
    size = 100 * np.exp(generator.normal(0, 0.5, (factories, 1)))
    wobble = np.exp(generator.normal(0, 0.05, (factories, step.size)))
    load = np.minimum(np.round(size * np.where(working, 1.0, 0.4) * wobble, 3), 1000)
    return _loads("factories", load, Fraction(1000), "generated: two-shift sites over a base load")


# ------------------------------------------------------------------------------------- MovieLens


def movielens(folder: Path | None, source: SeededRandom) -> Population:
    """MovieLens 100K: from the published marginals in `folder`, else generated like them.

    Either way the single ratings are a made-up set that fits each user's count, sum and maximum;
    no figure of Lu & Shen depends on anything else.
    """
    file = None if folder is None else folder / MOVIELENS_FILE
    if file is None or not file.exists():
        return movielens_like(source)
    triples = np.asarray(json.loads(file.read_text("utf-8"))["per_user_count_sum_max"], np.int64)
    return _ratings(
        MOVIELENS,
        triples,
        "MovieLens 100K (GroupLens): count, sum and maximum of each user as published; the single "
        "ratings are made up to fit them",
    )


def movielens_like(source: SeededRandom) -> Population:
    """A stand-in with the public statistics of MovieLens 100K (spec: budget, section 6).

    943 users, 100,000 ratings, 20 to 737 a user (quartiles near 33, 65, 148); maxima 5 (928 users),
    4 (14), 3 (one); largest sum 2,087; max D_i/f(x_i) = 5/56; mean rating about 3.5.
    """
    generator = source.generator
    counts = _spread_counts(generator)
    maxima = np.full(MOVIELENS_USERS, LARGEST_RATING, np.int64)
    quiet = np.flatnonzero(counts < 60)[-15:]
    maxima[quiet[:14]], maxima[quiet[14:]] = 4, 3
    means = generator.normal(3.6, 0.4, MOVIELENS_USERS).clip(2.9, 4.6)
    sums = np.rint(counts * np.minimum(means, maxima - 0.3)).astype(np.int64)
    sums = np.minimum(sums, 2_000)
    # max D/f = 5/56: no smaller sum below a 5, none that lets a maximum of 4 or 3 pass it.
    sums = np.maximum(sums, 57)
    sums[3] = 2_087  # of 540 ratings
    smallest = int(np.flatnonzero((counts == 20) & (maxima == 5))[0])
    sums[smallest] = 56
    triples = np.stack([counts, sums, maxima], axis=1)
    return _ratings(
        "movielens-like",
        triples,
        "generated with the public statistics of MovieLens 100K (its marginals are not here)",
    )


def _spread_counts(generator: np.random.Generator) -> Ints:
    """Ratings per user, falling: 20 to 737, quartiles near 33, 65 and 148, 100,000 in total."""
    place = (np.arange(MOVIELENS_USERS) + generator.random(MOVIELENS_USERS)) / MOVIELENS_USERS
    drawn = np.exp(np.interp(place, _COUNT_PLACES, np.log(_COUNT_QUANTILES)))
    counts = np.sort(np.rint(drawn).astype(np.int64))[::-1].copy()
    counts[:4], counts[-30:] = (737, 685, 636, 540), 20
    free = np.arange(4, MOVIELENS_USERS - 30)
    while missing := MOVIELENS_RATINGS - int(counts.sum()):
        step = 1 if missing > 0 else -1
        room = free[(counts[free] + step <= 530) & (counts[free] + step >= 20)]
        counts[generator.choice(room, min(abs(missing), room.size), replace=False)] += step
    return np.sort(counts)[::-1].copy()


def _ratings(name: str, triples: Ints, provenance: str) -> Population:
    """Ratings that fit (count, sum, maximum): one maximum, the rest as even as integers allow."""
    values = []
    for count, total, most in triples.tolist():
        level, above = divmod(total - most, count - 1)
        rest = [level + 1] * above + [level] * (count - 1 - above)
        if not 1 <= min(rest) <= max(rest) <= most:
            raise ValueError("no ratings of 1 and more have this count, sum and maximum")
        values += [most, *rest]
    return Population(
        name,
        triples[:, 0].copy(),
        np.asarray(values, np.int64),
        "1",
        (Fraction(0), Fraction(LARGEST_RATING)),
        MOVIELENS_FILMS,
        Fraction(1),
        provenance,
    )


# ----------------------------------------------------------------------------------------- tables


def read_csv(
    path: Path,
    *,
    unit: str,
    bounds: tuple[Fraction, Fraction],
    resolution: Fraction,
    layout: Literal["wide", "long"] = "wide",
    delimiter: str = ",",
    curator_column: str = "curator",
    value_column: str = "value",
) -> Population:
    """A table of readings (.csv, .gz, .xz), in the order of the file.

    Wide: a curator per row, its id first, then its readings; a first row that is not a header is
    a curator as well. Long: a reading per row, with columns for the curator and the value. A
    cell that is no number is no reading; how many were omitted is in the provenance.
    `max_readings` is the most that a curator has. Raises ValueError, with the line, for any
    other table, and for a table without a reading.
    """
    with _open(path) as file:
        rows = text_files.rows(file, delimiter)
        try:
            cells = _wide(rows) if layout == "wide" else _long(rows, curator_column, value_column)
            readings, left_out = _by_curator(cells)
        except MalformedRow as error:
            raise ValueError(f"{path.name}, line {error.row}: {error.reason}") from None
    counts = np.array([len(reading) for reading in readings], np.int64)
    if not counts.sum():
        raise ValueError("the table holds no reading")
    return Population(
        path.name.partition(".")[0],
        counts,
        np.concatenate([np.asarray(reading, np.float64) for reading in readings]),
        unit,
        bounds,
        int(counts.max()),
        resolution,
        f"{path.name}: {len(counts):,} curators, {counts.sum():,} readings, {left_out:,} cells "
        "that are not a number omitted",
    )


Cell: TypeAlias = tuple[int, str, str]
"""The line of a reading, its curator, and its text."""


def _wide(rows: Iterator[tuple[int, list[str]]]) -> Iterator[Cell]:
    begun = False
    for line, row in rows:
        if row == [""]:
            continue
        if not begun:
            begun = True
            match text_files.first_line(row):
                case "names":
                    text_files.distinct(row, line)
                    continue
                case "either":
                    reason = (
                        "header or first meter? Begin a header with `id`, or give it no numbers"
                    )
                    raise MalformedRow(line, reason)
        yield from ((line, row[0], cell) for cell in row[1:])


def _long(rows: Iterator[tuple[int, list[str]]], curator: str, value: str) -> Iterator[Cell]:
    line, header = next(rows, (1, []))
    text_files.distinct(header, line)
    missing = {curator, value} - set(header)
    if missing:
        raise MalformedRow(line, f"no column {min(missing)}")
    curator_at, value_at = header.index(curator), header.index(value)
    yield from (
        (at, row[curator_at], row[value_at])
        for at, row in rows
        if len(row) > max(curator_at, value_at)
    )


def _by_curator(cells: Iterator[Cell]) -> tuple[list[list[float]], int]:
    readings: dict[str, list[float]] = {}
    left_out = 0
    for line, curator, cell in cells:
        if not curator.strip():
            raise MalformedRow(line, "the id of the curator is missing")
        mine = readings.setdefault(curator, [])
        try:
            mine.append(number(cell))
        except ValueError:
            left_out += 1
    return list(readings.values()), left_out


def _open(path: Path) -> BinaryIO:
    match path.suffix:
        case ".xz":
            return cast(BinaryIO, lzma.open(path))
        case ".gz":
            return cast(BinaryIO, gzip.open(path))
        case _:
            return path.open("rb")


def _loads(name: str, load: Floats, bound: Fraction, provenance: str) -> Population:
    meters, intervals = load.shape
    return Population(
        name,
        np.full(meters, intervals, np.int64),
        load.ravel(),
        "kWh",
        (Fraction(0), bound),
        intervals,
        Fraction(1, 1000),
        provenance,
    )


def _freeze(*arrays: Numbers) -> None:
    for array in arrays:
        array.flags.writeable = False


INTERVALS_PER_DAY: Final = 96
FITTED_INTERVALS: Final = 7 * 672
LEVEL_MU: Final = 7.4135
LEVEL_SIGMA: Final = 0.9773
ZERO_SHARE: Final = 0.0544
LAG_ONE: Final = 0.82
HABIT_SHARE: Final = 0.66
DAY_SIGMA: Final = 0.2
NOISE_SIGMA: Final = 0.8
CAP_KWH: Final = 120.0
HOUR_KWH: Final = (
    *(2.5838, 2.8463, 2.9715, 2.8842, 2.6681, 2.2653, 2.1084, 1.9171),
    *(2.0446, 2.0525, 1.8073, 1.8189, 1.7527, 1.6715, 1.6865, 1.7796),
    *(1.6432, 1.4513, 2.1294, 2.3872, 2.1087, 1.5921, 1.8655, 2.3697),
)


def household_load(meters: int, days: int, source: SeededRandom) -> NDArray[np.float64]:
    """Readings of `meters` households over whole days, (meters, 96 days) kWh per 15 minutes."""
    generator = source.generator
    count = days * INTERVALS_PER_DAY
    level = np.exp(generator.normal(LEVEL_MU, LEVEL_SIGMA, (meters, 1))) / FITTED_INTERVALS
    hours = np.asarray(HOUR_KWH)
    profile = np.tile(np.repeat(hours / hours.mean(), 4), days)
    day = np.exp(generator.normal(-(DAY_SIGMA**2) / 2, DAY_SIGMA, (meters, days)))
    habit = np.tile(_autoregression(meters, INTERVALS_PER_DAY, generator), days)
    wave = np.sqrt(HABIT_SHARE) * habit
    wave += np.sqrt(1 - HABIT_SHARE) * _autoregression(meters, count, generator)
    load = level * profile * np.repeat(day, INTERVALS_PER_DAY, axis=1)
    load *= np.exp(NOISE_SIGMA * wave - NOISE_SIGMA**2 / 2)
    load[generator.random((meters, count)) < ZERO_SHARE] = 0
    return np.asarray(np.round(np.minimum(load, CAP_KWH), 3), np.float64)


def _autoregression(rows: int, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Standard Gaussian AR(1) rows."""
    wave = generator.normal(size=(rows, count))
    wave[:, 1:] *= np.sqrt(1 - LAG_ONE**2)
    for step in range(1, count):
        wave[:, step] += LAG_ONE * wave[:, step - 1]
    return wave


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

    `enrolled`: which are in the deployment; `sends`: which of them send anything; `late_s`:
    seconds of a straggler's delay, 0 for the punctual; `readings_of`: whose readings each
    curator has.
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
        leaving = among(enrolled, rates.leave) if number else np.zeros(curators, np.bool_)
        enrolled = (enrolled | joined) & ~leaving
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
            leaving,
            refreshed,
            sends,
            late_s,
            lying,
            non_compliant,
            readings_of,
        )
        number += 1
