"""Answers from curators: an adaptive counting as the sums of rounds.

Spec: federated-counting, sections 2 to 4. One vector for each question; all cells are opened, so no
empty one is sampled: what passes has the same law. Neither coordinator nor curator names an
algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Generic

import numpy as np

from algorithms.contract import FederatedRounds, Outcome, PrivacyScope
from algorithms.counts.contract import (
    AdaptiveCounting,
    CountTest,
    Ints,
    Numbers,
    Passed,
    Question,
    State,
)
from algorithms.counts.forecast import PlannedQuestion, forecast
from algorithms.problems import NotOverCurators
from algorithms.round_reports import by_rounds
from tacit.encoders.count_sums import MOST_CELLS, MOST_SEQUENCES, CountSum
from tacit.encoders.counts import Counter, ranges
from tacit.encoders.sums import RecordSum, length
from tacit.report.model import PrivacyReport
from tacit.wire import format_exact

TRUNCATED: Final = "an aborted round ended the job: a shallower tree is released"


@dataclass(frozen=True, eq=False)
class Opened:
    """An answer of which all cells are known: counts (cells,), in the question's order."""

    question: Question
    counts: Ints

    def dense(self) -> Numbers:
        """Of all cells."""
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
    universe(params): the items in order; forecast(params, draws): the questions as planned;
    budget(params): what a record spends at most.
    """

    counter: Counter
    questions: Callable[[Any, Fraction], AdaptiveCounting[State]]
    first: Callable[[Any, Fraction], State]
    truncated: Callable[[State], State | None]
    planned: Callable[[Any], int]
    release: Callable[[Any, State], Outcome]
    preview: Callable[[Any], PrivacyReport]
    universe: Callable[[Any], tuple[str, ...]]
    forecast: Callable[[Any, Fraction], Sequence[PlannedQuestion]]
    budget: Callable[[Any], Fraction]


@dataclass(frozen=True, eq=False)
class Run(Generic[State]):
    """A run of given parameters; draws: whole noises in a sum; steps: what was asked so far, in
    public figures; opened: sums of some parts of a question that one round cannot carry, with the
    first word of each;
    ended: an aborted round ended it early."""

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
        """Parts that are not opened yet. Before anything is, the first part alone: its round makes
        the debit, and whoever misses it stays out."""
        found = question(run)
        if found is None:
            return ()
        if int(found.sizes.sum()) > MOST_CELLS:
            raise NotOverCurators(f"a question has more than {MOST_CELLS} cells")
        opened = {first for first, _ in run.opened}
        left = [part for part in sum_of(counting.counter, found).parts if part.first not in opened]
        return left if run.steps else left[:1]

    def next_sum(run: Run[State]) -> CountSum | None:
        return next(iter(next_sums(run)), None)

    def absorb(run: Run[State], asked: RecordSum, opened: Ints) -> Run[State]:
        found = question(run)
        assert found is not None
        assert isinstance(asked, CountSum)
        parts = sorted((*run.opened, (asked.first, opened)), key=lambda part: part[0])
        run = replace(run, steps=(*run.steps, _figures(found, asked)))
        if len(parts) < len(asked.parts):
            return replace(run, opened=tuple(parts))
        algorithm = counting.questions(run.params, run.draws)
        words = [words for _, words in parts]
        state = algorithm.absorb(run.state, found, Opened(found, asked.whole(words)))
        return replace(run, state=state, opened=())

    def aborted(run: Run[State], _asked: RecordSum) -> Run[State] | None:
        state = counting.truncated(run.state)
        return None if state is None else replace(run, state=state, ended=True)

    def release(run: Run[State]) -> Outcome:
        found = counting.release(run.params, run.state)
        report = by_rounds(found.report)
        report = report.model_copy(
            update={
                "caveats": (*report.caveats, *((TRUNCATED,) if run.ended else ())),
                "details": {**report.details, "draws_of_noise": str(run.draws), "steps": run.steps},
            }
        )
        return replace(found, result={**found.result, "truncated": run.ended}, report=report)

    return FederatedRounds(
        scope=scope,
        first=first,
        next_sum=next_sum,
        next_sums=next_sums,
        absorb=absorb,
        aborted=aborted,
        release=release,
        preview=lambda params, _share: by_rounds(counting.preview(params)),
        planned=lambda run: counting.planned(run.params),
        when=when,
        universe=counting.universe,
        forecast=lambda params, asking: forecast(counting.forecast(params, asking.draws), asking),
        budget=counting.budget,
    )


def _figures(question: Question, asked: CountSum) -> dict[str, Any]:
    """What the report says of a step."""
    return {
        "asks": question.stage,
        "groups": question.sizes.size,
        "words": length(asked),
        "rates": [format_exact(rate) for rate in asked.rates],
        "reach": asked.reach,
    }


def sum_of(counter: Counter, question: Question) -> CountSum:
    """A question as the sum that rounds open."""
    return CountSum.of(counter, question.document, question.reach, question.rates, question.rate_of)
