"""Nanoseconds per value of encoding, splitting, adding and combining, beside plain Python.

    python -m bench.mathematics [--seconds 0.5]

One process, one thread, words from `SecureRandom`. Each figure is the best of the repetitions that
fit into `--seconds`: the machine may be shared, and the best is what the code can do. A *value* is
one reading for encode, one integer for split and combine (whatever the number of pieces), one word
for add. The plain twins are the single-integer functions that specify the vectorised ones, run on
fewer values in the same process; the specification's figures are of another machine and day.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.crypto.sharing import (
    PRIME,
    RING,
    Additive,
    Shamir,
    combine_additive,
    combine_shamir,
    split_additive,
    split_shamir,
)
from tacit.query.functions import Readings, encode, reading_rule
from tacit.query.query import Query
from tacit.randomness import SecureRandom
from tacit.units import NANO

AGGREGATORS, THRESHOLD = 5, 3
PLAIN = 2_000
SPECIFIED = {"additive": 13.5, "shamir": 52.0}
FIELDS: dict[str, Any] = {
    "name": "bench",
    "function": "sum",
    "unit": "Wh",
    "bounds": ["0", "5000"],
    "max_readings": 1,
    "resolution": "1",
    "mechanism": "exact",
    "rule": {"min_participants": 2},
    "sharing": "additive",
    "aggregators": AGGREGATORS,
    "n_max": 1_000_000,
    "deadline_s": 60,
}


def best(work: Callable[[], object], seconds: float) -> float:
    """Seconds of the fastest call among those that fit into `seconds` (at least two)."""
    fastest, end, calls = float("inf"), time.perf_counter() + seconds, 0
    while calls < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        fastest, calls = min(fastest, time.perf_counter() - start), calls + 1
    return fastest


def show(name: str, count: int, took: float, plain: float | None, specified: str = "") -> None:
    """One line: ns per value, the whole call, and how many times faster than the plain twin."""
    ratio = "-" if plain is None else f"{plain / (took / count):.0f}"
    print(f"{name:44}{1e9 * took / count:10.2f}{1e3 * took:12.3f}{ratio:>10}{specified:>10}")


def query(**changes: object) -> Query:
    """A query with some fields changed, through the same door as any other."""
    bounds = tuple(map(str, FIELDS["bounds"]))
    return Query.model_validate({**FIELDS, "bounds": bounds, **changes}, strict=False)


def meters(count: int, each: int, order: str) -> Readings:
    """`each` readings of each of `count` curators, evenly spread over the window."""
    rng = np.random.default_rng(1)
    owner, place = np.repeat(np.arange(count), each), np.tile(np.arange(each), count)
    if order == "by time":
        owner, place = np.tile(np.arange(count), each), np.repeat(np.arange(each), count)
    quantity = rng.integers(0, 5500 * NANO, owner.size)
    return Readings(count, owner, quantity, (place << 32) // each)


def encode_plainly(asked: Query, readings: Readings) -> list[list[int]]:
    """The sum or slot vector of each curator, a reading at a time."""
    rule, slots = reading_rule(asked), asked.dimension or 1
    values = [[0] * slots for _ in range(readings.count)]
    seen = [0] * readings.count
    rows = zip(
        readings.curator.tolist(), readings.quantity.tolist(), readings.offset.tolist(), strict=True
    )
    for owner, quantity, offset in rows:
        if seen[owner] < asked.max_readings:
            seen[owner] += 1
            quotient, rest = divmod(quantity, rule.resolution)
            up = 2 * rest > rule.resolution or (2 * rest == rule.resolution and quotient & 1)
            q = min(max(quotient + up, rule.bounds.low), rule.bounds.high)
            values[owner][offset * slots >> 32] += q
    return values


def measure_encode(seconds: float) -> None:
    """Sums of one reading, slots of a day, and the other functions, by curators and order."""
    small, asked = meters(PLAIN, 1, "by curator"), query()
    assert encode_plainly(asked, small) == encode(asked, small).values.tolist()
    plain = best(lambda: encode_plainly(asked, small), seconds) / PLAIN
    for count in (1, 100_000, 1_000_000):
        given = meters(count, 1, "by curator")
        took = best(lambda given=given: encode(asked, given), seconds)  # type: ignore[misc]
        show(f"encode sum, {count:,} x 1", count, took, plain)
    slots = query(function="vector_sum", dimension=96, max_readings=96)
    small = meters(PLAIN // 96, 96, "by curator")
    plain = best(lambda: encode_plainly(slots, small), seconds) / small.curator.size
    fewer = slots.model_copy(update={"max_readings": 90})
    for order in ("by curator", "by time"):
        given = meters(10_000, 96, order)
        took = best(lambda given=given: encode(slots, given), seconds)  # type: ignore[misc]
        show(f"encode slots, 10,000 x 96, {order}", 960_000, took, plain)
        took = best(lambda given=given: encode(fewer, given), seconds)  # type: ignore[misc]
        show(f"encode slots, the first 90 of 96, {order}", 960_000, took, plain)
    given = meters(1_000_000, 1, "by curator")
    for name, other in (
        ("mean", query(function="mean")),
        ("variance", query(function="variance")),
        ("histogram of 10", query(function="histogram", edges=tuple(map(str, range(11))))),
    ):
        took = best(lambda other=other: encode(other, given), seconds)  # type: ignore[misc]
        show(f"encode {name}, 1,000,000 x 1", 1_000_000, took, None)


def measure_sharing(name: str, shared: Additive | Shamir, seconds: float) -> None:
    """Split, combine and add, each from one value to a million."""
    source = SecureRandom()
    rng = np.random.default_rng(2)
    values = rng.integers(-(2**50), 2**50, 1_000_000)
    few = values[:PLAIN].tolist()
    modulus, randoms = shared.modulus, AGGREGATORS - 1
    if isinstance(shared, Shamir):
        randoms = shared.threshold - 1
    drawn = [[int(w) % modulus for w in source.words(randoms)] for _ in few]

    def split_plainly() -> list[list[int]]:
        if isinstance(shared, Shamir):
            return [split_shamir(v, d, AGGREGATORS) for v, d in zip(few, drawn, strict=True)]
        return [split_additive(v, d) for v, d in zip(few, drawn, strict=True)]

    plain_pieces = split_plainly()

    def combine_plainly() -> list[int]:
        if isinstance(shared, Shamir):
            quorums = ({x + 1: own[x] for x in range(shared.threshold)} for own in plain_pieces)
            return [combine_shamir(quorum) for quorum in quorums]
        return [combine_additive(own) for own in plain_pieces]

    assert combine_plainly() == few
    plain = best(split_plainly, seconds) / PLAIN
    for count in (1, 100_000, 1_000_000):
        own = values[:count]
        took = best(lambda own=own: shared.split(own, source), seconds)  # type: ignore[misc]
        show(f"{name} split, {count:,}", count, took, plain, f"{SPECIFIED[name]:.1f}")

    plain = best(combine_plainly, seconds) / PLAIN
    for count in (1, 100_000):
        pieces = dict(enumerate(shared.split(values[:count], source)))
        took = best(lambda pieces=pieces: shared.combine(pieces), seconds)  # type: ignore[misc]
        show(f"{name} combine, {count:,}, of {len(pieces)}", count, took, plain)
        if isinstance(shared, Shamir):
            quorum = {index: pieces[index] for index in range(shared.threshold)}
            took = best(lambda quorum=quorum: shared.combine(quorum), seconds)  # type: ignore[misc]
            show(f"{name} combine, {count:,}, of {len(quorum)}", count, took, plain)

    words = [own[0] for own in plain_pieces]

    def add_plainly() -> int:
        total = 0
        for word in words:
            total = (total + word) % modulus
        return total

    plain = best(add_plainly, seconds) / PLAIN
    for rows, columns in ((1_000_000, 1), (10_000, 96)):
        limit = RING if modulus == RING else PRIME
        block = rng.integers(0, limit, (rows, columns), np.uint64)
        zero = np.zeros(columns, np.uint64)
        took = best(lambda block=block, zero=zero: shared.add(zero, block), seconds)  # type: ignore[misc]
        show(f"{name} add, {rows:,} x {columns}", block.size, took, plain)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="nanoseconds per value of the mathematics")
    parser.add_argument("--seconds", type=float, default=0.5, help="time per figure")
    seconds: float = parser.parse_args().seconds
    print(f"{AGGREGATORS} aggregators, threshold {THRESHOLD}")
    print(f"{'':44}{'ns/value':>10}{'ms a call':>12}{'/ plain':>10}{'spec ns':>10}")
    measure_encode(seconds)
    measure_sharing("additive", Additive(AGGREGATORS), seconds)
    measure_sharing("shamir", Shamir(THRESHOLD, AGGREGATORS), seconds)


if __name__ == "__main__":
    main()
