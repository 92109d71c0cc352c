"""Small trajectory tables, brute force, and a reference anonymiser with fresh scores."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np

from algorithms.datasets.trajectories import Trajectories, read_ndjson
from algorithms.trajectory_kcl.parameters import Model, PairTable, code
from reproduction.trajectory_kcl import TABLE_51

TABLE_52 = (
    "b3 e4 f6 e8",
    "d2 c5 f6 c7 e9",
    "c7 e8",
    "b3 e4 f6 e8",
    "d2 c5 f6 c7",
    "c5 f6 e9",
    "f6 c7 e8",
    "d2 f6 c7 e9",
)
MODEL_51 = Model(2, Fraction(1, 2), 2)
B3 = ("a1 a2 a3", "a1 a3", "a2 a3", "a1 a2 a4")


def lines(paths: tuple[str, ...], values: tuple[str, ...] | None = None) -> bytes:
    """NDJSON of paths such as `a1 d2`."""
    found = []
    for place, path in enumerate(paths):
        record = {"path": [[pair[0], int(pair[1:])] for pair in path.split()]}
        if values is not None:
            record["sensitive"] = {"diagnosis": values[place]}  # type: ignore[assignment]
        found.append(json.dumps(record) + "\n")
    return "".join(found).encode()


def dataset_51() -> Trajectories:
    paths, values = zip(*TABLE_51, strict=True)
    return read_ndjson(io.BytesIO(lines(paths, values)))


def plain(paths: tuple[str, ...]) -> PairTable:
    """A table without sensitive values."""
    return code(read_ndjson(io.BytesIO(lines(paths))), ()).table


def named(table: PairTable, sequence: tuple[int, ...]) -> str:
    """`d2b3` of its ids."""
    return "".join(f"{table.locations[pair]}{int(table.times[pair])}" for pair in sequence)


def ids(table: PairTable, text: str) -> tuple[int, ...]:
    """The ids of `d2b3`."""
    known = {named(table, (pair,)): pair for pair in range(table.pairs)}
    return tuple(known[text[at : at + 2]] for at in range(0, len(text), 2))


def paths_of(table: PairTable) -> list[str]:
    return [named(table, table.path(row)) for row in range(table.records)]


def random_table(seed: int, records: int = 40, values: int = 3) -> PairTable:
    """Up to this many records over up to 8 slots of up to 3 locations."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(0, records + 1))
    slots, places = int(draw.integers(2, 8)), int(draw.integers(1, 4))
    share = draw.uniform(0.3, 0.9)
    found = []
    for _ in range(count):
        path = [
            [f"p{draw.integers(places)}", slot] for slot in range(slots) if draw.random() < share
        ]
        value = str(draw.integers(values))
        found.append(json.dumps({"path": path, "sensitive": {"a": value}}) + "\n")
    data = read_ndjson(io.BytesIO("".join(found).encode()))
    return code(data, (("a", "0"), ("a", "1"))).table


def random_model(seed: int) -> Model:
    draw = np.random.default_rng(seed + 10**6)
    limits = (Fraction(3, 10), Fraction(1, 2), Fraction(3, 5), Fraction(4, 5), Fraction(1))
    return Model(int(draw.integers(1, 6)), limits[draw.integers(5)], (2, 3)[int(draw.integers(2))])


class Brute:
    """The definition, by sets."""

    def __init__(self, table: PairTable, model: Model) -> None:
        self.model = model
        self.paths = [set(table.path(row)) for row in range(table.records)]
        self.marks = table.marks.tolist()

    def records(self, sequence: tuple[int, ...]) -> list[int]:
        return [row for row, path in enumerate(self.paths) if path.issuperset(sequence)]

    def sequences(self) -> Iterator[tuple[int, ...]]:
        seen = set()
        for path in self.paths:
            longest = self.model.longest(len(path))
            for size in range(1, longest + 1):
                seen.update(combinations(sorted(path), size))
        yield from sorted(seen, key=lambda each: (len(each), each))

    def breaks(self, rows: list[int]) -> bool:
        if len(rows) < self.model.least:
            return True
        listed = range(len(self.marks[0]) if self.marks else 0)
        return any(
            sum(self.marks[row][value] for row in rows) > self.model.confidence * len(rows)
            for value in listed
        )

    def violating(self) -> list[tuple[int, ...]]:
        return [each for each in self.sequences() if self.breaks(self.records(each))]

    def minimal(self) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for each in self.violating():
            if not any(set(other) < set(each) for other in found):
                found.append(each)
        return found

    def valid(self, pair: int, sequence: tuple[int, ...]) -> bool:
        """Whether suppressing the pair in T(m) makes no sequence violate that did not, but those
        that hold one of the present minimal ones."""
        minimal = [set(each) for each in self.minimal()]
        rows = self.records(sequence)
        for each in self.sequences():
            if pair not in each or any(other <= set(each) for other in minimal):
                continue
            before = self.records(each)
            left = [row for row in before if row not in rows]
            if left and len(left) < len(before) and self.breaks(left):
                return False
        return True
