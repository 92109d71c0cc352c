"""Sets over curators: nobody keeps them, rounds open the noisy counts.

Spec: federated-counting, sections 4 and 6; set-valued, section 10. DiffPart: partitions get
different parts of epsilon on different paths; one debit pays for all rounds, and curators let no
record spend more. `diffpart+rest`: lengths of records and items before them, in two rounds more;
`rest`: these and the basis or pairs alone. `basic`: one question, all itemsets of at most 16 items.
To curators it is the split of a taxonomy's root whose children are the items.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from algorithms.contract import NotOverCurators, Outcome, SequentialContext
from algorithms.counts.contract import AdaptiveCounting, Answer, Ints, Question
from algorithms.counts.rounds import Counting, PlannedQuestion, counting_rounds
from algorithms.set_valued.algorithm import (
    histogram_outcome,
    preview,
    published,
    published_with_rest,
)
from algorithms.set_valued.counts import DiffPart, State, released_rows
from algorithms.set_valued.lengths import SIZES, LengthCounts
from algorithms.set_valued.margins import (
    WITH_BASIS,
    WITH_DIFFPART,
    WITH_PAIRS,
    Basis,
    Margins,
    Pairs,
    Shares,
    commonest,
    counts_pairs,
    deviation_of,
    items_kept,
    pair_items_kept,
)
from algorithms.set_valued.parameters import (
    Method,
    Parameters,
    least_shares,
    resolved_universe,
    settings_of,
    shares_of,
)
from algorithms.set_valued.settings import RowCap
from tacit.encoders.count_sums import MOST_CELLS
from tacit.encoders.set_valued_counts import (
    COUNTER,
    FANOUTS,
    MOST_LENGTH,
    MOST_PAIR_ITEMS,
    MOST_PAIRS_OF,
    BasisCells,
    Generation,
    KeptItems,
    KeptPairs,
    Lengths,
    Margin,
    Splits,
    Taxonomy,
    pair_count,
)
from tacit.records.items import Transactions

_WIDEST: Final = FANOUTS[-1]
MOST_ROWS: Final = 5_000_000
"""Of a file, unless the job gives another number."""
_MOST_ITEMS_A_ROW: Final = 8
"""On average: as many times more items than rows are drawn at most."""


def over_curators(params: Parameters) -> Parameters:
    """With what counts alone answer, and fewer rows unless their number is given: a curator that
    lies moves a count by any amount. Raises NotOverCurators."""
    if params.metrics is not None:
        raise NotOverCurators(
            "nobody has the true counts to compare with", pointer="/params/evaluate"
        )
    given = "max_rows" in params.model_fields_set
    most_rows = params.max_rows if given else min(params.max_rows, MOST_ROWS)
    resolved = params.model_copy(update={"method": params.method or "auto", "max_rows": most_rows})
    if (
        resolved.method == "basic"
        and isinstance(resolved.universe, tuple)
        and len(resolved.universe) > _WIDEST
    ):
        raise NotOverCurators(
            f"over curators basic has {_WIDEST} items at most", pointer="/params/universe"
        )
    return resolved


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
    """Of `basic`: the noisy counts (2^items,) by bit mask, None before the question; draws: whole
    noises that a sum holds."""

    draws: Fraction
    counts: Ints | None = None


@dataclass(frozen=True, eq=False)
class WithRest:
    """Of `diffpart+rest` and `rest`: lengths and noisy items (universe,), None before they were
    asked, then DiffPart's state. shares: of epsilon, by the noisy lengths; cells: of the
    basis, or counts of pairs, where these have a share; draws: whole noises that a sum holds."""

    tree: State
    draws: Fraction
    lengths: LengthCounts | None = None
    items: Ints | None = None
    shares: Shares = WITH_DIFFPART
    cells: Ints | None = None

    def kept(self, epsilon: Fraction, universe: int) -> int:
        """l, once lengths are known. epsilon: of the job."""
        assert self.lengths is not None
        return items_kept(self.lengths.counts, epsilon, self.shares, universe)

    def pairs_kept(self, epsilon: Fraction, chosen: Ints) -> int:
        """c, once lengths and items are known. epsilon: of the job."""
        assert self.lengths is not None
        assert self.items is not None
        rate = epsilon * self.shares.basis
        return pair_items_kept(self.lengths.counts, self.items, chosen, rate)

    def margins(self, epsilon: Fraction) -> Margins:
        """All of them; they were asked. epsilon: of the job."""
        assert self.lengths is not None
        assert self.items is not None
        kept, shares = self.kept(epsilon, self.items.size), self.shares
        deviation = partial(deviation_of, draws=self.draws)
        basis, pairs, rate = None, None, epsilon * shares.basis
        if self.cells is not None and shares.pairs:
            chosen = commonest(self.items, shares.pairs)
            most = self.pairs_kept(epsilon, chosen)
            pairs = Pairs(chosen, most, self.cells, deviation(pair_count(most) / rate))
        elif self.cells is not None:
            basis = Basis(commonest(self.items, shares.k), self.cells, deviation(1 / rate))
        return Margins(
            self.lengths.counts,
            kept,
            self.items,
            self.lengths.hidden,
            deviation(kept / (epsilon * shares.items)),
            self.lengths.deviations,
            basis,
            shares,
            pairs,
        ).fitted()


Held = State | WithRest | Histogram


def method_of(params: Parameters) -> Method:
    """The one that runs, by the size of the public universe."""
    return over_curators(params).method_of("sound")


def first(params: Parameters, draws: Fraction) -> Held:
    """The state before any question."""
    method = method_of(params)
    if method == "basic":
        return Histogram(draws)
    tree = parts(params, draws).first()
    return tree if method == "diffpart" else WithRest(tree, draws)


def questions(params: Parameters, draws: Fraction) -> AdaptiveCounting[Any]:
    """The functions of the method."""
    method = method_of(params)
    if method == "basic":
        return AdaptiveCounting(partial(_ask_all, params), _absorb_all)
    steps = parts(params, draws)
    if method != "diffpart":
        return AdaptiveCounting(
            partial(_ask_with_rest, params, steps),
            partial(_absorb_with_rest, params, draws, steps),
        )
    return AdaptiveCounting(steps.ask, steps.absorb)


def _ask_with_rest(params: Parameters, tree: DiffPart, state: WithRest) -> Question | None:
    """Lengths, items, the basis or pairs, then DiffPart's questions, where they have a share."""
    items = tree.taxonomy.size
    if state.lengths is None:
        rate = params.epsilon * least_shares(params, method_of(params)).lengths
        return _one_group("lengths", Lengths(items), 1, rate)
    shares = state.shares
    if state.items is None:
        kept = state.kept(params.epsilon, items)
        document = KeptItems(items, kept, _salt(state.lengths.noisy))
        return _one_group("items", document, kept, params.epsilon * shares.items)
    if shares.pairs and state.cells is None:
        chosen = commonest(state.items, shares.pairs)
        most = state.pairs_kept(params.epsilon, chosen)
        pairs = KeptPairs(items, chosen, most, _salt(state.lengths.noisy))
        return _one_group("pairs", pairs, pairs.reach, params.epsilon * shares.basis)
    if shares.k and state.cells is None:
        basis = BasisCells(items, commonest(state.items, shares.k))
        return _one_group("basis", basis, 1, params.epsilon * shares.basis)
    return tree.ask(state.tree) if shares.diffpart else None


def _absorb_with_rest(
    params: Parameters,
    draws: Fraction,
    tree: DiffPart,
    state: WithRest,
    question: Question,
    answer: Answer,
) -> WithRest:
    if state.lengths is None:
        scale = 1 / (params.epsilon * least_shares(params, method_of(params)).lengths)
        items, noisy = tree.taxonomy.size, answer.dense().astype(np.int64)
        lengths = LengthCounts.of(noisy, items, scale, draws)
        shares = shares_of(over_curators(params), method_of(params), lengths.counts, items)
        return replace(state, lengths=lengths, shares=shares)
    if state.items is None:
        return replace(state, items=answer.dense().astype(np.int64))
    if state.shares.basis and state.cells is None:
        return replace(state, cells=answer.dense().astype(np.int64))
    return replace(state, tree=tree.absorb(state.tree, question, answer))


def _one_group(stage: str, document: Margin, reach: int, rate: Fraction) -> Question:
    return Question(stage, document, reach, document.sizes, (rate,), np.zeros(1, np.int64))


def _salt(lengths: Ints) -> int:
    """Of what records keep: another one in every job, and a function of what was opened."""
    digest = hashlib.sha256(b"tacit set-valued items" + lengths.astype("<i8").tobytes()).digest()
    return 1 + int.from_bytes(digest[:7])


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


def _absorb_all(state: Histogram, _question: Question, answer: Answer) -> Histogram:
    return replace(state, counts=np.concatenate(([0], answer.dense().astype(np.int64))))


def planned(params: Parameters) -> int:
    """Questions at most: of DiffPart as many as there are nodes that can be split."""
    method = method_of(params)
    if method == "basic":
        return 1
    if method == "rest":
        return 3 if least_shares(params, method).basis else 2
    taxonomy = Taxonomy(len(universe(params)), params.fanout)
    splits = taxonomy.internal(taxonomy.root)
    return splits if method == "diffpart" else max(3, splits + 2)


def planned_questions(params: Parameters, draws: Fraction) -> tuple[PlannedQuestion, ...]:
    """Depth by depth, as many as there can be: partitions with the least part of epsilon, which is
    that of the first split. Before them lengths and items, of the longest records."""
    method = method_of(params)
    if method == "basic":
        cells = (1 << len(universe(params))) - 1
        one = PlannedQuestion("itemsets", params.epsilon, 1, None, None, cells, cells)
        return (one,)
    steps = parts(params, draws)
    taxonomy = steps.taxonomy
    depths = taxonomy.internal(taxonomy.root)
    cells = (1 << len(taxonomy.children(taxonomy.root))) - 1
    largest = (1 << min(taxonomy.fanout, taxonomy.size)) - 1
    alpha = steps.settings.epsilon / 2 / depths
    questions = []
    if method != "diffpart":
        size = taxonomy.size
        least = least_shares(params, method)
        rates = params.epsilon * least.lengths, params.epsilon * least.items
        questions = [
            PlannedQuestion("lengths", rates[0], 1, None, None, MOST_LENGTH, MOST_LENGTH),
            PlannedQuestion("items", rates[1], MOST_LENGTH, None, None, size, size),
        ]
    if method == "rest" and not least.basis:
        return tuple(questions)
    if method == "rest" and counts_pairs(taxonomy.size):
        rate, reach = params.epsilon * WITH_PAIRS.basis, pair_count(MOST_PAIRS_OF)
        cells = max(pair_count(min(MOST_PAIR_ITEMS, size)), 1 << WITH_BASIS.k)
        return (*questions, PlannedQuestion("pairs", rate, reach, None, None, cells, cells))
    if method == "rest":
        cells, rate = 1 << WITH_BASIS.k, params.epsilon * WITH_BASIS.basis
        return (*questions, PlannedQuestion("basis", rate, 1, None, None, cells, cells))
    for depth in range(1, depths + 1):
        group = cells if depth == 1 else largest
        test = steps.settings.law.partition(group, alpha, taxonomy.root.level)
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
    resolved, items = over_curators(params), universe(params)
    context = SequentialContext()
    if isinstance(state, Histogram):
        assert state.counts is not None
        return histogram_outcome(state.counts, resolved, "sound", items, context, state.draws)[0]
    if isinstance(state, WithRest):
        tree, margins = state.tree, state.margins(params.epsilon)
        records = margins.lengths.astype(np.float64)
        if max(records.sum(), SIZES @ records / _MOST_ITEMS_A_ROW) > resolved.max_rows:
            raise RowCap(resolved.max_rows, "More records, or items in them, were counted.")
        counts = [margins.lengths, margins.items]
        counts += [] if margins.basis is None else [margins.basis.cells]
        counts += [] if margins.pairs is None else [margins.pairs.counts]
        opened = b"".join(count.astype("<i8").tobytes() for count in counts)
        # What is drawn follows from what was opened: a release that is made again is the same.
        drawn = hashlib.sha256(b"tacit set-valued rest" + opened).digest()
        context = SequentialContext(seed=drawn)
        rows = released_rows(tree)
        return published_with_rest(
            rows, tree.transcript, margins, resolved, "sound", items, context, state.draws
        )[0]
    return published(released_rows(state), state.transcript, resolved, "sound", items, context)


ROUNDS: Final = counting_rounds(
    Counting(
        counter=COUNTER,
        questions=questions,
        first=first,
        truncated=lambda _state: None,
        planned=planned,
        release=release,
        preview=lambda params, draws: preview(over_curators(params), "sound", draws),
        universe=universe,
        forecast=planned_questions,
    ),
    when="stance sound, method diffpart, diffpart+rest, rest, or basic with at most 16 items",
)
