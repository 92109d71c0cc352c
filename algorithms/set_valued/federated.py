"""DiffPart over curators: nobody keeps the sets, rounds open the noisy counts.

Spec: federated-counting. Partitions get different parts of epsilon on different paths: one debit
pays for all rounds, and curators let no record spend more (sections 4 and 6).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Final

from algorithms.contract import Outcome, SequentialContext
from algorithms.counts.contract import AdaptiveCounting
from algorithms.counts.forecast import PlannedQuestion
from algorithms.counts.rounds import Counting, counting_rounds
from algorithms.problems import NotOverCurators
from algorithms.set_valued.algorithm import preview, published
from algorithms.set_valued.counts import DiffPart, State
from algorithms.set_valued.parameters import Parameters, resolved_universe, settings_of
from algorithms.set_valued.partitioning import released_rows
from tacit.encoders.count_sums import MOST_CELLS
from tacit.encoders.set_valued_counts import COUNTER
from tacit.encoders.set_valued_taxonomy import Taxonomy
from tacit.records.transactions import Transactions


def over_curators(params: Parameters) -> Parameters:
    """With the one method that counts alone answer. Raises NotOverCurators."""
    if params.metrics is not None:
        raise NotOverCurators("nobody has the truth to compare with", pointer="/params/evaluate")
    if params.method not in (None, "diffpart"):
        raise NotOverCurators("the method is diffpart over curators", pointer="/params/method")
    return params.model_copy(update={"method": "diffpart"})


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


def questions(params: Parameters, draws: Fraction) -> AdaptiveCounting[State]:
    """Its functions."""
    found = parts(params, draws)
    return AdaptiveCounting(found.ask, found.absorb)


def planned(params: Parameters) -> int:
    """Depths at most: the nodes that can be split."""
    taxonomy = Taxonomy(len(universe(params)), params.fanout)
    return taxonomy.internal(taxonomy.root)


def planned_questions(params: Parameters, draws: Fraction) -> tuple[PlannedQuestion, ...]:
    """Depth by depth, as many as there can be: partitions with the least part of epsilon, which is
    that of the first split."""
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


def release(params: Parameters, state: State) -> Outcome:
    """What is published; nothing in it is drawn."""
    own, items = over_curators(params), universe(params)
    context = SequentialContext()
    return published(released_rows(state), state.transcript, own, "sound", items, context)


ROUNDS: Final = counting_rounds(
    Counting(
        counter=COUNTER,
        questions=questions,
        first=lambda params, draws: parts(params, draws).first(),
        truncated=lambda _state: None,
        planned=planned,
        release=release,
        preview=lambda params: preview(over_curators(params), "sound"),
        universe=universe,
        forecast=planned_questions,
        budget=lambda params: params.epsilon,
    ),
    when="stance sound, method diffpart",
)
