"""DiffPart on one keeper's records: partitions split from the root down, noisy tests deciding.

Spec: set-valued, section 3.3 (Algorithms 4.1 and 4.2 of the source); federated-counting, section 2.
The queue is first in, first out, so all partitions of one depth are adjacent and are processed
together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from algorithms.contract import Context
from algorithms.counts.contract import AdaptiveCounting, Question, drive
from algorithms.counts.empties import tossed
from algorithms.counts.keeper import KeeperSource
from algorithms.set_valued.counts import DiffPart, State
from algorithms.set_valued.settings import Row, Settings, Transcript, Truth
from tacit.encoders.set_valued_counts import COUNTER, Masks
from tacit.encoders.set_valued_taxonomy import Taxonomy
from tacit.randomness import NoiseSource


@dataclass(frozen=True)
class Run:
    """rows: sorted by (length, items); truth: private."""

    rows: tuple[Row, ...]
    transcript: Transcript
    truth: Truth


def publish(masks: Masks, taxonomy: Taxonomy, settings: Settings, context: Context) -> Run:
    """The whole run. Raises PartitionCap, RowCap, Cancelled."""

    @cache
    def stream(depth: int) -> NoiseSource:
        """Of one depth: the choice of nodes (paper), then all noise."""
        return settings.law.source(context.noise("partitions", depth))

    def streams(question: Question) -> tuple[NoiseSource, NoiseSource]:
        return stream(question.block), stream(question.block)

    def beat(depth: int) -> None:
        """Progress depends on the transcript alone."""
        share = depth / (depth + 6)
        context.progress(0.3 + 0.65 * share, f"splitting, depth {depth + 1}")

    def pick(depth: int, nodes: int) -> int:
        return settings.choose(nodes, stream(depth))

    parts = DiffPart(taxonomy, settings, pick, beat)
    source = KeeperSource(context, COUNTER, [masks], streams, empties=tossed, beat=beat)
    found = drive(AdaptiveCounting(parts.ask, parts.absorb), parts.first(), source)
    return Run(released_rows(found), found.transcript, _truth(found, masks, source))


def released_rows(state: State) -> tuple[Row, ...]:
    """All released itemsets, sorted by (length, items)."""
    return tuple(sorted(state.rows, key=lambda row: (len(row[0]), row[0])))


def _truth(found: State, masks: Masks, source: KeeperSource) -> Truth:
    """Which survivors had records behind them."""
    pairs = list(zip(source.seen, found.survivors, strict=True))
    real = [seen.counts.of(survivors.partitions) for seen, survivors in pairs]
    released = [seen.counts.of(survivors.itemsets) for seen, survivors in pairs]
    return Truth(
        int(masks.records > 0) + sum(int(np.count_nonzero(each)) for each in real),
        sum(int(np.count_nonzero(each)) for each in released),
        sum(int(each.sum()) for each in released),
    )
