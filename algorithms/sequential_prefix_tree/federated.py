"""The prefix tree over curators: nobody keeps the sequences, rounds open the noisy counts.

Spec: federated-counting. Every record is in one cell of a round at most, so each round debits its
own rate and all of them epsilon (section 4).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from algorithms.contract import Outcome, SequentialContext
from algorithms.counts.rounds import Counting, counting_rounds
from algorithms.problems import NotOverCurators
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


def release(params: Parameters, state: State) -> Outcome:
    """What is published; nothing in it is drawn."""
    public = SequentialContext()
    found = released(state.tree, "sound", public)
    universe, _ = resolved(params, "sound")
    return published(found, params, "sound", universe, public)


ROUNDS: Final = counting_rounds(
    Counting(
        counter=COUNTER,
        questions=lambda _params: COUNTING,
        first=first,
        truncated=truncated,
        planned=planned,
        release=release,
        preview=lambda params: preview(over_curators(params), "sound"),
        universe=lambda params: resolved(params, "sound")[0],
    ),
    when="stance sound",
)
