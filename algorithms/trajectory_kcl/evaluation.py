"""Comparison with the true data: visible only to the operator, never published.

Spec: trajectory-kcl, section 5. Which pairs were suppressed shows what was there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from algorithms.trajectory_kcl.mining import Frequent, maximal_frequent
from algorithms.trajectory_kcl.parameters import Metrics
from algorithms.trajectory_kcl.table import PairTable


def instance_loss(before: PairTable, after: PairTable) -> float:
    """Share of instances that were suppressed; 0 of an empty table."""
    total = len(before.items)
    return (total - len(after.items)) / total if total else 0.0


def frequent_losses(before: Frequent, after: Frequent) -> dict[str, Any]:
    """How many maximal frequent sequences there are, and were lost.

    `mfs_loss`: 1 - share of U(T) that is in U(T'); `mfs_loss_count`: the printed ratio, which
    mixes in sequences that became maximal and may be negative. Null where U(T) is empty.
    """
    had, has = before.sequences, after.sequences
    return {
        "mfs_before": len(had),
        "mfs_after": len(has),
        "mfs_loss": 1 - len(had & has) / len(had) if had else None,
        "mfs_loss_count": (len(had) - len(has)) / len(had) if had else None,
    }


def evaluate(
    before: PairTable,
    after: PairTable,
    metrics: Metrics,
    least: int | None,
    merged: int,
    beat: Callable[[], None],
) -> dict[str, Any]:
    """The metrics; `least` is K', without which there are no frequent sequences; `merged`: points
    that fell into a slot that was taken."""
    found: dict[str, Any] = {"merged_points": merged}
    if metrics.mfs and least is not None:
        had = maximal_frequent(before, least, beat)
        found |= frequent_losses(had, maximal_frequent(after, least, beat))
    if metrics.suppressed_pairs:
        had_each = np.bincount(before.items, minlength=before.pairs)
        lost = had_each - np.bincount(after.items, minlength=before.pairs)
        found["suppressed_pairs"] = [
            {
                "location": before.locations[pair],
                "time": before.times[pair],
                "instances": int(had_each[pair]),
                "suppressed": int(lost[pair]),
            }
            for pair in np.flatnonzero(lost).tolist()
        ]
    return found
