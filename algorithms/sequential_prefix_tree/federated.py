"""The prefix tree over curators: nobody keeps the sequences, rounds open the noisy counts.

Spec: federated-counting. Every record is in one cell of a round at most, so each round debits its
own rate and all of them epsilon (section 4).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from algorithms.contract import Outcome, SequentialContext
from algorithms.counts.rounds import Counting, PlannedQuestion, counting_rounds
from algorithms.parameters import NotOverCurators
from algorithms.sequential_prefix_tree import counts
from algorithms.sequential_prefix_tree.algorithm import preview, published
from algorithms.sequential_prefix_tree.counts import COUNTING, State, truncated
from algorithms.sequential_prefix_tree.parameters import Parameters, resolved
from algorithms.sequential_prefix_tree.publication import released
from tacit.encoders.sequential_prefix_tree_counts import COUNTER

MOST_CELLS: Final = 16_384


def over_curators(params: Parameters) -> Parameters:
    """With the limit of cells of a round. Raises NotOverCurators."""
    if params.metrics is not None:
        raise NotOverCurators("nobody has the truth to compare with", pointer="/params/evaluate")
    if params.max_cells is not None:
        return params
    return params.model_copy(update={"max_cells": MOST_CELLS})


def first(params: Parameters, draws: Fraction) -> State:
    """Before any question; draws: whole noises that a sum holds."""
    return counts.first(resolved(over_curators(params), "sound", draws)[1])


def planned(params: Parameters) -> int:
    """Rounds at most."""
    return params.height * (2 if params.hybrid else 1)


def planned_questions(params: Parameters, draws: Fraction) -> tuple[PlannedQuestion, ...]:
    """Groups where they are asked, and items, level by level."""
    params = over_curators(params)
    settings = resolved(params, "sound", draws)[1]
    layout, questions = settings.layout, []
    tests = [
        (
            "items",
            settings.item_test,
            layout.items if settings.group_test is None else int(layout.sizes.max()),
        )
    ]
    if settings.group_test is not None:
        tests.insert(0, ("groups", settings.group_test, layout.count))
    for level in range(1, params.height + 1):
        for what, test, group in tests:
            most = (layout.items if what == "items" else group) * layout.items ** (level - 1)
            if level > 1 and params.max_cells is not None:
                most = min(most, params.max_cells)
            questions.append(
                PlannedQuestion(
                    f"{what} of level {level}",
                    test.rate,
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
    public = SequentialContext()
    found = released(state.tree, "sound", public)
    universe, _ = resolved(params, "sound")
    return published(found, params, state.settings, universe, public)


ROUNDS: Final = counting_rounds(
    Counting(
        counter=COUNTER,
        questions=lambda _params, _draws: COUNTING,
        first=first,
        truncated=truncated,
        planned=planned,
        release=release,
        preview=lambda params: preview(over_curators(params), "sound"),
        universe=lambda params: resolved(params, "sound")[0],
        forecast=planned_questions,
        budget=lambda params: params.epsilon,
    ),
    when="stance sound",
)
