"""What a proved query asks of a contribution: circuit, field, bounds and noise bounds.

All are functions of the query and of n', the curators of a contribution: 1 of a lone curator, or
those of a host's part. Everybody computes them; none is ever sent.

Needs the extra `proofs`. Spec: validity, sections 2 to 6 and 9.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache, partial
from importlib.util import find_spec
from typing import Final

from tacit.crypto.sealing import spans
from tacit.query.encoding import Linear, Norm
from tacit.query.fields import QueryFields
from tacit.query.functions import Part, parts, reading_rule, vector_blocks
from tacit.query.mechanisms import LaplacePlan, clamped_tail, curator_plan
from tacit.query.terms import Function, Mechanism, Validity
from tacit.validity import limits
from tacit.validity.arithmetic import NUMPY, Arithmetic
from tacit.validity.functions import (
    ProvedFunction,
    ProvedMean,
    ProvedPresence,
    ProvedSum,
    ProvedVariance,
    ProvedVector,
    ReadingBounds,
    proved_count,
)
from tacit.validity.limits import FieldTooSmall
from tacit.validity.noise_bound import noise_bound
from tacit.validity.prio3 import Prio3
from tacit.validity.vectors import Block

PART_LENGTH: Final = 4096
"""Roster numbers of a segment in proved rounds, whatever the dimension, where the query asks for no
other: a host's part is one proof."""
PLAINTEXT_LIMIT: Final = 16 << 20
"""Bytes of one contribution's plaintext for aggregator 0, the longest."""


def is_proved(query: QueryFields) -> bool:
    """Whether the contributions of a query carry proofs."""
    return query.validity is Validity.PROVED


@dataclass(frozen=True)
class ContributionProof:
    """What is proved of a contribution of one lone curator, or of a host's part."""

    function: ProvedFunction
    prio3: Prio3

    def share_bytes(self, index: int) -> int:
        """Bytes of the plaintext for aggregator `index`: nonce, public share, input share."""
        return self.prio3.share_bytes(index)


@dataclass(frozen=True)
class ProofPlan:
    """The proofs of a query; `arithmetic` computes them. Every implementation gives the same
    bytes."""

    query: QueryFields
    arithmetic: Arithmetic = NUMPY

    @property
    def largest_part(self) -> int:
        """The most curators that one contribution of a round can be of."""
        return largest_part(self.query)

    @property
    def word_bytes(self) -> int:
        """Bytes of a field element, in shares and in partial sums: 8 or 16."""
        return self.of(1).prio3.circuit.field.element_bytes

    @property
    def prime(self) -> int:
        """p of the query's field."""
        return self.of(1).prio3.circuit.field.prime

    def of(self, curators: int) -> ContributionProof:
        """The proof of a contribution of this many curators. ValueError: too many curators."""
        return self._contributions(curators)

    @cached_property
    def _contributions(self) -> Callable[[int], ContributionProof]:
        # Parts come in few sizes: full segments, and one rest for each host.
        return lru_cache(maxsize=64)(partial(_contribution, self.query, self.arithmetic))

    def offset(self, lone: int, parts: Iterable[int]) -> tuple[int, ...]:
        """What is added to the opened total: for `lone` contributions of one curator, and for one
        of each of these numbers of curators."""
        total = [lone * each for each in self.of(1).function.offset]
        for curators in parts:
            offsets = self.of(curators).function.offset
            total = [have + more for have, more in zip(total, offsets, strict=True)]
        return tuple(total)


@cache
def fastest_arithmetic() -> Arithmetic:
    """Compiled if the extra `fast` is installed. For many contributions, since compiling takes
    some seconds at its first use."""
    if find_spec("numba") is None:
        return NUMPY
    from tacit.validity.compiled import COMPILED

    return COMPILED


@lru_cache(maxsize=256)
def proof_plan(query: QueryFields, arithmetic: Arithmetic = NUMPY) -> ProofPlan:
    """The plan of a proved query. ValueError: its contributions carry no proofs."""
    if not is_proved(query):
        raise ValueError("the contributions of this query carry no proofs")
    return ProofPlan(query, arithmetic)


def part_length(query: QueryFields) -> int:
    """Roster numbers of a segment: of what a host proves at once."""
    return query.part_length or PART_LENGTH


def largest_part(query: QueryFields) -> int:
    """The most curators that one contribution of a round can be of."""
    return min(part_length(query), query.n_max)


def largest_parts(query: QueryFields, first: int, curators: int) -> tuple[int, ...]:
    """The largest number of curators in each part of a host whose roster numbers begin at
    `first`."""
    most = largest_part(query)
    runs = spans(first, curators, part_length(query))
    return tuple(min(span.length, most) for span in runs)


def proof_problem(query: QueryFields) -> tuple[str, str] | None:
    """The offending field and the reason, if a proved query's numbers do not fit.

    Clamped noise of curators fits, no check is true only modulo the prime, every plaintext stays
    within `PLAINTEXT_LIMIT`, and no sum of `n_max` contributions wraps, even without noise of
    aggregators. Spec: validity, sections 2 and 6.
    """
    grain = "blocks" if query.blocks else "resolution"
    lone = _part_noise_bounds(query, 1)
    if lone and min(lone) < 1:
        field = "epsilon_u" if query.mechanism is Mechanism.TWO_LAYER else "epsilon"
        return field, "the clamped noise of a curator would always be 0: choose it smaller"
    try:
        _check_largest(query)
    except FieldTooSmall as reason:
        if part_length(query) > PART_LENGTH:
            return "part_length", f"{reason}: choose it shorter"
        return grain, f"{reason}: choose it coarser, or fewer max_readings"
    plan = proof_plan(query)
    if plan.of(plan.largest_part).share_bytes(0) > PLAINTEXT_LIMIT:
        wide = {
            Function.HISTOGRAM: "edges",
            Function.TABLE: "columns",
            Function.VECTOR_SUM: "dimension",
        }
        field = grain if query.blocks else wide[query.function]
        if part_length(query) > PART_LENGTH:
            return "part_length", "a proof for this many curators passes 16 MiB"
        passes = "a proof of this many coordinates passes 16 MiB"
        if field != "dimension":
            return field, passes
        return field, f"{passes}: at most {_most_provable(query)} at this resolution"
    if (name := wrapping_part(query)) is not None:
        return "n_max", f"a sum of this many proved contributions could wrap (part {name})"
    return None


def _most_provable(query: QueryFields) -> int:
    """The largest dimension of a vector, below the query's own, whose proof is short enough."""
    assert query.dimension is not None

    def longest(dimension: int) -> int:
        plan = ProofPlan(query.model_copy(update={"dimension": dimension}))
        return plan.of(plan.largest_part).share_bytes(0)

    return bisect_right(range(1, query.dimension), PLAINTEXT_LIMIT, key=longest)


def wrapping_part(query: QueryFields, tails: Iterable[int] | None = None) -> str | None:
    """The first part whose sum could wrap if the aggregators' noise reaches these tails, ring
    units per part (None: without noise). Spec: validity, section 6."""
    groups = parts(query)
    plan = proof_plan(query)
    spreads = _spreads(plan.of(1).function)
    bounds = _part_noise_bounds(query, 1) or (0,) * len(groups)
    place = 0
    for part, bound, tail in zip(groups, bounds, tails or (0,) * len(groups), strict=True):
        spread = max(spreads[place : place + part.dimension])
        try:
            limits.check_headroom(plan.prime, query.n_max, spread, bound, tail)
        except FieldTooSmall:
            return part.name
        place += part.dimension
    return None


def _spreads(function: ProvedFunction) -> tuple[int, ...]:
    """U - L of a sum, 2 top of a signed entry in L2, else the largest |output|: of each coordinate
    without noise."""
    noise = function.noise_bounds or (0,) * len(function.influence)
    reach = function.influence_from_zero
    if isinstance(function, ProvedSum):
        reach = function.influence
    elif isinstance(function, ProvedVector):
        offsets = zip(function.offset, noise, strict=True)
        entries = [-offset - bound for offset, bound in offsets]
        reach = tuple(value + moved for value, moved in zip(reach, entries, strict=True))
    elif isinstance(function, ProvedPresence) and isinstance(function.function, ProvedSum):
        reach = (*function.function.influence, reach[-1])
    return tuple(value - bound for value, bound in zip(reach, noise, strict=True))


def _contribution(query: QueryFields, arithmetic: Arithmetic, curators: int) -> ContributionProof:
    if not 1 <= curators <= largest_part(query):
        raise ValueError("no contribution can be of this many curators")
    bounds = _part_noise_bounds(query, curators)
    function = _function(query, curators, bounds, arithmetic)
    prio3 = function.prio3(query.aggregators)
    assert prio3.proofs > 1 or limits.false_acceptance(prio3) < limits.ONE_PROOF_ERROR
    return ContributionProof(function, prio3)


@lru_cache(maxsize=1024)
def _part_noise_bounds(query: QueryFields, curators: int) -> tuple[int, ...]:
    """T of each part of the query, () where curators draw no noise."""
    plan, tail = curator_plan(query), clamped_tail(query)
    if not isinstance(plan, LaplacePlan) or tail is None:
        return ()
    bound_of: dict[Fraction, int] = {}
    for scale in plan.scales:
        if scale not in bound_of:
            bound_of[scale] = noise_bound(tail, scale, plan.weight, curators)
    return tuple(bound_of[scale] for scale in plan.scales)


def _function(
    query: QueryFields, curators: int, bounds: tuple[int, ...], arithmetic: Arithmetic
) -> ProvedFunction:
    """`bounds`: T of each part, or ()."""
    groups = parts(query)
    if query.function in (Function.HISTOGRAM, Function.TABLE, Function.VECTOR_SUM):
        per_coordinate = _per_coordinate(groups, bounds)
        largest = _blocks(query, part_length(query))
        return ProvedVector(_blocks(query, curators), per_coordinate, arithmetic, largest)
    sum_bounds = bounds[: len(bounds) - 1] if query.completeness is not None else bounds
    function = _scalar(query, curators, sum_bounds, arithmetic)
    if query.completeness is None:
        return function
    return ProvedPresence(function, curators, bounds[-1] if bounds else 0)


def _scalar(
    query: QueryFields, curators: int, bounds: tuple[int, ...], arithmetic: Arithmetic
) -> ProvedSum | ProvedMean | ProvedVariance:
    readings = query.max_readings * curators
    if query.function is Function.COUNT:
        return proved_count(readings, bounds, arithmetic)
    one = reading_rule(query).bounds
    limits = ReadingBounds(one.low, one.high, readings)
    match query.function:
        case Function.SUM:
            return ProvedSum(_within_window(query, curators, limits), bounds, arithmetic)
        case Function.MEAN:
            return ProvedMean(limits, bounds, arithmetic)
        case _:
            largest = query.max_readings * part_length(query)
            return ProvedVariance(limits, largest, bounds, arithmetic)


def _within_window(query: QueryFields, curators: int, readings: ReadingBounds) -> ReadingBounds:
    """The bounds of a sum; with a bound on windows each curator counts as one reading within it."""
    window = parts(query)[0].window
    if window is None:
        return readings
    one = ReadingBounds(readings.lowest, readings.highest, query.max_readings)
    lowest, highest = max(one.least, -window.most), min(one.most, window.most)
    return ReadingBounds(lowest, highest, curators)


@lru_cache(maxsize=256)
def _blocks(query: QueryFields, curators: int) -> tuple[Block, ...]:
    """With a bound on windows, the norm of a part of n' curators is at most n' times it (by the
    triangle inequality), and so is each of its entries."""
    readings = query.max_readings * curators
    first = parts(query)[0]
    if first.linear is Linear.HISTOGRAM:
        blocks = [Block(first.dimension, readings, readings)]
    else:
        blocks = []
        for block, part in zip(vector_blocks(query), parts(query), strict=False):
            # The norm in L2 is at most that in L1.
            bound, window = readings * block.l1_bound, part.window
            if window is not None:
                bound = min(bound, curators * window.most)
            blocks.append(
                Block(
                    block.dimension,
                    min(bound, readings * block.bounds.largest),
                    bound,
                    signed=block.bounds.low < 0,
                    l2=window is not None and window.norm is Norm.L2,
                )
            )
    if query.completeness is not None:
        blocks.append(Block(1, curators, curators))
    return tuple(blocks)


def _per_coordinate(groups: tuple[Part, ...], bounds: tuple[int, ...]) -> tuple[int, ...]:
    if not bounds:
        return ()
    return tuple(
        bound for part, bound in zip(groups, bounds, strict=True) for _ in range(part.dimension)
    )


def _check_largest(query: QueryFields) -> None:
    """Check that no sum over a part of `part_length` curators wraps. Raises FieldTooSmall."""
    noise = _part_noise_bounds(query, largest_part(query))
    function = _function(query, part_length(query), noise, NUMPY)
    if isinstance(function, ProvedPresence):
        limits.check_sum(ReadingBounds(0, 1, function.curators), function.noise_bound)
        function = function.function
    match function:
        case ProvedSum():
            limits.check_sum(function.bounds, *function.noise_bounds)
        case ProvedMean():
            limits.check_mean(function.bounds, function.noise_bounds)
        case ProvedVariance():
            limits.check_variance(function.bounds, function.noise_bounds)
        case ProvedVector():
            limits.check_vector(function.blocks, function.noise_bounds)
