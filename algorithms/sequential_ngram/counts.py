"""N-grams as adaptive counting: the lengths where they are asked, then a tree level by level.

Spec: federated-counting, section 2; sequential-ngram, section 3, steps 1 to 4, and 4.7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.counts.contract import AdaptiveCounting, Answer, Numbers, Question
from algorithms.sequential_ngram.settings import Settings
from algorithms.sequential_ngram.tree import Expansion, Tree, grown, next_expansion, planted, root
from tacit.encoders.counts import Level
from tacit.encoders.sequential_ngram_counts import Lengths, Successors

COVERED: Final = 0.95
"""The share of sequences that shall not be cut."""


@dataclass(frozen=True)
class LengthSearch:
    """A noisy histogram of lengths 1 to cap: the last bin has the longer ones too."""

    cap: int
    budget: Fraction


@dataclass(frozen=True, eq=False)
class State:
    """settings: by l_max; search: while l_max is not known; expansion: what is asked next, None at
    the end; tree: what is known."""

    settings: Callable[[int], Settings]
    search: LengthSearch | None = None
    expansion: Expansion | None = None
    tree: Tree | None = None


def first(settings: Settings) -> State:
    """Before any question, l_max known. Raises TreeTooLarge."""
    return State(lambda _l_max: settings, expansion=root(settings))


def searching(settings: Callable[[int], Settings], search: LengthSearch) -> State:
    """Before any question, l_max to be found; settings: by l_max."""
    return State(settings, search=search)


def planned(state: State) -> int:
    """Questions at most, from the first state."""
    if state.expansion is not None:
        return state.expansion.settings.n_max
    assert state.search is not None
    return 1 + state.settings(state.search.cap).n_max


def ask(state: State) -> Question | None:
    """The lengths, or the successors of the grams that are expanded next."""
    one = np.zeros(1, np.int64)
    if state.search is not None:
        cap, budget = state.search.cap, state.search.budget
        items = state.settings(cap).items
        return Question("lengths", Lengths(items, cap), 1, one + cap, (budget,), one)
    expansion, tree = state.expansion, state.tree
    if expansion is None:
        return None
    settings = expansion.settings
    if tree is None:
        document, sizes = Successors(settings.items, settings.l_max), one + settings.items
    else:
        levels = tuple(Level(*each) for each in (*tree.levels, expansion.level(tree)))
        document = Successors(settings.items, settings.l_max, levels)
        sizes = np.full(expansion.rows, settings.symbols)
    rates = tuple(dict.fromkeys(spend.budget for spend in expansion.spends))
    of_spend = np.array([rates.index(spend.budget) for spend in expansion.spends])
    stage = f"level {len(document.levels) + 1}"
    return Question(stage, document, settings.l_max, sizes, rates, of_spend[expansion.groups])


def absorb(state: State, _question: Question, answer: Answer) -> State:
    """With the answer: l_max, or one level more. Raises TreeTooLarge."""
    counts = answer.dense()
    if state.search is not None:
        return first(state.settings(covering(counts)))
    expansion = state.expansion
    assert expansion is not None
    if state.tree is None:
        tree = planted(expansion, counts[None])
    else:
        tree = grown(state.tree, expansion, counts.reshape(expansion.rows, -1))
    return replace(state, tree=tree, expansion=next_expansion(tree))


def truncated(state: State) -> State | None:
    """Without what is still to be asked; None before the first level."""
    return None if state.tree is None else replace(state, expansion=None)


def covering(noisy: Numbers) -> int:
    """The smallest length whose cumulative share is at least `COVERED`; negative counts are 0."""
    rising = np.cumsum(np.maximum(noisy, 0))
    return 1 + int(np.argmax(rising >= COVERED * rising[-1]))


COUNTING: Final = AdaptiveCounting(ask, absorb)
