"""Charges to a budget: what one round costs in each privacy unit, the one credit, and what each
record of a federated job has spent; and whether a query is accepted.

Spec: budget, section 3. The noise is that of the query as declared: its scales b_p = Delta_p / (s_p
epsilon) are computed for the query's *own* unit. What a round costs in the other unit follows from
the same draws and the other unit's sensitivity F_p: part p costs F_p / b_p = s_p epsilon F_p /
Delta_p, so the round costs

    epsilon' = epsilon * sum_p s_p F_p / Delta_p          (one part: epsilon * F / Delta),

never above epsilon * max_p F_p / Delta_p, and exactly that where the ratios are equal. Where the
honest noise holds no whole draw, delta is the certified one of sensitivity F_p at that epsilon:
no formula of group privacy, which would multiply delta by up to e^epsilon'.

With windows that hold more readings than `max_readings`, the record unit counts swaps and may cost
*more* than the curator unit (a histogram of one reading each: 2 against 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.amounts import NO_COST, UNVERIFIED, Cost, debited_delta, format_delta
from tacit.accounting.expected_error import Layers, all_draws
from tacit.accounting.guarantees import (
    HonestNoise,
    VerifiedLine,
    composed_delta,
    declared_epsilon,
    gaussian_cost,
    honest_noise,
    no_guarantee,
    verified_line,
    with_clamping,
)
from tacit.accounting.loss.rounding import Draws, GaussianDraws
from tacit.accounting.scenarios import Scenario, honest_draws
from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.protocol.round.descriptor import ABORT_LABEL, AbortStatement, Frozen, RoundDescriptor
from tacit.query.encoding import headroom
from tacit.query.functions import parts
from tacit.query.mechanisms import is_gaussian, scheme
from tacit.query.query import Query
from tacit.query.terms import Mechanism, PrivacyUnit, Sharing, Stance, Validity
from tacit.wire import format_exact


def unit_cost(
    query: Query,
    scenario: Scenario,
    unit: PrivacyUnit,
    operators: Sequence[str] | None = None,
) -> Cost:
    """One round's (epsilon, delta) in this unit; (None, None) if nothing is verified.

    A sum without noise has no epsilon and costs nothing here. Ledgers list such sums separately,
    and the amounts that they keep hold only against people who do not have those answers.

    The cost holds for every manifest of at least `min_participants` curators. In the query's own
    unit it equals that of `verified_line`. `operators`: who runs each aggregator (None: all
    different).
    """
    return _unit_cost(query, scenario, unit, None if operators is None else tuple(operators))


def unit_costs(
    query: Query, operators: Sequence[str] | None = None
) -> Mapping[tuple[PrivacyUnit, Scenario], Cost]:
    """`unit_cost` of both units in all five scenarios."""
    return _unit_costs(query, None if operators is None else tuple(operators))


def job_costs(
    query: Query, epsilon: Fraction, operators: Sequence[str] | None = None
) -> Mapping[tuple[PrivacyUnit, Scenario], Cost]:
    """The cost of a job whose records spend at most `epsilon` over all its rounds. query: of one of
    its rounds.

    The figure needs one whole draw of noise in each cell that the adversary does not know. That
    is so if the round itself costs its epsilon with delta 0; otherwise nothing is verified. In
    the unit `curator` all records that count belong to the curator. Spec: federated-counting,
    section 6.
    """
    records = {PrivacyUnit.RECORD: 1, PrivacyUnit.CURATOR: query.max_readings}
    assert query.epsilon is not None
    return {
        (unit, scenario): Cost(epsilon * records[unit], Fraction(0))
        if cost == Cost(query.epsilon * records[unit], Fraction(0))
        else UNVERIFIED
        for (unit, scenario), cost in unit_costs(query, operators).items()
    }


@lru_cache(maxsize=1024)
def _unit_costs(
    query: Query, operators: tuple[str, ...] | None
) -> Mapping[tuple[PrivacyUnit, Scenario], Cost]:
    return MappingProxyType(
        {
            (unit, scenario): _unit_cost(query, scenario, unit, operators)
            for unit in PrivacyUnit
            for scenario in Scenario
        }
    )


@lru_cache(maxsize=4096)
def _unit_cost(
    query: Query, scenario: Scenario, unit: PrivacyUnit, operators: tuple[str, ...] | None
) -> Cost:
    if query.mechanism is Mechanism.EXACT:
        return NO_COST
    if query.stance is Stance.PAPER:
        return UNVERIFIED
    honest = honest_draws(query, scenario, None, operators)
    if is_gaussian(query):
        return gaussian_cost(query, honest, unit)
    declared = declared_epsilon(query, honest)
    if declared is None:
        return UNVERIFIED
    noise = honest_noise(query, honest, unit)
    if no_guarantee(query, noise) is not None:
        return UNVERIFIED
    epsilon, scaled = _scaled(declared, honest_noise(query, honest), noise)
    delta = with_clamping(query, epsilon, composed_delta(scaled, epsilon))
    return UNVERIFIED if delta >= 1 else Cost(epsilon, debited_delta(delta))


def _scaled(
    declared: Fraction, own_noise: tuple[HonestNoise, ...], asked_noise: tuple[HonestNoise, ...]
) -> tuple[Fraction, tuple[HonestNoise, ...]]:
    """epsilon' and the parts with their shares of it, in place of the shares of epsilon."""
    growth = tuple(
        one.share * Fraction(other.sensitivity, one.sensitivity)
        for one, other in zip(own_noise, asked_noise, strict=True)
    )
    total = sum(growth, Fraction(0))
    return declared * total, tuple(
        HonestNoise(share / total, part.sensitivity, part.dimension, part.draws)
        for share, part in zip(growth, asked_noise, strict=True)
    )


# The one credit (spec: budget, section 5): a round that aborted before anything can have been
# opened. A debit is final once a piece may have left. It is reversed, under the query's own
# assumption only, when enough aggregators sign "never frozen, pieces destroyed" that no quorum can
# have opened the sum even if t_s of them lie.


def statements_needed(query: Query) -> int | None:
    """How many "never frozen" statements earn a credit; None if no number does.

    This many rule out that a quorum opened the sum, even if `t_s` of the statements are lies.
    """
    corrupt = query.collusion.aggregators
    if query.sharing is Sharing.NONE:
        return None
    if query.sharing is Sharing.SHAMIR:
        assert query.threshold is not None
        return query.aggregators - query.threshold + 1 + corrupt
    return corrupt + 1


def abort_credit(descriptor: RoundDescriptor, aborts: Sequence[Signed[AbortStatement]]) -> bool:
    """Whether enough operators of the round's aggregators signed that it ended without a frozen
    set. Two aggregators of one operator count as one."""
    needed = statements_needed(descriptor.query)
    if needed is None:
        return False
    digest, believed = descriptor.digest(), set()
    for signed in aborts:
        statement = signed.statement
        if statement.frozen is not Frozen.NEVER or statement.round != descriptor.round:
            continue
        if statement.descriptor_hash != digest:
            continue
        try:
            entry = descriptor.aggregators[descriptor.index_of(statement.aggregator)]
            verify(ABORT_LABEL, signed, entry.identity_key)
        except (KeyError, SignatureBroken):
            continue
        believed.add(entry.operator)
    return len(believed) >= needed


# What each record has spent of a job's one debit (spec: federated-counting, section 6.2). A record
# that adds v to a block with noise of scale b spends |v|_1 / b. It counts in a round only while the
# sum S of what it spent stays within the job's epsilon; otherwise it adds nothing to this round. So
# for any questions, in any order and at any rates, the views of a whole job on two databases that
# differ by one record are within e^epsilon (an individual privacy filter; Feldman and Zrnic 2021,
# pure DP). Sums are exact: numerators over a common denominator. S is private: it is never sent,
# and only the vectors depend on it.

Ints = NDArray[np.int64]
Bits = NDArray[np.bool_]

MOST_BITS: Final = 4_096
"""Of a common denominator: honest jobs stay far below, and sums stay cheap."""
_WIDE: Final = 1 << 62


@dataclass(frozen=True, eq=False)
class Spent:
    """S of each record (n,) of one curator in one job: numerators over a denominator."""

    numerators: NDArray[Any]
    denominator: int = 1

    @classmethod
    def nothing(cls, records: int) -> Spent:
        """Before the first round."""
        return cls(np.zeros(records, np.int64))

    @property
    def most(self) -> Fraction:
        """The largest S; 0 without records."""
        return Fraction(int(self.numerators.max(initial=0)), self.denominator)

    def admit(
        self, counts: Ints, costs: Sequence[Fraction], epsilon: Fraction
    ) -> tuple[Spent, Bits]:
        """The sums after one more round, and for each record (n,) whether it counts in that round.

        counts (n, blocks): what each record adds to each block, in L1 norm; costs: 1 / b of each
        block. No record counts if the sums have no common denominator of `MOST_BITS`; this is
        public.
        """
        denominator = math.lcm(self.denominator, *(cost.denominator for cost in costs))
        if denominator.bit_length() > MOST_BITS:
            return self, np.zeros(len(self.numerators), np.bool_)
        units = [cost.numerator * (denominator // cost.denominator) for cost in costs]
        limit = math.floor(epsilon * denominator)
        largest = int(counts.max(initial=0)) * sum(units) + limit
        kind = np.int64 if max(largest, denominator) < _WIDE else object
        spent = self.numerators.astype(kind) * (denominator // self.denominator)
        after = spent.copy()
        for block, unit in enumerate(units):
            after = after + counts[:, block].astype(kind) * unit
        counted = np.asarray(after <= limit, np.bool_)
        return Spent(np.where(counted, after, spent), denominator), counted

    def packed(self) -> bytes:
        """The numerators as bytes, all of one width."""
        width = max(1, -(-int(self.numerators.max(initial=0)).bit_length() // 8))
        if self.numerators.dtype != object:
            octets = np.ascontiguousarray(self.numerators, "<i8").view(np.uint8)
            return octets.reshape(-1, 8)[:, :width].tobytes()
        return b"".join(int(each).to_bytes(width, "little") for each in self.numerators)

    @classmethod
    def unpacked(cls, packed: bytes, records: int, denominator: int) -> Spent:
        """The sums of `packed`. Raises ValueError for bytes of another number of records."""
        if not records:
            return cls.nothing(0)
        width, rest = divmod(len(packed), records)
        if rest or not width:
            raise ValueError("the sums are those of another number of records")
        if width < 8:
            octets = np.zeros((records, 8), np.uint8)
            octets[:, :width] = np.frombuffer(packed, np.uint8).reshape(records, width)
            return cls(octets.view("<i8").ravel().astype(np.int64), denominator)
        numbers = [
            int.from_bytes(packed[start : start + width], "little")
            for start in range(0, len(packed), width)
        ]
        return cls(np.array(numbers, object), denominator)


# Whether a query is accepted: what its rounds are charged, and what the sound stance refuses (spec:
# aggregation, section 7).


class Debit(NamedTuple):
    """What a round costs a curator: under the query's own assumption, and if all aggregators
    collude."""

    assumed: Cost
    all_corrupt: Cost

    @property
    def epsilon(self) -> Fraction | None:
        return self.assumed.epsilon

    @property
    def delta(self) -> Fraction | None:
        return self.assumed.delta

    @property
    def epsilon_all_corrupt(self) -> Fraction | None:
        return self.all_corrupt.epsilon

    @property
    def delta_all_corrupt(self) -> Fraction | None:
        return self.all_corrupt.delta


def sound_refusal(query: Query, operators: Sequence[str] | None = None) -> str | None:
    """Why the sound stance refuses this query; None if it is fit.

    It refuses what does not hold at the declared (epsilon, delta) under the query's own collusion.
    Whether `exact` and the paper stance are allowed is the deployment's choice, not this
    function's. Noise that cannot be drawn is refused before: such a query is not valid.
    """
    if query.mechanism is Mechanism.EXACT or query.stance is Stance.PAPER:
        return None
    line = verified_line(query, Scenario.ASSUMED, None, operators)
    if line.epsilon is None:
        return f"under the query's own collusion assumption nothing holds: {line.reason}"
    if Fraction(line.delta) > query.delta:
        return (
            "under the query's own collusion assumption delta is "
            f"{format_delta(line.delta)} at epsilon {format_exact(line.epsilon)}, above the "
            f"declared {format_exact(query.delta)}: {line.reason}"
        )
    return None


def debit(query: Query, operators: Sequence[str] | None = None) -> Debit:
    """What a curator's ledger is charged for one round: row e, and row d in the second column.

    Pass the operators of the round's aggregators if they are known.
    """
    if query.mechanism is Mechanism.EXACT:
        return Debit(NO_COST, NO_COST)
    return Debit(
        _cost(verified_line(query, Scenario.ASSUMED, None, operators)),
        _cost(verified_line(query, Scenario.EVERYONE, None, operators)),
    )


def _cost(line: VerifiedLine) -> Cost:
    if line.epsilon is None:
        return UNVERIFIED
    return Cost(line.epsilon, debited_delta(line.delta), line.rho)


# Headroom in the ring: no sum may wrap (spec: aggregation, section 2). Per coordinate, n_max *
# max|f| + noise tail at 2^-64 < modulus / 2. The tail t of all noise there can be, P(|Z| >= t) <=
# 2^-64, is Chernoff's: for every theta below 1/b of the widest layer
#
#     t = (65 ln 2 + sum over layers n r ln M(theta)) / theta,
#     M(theta) = (1-a)^2 / ((1 - a e^theta) (1 - a e^-theta)),
#
# the least over a few theta. A coin only takes noise away: M >= 1, so the worst is that all draw.
# A wrap would spoil a result, not privacy. The sums of a proved query lie in its prime field, and
# clamped noise of curators reaches no further than its bound: spec: validity, section 6.

TAIL_BITS: Final = 64
_MARGIN: Final = 1.0001
_THETAS: Final = tuple(step / 100 for step in range(1, 100))


def gaussian_tail(variance: Fraction, dimension: int) -> int:
    """A t with P(|Z| >= t in some coordinate) <= 2^-64 for Gaussian noise of this variance in each
    of `dimension` coordinates, in ring units: P(|Z| >= t) <= 2 e^(-t^2 / (2 s^2)), as of the
    continuous law."""
    deviations = math.sqrt(2 * ((TAIL_BITS + 1) * math.log(2) + math.log(dimension)))
    return math.ceil(math.sqrt(float(variance)) * deviations * _MARGIN)


def noise_tail(layers: tuple[Draws, ...]) -> int:
    """A t with P(|Z| >= t) <= 2^-64 for the sum of all draws, in ring units."""
    layers = tuple(layer for layer in layers if layer.parties and layer.probability)
    if not layers:
        return 0
    widest = float(max(layer.scale for layer in layers))
    best = math.inf
    for share in _THETAS:
        theta = share / widest
        growth = sum(float(layer.total) * _log_moment(layer, theta) for layer in layers)
        best = min(best, ((TAIL_BITS + 1) * math.log(2) + growth) / theta)
    return math.ceil(best * _MARGIN)


def _log_moment(layer: Draws, theta: float) -> float:
    rate = float(1 / layer.scale)
    return (
        2 * math.log(-math.expm1(-rate))
        - math.log(-math.expm1(theta - rate))
        - math.log(-math.expm1(-theta - rate))
    )


@lru_cache(maxsize=4096)  # an aggregator asks it in every round of a query
def headroom_problem(query: Query) -> str | None:
    """Why sums of this query could wrap; None if they cannot."""
    if query.validity is Validity.PROVED:
        return _proved_problem(query)
    modulus = scheme(query).modulus
    for index, part in enumerate(parts(query)):
        tail = _tail(all_draws(query, query.n_max, index), part.dimension)
        if not headroom(query.n_max, part.largest, tail, modulus):
            return (
                f"part {part.name}: {query.n_max} contributions of up to {part.largest} ring units "
                f"and noise of up to {tail} could pass {modulus // 2}, where sums wrap; "
                "choose a coarser resolution or a smaller n_max"
            )
    return None


def _tail(layers: Layers, dimension: int) -> int:
    gaussians = [layer.variance for layer in layers if isinstance(layer, GaussianDraws)]
    if gaussians:
        return gaussian_tail(sum(gaussians, Fraction(0)), dimension)
    return noise_tail(tuple(layer for layer in layers if isinstance(layer, Draws)))


def _proved_problem(query: Query) -> str | None:
    # A library without its extra `proofs` reads all other queries.
    from tacit.query.proofs import proof_plan, wrapping_part

    # Clamped noise of curators is counted with their contributions.
    tails = [
        _tail(all_draws(query, 0, index), part.dimension) for index, part in enumerate(parts(query))
    ]
    if (name := wrapping_part(query, tails)) is None:
        return None
    return (
        f"part {name}: {query.n_max} proved contributions and noise of up to {max(tails)} could "
        f"pass half of the field of {proof_plan(query).prime} elements, or 62 bits, where sums "
        "wrap; choose a coarser resolution or a smaller n_max"
    )
