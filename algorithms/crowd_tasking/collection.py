"""Reports that users send themselves, and how they are collected.

Spec: crowd-tasking, section 2 ("Inputs"); jobs, "Federated jobs". Reports are as the
task's mechanism of `tacit.encoders.crowd_tasking` makes them; the module `reports` refuses invalid
ones.
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

    users, rounds (n,), numbers (n, k) as they were sent (not of subsets), labels (n,) places in the
    list of classes.
    """
    order = np.lexsort((rounds, users))
    windows = task.report == "window"
    decode = task.windows.estimates if windows else task.perturbation.decode
    return Reports(
        users[order],
        rounds[order],
        decode(numbers[order]),
        None if labels is None else labels[order],
    )
