"""N-grams as adaptive counting: the lengths where they are requested, then a tree level by level.

The exploration tree has pure steps: what to count next, and the tree after noisy counts. It is the
same for one keeper's sequences and for curators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.counts.contract import AdaptiveCounting, Answer, Numbers, Question, drive, within
from algorithms.counts.keeper import Add, KeeperSource
from algorithms.sequential_ngram.settings import Settings, TreeTooLarge, empty_threshold
from tacit.encoders.counts import Level
from tacit.encoders.sequential_ngram_counts import COUNTER, Lengths, LengthsByRange, Successors
from tacit.records.items import Sequences

Places = NDArray[np.int32]
Values = NDArray[Any]
"""Whole numbers (sound) or floats (paper)."""

FALSE_GRAM_IN_RELEASES: Final = 20
"""At most one in this many releases says of a gram that nobody has that it is beyond noise."""


@dataclass(frozen=True)
class Spend:
    """Budget of one group of counts, what the path has left after it, and the threshold."""

    budget: Fraction
    left: Fraction
    threshold: float


@dataclass(frozen=True, eq=False)
class Tree:
    """N nodes over A symbols.

    bounds: where each level begins, and N; parents, items, links (N,): prefix, last item and
    failure link, -1, -1 and 0 for the empty gram; groups (N,): the entry of `spends` for the
    counts of a node's successors; noisy (N, A): these counts; children (N, A): the node of a
    successor, -1 for none. The empty gram has no end sign: its count is 0 and never passes.
    """

    settings: Settings
    bounds: tuple[int, ...]
    parents: Places
    items: Places
    links: Places
    groups: Places
    noisy: Values
    children: Places
    spends: tuple[Spend, ...]

    @property
    def depth(self) -> int:
        """How many levels of nodes there are: the length of the longest counted grams."""
        return len(self.bounds) - 1

    @property
    def nodes(self) -> int:
        """How many grams were expanded, the empty one too."""
        return self.parents.size

    @property
    def levels(self) -> tuple[tuple[Places, Places], ...]:
        """For each level but the first: the prefix of each node, as its place on the level before,
        and its last item."""
        return tuple(
            (self.parents[first:end] - np.int32(before), self.items[first:end])
            for before, first, end in zip(
                self.bounds, self.bounds[1:], self.bounds[2:], strict=False
            )
        )

    @property
    def draws(self) -> int:
        """How many counts have noise."""
        return self.settings.items + (self.nodes - 1) * self.settings.symbols

    def thresholds(self, first: int = 0) -> NDArray[np.float64]:
        """(nodes, 1): the threshold of each node's group, from node `first` on."""
        thresholds_of_groups = np.array([spend.threshold for spend in self.spends])
        return thresholds_of_groups[self.groups[first:], None]

    @property
    def passed(self) -> NDArray[np.bool_]:
        """(N, A): whether each count reached its threshold. At the root every item counts as
        having reached it, unless `root` is `threshold`; the end of a sequence never does."""
        result: NDArray[np.bool_] = self.noisy >= self.thresholds()
        if self.settings.root == "all":
            result[0] = True
        result[0, -1] = False
        return result

    @property
    def beyond_noise(self) -> NDArray[np.bool_]:
        """(N, A): whether each count of two items and more is so large that in at least 19 of 20
        releases no gram with a true count of 0 reaches it.

        Each level has an equal part of that probability, and its counts equal parts of the
        level's.
        """
        result = np.zeros(self.noisy.shape, bool)
        for first, end in pairwise(self.bounds[1:]):
            counts = (end - first) * self.settings.symbols
            least = partial(
                empty_threshold,
                l_max=self.settings.l_max,
                items=FALSE_GRAM_IN_RELEASES * (self.settings.n_max - 1) * counts,
                paper=False,
                draws=self.settings.draws,
            )
            groups, of_node = np.unique(self.groups[first:end], return_inverse=True)
            thresholds = np.array([least(self.spends[group].budget) for group in groups])
            result[first:end] = self.noisy[first:end] >= thresholds[of_node, None]
        return result


@dataclass(frozen=True, eq=False)
class Expansion:
    """The nodes whose successors are counted next (E,), all of one level. Public."""

    settings: Settings
    parents: Places
    items: Places
    links: Places
    groups: Places
    spends: tuple[Spend, ...]

    @property
    def rows(self) -> int:
        """The number of nodes."""
        return self.parents.size

    def level(self, tree: Tree) -> tuple[Places, Places]:
        """As `Tree.levels`, of the level that it makes."""
        return self.parents - np.int32(tree.bounds[-2]), self.items


def root(settings: Settings) -> Expansion:
    """The first question: counts of single items. It does not ask for the end (spec:
    sequential-ngram, section 4.3). Raises TreeTooLarge."""
    if settings.symbols > settings.max_nodes:
        raise TreeTooLarge(settings.max_nodes)
    budget = settings.root_budget
    spend = Spend(budget, settings.epsilon - budget, settings.threshold(budget))
    none = np.full(1, -1, np.int32)
    nothing = np.zeros(1, np.int32)
    return Expansion(settings, none, none, nothing, nothing, (spend,))


def planted(expansion: Expansion, items: Values) -> Tree:
    """The tree of the empty gram; items (1, L): noisy counts of single items."""
    noisy = np.concatenate((items, np.zeros((1, 1), items.dtype)), axis=1)
    return Tree(
        expansion.settings,
        (0, 1),
        expansion.parents,
        expansion.items,
        expansion.links,
        expansion.groups,
        noisy,
        np.full(noisy.shape, -1, np.int32),
        expansion.spends,
    )


def next_expansion(tree: Tree) -> Expansion | None:
    """What to count next: successors of the grams that passed and have budget left; None at the
    end. Raises TreeTooLarge."""
    settings, level = tree.settings, tree.depth
    if level >= settings.n_max:
        return None
    first = tree.bounds[-2]
    left = np.array([spend.left > 0 for spend in tree.spends])[tree.groups[first:], None]
    open_ = (tree.noisy[first:, :-1] >= tree.thresholds(first)) & left
    rows, columns = np.nonzero(open_)
    if settings.max_cells is not None:
        cells = np.full(rows.size, settings.symbols)
        kept = within(tree.noisy[first:][rows, columns], cells, settings.max_cells)
        rows, columns = rows[kept], columns[kept]
    if not rows.size:
        return None
    if (tree.nodes + rows.size) * settings.symbols > settings.max_nodes:
        raise TreeTooLarge(settings.max_nodes)
    parents: Places = (rows + first).astype(np.int32)
    items: Places = columns.astype(np.int32)
    links = _links(tree, parents, items)
    groups, spends = _spends(tree, parents, items, links)
    return Expansion(settings, parents, items, links, groups, spends)


def grown(tree: Tree, expansion: Expansion, noisy: Values) -> Tree:
    """The tree with one level more; noisy (E, A)."""
    children = np.concatenate((tree.children, np.full(noisy.shape, -1, np.int32)))
    added = np.arange(tree.nodes, tree.nodes + expansion.rows, dtype=np.int32)
    children[expansion.parents, expansion.items] = added
    return replace(
        tree,
        bounds=(*tree.bounds, tree.nodes + expansion.rows),
        parents=np.concatenate((tree.parents, expansion.parents)),
        items=np.concatenate((tree.items, expansion.items)),
        links=np.concatenate((tree.links, expansion.links)),
        groups=np.concatenate((tree.groups, expansion.groups)),
        noisy=np.concatenate((tree.noisy, noisy)),
        children=children,
        spends=expansion.spends,
    )


def _links(tree: Tree, parents: Places, items: Places) -> Places:
    """Longest proper suffixes that are nodes: down the parent's chain until one has this child."""
    result = np.zeros(parents.size, np.int32)
    waiting = np.flatnonzero(parents)
    suffix = tree.links[parents[waiting]]
    while waiting.size:
        longer = tree.children[suffix, items[waiting]]
        result[waiting] = np.maximum(longer, 0)
        more = (longer < 0) & (suffix > 0)
        waiting, suffix = waiting[more], tree.links[suffix[more]]
    return result


def _spends(
    tree: Tree, parents: Places, items: Places, links: Places
) -> tuple[Places, tuple[Spend, ...]]:
    """The group of each new node, and the list of groups with the new ones."""
    settings = tree.settings
    levels = settings.n_max - tree.depth
    places = {(spend.budget, spend.left): place for place, spend in enumerate(tree.spends)}
    spends = list(tree.spends)
    owners = tree.groups[parents]
    if settings.budget == "uniform":
        counts = shares = np.ones(parents.size)
    else:
        counts = tree.noisy[parents, items].astype(float)
        used, back = np.unique(links, return_inverse=True)
        shares = largest_shares(tree.noisy[used])[back]
    groups = np.empty(parents.size, np.int32)
    known: dict[tuple[int, float, float], int] = {}
    for place, key in enumerate(
        zip(owners.tolist(), counts.tolist(), shares.tolist(), strict=True)
    ):
        if key not in known:
            owner, count, share = key
            before = tree.spends[owner]
            if settings.budget == "uniform":
                budget = settings.root_budget
            else:
                height = settings.height(before.threshold, count, share, levels)
                budget = before.left / Fraction(height)
            spend = (budget, before.left - budget)
            if spend not in places:
                places[spend] = len(spends)
                spends.append(Spend(*spend, settings.threshold(budget)))
            known[key] = places[spend]
        groups[place] = known[key]
    return groups, tuple(spends)


def largest_shares(noisy: Values) -> NDArray[np.float64]:
    """The largest successor's share of each row's total; negative counts are 0; 1 if the total
    is 0."""
    positive = np.maximum(noisy, 0).astype(float)
    total = positive.sum(axis=1)
    shares = np.ones(total.size)
    np.divide(positive.max(axis=1), total, out=shares, where=total > 0)
    return shares


# Spec: federated-counting, section 2; sequential-ngram, section 3, steps 1 to 4, and 4.7.

COVERED: Final = 0.95
"""The share of sequences that shall not be cut."""


@dataclass(frozen=True)
class LengthSearch:
    """A noisy histogram of lengths up to cap, whose last bin includes longer ones. levels: of
    the tree afterwards, at most; settings: of the tree, by the histogram."""

    document: Lengths | LengthsByRange
    budget: Fraction
    levels: int
    settings: Callable[[Numbers], Settings]


@dataclass(frozen=True, eq=False)
class State:
    """search: while l_max is not known; expansion: what is asked next, None at the end; tree: what
    is known."""

    search: LengthSearch | None = None
    expansion: Expansion | None = None
    tree: Tree | None = None


def first(settings: Settings) -> State:
    """Before any question, l_max known. Raises TreeTooLarge."""
    return State(expansion=root(settings))


def planned(state: State) -> int:
    """Questions at most, from the first state."""
    if state.expansion is not None:
        return state.expansion.settings.n_max
    assert state.search is not None
    return 1 + state.search.levels


def ask(state: State) -> Question | None:
    """The lengths, or the successors of the grams that are expanded next."""
    one = np.zeros(1, np.int64)
    if state.search is not None:
        search = state.search
        return Question("lengths", search.document, 1, search.document.sizes, (search.budget,), one)
    expansion, tree = state.expansion, state.tree
    if expansion is None:
        return None
    settings = expansion.settings
    if tree is None:
        document, sizes = Successors(settings.items, settings.l_max), one + settings.items
    else:
        levels = tuple(Level(*parts) for parts in (*tree.levels, expansion.level(tree)))
        document = Successors(settings.items, settings.l_max, levels)
        sizes = np.full(expansion.rows, settings.symbols)
    rates = tuple(dict.fromkeys(spend.budget for spend in expansion.spends))
    of_spend = np.array([rates.index(spend.budget) for spend in expansion.spends])
    stage = f"level {len(document.levels) + 1}"
    return Question(stage, document, settings.l_max, sizes, rates, of_spend[expansion.groups])


def absorb(state: State, _question: Question, answer: Answer) -> State:
    """With the answer: l_max, or one level more. Raises TreeTooLarge."""
    counts = answer.dense()
    if state.search is not None:
        return first(state.search.settings(counts))
    expansion = state.expansion
    assert expansion is not None
    if state.tree is None:
        tree = planted(expansion, counts[None])
    else:
        tree = grown(state.tree, expansion, counts.reshape(expansion.rows, -1))
    return replace(state, tree=tree, expansion=next_expansion(tree))


def truncated(state: State) -> State | None:
    """Without what is still to be asked; None before the first level."""
    return None if state.tree is None else replace(state, expansion=None)


def covering(noisy: Numbers) -> int:
    """The smallest length whose cumulative share is at least `COVERED`; negative counts are 0."""
    rising = np.cumsum(np.maximum(noisy, 0))
    return 1 + int(np.argmax(rising >= COVERED * rising[-1]))


COUNTING: Final = AdaptiveCounting(ask, absorb)


# Spec: sequential-ngram, section 3, steps 1 to 4; federated-counting, section 2.

BLOCK_SYMBOLS: Final = 1 << 20
"""Symbols of a block of sequences, at most (unless one sequence has more)."""


def grow(dataset: Sequences, state: State, add: Add, context: Context) -> Tree:
    """The noisy tree. Raises TreeTooLarge, Cancelled."""
    known = state.expansion
    longest = state.search.document.cap if state.search else known.settings.l_max if known else 1
    blocks = dataset.lists.blocks(max(BLOCK_SYMBOLS // (longest + 1), 1))
    source = KeeperSource(context, COUNTER, blocks, add=add, steps=planned(state))
    tree = drive(COUNTING, state, source).tree
    assert tree is not None
    return tree
