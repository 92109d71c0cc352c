"""Readings and records become sealed bytes, portions, lots and groups at a time.

A portion is one party's part of one segment, which one debit covers. A lot is the portions that
share a transaction and are sent together; what they share is computed once. Lone curators draw
noise and shares together; hosts' parts of a proved round are proved together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from common.arrays import batches
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
from curator.participation.windows import WindowReadings
from curator.records.records import RecordWindow
from curator.store.outbox import ContributionRow
from curator.store.parties import PartyRow
from tacit.crypto.sealing import Span, spans
from tacit.protocol.enrolment import PartyKind
from tacit.sets import Bits

LOT_PORTIONS: Final = 100
LOT_WORDS: Final = 1 << 18
"""Of one aggregator; a whole segment has no more, unless a curator alone has."""
_LONE: Final = Span(0, 0, 1)


@dataclass(frozen=True)
class Task:
    """A contribution to make: whose, and to which round."""

    contribution: ContributionRow
    party: PartyRow


@dataclass(frozen=True)
class Portion:
    """A task's part of one segment; `last` if none of the task's parts comes after it."""

    task: Task
    span: Span
    last: bool

    @property
    def hosted(self) -> bool:
        """Whether a host acts for the curators, not a lone curator for itself."""
        return self.task.party.kind is PartyKind.HOST

    @property
    def offset(self) -> int:
        """Of the portion's first curator among the party's."""
        first = self.task.party.first
        return self.span.first - first if self.hosted and first is not None else 0

    def within(self, run: Portion) -> slice:
        """Its curators among those of a run of the task's portions, which begins with `run`."""
        start = self.offset - run.offset
        return slice(start, start + self.span.length)

    @property
    def first_key(self) -> int:
        """Of the portion's first curator in the store."""
        return self.task.party.first_key + self.offset

    @property
    def end_key(self) -> int:
        """After that of its last curator."""
        return self.first_key + self.span.length


def portions(task: Task, segment_size: int, done: Collection[int]) -> list[Portion]:
    """The parts of a task, but for the segments that are done."""
    party = task.party
    if party.kind is PartyKind.HOST:
        assert party.first is not None
        parts = spans(party.first, party.curators, segment_size)
    else:
        parts = [_LONE]
    spans_left = [span for span in parts if span.segment not in done]
    return [Portion(task, span, span is spans_left[-1]) for span in spans_left]


def concerned(portion: Portion, invited: Bits | None) -> slice:
    """From the first to the last of its curators that a round invites; `invited`: one boolean per
    roster number, None for all."""
    length = portion.span.length
    if invited is None or portion.task.party.first is None:
        return slice(0, length)
    first = portion.task.party.first + portion.offset
    places = np.flatnonzero(invited[first : first + length])
    return slice(int(places[0]), int(places[-1]) + 1) if places.size else slice(0, 0)


def keys_of(some: Sequence[Portion], invited: Bits | None = None) -> tuple[int, int]:
    """The half-open range of keys that holds all invited curators of some portions."""
    near = [(portion.first_key, concerned(portion, invited)) for portion in some]
    keys = [
        (first + window.start, first + window.stop)
        for first, window in near
        if window.stop > window.start
    ]
    if not keys:
        return some[0].first_key, some[0].first_key
    return min(first for first, _ in keys), max(end for _, end in keys)


def groups(some: Sequence[Portion], reach: int) -> Iterator[list[Portion]]:
    """Portions in the order of their keys, cut if their keys would span more than `reach`; a
    portion that exceeds it is a group of its own."""
    group: list[Portion] = []
    for portion in sorted(some, key=lambda portion: portion.first_key):
        if group and portion.end_key - group[0].first_key > reach:
            yield group
            group = []
        group.append(portion)
    if group:
        yield group


def lots(group: Sequence[Portion], dimension: int, piece_words: int) -> Iterator[list[Portion]]:
    """A group in its order, cut if a lot would be too large. `piece_words`: of the longest of a
    lone curator's pieces."""

    def words(portion: Portion) -> int:
        return portion.span.length * dimension if portion.hosted else piece_words

    return batches(group, words, LOT_WORDS, LOT_PORTIONS)


def runs(lot: Iterable[Portion]) -> Iterator[list[Portion]]:
    """A lot cut into consecutive portions of one task: these are decided on, and charged, as
    one."""
    run: list[Portion] = []
    for portion in lot:
        if run and (portion.task is not run[-1].task or portion.first_key != run[-1].end_key):
            yield run
            run = []
        run.append(portion)
    if run:
        yield run


# --- sealing (spec: aggregation, section 6; validity, section 9) ---------------------------------

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
        present: list[int] = (
            self.portion.first_key + np.flatnonzero(self.decision.present)
        ).tolist()
        return present

    @property
    def present_only(self) -> slice:
        """From the first to the last of its curators that participate."""
        places = np.flatnonzero(self.decision.present)
        return slice(int(places[0]), int(places[-1]) + 1)


def prepare(
    terms: Terms, decided: Sequence[Decided], window: WindowReadings | RecordWindow
) -> list[Prepared]:
    """Sealed bodies for each."""
    lone = [item for item in decided if not item.portion.hosted]
    hosted = [item for item in decided if item.portion.hosted]
    of_lone = iter(_prepare_lone(terms, lone, window))
    of_hosts = iter(_prepare_hosted(terms, hosted, window))
    return [next(of_hosts if item.portion.hosted else of_lone) for item in decided]


def _prepare_lone(
    terms: Terms, decided: Sequence[Decided], window: WindowReadings | RecordWindow
) -> list[Prepared]:
    """What lone curators send of their readings is drawn together."""
    if not decided:
        return []
    if isinstance(window, WindowReadings):
        windows = [window.of(item.portion.first_key, item.decision.present) for item in decided]
        return prepare_together(terms, [item.engine for item in decided], joined(windows))
    return [
        item.engine.prepare(terms, window.of(item.portion.first_key, item.decision.present))
        for item in decided
    ]


def _prepare_hosted(
    terms: Terms, decided: Sequence[Decided], window: WindowReadings | RecordWindow
) -> list[Prepared]:
    """A part of each in a proved round, else the batches of all its curators."""
    if terms.proofs is not None:
        parts = []
        for item in decided:
            present = item.decision.present
            totals = totals_of(terms, window, item.portion.first_key, present)
            parts.append(HostPart(item.portion.span, present, totals, PART))
        return prepare_parts(terms, [item.engine for item in decided], parts)
    return [
        item.engine.prepare_segment(
            terms,
            item.portion.span,
            item.decision.present,
            window.of(item.portion.first_key, item.decision.present),
            PART,
        )
        for item in decided
    ]


def read_in_blocks(terms: Terms, group: Sequence[Portion], reach: int) -> bool:
    """Whether a group is one part of a proved round with more readings than are read at once:
    only their total is kept."""
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
