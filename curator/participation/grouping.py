"""What is prepared together: portions in lots, lots in groups.

A portion is one party's part of one segment, which one debit covers. A lot is the portions that
share a transaction and are sent together; a group is those whose readings are read in one scan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from common.batches import batches
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
        found = spans(party.first, party.curators, segment_size)
    else:
        found = [_LONE]
    left = [span for span in found if span.segment not in done]
    return [Portion(task, span, span is left[-1]) for span in left]


def concerned(portion: Portion, invited: Bits | None) -> slice:
    """From the first to the last of its curators that a round invites; `invited`: one boolean per
    roster number, None for all."""
    length = portion.span.length
    if invited is None or portion.task.party.first is None:
        return slice(0, length)
    first = portion.task.party.first + portion.offset
    places = np.flatnonzero(invited[first : first + length])
    return slice(int(places[0]), int(places[-1]) + 1) if places.size else slice(0, 0)


def keys_of(found: Sequence[Portion], invited: Bits | None = None) -> tuple[int, int]:
    """The half-open range of keys that holds all invited curators of some portions."""
    near = [(each.first_key, concerned(each, invited)) for each in found]
    keys = [(first + own.start, first + own.stop) for first, own in near if own.stop > own.start]
    if not keys:
        return found[0].first_key, found[0].first_key
    return min(first for first, _ in keys), max(end for _, end in keys)


def groups(found: Sequence[Portion], reach: int) -> Iterator[list[Portion]]:
    """Portions in the order of their keys, cut where their keys would span more than `reach`; a
    portion that does alone is a group alone."""
    group: list[Portion] = []
    for portion in sorted(found, key=lambda each: each.first_key):
        if group and portion.end_key - group[0].first_key > reach:
            yield group
            group = []
        group.append(portion)
    if group:
        yield group


def lots(group: Sequence[Portion], dimension: int, piece_words: int) -> Iterator[list[Portion]]:
    """A group cut where a lot would be too large, in its order. `piece_words`: of the longest of a
    lone curator's pieces."""

    def words(each: Portion) -> int:
        return each.span.length * dimension if each.hosted else piece_words

    return batches(group, words, LOT_WORDS, LOT_PORTIONS)


def runs(lot: Iterable[Portion]) -> Iterator[list[Portion]]:
    """A lot cut into portions of one task that follow each other: these are decided on, and
    charged, as one."""
    run: list[Portion] = []
    for portion in lot:
        if run and (portion.task is not run[-1].task or portion.first_key != run[-1].end_key):
            yield run
            run = []
        run.append(portion)
    if run:
        yield run
