"""What leaves a job: the table without record ids, its rows shuffled.

Spec: trajectory-kcl, section 2 (output). The order of rows would link the table to other releases.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import numpy as np

from algorithms.contract import ResultFile
from algorithms.datasets.trajectories import ABSENT, Attribute, Ints
from algorithms.trajectory_kcl.table import PairTable
from tacit.randomness import NoiseSource

_BATCH: Final = 8192


def shuffled(records: int, source: NoiseSource) -> Ints:
    """A secret order of the records: by one random word each."""
    order: Ints = np.argsort(source.words(records), kind="stable")
    return order


def trajectories_file(
    table: PairTable,
    attributes: tuple[Attribute, ...],
    order: Ints,
    beat: Callable[[], None] = lambda: None,
) -> ResultFile:
    """trajectories.ndjson: one record a line, as the kind `trajectories` reads it."""
    points = [
        json.dumps([location, _plain(time)], separators=(",", ":"))
        for location, time in zip(table.locations, table.times, strict=True)
    ]
    texts = [
        {
            code: f"{json.dumps(each.name)}:{json.dumps(value)}"
            for code, value in enumerate(each.values)
        }
        for each in attributes
    ]
    codes = [each.codes for each in attributes]
    items, offsets = table.items.tolist(), table.offsets.tolist()
    parts: list[bytes] = []
    for start in range(0, len(order), _BATCH):
        beat()
        lines = []
        for row in order[start : start + _BATCH].tolist():
            path = ",".join([points[item] for item in items[offsets[row] : offsets[row + 1]]])
            values = ",".join(
                [
                    text[own[row]]
                    for text, own in zip(texts, codes, strict=True)
                    if own[row] != ABSENT
                ]
            )
            lines.append(f'{{"path":[{path}],"sensitive":{{{values}}}}}\n')
        parts.append("".join(lines).encode())
    return ResultFile(
        "trajectories.ndjson",
        "application/x-ndjson",
        b"".join(parts),
        "the records with some pairs suppressed, without ids, in random order",
    )


def _plain(time: float) -> int | float:
    return int(time) if time.is_integer() else time
