"""DiffPart as adaptive counting: the sub-partitions of all partitions of one depth at a time.

In public a partition is its cut through the taxonomy and the budget that is left. One keeper's
records are split from the root down; noisy tests decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import Final, TypeVar

import numpy as np

from algorithms.contract import Context
from algorithms.counts.contract import (
    AdaptiveCounting,
    Answer,
    CountTest,
    Ints,
    Numbers,
    Passed,
    Question,
    drive,
)
from algorithms.counts.keeper import KeeperSource, tossed
from algorithms.set_valued.settings import Row, Settings, Transcript, Truth
from tacit.encoders.set_valued_counts import COUNTER, Generation, Masks, Node, Splits, Taxonomy
from tacit.randomness import NoiseSource


@dataclass(frozen=True, slots=True)
class Cut:
    """wave: the nodes of the greatest height that are still to be split, each with its place among
    the masks of every record here (`records`); later: lower nodes to be split; items: items of the
    cut; internal: splits that may still come, n of Theorem 4.1; rest: partitioning budget left;
    depth: splits so far."""

    wave: tuple[tuple[Node, int], ...]
    later: tuple[Node, ...]
    items: tuple[int, ...]
    internal: int
    rest: Fraction
    depth: int

    @property
    def alpha(self) -> Fraction:
        """The cost of the next split."""
        return self.rest / self.internal

    @property
    def last(self) -> bool:
        """Whether one node is left: a split can then end in an itemset."""
        return len(self.wave) == 1 and not self.later


@dataclass(frozen=True, slots=True)
class Split:
    """One split of a cut: `node` into the non-empty subsets of its children.

    cells: their number M; leaf_mask: the children that are items if a subset of them alone ends the
    chain, else 0.
    """

    cut: Cut
    node: Node
    place: int
    alpha: Fraction
    cells: int
    leaf_mask: int


def root_cut(taxonomy: Taxonomy, epsilon: Fraction) -> Cut:
    """All records, generalised to the root; half of epsilon is for partitioning."""
    root = taxonomy.root
    return Cut(((root, 0),), (), (), taxonomy.internal(root), epsilon / 2, 0)


def split_of(taxonomy: Taxonomy, cut: Cut, pick: int) -> Split:
    """Split number `pick` of the wave."""
    node, place = cut.wave[pick]
    return Split(
        cut,
        node,
        place,
        cut.alpha,
        (1 << len(taxonomy.children(node))) - 1,
        taxonomy.leaf_mask(node) if cut.last else 0,
    )


def child_cut(taxonomy: Taxonomy, split: Split, mask: int) -> Cut:
    """The cut of one sub-partition that is split further."""
    cut, node = split.cut, split.node
    items, inner, below = selected(taxonomy, node, mask)
    wave = tuple(part for part in cut.wave if part[0] != node)
    later = cut.later + inner
    depth = cut.depth + 1
    if not wave and later:  # the records' masks continue with the next height, from left to right
        height = max(part.level for part in later)
        nodes = sorted(part for part in later if part.level == height)
        wave = tuple(zip(nodes, range(depth, depth + len(nodes)), strict=True))
        later = tuple(part for part in later if part.level < height)
    return Cut(
        wave,
        later,
        cut.items + items,
        cut.internal - taxonomy.internal(node) + below,
        cut.rest - split.alpha,
        depth,
    )


def itemset(taxonomy: Taxonomy, split: Split, mask: int) -> tuple[int, ...]:
    """The items of a sub-partition that ends the chain, in order."""
    return tuple(sorted(split.cut.items + selected(taxonomy, split.node, mask)[0]))


@lru_cache(maxsize=1 << 17)
def selected(
    taxonomy: Taxonomy, node: Node, mask: int
) -> tuple[tuple[int, ...], tuple[Node, ...], int]:
    """Of the children in a mask: the items, the other nodes, and the splits below these."""
    chosen = [child for bit, child in enumerate(taxonomy.children(node)) if mask >> bit & 1]
    inner = tuple(child for child in chosen if child.level)
    return (
        tuple(child.place for child in chosen if not child.level),
        inner,
        sum(taxonomy.internal(child) for child in inner),
    )


# Spec: federated-counting, section 2; set-valued, section 3.3, steps 1 to 9. Everything here
# follows from the public taxonomy and from which sub-partitions survived.

BEAT_THINGS: Final = 4096

Thing = TypeVar("Thing")


@dataclass(frozen=True, eq=False)
class Survivors:
    """Cells of a question that are partitions of the next depth, and those that are released."""

    partitions: Ints
    itemsets: Ints


@dataclass(frozen=True, eq=False)
class State:
    """splits: of the partitions of the last depth; queued: partitions so far; rows: released so
    far, in the order in which they were found."""

    splits: tuple[Split, ...]
    generations: tuple[Generation, ...]
    queued: int = 1
    rows: tuple[Row, ...] = ()
    measured: int = 0
    transcript: Transcript = field(default_factory=Transcript)
    survivors: tuple[Survivors, ...] = ()


@dataclass(frozen=True)
class DiffPart:
    """pick: of how many nodes which one is split, by the number of the depth; beat: called a few
    times a second, with the number of the depth."""

    taxonomy: Taxonomy
    settings: Settings
    pick: Callable[[int, int], int] = lambda _depth, _nodes: 0
    beat: Callable[[int], None] = lambda _depth: None

    def first(self) -> State:
        """Before any question: all records in one partition."""
        none = np.zeros(1, np.int64)
        cut = root_cut(self.taxonomy, self.settings.epsilon)
        return self._split(State((), ()), [cut], none, none)

    def ask(self, state: State) -> Question | None:
        """All masks of the last depth: those that are split further, and the itemsets."""
        if not state.splits:
            return None
        document = Splits(self.taxonomy, state.generations)
        inner = [split.alpha for split in state.splits]
        leaves = [self.settings.epsilon / 2 + split.cut.rest for split in state.splits]
        rates = tuple(dict.fromkeys(inner + leaves))
        place = {rate: number for number, rate in enumerate(rates)}
        rate_of = np.array([place[rate] for rate in inner + leaves])
        depth = len(state.generations) - 1
        return Question("partitions", document, 1, document.sizes, rates, rate_of, depth)

    def absorb(self, state: State, question: Question, answer: Answer) -> State:
        """The survivors are the next depth. Raises PartitionCap, or else RowCap.

        Which of them depends on how many survive, in total and per kind, never on which of the
        survivors have records. So partitions are counted, with and without records, before a coin
        of an itemset can end the run.
        """
        splits, settings, law = state.splits, self.settings, self.settings.law
        tests = [law.partition(split.cells, split.alpha, split.node.level) for split in splits]
        transcript = Transcript(len(splits), Counter())
        inner = self._passed(question, answer, 0, tests, transcript, settings.check_partitions)
        settings.check_partitions(state.queued + inner.cells.size)
        if settings.leaf_mode == "example":
            rates = [settings.epsilon / 2 + split.cut.rest for split in splits]
            tests = [law.leaf(split.cells, rate) for split, rate in zip(splits, rates, strict=True)]
            leaves = self._passed(
                question, answer, len(splits), tests, transcript, settings.check_rows
            )
            number, passed = leaves.cells.size, inner.cells
        else:
            passed, leaves, number = self._measured(splits, question, answer, inner, transcript)
        settings.check_rows(state.measured + number)
        document = question.document
        rows, released = self._rows(splits, document, leaves)
        parents, masks = document.named(passed)
        children = list(zip(parents.tolist(), masks.tolist(), strict=True))
        depth = len(state.generations) - 1
        cuts = [
            child_cut(self.taxonomy, splits[parent], mask)
            for parent, mask in self._watched(children, depth)
        ]
        known = replace(
            state,
            queued=state.queued + inner.cells.size,
            rows=state.rows + rows,
            measured=state.measured + number,
            transcript=state.transcript.with_more(transcript),
            survivors=(*state.survivors, Survivors(passed, released)),
        )
        return self._split(known, cuts, parents, masks)

    def _passed(
        self,
        question: Question,
        answer: Answer,
        first: int,
        tests: Sequence[CountTest],
        transcript: Transcript,
        limit: Callable[[int], None],
    ) -> Passed:
        """What passed of one kind of sub-partitions: the groups from `first` on."""
        groups = first + np.flatnonzero(question.sizes[first : first + len(tests)])
        test_of_group = [tests[group - first] for group in groups.tolist()]
        for group, test in zip(groups.tolist(), test_of_group, strict=True):
            transcript.tests[int(question.document.last.children[group - first]), test] += 1
        distinct = {test: place for place, test in enumerate(dict.fromkeys(test_of_group))}
        test_of = np.array([distinct[test] for test in test_of_group], np.int64)
        return answer.passing(groups, tuple(distinct), test_of, limit)

    def _measured(
        self,
        splits: Sequence[Split],
        question: Question,
        answer: Answer,
        inner: Passed,
        transcript: Transcript,
    ) -> tuple[Ints, Passed, int]:
        """The printed variant: itemsets passed as partitions did, and are counted again."""
        partitions, masks = question.document.named(inner.cells)
        leaf_masks = np.array([split.leaf_mask for split in splits], np.int64)
        ended = (masks & ~leaf_masks[partitions]) == 0
        noisy = np.zeros(masks.size)
        for place in np.flatnonzero(ended).tolist():
            split = splits[int(partitions[place])]
            rate = self.settings.epsilon / 2 + split.cut.rest - split.alpha
            test = self.settings.law.leaf(split.cells, rate)
            transcript.tests[split.cells, test] += 1
            value = answer.again(inner.cells[place : place + 1], test)[0]
            noisy[place] = value if value >= test.threshold else 0
        shown = ended & (noisy > 0)
        return inner.cells[~ended], Passed(inner.cells[shown], noisy[shown]), int(shown.sum())

    def _rows(
        self, splits: Sequence[Split], document: Splits, leaves: Passed
    ) -> tuple[tuple[Row, ...], Ints]:
        """The released rows and their cells; a floating count is rounded half up, and none of 0 is
        released."""
        whole = _whole(leaves.counts)
        shown = whole > 0
        partitions, masks = document.named(leaves.cells[shown])
        rows = tuple(
            (itemset(self.taxonomy, splits[partition], mask), count)
            for partition, mask, count in zip(
                partitions.tolist(), masks.tolist(), whole[shown].tolist(), strict=True
            )
        )
        return rows, leaves.cells[shown]

    def _split(self, state: State, cuts: list[Cut], parents: Ints, masks: Ints) -> State:
        """With the splits of the next depth, and the generation that requests them."""
        depth = len(state.generations)
        splits = tuple(
            split_of(self.taxonomy, cut, self.pick(depth, len(cut.wave)))
            for cut in self._watched(cuts, depth)
        )
        separate = self.settings.leaf_mode == "example"
        generation = Generation(
            parents,
            masks,
            np.array([split.place for split in splits], np.int64),
            np.array([split.cells for split in splits], np.int64),
            np.array([split.leaf_mask if separate else 0 for split in splits], np.int64),
        )
        return replace(state, splits=splits, generations=(*state.generations, generation))

    def _watched(self, things: Sequence[Thing], depth: int) -> Iterator[Thing]:
        """Yield each item, reporting progress."""
        for start in range(0, len(things), BEAT_THINGS):
            self.beat(depth)
            yield from things[start : start + BEAT_THINGS]


def _whole(counts: Numbers) -> Ints:
    rounded = np.floor(counts + 0.5) if counts.dtype.kind == "f" else counts
    return rounded.astype(np.int64)


# Spec: set-valued, section 3.3 (Algorithms 4.1 and 4.2 of the source); federated-counting, section
# 2. The queue is first in, first out, so all partitions of one depth are adjacent and are processed
# together.


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
    driven = drive(AdaptiveCounting(parts.ask, parts.absorb), parts.first(), source)
    return Run(released_rows(driven), driven.transcript, _truth(driven, masks, source))


def released_rows(state: State) -> tuple[Row, ...]:
    """All released itemsets, sorted by (length, items)."""
    return tuple(sorted(state.rows, key=lambda row: (len(row[0]), row[0])))


def _truth(state: State, masks: Masks, source: KeeperSource) -> Truth:
    """Which survivors had records behind them."""
    pairs = list(zip(source.seen, state.survivors, strict=True))
    real = [question.counts.of(survivors.partitions) for question, survivors in pairs]
    released = [question.counts.of(survivors.itemsets) for question, survivors in pairs]
    return Truth(
        int(masks.records > 0) + sum(int(np.count_nonzero(counts)) for counts in real),
        sum(int(np.count_nonzero(counts)) for counts in released),
        sum(int(counts.sum()) for counts in released),
    )
