"""A new algorithm by the contract alone: a histogram tree, central and over curators.

Spec: federated-counting, section 13, check 15. No file of a service is touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.counts.contract import AdaptiveCounting, Answer, Ints, Question, drive
from algorithms.counts.keeper import KeeperSource, no_noise
from algorithms.counts.rounds import Counting, counting_rounds
from tacit.encoders.count_sums import CountSum, read_with
from tacit.encoders.counts import Counter, Lists, places_among

DEPTH = 5


@dataclass(frozen=True, eq=False)
class Halves:
    """Asks for both halves of intervals; a record is one number below 2^DEPTH."""

    depth: int
    intervals: Ints

    @property
    def items(self) -> int:
        return 1 << DEPTH

    @property
    def sizes(self) -> Ints:
        return np.full(self.intervals.size, 2)

    def json(self) -> dict[str, Any]:
        return {"depth": self.depth, "intervals": self.intervals.tolist()}


@dataclass(frozen=True, eq=False)
class State:
    epsilon: Fraction
    threshold: float
    intervals: Ints
    levels: tuple[dict[int, int], ...] = ()


def cells(lists: Lists, document: Halves) -> tuple[Any, Ints]:
    values = lists.items[lists.starts[:-1]] >> (DEPTH - 1 - document.depth)
    place = places_among(document.intervals, values >> 1)
    kept = np.flatnonzero(place >= 0)
    return (lambda: kept), 2 * place[kept] + (values[kept] & 1)


COUNTER = Counter(lambda lists, _document: lists, cells)


def read(document: Mapping[str, Any]) -> Halves:
    return Halves(document["depth"], np.array(document["intervals"]))


def ask(state: State) -> Question | None:
    if len(state.levels) == DEPTH or not state.intervals.size:
        return None
    document = Halves(len(state.levels), state.intervals)
    none = np.zeros(state.intervals.size, np.int64)
    rates = (state.epsilon / DEPTH,)
    return Question(f"level {len(state.levels)}", document, 1, document.sizes, rates, none)


def absorb(state: State, question: Question, answer: Answer) -> State:
    counts = answer.dense()
    children = (2 * state.intervals[:, None] + np.arange(2)).ravel()
    kept = np.flatnonzero(counts >= state.threshold)
    level = dict(zip(children[kept].tolist(), counts[kept].tolist(), strict=True))
    return replace(state, intervals=children[kept], levels=(*state.levels, level))


def first(params: Mapping[str, Any], _draws: Fraction) -> State:
    return State(params["epsilon"], params["threshold"], np.zeros(1, np.int64))


TREE = AdaptiveCounting(ask, absorb)


def values(seed: int) -> Lists:
    drawn = np.random.default_rng(seed).integers(0, 9, 600).astype(np.int32)
    return Lists(drawn, np.arange(601))


def test_central_without_noise_it_is_the_histogram_tree() -> None:
    params = {"epsilon": Fraction(1), "threshold": 1}
    data = values(1)
    source = KeeperSource(SequentialContext(), COUNTER, data.blocks(250), add=no_noise)
    found = drive(TREE, first(params, Fraction(1)), source).levels
    for depth, level in enumerate(found, start=1):
        plain = np.bincount(data.items >> (DEPTH - depth))
        assert level == {place: n for place, n in enumerate(plain.tolist()) if n}


def test_over_curators_it_is_the_same() -> None:
    params = {"epsilon": Fraction(1), "threshold": 4}
    rounds = counting_rounds(
        Counting(
            counter=COUNTER,
            questions=lambda _params, _draws: TREE,
            first=first,
            truncated=lambda state: state,
            planned=lambda _params: DEPTH,
            release=lambda _params, state: state.levels,  # type: ignore[arg-type, return-value]
            preview=lambda _params, _draws: None,  # type: ignore[arg-type, return-value]
            universe=lambda _params: tuple(map(str, range(2**DEPTH))),
            forecast=lambda _params, _draws: (),
        ),
        when="always",
    )
    data = values(2)
    source = KeeperSource(SequentialContext(), COUNTER, [data], add=no_noise)
    central = drive(TREE, first(params, Fraction(1)), source)
    run, opened = rounds.first(params, ("values",), Fraction(1)), 0
    while (asked := rounds.next_sum(run)) is not None:
        again = read_with(COUNTER, read, asked.document())
        assert isinstance(asked, CountSum)
        total = sum(again.total(part) for part in data.blocks(90))
        run, opened = rounds.absorb(run, asked, asked.restored(total)), opened + 1
    assert opened == rounds.planned(run) == DEPTH
    assert run.state.levels == central.levels
    assert len(central.levels[-1]) == 9
