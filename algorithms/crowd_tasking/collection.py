"""Reports that users send themselves, and how they are collected.

Spec: crowd-tasking, section 2 ("Inputs"); jobs, "Federated jobs". Reports are in steps of the
task's grid, as `tacit.encoders.crowd_tasking.encoder` makes them; the module `reports` refuses
invalid ones.
"""

from __future__ import annotations

import numpy as np

from algorithms.crowd_tasking.aggregates import Reports
from algorithms.crowd_tasking.task import Task
from tacit.encoders.crowd_tasking.encoder import Ints


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
