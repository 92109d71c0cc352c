"""The parameters of `sequential-prefix-tree`, their ranges, and what the stance requires of them.

From them follow a run's public choices and the noise of both stances: thresholds, and the chance
that an empty candidate passes. Spec: sequential-prefix-tree, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import ConfigDict, Field

from algorithms.contract import (
    ABOUT,
    BadEpsilon,
    BadUniverse,
    ItemUniverse,
    MaxCells,
    Stance,
    asked_metrics,
    check_universe,
    item_names,
    schema_range,
    universe_size,
)
from algorithms.counts.contract import CountTest, FloatingTest, IntegerTest
from algorithms.datasets.declaration import INLINE_UNIVERSE, DatasetReference, Item
from tacit.encoders.sequential_prefix_tree_counts import Layout
from tacit.errors import Invalid, TooLarge
from tacit.noise import SCALE_LIMIT
from tacit.records.intervals import interval_item
from tacit.records.items import MAX_UNIVERSE
from tacit.wire import Exact, WireModel


class BadTaxonomy(Invalid):
    """An item without a group, an empty group, or two taxonomies at the same time."""

    name = "bad_taxonomy"
    title = "The taxonomy is not valid"


class BadHeight(Invalid):
    """Outside its range."""

    name = "bad_height"
    title = "The height is not valid"


class BadSplit(Invalid):
    """Outside its range."""

    name = "bad_split"
    title = "The share of the groups is not valid"


class BadThreshold(Invalid):
    """The threshold is negative, or so low that empty nodes multiply without end."""

    name = "bad_threshold"
    title = "The threshold is not valid"


class DegenerateFanOut(Invalid):
    """Groups of two items or fewer: the source's split leaves nothing for the items."""

    name = "degenerate_fan_out"
    title = "The groups are too small for the source's split"


class TreeTooLarge(TooLarge):
    """More nodes than the job allows. Decided from noisy counts alone."""

    name = "tree_too_large"
    title = "The tree would be too large"

    def __init__(self, limit: int, factor: float) -> None:
        super().__init__(
            f"more than {limit} nodes are expected; an empty node has {factor:.3g} empty children "
            "in expectation, at each level: raise the thresholds or max_nodes, or give a taxonomy; "
            "with timestamps, a larger grain_s"
        )


# A threshold is given as a multiple of 1 / budget. `sound`: discrete Laplace, the threshold rounded
# up to an integer. `paper`: Laplace in floating point.

ONE_DRAW: Final = Fraction(1)
_MOST_LOG: Final = 700.0
"""Of a number of nodes: a float holds no more."""
_DEVIATION: Final = Fraction(math.sqrt(2))
"""Standard deviations of Laplace noise of scale 1."""


def group_multiple() -> Fraction:
    """The source's threshold of groups: four standard deviations."""
    return 4 * _DEVIATION


def item_multiple(items: int, stance: Stance, group_test: CountTest | None) -> Fraction:
    """The threshold of items: two standard deviations.

    An empty node has items * chance of a group * e^-multiple / 2 empty children in expectation,
    which the source's threshold leaves above 1 from 34 items on without groups, and with them where
    places in many intervals are items; `sound` keeps it near 1/2, below 1.
    """
    multiple = 2 * _DEVIATION
    candidates_asked = items * (1 if group_test is None else group_test.chance)
    if stance == "sound" and candidates_asked > 1:
        multiple = max(multiple, Fraction(math.log(candidates_asked)))
    return multiple


def count_test(
    rate: Fraction, multiple: Fraction, stance: Stance, draws: Fraction = ONE_DRAW
) -> CountTest:
    """What one count costs (rate), must reach, and an empty one's chance.

    draws: whole noises that a sum holds (sound, from 1 on); the chance is that of one, and the
    threshold is higher (spec: federated-counting, section 3).
    """
    if stance == "paper":
        return FloatingTest.of_multiple(rate, float(multiple))
    return IntegerTest.of_threshold(rate, max(1, math.ceil(multiple / rate)), draws)


@dataclass(frozen=True)
class Settings:
    """group_test: None if no groups are requested. The stance determines the source of draws and
    how counts are made consistent; max_cells: counts in one question at most, after the first
    level (None: all); draws: whole noises in a count."""

    layout: Layout
    height: int
    group_test: CountTest | None
    item_test: CountTest
    stance: Stance = "sound"
    max_nodes: int = 5_000_000
    max_cells: int | None = None
    draws: Fraction = Fraction(1)

    @property
    def factor(self) -> float:
        """Empty children that an empty node has in expectation (at most, with time bins)."""
        passing = self.group_test.chance if self.group_test else 1
        return float(self.layout.items * passing * self.item_test.chance)

    @cached_property
    def false_nodes(self) -> tuple[float, ...]:
        """For each level the expected number of nodes in the tree of no sequences at all. Every
        node of every path passes with the same probability."""
        layout, chance = self.layout, self.factor / self.layout.items
        return tuple(
            math.exp(min(math.log(layout.paths(level)) + level * math.log(chance), _MOST_LOG))
            if chance
            else 0.0
            for level in range(1, self.height + 1)
        )

    def check_nodes(self, number: float) -> None:
        """Check the number of nodes. Raises TreeTooLarge."""
        if number > self.max_nodes:
            raise TreeTooLarge(self.max_nodes, self.factor)


# Spec: sequential-prefix-tree, section 2; jobs, "Parameters".

MOST_EPSILON: Final = Fraction(100)
HEIGHTS: Final = range(1, 65)
MOST_MULTIPLE: Final = 1000

Form = Literal["simple", "hybrid"]


class Metrics(WireModel):
    """What an evaluation compares with the true data."""

    queries: Annotated[
        int, Field(ge=0, le=100_000, description="count queries of each of the four sizes")
    ] = 10_000
    query_seed: Annotated[int, Field(ge=0, lt=1 << 63, description="drives the workload")] = 0
    top: tuple[Annotated[int, Field(ge=1, le=1_000)], ...] = Field(
        (100, 150, 200, 250, 300), max_length=10, description="k of the frequent patterns"
    )


class Timestamps(WireModel):
    """Public intervals of time, all of the same length."""

    grain_s: Annotated[int, Field(ge=1, le=10**12, description="seconds of an interval")]
    universe: Annotated[int, Field(ge=1, le=MAX_UNIVERSE, description="how many intervals")]
    start_s: Annotated[
        int, Field(ge=-(10**12), le=10**12, description="the second with which the first begins")
    ] = 0

    def items(self, places: Sequence[str]) -> tuple[str, ...]:
        """All places in the first interval, then in the second, ..."""
        starts = (self.start_s + number * self.grain_s for number in range(self.universe))
        return tuple(
            interval_item(place, start, self.grain_s) for start in starts for place in places
        )


class Parameters(WireModel):
    """Parameters of `sequential-prefix-tree`."""

    model_config = ConfigDict(title="SequentialPrefixTreeParameters")

    universe: ItemUniverse = Field(description=ABOUT)
    taxonomy: (
        DatasetReference
        | Annotated[dict[Item, Item], Field(max_length=INLINE_UNIVERSE)]
        | Annotated[tuple[Item, ...], Field(max_length=INLINE_UNIVERSE)]
        | None
    ) = Field(
        None,
        union_mode="left_to_right",  # a reference is a map too
        description="the public group of each item, such as its line: a map, or one entry for each "
        "item of the universe",
    )
    fan_out: int | None = Field(
        None,
        description="in place of a taxonomy: consecutive items are cut into groups of this size",
        json_schema_extra=schema_range(minimum=1),
    )
    form: Form | None = Field(
        None, description="hybrid: groups are requested first (default where there are some)"
    )
    epsilon: Exact = Field(description="budget of the job, above 0, at most 100")
    height: int = Field(
        12,
        description="levels; longer sequences count and appear by this many first items",
        json_schema_extra=schema_range(minimum=HEIGHTS[0], maximum=HEIGHTS[-1]),
    )
    split: Exact | None = Field(
        None,
        description="hybrid: the groups' share of a level's budget, between 0 and 1; 2 over the "
        "mean size of a group unless given (sound: at most 1/2)",
    )
    theta_group: Exact | None = Field(
        None,
        description="hybrid: what a group's count must reach, as a multiple of 1 / its budget; "
        "4 sqrt(2) unless given",
    )
    theta_item: Exact | None = Field(
        None,
        description="the same of an item's; 2 sqrt(2) unless given (sound and simple: at least the "
        "logarithm of the number of items)",
    )
    time_bins: int = Field(
        1,
        description="an item is a place at a time: the universe lists all places of the first bin, "
        "then of the second, ..., and times never fall in a sequence",
        json_schema_extra=schema_range(minimum=1),
    )
    timestamps: Timestamps | None = Field(
        None,
        description="items of the data are PLACE@SECOND: `universe` and the groups are of places, "
        "and a node is a place in one of these intervals; times never fall in a sequence",
    )
    max_nodes: Annotated[int, Field(ge=1, le=100_000_000)] = 5_000_000
    max_cells: MaxCells = Field(
        None,
        description="counts that one question asks at most, from the second level on: the most "
        "frequent prefixes are made longer; all unless given",
    )
    expanded: bool = Field(False, description="release a file with a line for each sequence too")
    evaluate: bool | Metrics = False

    @property
    def metrics(self) -> Metrics | None:
        """What to evaluate; None: nothing."""
        return asked_metrics(self.evaluate, Metrics)

    @property
    def bins(self) -> int:
        """Parts of the universe by time."""
        return self.time_bins if self.timestamps is None else self.timestamps.universe

    @property
    def hybrid(self) -> bool:
        """Whether groups are requested."""
        if self.form is None:
            return self.taxonomy is not None or self.fan_out is not None
        return self.form == "hybrid"

    @property
    def level_budget(self) -> Fraction:
        """The budget of one level."""
        return self.epsilon / self.height


def check_parameters(params: Parameters, stance: Stance) -> None:
    """Check everything but lists that the parameters only name (a universe that is a dataset).

    Raises BadEpsilon, BadHeight, BadSplit, BadThreshold, BadTaxonomy, BadUniverse,
    DegenerateFanOut; each names the field.
    """
    if not 0 < params.epsilon <= MOST_EPSILON:
        raise BadEpsilon("must be above 0 and at most 100", pointer="/params/epsilon")
    if params.height not in HEIGHTS:
        raise BadHeight("must be between 1 and 64", pointer="/params/height")
    if params.split is not None and not 0 < params.split < 1:
        raise BadSplit("must be between 0 and 1", pointer="/params/split")
    for field in ("theta_group", "theta_item"):
        multiple = getattr(params, field)
        if multiple is not None and not 0 <= multiple <= MOST_MULTIPLE:
            raise BadThreshold(f"must be between 0 and {MOST_MULTIPLE}", pointer=f"/params/{field}")
    if params.time_bins < 1:
        raise BadUniverse("there is one time bin at least", pointer="/params/time_bins")
    if params.timestamps is not None and params.time_bins > 1:
        raise BadUniverse("timestamps or time_bins, not both", pointer="/params/time_bins")
    _check_taxonomy(params)
    layout = known_layout(params)
    if layout is not None:
        settings_of(params, stance, layout)


def _check_taxonomy(params: Parameters) -> None:
    has_taxonomy = params.taxonomy is not None
    if has_taxonomy and params.fan_out is not None:
        raise BadTaxonomy("a taxonomy or a fan-out, not both", pointer="/params/fan_out")
    if params.fan_out is not None and params.fan_out < 1:
        raise BadTaxonomy("a group has one item at least", pointer="/params/fan_out")
    if params.form == "hybrid" and not has_taxonomy and params.fan_out is None:
        raise BadTaxonomy("the hybrid form needs groups", pointer="/params/taxonomy")


# ------------------------------------------------------------------------------ universe, layout


def known_size(params: Parameters) -> int | None:
    """How many items the tree has; None as long as only a reference is known. Raises
    BadUniverse."""
    check_universe(params.universe)
    size = universe_size(params.universe)
    if size is None:
        return None
    if params.timestamps is not None:
        if size * params.timestamps.universe > MAX_UNIVERSE:
            raise BadUniverse(
                f"{size} places in {params.timestamps.universe} intervals are more than "
                f"{MAX_UNIVERSE} candidates: choose a larger grain_s, or fewer places",
                pointer="/params/timestamps/universe",
            )
        return size * params.timestamps.universe
    if size % params.time_bins:
        raise BadUniverse("time bins have as many items each", pointer="/params/time_bins")
    return size


def known_layout(params: Parameters) -> Layout | None:
    """Universe and groups; None as long as one of them is only a reference. With timestamps a
    group is one of places in one interval. Raises BadUniverse, BadTaxonomy."""
    items = known_size(params)
    if items is None:
        return None
    if not params.hybrid:
        return Layout(items, None, params.bins)
    times = 1 if params.timestamps is None else params.timestamps.universe
    size = items // times
    if params.fan_out is not None:
        groups = np.arange(size) // min(params.fan_out, size)
    elif isinstance(params.taxonomy, DatasetReference) or params.taxonomy is None:
        return None
    elif isinstance(params.taxonomy, tuple):
        if len(params.taxonomy) != size:
            raise BadTaxonomy("names a group for every item", pointer="/params/taxonomy")
        groups = Layout.of_names(params.taxonomy).group_of
    else:
        places = item_names(params.universe)
        if not params.taxonomy.keys() >= set(places):
            raise BadTaxonomy("an item has no group", pointer="/params/taxonomy")
        names = [params.taxonomy[place] for place in places]
        if set(names) != set(params.taxonomy.values()):
            raise BadTaxonomy("a group has no item of the universe", pointer="/params/taxonomy")
        groups = Layout.of_names(names).group_of
    first = np.repeat(np.arange(times) * (int(groups.max()) + 1), size)
    return Layout(items, first + np.tile(groups, times), params.bins)


def resolved(
    params: Parameters, stance: Stance, draws: Fraction = ONE_DRAW
) -> tuple[tuple[str, ...], Settings]:
    """The items in order, and a run's public choices; draws: whole noises that a sum holds.

    References have to be replaced by their lists before (a taxonomy's by the group of each item).
    Raises what `check_parameters` raises.
    """
    check_parameters(params, stance)
    universe = item_names(params.universe)
    if params.timestamps is not None:
        universe = params.timestamps.items(universe)
    layout = known_layout(params)
    if layout is None:
        raise BadTaxonomy("the groups of this dataset are missing", pointer="/params/taxonomy")
    if params.expanded and any(len(item.split()) != 1 for item in universe):
        reason = "synthetic.txt separates items by blanks, and an item of the universe has one"
        raise BadUniverse(reason, pointer="/params/expanded")
    return universe, settings_of(params, stance, layout, draws)


# ------------------------------------------------------------------------------- budgets, tests


def group_share(params: Parameters, stance: Stance, layout: Layout) -> Fraction:
    """The groups' share of a level's budget; 0 in the simple form. Raises DegenerateFanOut.

    The source's 2 / f leaves nothing for the items from f = 2 down; `sound` gives them half then.
    """
    if not params.hybrid:
        return Fraction(0)
    if params.split is not None:
        return params.split
    if stance == "sound":
        return min(2 / layout.mean_size, Fraction(1, 2))
    if layout.mean_size <= 2:
        raise DegenerateFanOut(
            "the source gives groups 2/f of a level's budget, all of it or more at f <= 2; give "
            "split, or larger groups",
            pointer="/params/split",
        )
    return 2 / layout.mean_size


def settings_of(
    params: Parameters,
    stance: Stance,
    layout: Layout,
    draws: Fraction = ONE_DRAW,
) -> Settings:
    """A run's public choices; draws: whole noises that a sum holds.

    Raises DegenerateFanOut, BadEpsilon, BadThreshold.
    """
    share = group_share(params, stance, layout)
    for_groups = share * params.level_budget
    for_items = params.level_budget - for_groups
    if max(1 / rate for rate in (for_groups, for_items) if rate) > SCALE_LIMIT:
        raise BadEpsilon("too small for the noise of this many levels", pointer="/params/epsilon")
    group_theta, item_theta = params.theta_group, params.theta_item
    if group_theta is None:
        group_theta = group_multiple()
    group_test = count_test(for_groups, group_theta, stance, draws) if share else None
    if item_theta is None:
        item_theta = item_multiple(layout.items, stance, group_test)
    settings = Settings(
        layout,
        params.height,
        group_test,
        count_test(for_items, item_theta, stance, draws),
        stance,
        params.max_nodes,
        params.max_cells,
        draws,
    )
    if params.theta_item is None and settings.factor > 1:
        raise BadThreshold(
            f"with the source's threshold an empty node has {settings.factor:.4g} empty children "
            "in expectation, at each level: give a taxonomy, or theta_item",
            pointer="/params/theta_item",
        )
    settings.check_nodes(sum(settings.false_nodes))
    return settings
