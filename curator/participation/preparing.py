"""Readings and records become sealed bytes: what the portions of a lot share is done once for all.

Lone curators draw noise and shares together; hosts' parts of a proved round are proved together. No
store is read or written here. Spec: aggregation, section 6; validity, section 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from curator.engine import (
    Engine,
    HostPart,
    Prepared,
    Terms,
    Total,
    joined,
    prepare_parts,
    prepare_together,
)
from curator.participation.consent import Consent
from curator.participation.grouping import LOT_WORDS, Portion
from curator.participation.windows import WindowReadings
from curator.records.questions import RecordWindow

PART: Final = 0
"""A host sends one part of each segment."""


@dataclass(frozen=True)
class Decided:
    """A portion, and who of its curators participates."""

    portion: Portion
    decision: Consent
    engine: Engine

    @property
    def keys(self) -> list[int]:
        """Of its curators that participate, in the store."""
        found: list[int] = (self.portion.first_key + np.flatnonzero(self.decision.present)).tolist()
        return found

    @property
    def present_only(self) -> slice:
        """From the first to the last of its curators that participate."""
        places = np.flatnonzero(self.decision.present)
        return slice(int(places[0]), int(places[-1]) + 1)


def prepare(
    terms: Terms, decided: Sequence[Decided], window: WindowReadings | RecordWindow
) -> list[Prepared]:
    """Sealed bodies for each."""
    lone = [each for each in decided if not each.portion.hosted]
    hosted = [each for each in decided if each.portion.hosted]
    of_lone = iter(_prepare_lone(terms, lone, window))
    of_hosts = iter(_prepare_hosted(terms, hosted, window))
    return [next(of_hosts if each.portion.hosted else of_lone) for each in decided]


def _prepare_lone(
    terms: Terms, decided: Sequence[Decided], window: WindowReadings | RecordWindow
) -> list[Prepared]:
    """What lone curators send of their readings is drawn together."""
    if not decided:
        return []
    if isinstance(window, WindowReadings):
        own = [window.of(each.portion.first_key, each.decision.present) for each in decided]
        return prepare_together(terms, [each.engine for each in decided], joined(own))
    return [
        each.engine.prepare(terms, window.of(each.portion.first_key, each.decision.present))
        for each in decided
    ]


def _prepare_hosted(
    terms: Terms, decided: Sequence[Decided], window: WindowReadings | RecordWindow
) -> list[Prepared]:
    """A part of each in a proved round, else the batches of all its curators."""
    if terms.proofs is not None:
        parts = []
        for each in decided:
            present = each.decision.present
            totals = totals_of(terms, window, each.portion.first_key, present)
            parts.append(HostPart(each.portion.span, present, totals, PART))
        return prepare_parts(terms, [each.engine for each in decided], parts)
    return [
        each.engine.prepare_segment(
            terms,
            each.portion.span,
            each.decision.present,
            window.of(each.portion.first_key, each.decision.present),
            PART,
        )
        for each in decided
    ]


def read_in_blocks(terms: Terms, group: Sequence[Portion], reach: int) -> bool:
    """Whether a group is one part of a proved round whose readings pass what is read at once: of
    these only the total is kept."""
    alone = len(group) == 1 and group[0].hosted
    return terms.proofs is not None and alone and group[0].span.length > reach


def totals_of(
    terms: Terms, window: WindowReadings | RecordWindow, first_key: int, present: NDArray[np.bool_]
) -> list[Total]:
    """What the present curators of a run add, some at a time, so that their f(x) fit in memory."""
    size = max(1, LOT_WORDS // terms.dimension)
    totals = []
    for start in range(0, present.size, size):
        block = present[start : start + size]
        if block.any():
            totals.append(Total.of(terms.query, window.of(first_key + start, block)))
    return totals
