"""The parameters of `sequential-ngram`, their ranges, and what the stance requires of them.

Includes how many grams of two items noise alone makes, from public parameters.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import ConfigDict, Field

from algorithms.contract import (
    ABOUT,
    BadEpsilon,
    BadUniverse,
    ItemUniverse,
    MaxCells,
    MethodNeedsSound,
    Stance,
    asked_metrics,
    check_universe,
    item_names,
    schema_range,
    universe_size,
)
from algorithms.counts.contract import Numbers
from algorithms.sequential_ngram.counts import LengthSearch, State, covering, first
from algorithms.sequential_ngram.settings import (
    MOST_ROOT_SHARE,
    ONE_DRAW,
    Aim,
    BadLength,
    Budget,
    Fill,
    Generation,
    LengthRanges,
    Root,
    Settings,
    TooManyPairs,
    TreeTooLarge,
    empty_threshold,
    least_budget,
)
from tacit.encoders.sequential_ngram_counts import Lengths, LengthsByRange
from tacit.noise import SCALE_LIMIT
from tacit.wire import Exact, WireModel


def expected_pairs(items: int, scale: Fraction) -> float:
    """Expected number of pairs among this many items that no sequence has, with Laplace noise.

    A count of noise is above 0 with probability 1/2, and then exponential of mean b = scale. With
    x, y exponential of mean 1, P[x y >= z] = 2 sqrt(z) K_1(2 sqrt(z)), K_1 the modified Bessel
    function of the second kind; here z = S / b^2 and S is about items b / 2.
    """
    from scipy.special import k1

    root = 2 * math.sqrt(items / (2 * float(scale)))
    return (items / 2) ** 2 * root * float(k1(root))


# Spec: sequential-ngram, section 2; jobs, "Parameters".

MOST_EPSILON: Final = Fraction(100)
MOST_LENGTH: Final = 1000
MOST_GRAM: Final = 10
PAPER_LENGTH: Final = 20
PAPER_ITEMS: Final = 3
"""Below, the threshold of the paper stance is not positive."""


class Metrics(WireModel):
    """What an evaluation compares with the true data."""

    queries: Annotated[
        int, Field(ge=0, le=100_000, description="count queries of each of the five sizes")
    ] = 10_000
    query_seed: Annotated[int, Field(ge=0, lt=1 << 63, description="drives the workload")] = 0
    top: tuple[Annotated[int, Field(ge=1, le=1_000)], ...] = Field(
        (20, 40, 60, 80, 100), max_length=10, description="K of the frequent patterns"
    )


class Parameters(WireModel):
    """Parameters of `sequential-ngram`."""

    model_config = ConfigDict(title="SequentialNgramParameters")

    universe: ItemUniverse = Field(description=ABOUT)
    epsilon: Exact = Field(description="budget of the job, above 0, at most 100")
    aim: Aim = Field(
        "balanced",
        description="sound: what epsilon is spent on: items (single items and lengths alone: "
        "n_max is 1), balanced (also what follows what)",
    )
    l_max: int | Literal["auto"] | None = Field(
        None,
        description="only this many items at the start of a sequence count; auto: from a noisy "
        "histogram of lengths, which costs epsilon_length and, in sound, also bounds the number of "
        "sequences and decides how much of epsilon single items get (default of sound; of paper: "
        "20)",
        json_schema_extra=schema_range(minimum=1, maximum=MOST_LENGTH),
    )
    n_max: int = Field(
        5,
        description="longest gram that is counted; at most l_max",
        json_schema_extra=schema_range(minimum=1, maximum=MOST_GRAM),
    )
    epsilon_length: Exact | None = Field(
        None,
        description="l_max auto: its part of epsilon; unless given epsilon / 15, with aim "
        "items / 20, in paper / 50",
    )
    length_cap: int = Field(
        100,
        description="l_max auto: the greatest length that it may choose",
        json_schema_extra=schema_range(minimum=1, maximum=MOST_LENGTH),
    )
    budget: Budget = Field(
        "adaptive", description="adaptive: by how deep a gram is expected to go; uniform: by level"
    )
    fill: Fill | None = Field(
        None,
        description="what successors get that did not pass, from the Markov parent: leftover "
        "(default of sound), ratio (default of paper), none",
    )
    generation: Generation = "proportional"
    root: Root | None = Field(
        None,
        description="threshold: single items below the threshold are not distinguished, their mass "
        "is spread if it is more than noise (default of sound); all: every noisy count above 0 is "
        "an item (the source's, default of paper)",
    )
    max_rows: Annotated[
        int,
        Field(
            ge=1,
            le=100_000_000,
            description="sound: grams at most, with the longer ones; the most frequent of these "
            "are made first",
        ),
    ] = 2_000_000
    max_cells: MaxCells = Field(
        None,
        description="counts of one length of grams that are asked at most, from two items on: the "
        "most frequent grams are made longer; all unless given",
    )
    top_k: Annotated[int, Field(ge=0, le=10_000, description="patterns listed")] = 100
    max_nodes: Annotated[int, Field(ge=1, le=100_000_000, description="counts, and grams")] = (
        5_000_000
    )
    evaluate: bool | Metrics = False

    @property
    def metrics(self) -> Metrics | None:
        """What to evaluate; None: nothing."""
        return asked_metrics(self.evaluate, Metrics)

    def given_l_max(self, stance: Stance) -> int | None:
        """l_max; None where it is found by a noisy histogram."""
        if self.l_max is None and stance == "paper":
            return PAPER_LENGTH
        return None if self.l_max in (None, "auto") else self.l_max  # type: ignore[return-value]

    def length_budget(self, stance: Stance) -> Fraction:
        """What finding l_max costs; 0 where it is given."""
        if self.given_l_max(stance) is not None:
            return Fraction(0)
        if self.epsilon_length is not None:
            return self.epsilon_length
        if stance == "paper":
            return self.epsilon / 50
        return self.epsilon / (20 if self.aim == "items" else 15)

    @property
    def levels(self) -> int:
        """The longest gram that may be counted."""
        return 1 if self.aim == "items" else self.n_max

    @property
    def root_share(self) -> Fraction | None:
        """Of epsilon, without that of lengths, for single items; None: lengths decide."""
        return Fraction(1) if self.aim == "items" else None

    def longest(self, stance: Stance) -> int:
        """The greatest l_max that a run can have."""
        return self.given_l_max(stance) or self.length_cap

    def most_root_share(self, stance: Stance) -> Fraction | None:
        """What single items get at most; None: an equal part of the levels."""
        known = self.given_l_max(stance) is None and stance == "sound"
        known = known and self.budget == "adaptive" and self.levels > 1
        return max(MOST_ROOT_SHARE, Fraction(1, self.levels)) if known else None

    def fill_of(self, stance: Stance) -> Fill:
        """As given, or the stance's own."""
        return self.fill or ("leftover" if stance == "sound" else "ratio")


def root_of(params: Parameters, stance: Stance) -> Root:
    """As given, or the stance's own."""
    return params.root or ("threshold" if stance == "sound" else "all")


def check_parameters(params: Parameters, stance: Stance) -> None:
    """Raises BadEpsilon, BadLength, BadUniverse, TreeTooLarge, TooManyPairs, MethodNeedsSound; each
    names the field."""
    if stance == "paper" and params.root == "threshold":
        raise MethodNeedsSound("the source has all", pointer="/params/root")
    if stance == "paper" and params.aim != "balanced":
        raise MethodNeedsSound("the source has no aims", pointer="/params/aim")
    if not 0 < params.epsilon <= MOST_EPSILON:
        raise BadEpsilon("must be above 0 and at most 100", pointer="/params/epsilon")
    length_given = params.given_l_max(stance)
    if length_given is None and not 0 < params.length_budget(stance) < params.epsilon:
        raise BadEpsilon("must be between 0 and epsilon", pointer="/params/epsilon_length")
    for field, value in (("l_max", length_given), ("length_cap", params.length_cap)):
        if value is not None and not 1 <= value <= MOST_LENGTH:
            raise BadLength(f"must be between 1 and {MOST_LENGTH}", pointer=f"/params/{field}")
    if not 1 <= params.n_max <= MOST_GRAM or params.levels > params.longest(stance):
        raise BadLength(
            f"must be between 1 and {MOST_GRAM} and be at most l_max", pointer="/params/n_max"
        )
    if max(noise_scales(params, stance)) > SCALE_LIMIT:
        raise BadEpsilon(
            "too small for the noise of sequences this long", pointer="/params/epsilon"
        )
    check_universe(params.universe)
    size = universe_size(params.universe)
    if size is None:
        return
    if stance == "paper" and size < PAPER_ITEMS:
        raise BadUniverse(f"has at least {PAPER_ITEMS} items here", pointer="/params/universe")
    if size + 1 > params.max_nodes:
        raise TreeTooLarge(params.max_nodes)
    if length_given is not None and length_given > 1 and root_of(params, stance) == "all":
        expected = expected_pairs(size, length_given * params.levels / params.epsilon)
        if expected > params.max_nodes:
            raise TooManyPairs(params.max_nodes, expected)


def noise_scales(params: Parameters, stance: Stance) -> tuple[Fraction, ...]:
    """The largest scale of counts of grams, and that of the lengths if they are requested."""
    lengths = params.length_budget(stance)
    share = params.most_root_share(stance)
    least = least_budget(params.epsilon - lengths, params.levels, params.budget, share)
    scale = params.longest(stance) / least
    return (scale, 1 / lengths) if lengths else (scale,)


def resolved_universe(params: Parameters, stance: Stance) -> tuple[str, ...]:
    """The items in order. Replace a reference to a dataset by its list first. Raises what
    `check_parameters` raises."""
    check_parameters(params, stance)
    return item_names(params.universe)


def settings_of(
    params: Parameters,
    stance: Stance,
    items: int,
    l_max: int,
    draws: Fraction = ONE_DRAW,
    lengths: LengthRanges | None = None,
) -> Settings:
    """A run's public choices, once l_max is known; draws: whole noises in a sum; lengths: their
    histogram, if known."""
    epsilon, n_max = params.epsilon - params.length_budget(stance), min(params.levels, l_max)
    share = params.root_share
    if lengths is not None and params.most_root_share(stance) is not None and n_max > 1:
        n_max, share = lengths.plan(items, l_max, n_max, epsilon)
    cells = params.max_cells
    if lengths is not None and cells is None and n_max > 1:  # the commonest grams, not a refusal
        cells = max(params.max_nodes - items - 1, 0) // (n_max - 1)
    return Settings(
        items=items,
        epsilon=epsilon,
        l_max=l_max,
        n_max=n_max,
        threshold=partial(
            empty_threshold, l_max=l_max, items=items, paper=stance == "paper", draws=draws
        ),
        budget=params.budget,
        fill=params.fill_of(stance),
        generation=params.generation,
        max_nodes=params.max_nodes,
        root=root_of(params, stance),
        max_rows=None if stance == "paper" else params.max_rows,
        max_cells=cells,
        draws=draws,
        root_share=share,
        lengths=lengths,
    )


def first_state(
    params: Parameters, stance: Stance, items: int, draws: Fraction = ONE_DRAW
) -> State:
    """The counting before its first question. Raises TreeTooLarge."""
    settings = partial(settings_of, params, stance, items, draws=draws)
    length_given, cap = params.given_l_max(stance), params.length_cap
    if length_given is not None:
        return first(settings(length_given))
    budget, levels = params.length_budget(stance), min(params.levels, cap)
    if stance == "paper":
        lengths = Lengths(items, cap)
        return State(
            LengthSearch(lengths, budget, levels, lambda counts: settings(covering(counts)))
        )

    def by_ranges(counts: Numbers) -> Settings:
        apart, share = params.root_share is None, params.root_share or MOST_ROOT_SHARE
        known = LengthRanges.of(counts.astype(np.int64), cap, 1 / budget, draws, apart=apart)
        return settings(known.l_max(items, params.epsilon - budget, share), lengths=known)

    return State(LengthSearch(LengthsByRange(items, cap), budget, levels, by_ranges))
