"""DiffPart: partitions of the records, split from the root down, noisy tests deciding which live.

Spec: set-valued, section 3.3 (Algorithms 4.1 and 4.2 of the source). The queue is first in, first
out, so all partitions of one depth are adjacent and are processed together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from algorithms.contract import Context
from algorithms.set_valued.cuts import child_cut, root_cut, split_of
from algorithms.set_valued.generation import Generation, cell_key
from algorithms.set_valued.records import Masks
from algorithms.set_valued.settings import Row, Settings, Transcript, Truth
from algorithms.set_valued.taxonomy import Taxonomy


@dataclass(frozen=True)
class Run:
    """rows: sorted by (length, items); truth: private."""

    rows: tuple[Row, ...]
    transcript: Transcript
    truth: Truth


def publish(masks: Masks, taxonomy: Taxonomy, settings: Settings, context: Context) -> Run:
    """The whole run. Raises PartitionCap, RowCap, Cancelled."""
    cuts = [root_cut(taxonomy, settings.epsilon)]
    sizes = np.array([masks.records])
    rows = np.arange(masks.records, dtype=np.int32)
    transcript, truth, released = Transcript(), Truth(), list[Row]()
    generation, queued, survived = 0, 1, 0
    while cuts:
        source = settings.law.source(context.noise("partitions", generation))
        work = Generation(taxonomy, settings, source, context, generation, queued)
        splits = [
            split_of(taxonomy, cut, settings.choose(len(cut.wave), source))
            for cut in work.watched(cuts)
        ]
        transcript.splits += len(splits)
        truth.real_splits += int(np.count_nonzero(sizes))
        cells = work.grouped(masks, rows, sizes, splits)
        inner, leaves = work.tested(cells, splits, transcript)
        queued, survived = queued + inner.mask.size, survived + leaves.mask.size
        settings.check_rows(survived)
        released += work.itemsets(leaves, splits, truth)
        kept = np.isin(cell_key(cells.partition, cells.mask), cell_key(inner.partition, inner.mask))
        rows, sizes = cells.rows[np.repeat(kept, cells.count)], inner.count
        children = list(zip(inner.partition.tolist(), inner.mask.tolist(), strict=True))
        cuts = [
            child_cut(taxonomy, splits[partition], mask)
            for partition, mask in work.watched(children)
        ]
        generation += 1
    released.sort(key=lambda row: (len(row[0]), row[0]))
    return Run(tuple(released), transcript, truth)
