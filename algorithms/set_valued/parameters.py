"""The parameters of `set-valued`, their ranges, and what the stance requires of them.

Spec: set-valued, section 2; jobs, "Parameters".
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from algorithms.contract import (
    BadEpsilon,
    BadUniverse,
    MethodNeedsSound,
    Stance,
    asked_metrics,
    schema_range,
)
from algorithms.datasets.declaration import INLINE_UNIVERSE, DatasetReference, Item
from algorithms.set_valued.margins import (
    FOR_ITEMS,
    WITH_BASIS,
    WITH_DIFFPART,
    WITH_PAIRS,
    Shares,
    counts_pairs,
    diffpart_keeps_something,
    shares_without_diffpart,
)
from algorithms.set_valued.settings import (
    BadAim,
    BadEta,
    BadFanout,
    Law,
    LeafMode,
    PaperLaw,
    Settings,
    SoundLaw,
    anywhere,
    leftmost,
)
from tacit.encoders.set_valued_counts import MOST_LENGTH, MOST_PAIRS_OF, Taxonomy, pair_count
from tacit.noise import SCALE_LIMIT
from tacit.records.items import Ints, Transactions
from tacit.wire import Exact, WireModel

MOST_EPSILON: Final = Fraction(20)
FANOUTS: Final = range(2, 17)
MOST_ITEMS: Final = 200_000
MOST_CELL_ITEMS: Final = 22
"""A histogram over all itemsets has 2^items cells."""
ONE_DRAW: Final = Fraction(1)


Method = Literal["diffpart", "diffpart+rest", "rest", "basic"]
Aim = Literal["balanced", "items"]


class Metrics(WireModel):
    """What an evaluation compares with the true data."""

    queries: Annotated[
        int, Field(ge=0, le=100_000, description="counting queries of each of the five lengths")
    ] = 1_000
    query_seed: Annotated[int, Field(ge=0, lt=1 << 63, description="drives the workload")] = 0
    top: tuple[Annotated[int, Field(ge=1, le=1_000)], ...] = Field(
        (20, 60, 100), max_length=10, description="K of the frequent itemsets"
    )


class Parameters(WireModel):
    """Parameters of `set-valued`; those of one stance alone are marked."""

    model_config = ConfigDict(title="SetValuedParameters")

    epsilon: Exact = Field(description="budget of the job, above 0, at most 20")
    universe: (
        Annotated[tuple[Item, ...], Field(max_length=INLINE_UNIVERSE)] | DatasetReference | None
    ) = Field(
        None,
        description="the public list of items, 2 to 200,000; its order is the taxonomy; chosen "
        "without looking at the data (10,000 inline, more as a dataset of kind universe); sound "
        "needs it, here or with the dataset",
    )
    method: Method | Literal["auto"] | None = Field(
        None,
        description="diffpart: the source's (default of paper); diffpart+rest: the same, and what "
        "it omits by lengths and single items (sound); rest: lengths, single items, and the pairs "
        "or sets of the commonest items alone (sound); basic: a noisy histogram over all itemsets, "
        "at most 22 items; auto: rest, or diffpart+rest where the noisy "
        "number of records promises that DiffPart keeps something (default of sound)",
    )
    aim: Aim = Field(
        "balanced",
        description="sound, method rest or auto: what epsilon is spent on: items (single items and "
        "lengths alone), balanced (also pairs or sets of the commonest items, or DiffPart)",
    )
    fanout: int = Field(
        10,
        description="children of a taxonomy's node",
        json_schema_extra=schema_range(minimum=FANOUTS[0], maximum=FANOUTS[-1]),
    )
    eta: Exact = Field(
        Fraction(1, 2),
        description="sound: expected false partitions of a split, between 0 and 1",
    )
    eta_leaf: Exact = Field(
        Fraction(1, 2),
        description="sound: expected false itemsets of a split, between 0 and 1",
    )
    c_1: Annotated[float, Field(gt=0, le=1000, alias="C1", description="paper")] = 1.0
    c_2: Annotated[float, Field(gt=0, le=1000, alias="C2", description="paper")] = 1.2
    leaf_mode: LeafMode = Field(
        "example", description="paper: itemsets counted once (example) or twice (pseudocode)"
    )
    max_partitions: Annotated[int, Field(ge=1, le=100_000_000)] = 2_000_000
    max_rows: Annotated[
        int,
        Field(
            ge=1,
            le=100_000_000,
            description="of the file; over curators 5,000,000 unless given",
        ),
    ] = 20_000_000
    evaluate: bool | Metrics = False

    @property
    def metrics(self) -> Metrics | None:
        """What to evaluate; None: nothing."""
        return asked_metrics(self.evaluate, Metrics)

    def method_of(self, stance: Stance) -> Method:
        """The one that runs; diffpart+rest of auto may become rest when lengths are known
        (`shares_of`)."""
        method_asked = self.method or ("diffpart" if stance == "paper" else "auto")
        if method_asked == "auto":
            return "rest" if self.aim == "items" else "diffpart+rest"
        return method_asked


def check_parameters(params: Parameters, stance: Stance) -> None:
    """Raises BadEpsilon, BadFanout, BadEta, BadAim, BadUniverse, MethodNeedsSound; each names the
    field."""
    if stance == "paper" and params.method in ("diffpart+rest", "rest", "auto"):
        raise MethodNeedsSound("the source has diffpart and basic", pointer="/params/method")
    if params.aim != "balanced":
        if stance == "paper":
            raise MethodNeedsSound("the source has no aims", pointer="/params/aim")
        if params.method not in (None, "auto", "rest"):
            raise BadAim("items is an aim of the methods rest and auto", pointer="/params/aim")
    if not 0 < params.epsilon <= MOST_EPSILON:
        raise BadEpsilon("must be above 0 and at most 20", pointer="/params/epsilon")
    if params.fanout not in FANOUTS:
        raise BadFanout("must be between 2 and 16", pointer="/params/fanout")
    for field in ("eta", "eta_leaf"):
        if not 0 < getattr(params, field) < 1:
            raise BadEta("must be between 0 and 1", pointer=f"/params/{field}")
    if params.universe is None:
        if stance == "sound":
            raise BadUniverse("declare the public list of items", pointer="/params/universe")
    elif not isinstance(params.universe, DatasetReference):
        check_universe(params, params.universe, stance)


def check_universe(params: Parameters, universe: Sequence[str], stance: Stance) -> None:
    """Raises BadUniverse, and BadEpsilon where the noise scale for this many items is too large."""

    def refuse(reason: str) -> None:
        raise BadUniverse(reason, pointer="/params/universe")

    if len(universe) < 2:
        refuse("has at least 2 items")
    most = MOST_CELL_ITEMS if params.method == "basic" else MOST_ITEMS
    if len(universe) > most:
        refuse(f"has at most {most} items with this method")
    if len(set(universe)) != len(universe):
        refuse("names every item once")
    method = params.method_of(stance)
    if stance == "sound" and max(noise_scales(params, method, len(universe))) > SCALE_LIMIT:
        raise BadEpsilon("too small for the noise of this many items", pointer="/params/epsilon")


def resolved_universe(params: Parameters, stance: Stance, dataset: Transactions) -> tuple[str, ...]:
    """The items in order. Only the paper stance may take them from the data, sorted.

    A reference to a dataset has to be replaced by its list before. Raises what the checks raise.
    """
    check_parameters(params, stance)
    if isinstance(params.universe, DatasetReference):
        raise BadUniverse("the list of this dataset is missing", pointer="/params/universe")
    if params.universe is not None:
        return params.universe
    result = tuple(sorted(dataset.items))
    check_universe(params, result, stance)
    return result


def diffpart_epsilon(params: Parameters, method: Method) -> Fraction:
    """The part of epsilon that DiffPart spends."""
    return params.epsilon * (WITH_DIFFPART.diffpart if method == "diffpart+rest" else 1)


def shares_of(params: Parameters, method: Method, lengths: Ints, items: int) -> Shares:
    """What the parts get once the noisy lengths (64,) of records are known."""
    if params.aim == "items":
        return FOR_ITEMS
    kept = params.method == "diffpart+rest" or diffpart_keeps_something(
        lengths, params.epsilon, Taxonomy(items, params.fanout), params.eta
    )
    if method == "diffpart+rest" and kept:
        return WITH_DIFFPART
    return shares_without_diffpart(lengths, params.epsilon, items)


def least_shares(params: Parameters, method: Method) -> Shares:
    """The smallest shares that a run of a method with margins can have, before lengths are
    known."""
    if params.aim == "items":
        return FOR_ITEMS
    return WITH_DIFFPART if method == "diffpart+rest" else WITH_BASIS


def noise_scales(params: Parameters, method: Method, items: int) -> tuple[Fraction, ...]:
    """The largest scale of partition tests, and of released counts, for a universe of this size;
    of `diffpart+rest` also of lengths, and of items at most; of `rest` these and the basis, or
    pairs at most, if these have a share."""
    if method == "basic":
        return (1 / params.epsilon,)
    least = least_shares(params, method)
    margins = 1 / (params.epsilon * least.lengths), MOST_LENGTH / (params.epsilon * least.items)
    if method == "rest" and not least.basis:
        return margins
    if method == "rest" and counts_pairs(items):
        return (*margins, pair_count(MOST_PAIRS_OF) / (params.epsilon * WITH_PAIRS.basis))
    if method == "rest":
        return (*margins, 1 / (params.epsilon * WITH_BASIS.basis))
    epsilon = diffpart_epsilon(params, method)
    taxonomy = Taxonomy(items, params.fanout)
    alpha = epsilon / 2 / taxonomy.internal(taxonomy.root)
    tree = 1 / alpha, 2 / epsilon
    return tree if method == "diffpart" else (*tree, *margins)


def law_of(params: Parameters, stance: Stance, draws: Fraction = ONE_DRAW) -> Law:
    """The noise of the stance; draws: whole noises that a sum holds (sound)."""
    if stance == "sound":
        return SoundLaw(params.eta, params.eta_leaf, draws)
    return PaperLaw(params.c_1, params.c_2)


def settings_of(
    params: Parameters, stance: Stance, taxonomy: Taxonomy, draws: Fraction = ONE_DRAW
) -> Settings:
    """DiffPart's public choices; draws: whole noises that a sum holds (sound)."""
    paper = stance == "paper"
    return Settings(
        epsilon=diffpart_epsilon(params, params.method_of(stance)),
        law=law_of(params, stance, draws),
        leaf_mode=params.leaf_mode if paper else "example",
        choose=anywhere if paper else leftmost,
        max_partitions=params.max_partitions,
        max_rows=params.max_rows,
        expected=expected_offspring(params, stance, taxonomy),
    )


def expected_offspring(params: Parameters, stance: Stance, taxonomy: Taxonomy) -> str:
    """How many false children a split without records has, in words.

    Spec: set-valued, section 4.4.
    """
    cells = (1 << min(params.fanout, taxonomy.size)) - 1
    if stance == "sound":
        expected = float(params.eta)
    else:
        chance = law_of(params, stance).partition(cells, Fraction(1), 1).chance
        expected = float(cells * chance)
    return (
        f"An empty split of {cells} cells has {expected:.3g} false sub-partitions in expectation."
    )
