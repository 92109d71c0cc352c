"""N-grams over curators: nobody keeps the sequences, rounds open the noisy counts.

Spec: federated-counting. Budgets `adaptive` spend different parts on different paths (section 4):
one debit pays for all rounds, and curators let no sequence spend more (section 6).
"""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256
from typing import Final

from algorithms.contract import Outcome, SequentialContext
from algorithms.counts.rounds import Counting, PlannedQuestion, counting_rounds
from algorithms.parameters import NotOverCurators
from algorithms.sequential_ngram.algorithm import preview, published
from algorithms.sequential_ngram.counts import COUNTING, State, truncated
from algorithms.sequential_ngram.parameters import (
    Parameters,
    first_state,
    resolved_universe,
    settings_of,
)
from algorithms.sequential_ngram.publication import released
from algorithms.sequential_ngram.settings import least_budget
from tacit.encoders.sequential_ngram_counts import COUNTER

MOST_CELLS: Final = 4_096


def over_curators(params: Parameters) -> Parameters:
    """With the limit of cells of a round. Raises NotOverCurators."""
    if params.metrics is not None:
        raise NotOverCurators("nobody has the truth to compare with", pointer="/params/evaluate")
    if params.max_cells is not None:
        return params
    return params.model_copy(update={"max_cells": MOST_CELLS})


def first(params: Parameters, draws: Fraction) -> State:
    """Before any question; draws: whole noises that a sum holds."""
    params = over_curators(params)
    universe = resolved_universe(params, "sound")
    return first_state(params, "sound", len(universe), draws)


def planned(params: Parameters) -> int:
    """Rounds at most."""
    return params.n_max + params.auto


def planned_questions(params: Parameters, draws: Fraction) -> tuple[PlannedQuestion, ...]:
    """The lengths where they are asked, then level by level, with the least part of epsilon that a
    gram's successors may get and the longest sequences."""
    params = over_curators(params)
    items, l_max = len(resolved_universe(params, "sound")), params.longest
    settings = settings_of(params, "sound", items, l_max, draws)
    least = least_budget(settings.epsilon, settings.n_max, params.budget)
    questions = []
    if params.auto:
        cap = params.length_cap
        questions.append(PlannedQuestion("lengths", params.length_budget, 1, None, None, cap, cap))
    for level in range(1, settings.n_max + 1):
        rate, group = (settings.root_budget, items) if level == 1 else (least, settings.symbols)
        most = group * items ** (level - 1)
        if level > 1 and params.max_cells is not None:
            most = min(most, params.max_cells)
        passed, chance = round(settings.threshold(rate)), 1 / max(settings.symbols, 4)
        questions.append(
            PlannedQuestion(f"level {level}", rate, l_max, passed, chance, group, most)
        )
    return tuple(questions)


def release(params: Parameters, state: State) -> Outcome:
    """What is published. The coins that round single items below the threshold are a function of
    the opened counts, so that a restart gives the same."""
    assert state.tree is not None
    public = SequentialContext(sha256(state.tree.noisy.tobytes()).digest())
    found = released(state.tree, public)
    return published(found, params, "sound", resolved_universe(params, "sound"), public)


ROUNDS: Final = counting_rounds(
    Counting(
        counter=COUNTER,
        questions=lambda _params, _draws: COUNTING,
        first=first,
        truncated=truncated,
        planned=planned,
        release=release,
        preview=lambda params: preview(over_curators(params), "sound"),
        universe=lambda params: resolved_universe(params, "sound"),
        forecast=planned_questions,
        budget=lambda params: params.epsilon,
    ),
    when="stance sound",
)
