"""Answers from curators: an adaptive counting as the sums of rounds.

`forecast` says from public values what it will release and cost, before anything is spent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Context
from fractions import Fraction
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import numpy as np

from algorithms.contract import FederatedRounds, NotOverCurators, Outcome, PrivacyScope, by_rounds
from algorithms.counts.contract import (
    AdaptiveCounting,
    CountTest,
    Ints,
    Numbers,
    Passed,
    Question,
    State,
)
from tacit.encoders.count_sums import MOST_CELLS, MOST_SEQUENCES, CountSum
from tacit.encoders.counts import Counter, ranges
from tacit.encoders.sums import RecordSum, length
from tacit.protocol.round.pieces import SHORT
from tacit.randomness import SEED_BYTES
from tacit.report.figures import amount
from tacit.report.model import PrivacyReport
from tacit.wire import format_exact

WORD_BYTES: Final = 8
DAY_S: Final = 86_400
_SHORT: Final = Context(prec=4)


class Limitable(Protocol):
    """Parameters with a limit of cells and an optional evaluation."""

    @property
    def max_cells(self) -> int | None:
        """The most counts of one question."""
        ...

    @property
    def metrics(self) -> object | None:
        """What to evaluate; None: nothing."""
        ...

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """A changed copy."""
        ...


Limited = TypeVar("Limited", bound=Limitable)


@dataclass(frozen=True)
class PlannedQuestion:
    """A planned question.

    stage: what it asks; rate: the least part of epsilon that one of its groups has; reach: A;
    threshold: what a count must reach to be explored (None: all are read); chance: that an empty
    cell reaches it; group: cells of one group; most: cells at most.
    """

    stage: str
    rate: Fraction
    reach: int
    threshold: int | None
    chance: float | None
    group: int
    most: int

    @property
    def scale(self) -> Fraction:
        """The scale b of the noise of one count."""
        return self.reach / self.rate


@dataclass(frozen=True)
class Asking:
    """The curators and the form of a request. draws: R; seeds: how many aggregators get the
    seeds of long pieces; deadline_s: of one round; records: a public guess of their total
    number, None without one."""

    draws: Fraction
    aggregators: int
    seeds: int
    curators: int
    deadline_s: int
    records: int | None = None


def mean_absolute_error(draws: Fraction, scale: Fraction) -> float:
    """The approximate mean absolute error of one released count."""
    weight = float(draws)
    ratio = math.exp(math.lgamma(weight + 0.5) - math.lgamma(weight))
    return 2 * float(scale) * ratio / math.sqrt(math.pi)


def cells_at_most(planned: PlannedQuestion, before: int | None, records: int | None) -> int:
    """Cells of a question, as expected. before: the threshold of the question before it, None
    where all its cells may be explored; records: in total.

    A record adds `reach` to the question before at most, so that no more than `records * reach /
    before` of its cells reach the threshold; one more for what passes by noise.
    """
    if before is None or records is None:
        return planned.most
    return min(planned.most, (1 + records * planned.reach // before) * planned.group)


def forecast(questions: Sequence[PlannedQuestion], asking: Asking) -> dict[str, Any]:
    """The figures of a preview: JSON values."""
    steps, words, curator_bytes, before = [], 0, 0, None
    for planned in questions:
        cells = cells_at_most(planned, before, asking.records)
        steps.append(_step(planned, asking, cells))
        words += cells
        curator_bytes += _bytes(cells, asking)
        before = planned.threshold
    rarest = max((question.threshold or 0 for question in questions), default=0)
    result: dict[str, Any] = {
        "basis": "the least part of epsilon that a count may get, and all the noise that a sum "
        "may hold; smaller counts cannot be distinguished from noise; as many words as may be "
        "requested, or fewer if so few records cannot fill them; bytes are those of words and "
        "seeds, without headers and proofs, if all n_max curators participate",
        "draws_of_noise": format_exact(asking.draws),
        "mean_absolute_error": max(
            (_figure(mean_absolute_error(asking.draws, question.scale)) for question in questions),
            key=float,
        ),
        "smallest_count_that_shows": rarest,
        "rounds": len(questions),
        "words_expected_at_most": words,
        "bytes_of_a_curator": curator_bytes,
        "bytes_in_total": curator_bytes * asking.curators,
        "days_at_most": _figure(len(questions) * asking.deadline_s / DAY_S),
        "steps": steps,
    }
    if asking.records is not None:
        result["smallest_share_that_shows"] = _figure(rarest / asking.records)
    return result


def _bytes(words: int, asking: Asking) -> int:
    """What a curator seals of a question for all aggregators."""
    seeds = asking.seeds if words > SHORT else 0
    return words * WORD_BYTES * (asking.aggregators - seeds) + SEED_BYTES * seeds


def _step(planned: PlannedQuestion, asking: Asking, cells: int) -> dict[str, Any]:
    return {
        "asks": planned.stage,
        "rate": format_exact(planned.rate),
        "scale": _figure(float(planned.scale)),
        "mean_absolute_error": _figure(mean_absolute_error(asking.draws, planned.scale)),
        "threshold": planned.threshold,
        "chance_of_a_false_cell": None if planned.chance is None else _figure(planned.chance),
        "words_expected_at_most": cells,
    }


def _figure(number: float) -> str:
    return amount(Fraction(number), _SHORT)


# Spec: federated-counting, sections 2 to 4. One vector for each question; all cells are opened, so
# no empty one is sampled: what passes has the same law. Neither coordinator nor curator names an
# algorithm.

TRUNCATED: Final = "an aborted round ended the job: a shallower tree is released"


@dataclass(frozen=True, eq=False)
class Opened:
    """An answer of which all cells are known: counts (cells,), in the question's order."""

    question: Question
    counts: Ints

    def dense(self) -> Numbers:
        """The counts of all cells."""
        return self.counts

    def passing(
        self, groups: Ints, tests: Sequence[CountTest], test_of: Ints, limit: Callable[[int], None]
    ) -> Passed:
        """Cells that reach the threshold of their group."""
        sizes = self.question.sizes[groups]
        cells = ranges(self.question.bounds[groups], sizes)
        thresholds = np.array([test.threshold for test in tests])[test_of]
        counts = self.counts[cells]
        passed = np.flatnonzero(counts >= np.repeat(thresholds, sizes))
        limit(passed.size)
        return Passed(cells[passed], counts[passed])

    def again(self, cells: Ints, test: CountTest) -> Numbers:
        """Curators are not asked twice for the same cells."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Counting(Generic[State]):
    """An algorithm that curators can answer.

    questions(params, draws): its functions; first(params, draws): the state before any question;
    draws: the whole noises that a sum holds; truncated(state): what is released when a round fails,
    None where nothing can be; planned(params): questions at most; release(params, state);
    preview(params, draws): the report before any question; universe(params): the items in order;
    forecast(params, draws): the questions as planned. A record spends at most `params.epsilon`.
    """

    counter: Counter
    questions: Callable[[Any, Fraction], AdaptiveCounting[State]]
    first: Callable[[Any, Fraction], State]
    truncated: Callable[[State], State | None]
    planned: Callable[[Any], int]
    release: Callable[[Any, State], Outcome]
    preview: Callable[[Any, Fraction], PrivacyReport]
    universe: Callable[[Any], tuple[str, ...]]
    forecast: Callable[[Any, Fraction], Sequence[PlannedQuestion]]


@dataclass(frozen=True, eq=False)
class Run(Generic[State]):
    """A run with given parameters.

    draws: whole noises in a sum; steps: the questions so far, in public figures; opened: sums of
    some parts of a question that does not fit into one round, with the first word of each;
    ended: an aborted round ended it early.
    """

    params: Any
    draws: Fraction
    state: State
    steps: tuple[dict[str, Any], ...] = ()
    opened: tuple[tuple[int, Ints], ...] = ()
    ended: bool = False


def counting_rounds(counting: Counting[State], when: str) -> FederatedRounds:
    """The contract of federated jobs. Unit: one record of a curator; all of them count."""

    def scope(_params: Any) -> PrivacyScope:
        return PrivacyScope("record", MOST_SEQUENCES, 1, every_record=True)

    def first(params: Any, _columns: Sequence[str], noise_share: Fraction) -> Run[State]:
        return Run(params, noise_share, counting.first(params, noise_share))

    def question(run: Run[State]) -> Question | None:
        return None if run.ended else counting.questions(run.params, run.draws).ask(run.state)

    def next_sums(run: Run[State]) -> Sequence[CountSum]:
        """The parts that are not opened yet.

        Before anything is opened, only the first part: its round makes the debit, and a curator
        that misses it stays out.
        """
        asked_question = question(run)
        if asked_question is None:
            return ()
        if int(asked_question.sizes.sum()) > MOST_CELLS:
            raise NotOverCurators(f"a question has more than {MOST_CELLS} cells")
        opened = {first for first, _ in run.opened}
        remaining_parts = [
            part
            for part in sum_of(counting.counter, asked_question).parts
            if part.first not in opened
        ]
        return remaining_parts if run.steps else remaining_parts[:1]

    def next_sum(run: Run[State]) -> CountSum | None:
        return next(iter(next_sums(run)), None)

    def absorb(run: Run[State], count_sum: RecordSum, opened: Ints) -> Run[State]:
        asked_question = question(run)
        assert asked_question is not None
        assert isinstance(count_sum, CountSum)
        parts = sorted((*run.opened, (count_sum.first, opened)), key=lambda part: part[0])
        run = replace(run, steps=(*run.steps, _figures(asked_question, count_sum)))
        if len(parts) < len(count_sum.parts):
            return replace(run, opened=tuple(parts))
        algorithm = counting.questions(run.params, run.draws)
        words = [words for _, words in parts]
        state = algorithm.absorb(
            run.state, asked_question, Opened(asked_question, count_sum.whole(words))
        )
        return replace(run, state=state, opened=())

    def aborted(run: Run[State], _asked: RecordSum) -> Run[State] | None:
        state = counting.truncated(run.state)
        return None if state is None else replace(run, state=state, ended=True)

    def release(run: Run[State]) -> Outcome:
        outcome = counting.release(run.params, run.state)
        report = by_rounds(outcome.report)
        report = report.model_copy(
            update={
                "caveats": (*report.caveats, *((TRUNCATED,) if run.ended else ())),
                "details": {**report.details, "draws_of_noise": str(run.draws), "steps": run.steps},
            }
        )
        return replace(outcome, result={**outcome.result, "truncated": run.ended}, report=report)

    return FederatedRounds(
        scope=scope,
        first=first,
        next_sum=next_sum,
        next_sums=next_sums,
        absorb=absorb,
        aborted=aborted,
        release=release,
        preview=lambda params, draws: by_rounds(counting.preview(params, draws)),
        planned=lambda run: counting.planned(run.params),
        when=when,
        universe=counting.universe,
        forecast=lambda params, asking: forecast(counting.forecast(params, asking.draws), asking),
        budget=lambda params: params.epsilon,
    )


def _figures(question: Question, count_sum: CountSum) -> dict[str, Any]:
    """A step in the report."""
    return {
        "asks": question.stage,
        "groups": question.sizes.size,
        "words": length(count_sum),
        "rates": [format_exact(rate) for rate in count_sum.rates],
        "reach": count_sum.reach,
    }


def with_cell_limit(params: Limited, most: int) -> Limited:
    """Parameters over curators, with this limit of cells of a round unless they have another.
    Raises NotOverCurators for an evaluation."""
    if params.metrics is not None:
        raise NotOverCurators(
            "nobody has the true counts to compare with", pointer="/params/evaluate"
        )
    if params.max_cells is not None:
        return params
    return params.model_copy(update={"max_cells": most})


def sum_of(counter: Counter, question: Question) -> CountSum:
    """A question as the sum that rounds open."""
    return CountSum.of(counter, question.document, question.reach, question.rates, question.rate_of)
