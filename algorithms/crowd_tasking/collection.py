"""Reports that users send themselves: what is refused, and what becomes of those that are kept.

Spec: crowd-tasking, section 2 ("Inputs"); jobs, "Federated jobs". Reports are in steps of the
task's grid, as `common.encoders.crowd_tasking` makes them. Noisy values beyond the bounds must
occur; those that no honest device would send in a lifetime are refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from algorithms.crowd_tasking.aggregates import Reports
from algorithms.crowd_tasking.task import Task
from common.encoders.crowd_tasking import Ints

FARTHEST: Final = 60
"""Noise scales beyond the bounds; three parts pass that with probability below 1e-23."""


def refusal(task: Task, number: int, values: Sequence[object]) -> str | None:
    """Why a report is not taken: its round and its k numbers, in grid steps. None: it is taken."""
    if not 1 <= number <= task.params.rounds:
        return f"the round lies outside 1..{task.params.rounds}"
    if len(values) != task.params.dimension:
        return f"a report has {task.params.dimension} numbers"
    beyond = math.ceil(FARTHEST * task.perturbation.scale)
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool):
            return "a report's numbers are whole"
        if not -beyond <= value <= task.perturbation.steps + beyond:
            return f"a number lies more than {FARTHEST} noise scales beyond the bounds"
    return None


def gathered(
    task: Task, users: Ints, rounds: Ints, numbers: Ints, labels: Ints | None = None
) -> Reports:
    """Kept reports in any order, sorted by user and round and put in the sensor's unit.

    users, rounds (n,), numbers (n, k) in grid steps, labels (n,) places in the list of classes.
    """
    order = np.lexsort((rounds, users))
    return Reports(
        users[order],
        rounds[order],
        task.perturbation.decode(numbers[order]),
        None if labels is None else labels[order],
    )
