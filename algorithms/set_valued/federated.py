"""Sets over curators: nobody keeps them, rounds open the noisy counts.

Spec: federated-counting. DiffPart: partitions get different parts of epsilon on different paths;
one debit pays for all rounds, and curators let no record spend more (sections 4 and 6). `basic`:
one question, all itemsets of at most 16 items. To curators it is the split of a taxonomy's root
whose children are the items.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from algorithms.contract import Outcome, SequentialContext
from algorithms.counts.contract import AdaptiveCounting, Answer, Ints, Question
from algorithms.counts.forecast import PlannedQuestion
from algorithms.counts.rounds import Counting, counting_rounds
from algorithms.problems import NotOverCurators
from algorithms.set_valued.algorithm import histogram_outcome, preview, published
from algorithms.set_valued.counts import DiffPart, State
from algorithms.set_valued.parameters import Parameters, resolved_universe, settings_of
from algorithms.set_valued.partitioning import released_rows
from tacit.encoders.count_sums import MOST_CELLS
from tacit.encoders.set_valued_counts import COUNTER, FANOUTS, Generation, Splits
from tacit.encoders.set_valued_taxonomy import Taxonomy
from tacit.records.transactions import Transactions

_WIDEST: Final = FANOUTS[-1]


def over_curators(params: Parameters) -> Parameters:
    """With the one method that counts alone answer. Raises NotOverCurators."""
    if params.metrics is not None:
        raise NotOverCurators("nobody has the truth to compare with", pointer="/params/evaluate")
    if params.method not in (None, "diffpart", "basic"):
        reason = "the method is diffpart or basic over curators"
        raise NotOverCurators(reason, pointer="/params/method")
    own = params.model_copy(update={"method": params.method or "diffpart"})
    if own.method == "basic" and isinstance(own.universe, tuple) and len(own.universe) > _WIDEST:
        raise NotOverCurators(
            f"over curators basic has {_WIDEST} items at most", pointer="/params/universe"
        )
    return own


def universe(params: Parameters) -> tuple[str, ...]:
    """The items in order. Raises what the checks of parameters raise."""
    return resolved_universe(over_curators(params), "sound", Transactions.of((), ()))


@lru_cache(maxsize=16)
def _parts(items: int, params: Parameters, draws: Fraction) -> DiffPart:
    taxonomy = Taxonomy(items, params.fanout)
    return DiffPart(taxonomy, settings_of(params, "sound", taxonomy, draws))


def parts(params: Parameters, draws: Fraction) -> DiffPart:
    """The algorithm; draws: whole noises that a sum holds."""
    return _parts(len(universe(params)), over_curators(params), draws)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Of `basic`: the noisy counts (2^items,) by bit mask, None before the question."""

    counts: Ints | None = None


Held = State | Histogram


def first(params: Parameters, draws: Fraction) -> Held:
    """Before any question."""
    return Histogram() if params.method == "basic" else parts(params, draws).first()


def questions(params: Parameters, draws: Fraction) -> AdaptiveCounting[Any]:
    """Its functions."""
    if params.method == "basic":
        return AdaptiveCounting(partial(_ask_all, params), _absorb_all)
    found = parts(params, draws)
    return AdaptiveCounting(found.ask, found.absorb)


def _ask_all(params: Parameters, state: Histogram) -> Question | None:
    """Every itemset but the empty one, at all of epsilon."""
    if state.counts is not None:
        return None
    items = len(universe(params))
    none, all_items = np.zeros(1, np.int64), np.array([(1 << items) - 1])
    root = Generation(none, none, none, all_items, all_items)
    document = Splits(Taxonomy(items, _WIDEST), (root,))
    rate_of = np.zeros(document.sizes.size, np.int64)
    return Question("itemsets", document, 1, document.sizes, (params.epsilon,), rate_of)


def _absorb_all(_state: Histogram, _question: Question, answer: Answer) -> Histogram:
    return Histogram(np.concatenate(([0], answer.dense().astype(np.int64))))


def planned(params: Parameters) -> int:
    """Depths at most: the nodes that can be split."""
    if params.method == "basic":
        return 1
    taxonomy = Taxonomy(len(universe(params)), params.fanout)
    return taxonomy.internal(taxonomy.root)


def planned_questions(params: Parameters, draws: Fraction) -> tuple[PlannedQuestion, ...]:
    """Depth by depth, as many as there can be: partitions with the least part of epsilon, which is
    that of the first split."""
    if params.method == "basic":
        cells = (1 << len(universe(params))) - 1
        one = PlannedQuestion("itemsets", params.epsilon, 1, None, None, cells, cells)
        return (one,)
    found, depths = parts(params, draws), planned(params)
    taxonomy = found.taxonomy
    cells = (1 << len(taxonomy.children(taxonomy.root))) - 1
    largest = (1 << min(taxonomy.fanout, taxonomy.size)) - 1
    alpha = found.settings.epsilon / 2 / depths
    questions = []
    for depth in range(1, depths + 1):
        group = cells if depth == 1 else largest
        test = found.settings.law.partition(group, alpha, taxonomy.root.level)
        most = group if depth == 1 else MOST_CELLS
        questions.append(
            PlannedQuestion(
                f"partitions of depth {depth}",
                alpha,
                1,
                round(test.threshold),
                float(test.chance),
                group,
                most,
            )
        )
    return tuple(questions)


def release(params: Parameters, state: Held) -> Outcome:
    """What is published; nothing in it is drawn. Raises RowCap."""
    own, items = over_curators(params), universe(params)
    context = SequentialContext()
    if isinstance(state, Histogram):
        assert state.counts is not None
        return histogram_outcome(state.counts, own, "sound", items, context)[0]
    return published(released_rows(state), state.transcript, own, "sound", items, context)


ROUNDS: Final = counting_rounds(
    Counting(
        counter=COUNTER,
        questions=questions,
        first=first,
        truncated=lambda _state: None,
        planned=planned,
        release=release,
        preview=lambda params: preview(over_curators(params), "sound"),
        universe=universe,
        forecast=planned_questions,
        budget=lambda params: params.epsilon,
    ),
    when="stance sound, method diffpart, or basic with at most 16 items",
)
