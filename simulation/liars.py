"""What the same liars do to a declared and to a proved sum, over the same readings and noise.

    enormous    10^12 in the query's unit
    wrapping    less than nothing, by more than all n_max curators can have: a word that wraps
    outside     one ring unit more than the largest contribution that has a proof
    within      that largest contribution: honest in looks, and no proof notices it

In the declared round a lie is shared as it is. In the proved round the nearest contribution in the
range is encoded, and what is missing is put into the first bit: the sum would be the same, but the
proof is made with a bit that is none. Sharing, proofs, verification and opening are the product's
own; seals, stores and HTTP are omitted. The randomness is seeded: for simulation only.

Spec: validity, sections 1, 3 and 4.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from curator.engine import within_reach
from simulation.plots import Line, Panel, Plot
from simulation.populations import Population
from simulation.simulated_rounds import Store, Sums, check_unit, figures, readings, sums
from tacit.crypto.sharing import Words
from tacit.protocol.round.opening import proved_total
from tacit.protocol.round.pieces import clamped, proof_context
from tacit.query.functions import encode, parts
from tacit.query.mechanisms import aggregator_plan, curator_plan, draw, scheme
from tacit.query.proofs import is_proved, proof_plan
from tacit.query.query import Query
from tacit.query.terms import Function
from tacit.randomness import SeededRandom
from tacit.sets import Bits
from tacit.validity.arithmetic import SEED_BYTES
from tacit.validity.field import Elements
from tacit.validity.functions import ProvedSum
from tacit.validity.prio3 import Outcome
from tacit.wire import format_exact

Ints = NDArray[np.int64]
Json = dict[str, Any]

ENORMOUS_AMOUNT: Final = 10**12
"""In the query's unit."""
BLOCK_CURATORS: Final = 1 << 12
_HASH_BYTES: Final = 32
_RING_MASK: Final = (1 << 64) - 1


class Lie(StrEnum):
    """What a liar claims to have; see above."""

    ENORMOUS = "enormous"
    WRAPPING = "wrapping"
    OUTSIDE = "outside"
    WITHIN = "within"


KINDS: Final = tuple(Lie)
HONEST: Final = -1
"""In place of a lie's place in `KINDS`."""


@dataclass(frozen=True)
class Told:
    """How many lies of a kind were sent in a round, and how many the aggregators found."""

    lie: Lie
    told: int
    named: int


@dataclass(frozen=True)
class LiedRound:
    """One round. Amounts are exact decimals in the query's unit.

    `true`: of everyone's own readings. `declared`, `proved`: what is released, with noise;
    `proved` is None if fewer than `min_participants` contributions are left. `honest_named`: how
    many honest curators were refused.
    """

    round: int
    true: str
    declared: str
    proved: str | None
    lies: tuple[Told, ...]
    honest_named: int

    @property
    def told(self) -> int:
        """The number of lies of all kinds."""
        return sum(lie.told for lie in self.lies)

    @property
    def named(self) -> int:
        """The number of lies that were named."""
        return sum(lie.named for lie in self.lies)

    @property
    def declared_error(self) -> float:
        """Declared minus true."""
        return float(Fraction(self.declared) - Fraction(self.true))

    @property
    def proved_error(self) -> float | None:
        """Proved minus true, None where nothing was released."""
        return None if self.proved is None else float(Fraction(self.proved) - Fraction(self.true))


@dataclass(frozen=True)
class Comparison:
    """A whole simulation.

    `claims`: what a liar of each kind claims; `reach`: by how much one lie with a valid proof
    moves the sum at most. Both exact decimals in `unit`.
    """

    query: Json
    population: Json
    unit: str
    seed: int
    liars: int
    claims: dict[str, str]
    reach: str
    rows: tuple[LiedRound, ...]

    def document(self) -> Json:
        """As JSON values."""
        rows = [
            {
                **asdict(row),
                "declared_error": row.declared_error,
                "proved_error": row.proved_error,
            }
            for row in self.rows
        ]
        head = {**asdict(self), "rows": rows, "figures": self.figures()}
        return {"format": "tacit.simulation-liars/1", **head}

    def figures(self) -> Json:
        """Over all rounds: mean absolute errors (None: no such release), lies told, named, and
        passed, and honest curators named."""
        proved = [abs(row.proved_error) for row in self.rows if row.proved_error is not None]
        lies_told, named = sum(row.told for row in self.rows), sum(row.named for row in self.rows)
        declared = [abs(row.declared_error) for row in self.rows]
        return {
            "rounds": len(self.rows),
            "mean_absolute_declared_error": sum(declared) / len(declared),
            "mean_absolute_proved_error": sum(proved) / len(proved) if proved else None,
            "told": lies_told,
            "named": named,
            "passed": lies_told - named,
            "honest_named": sum(row.honest_named for row in self.rows),
        }


def compare(
    query: Query, population: Population, share: Fraction, rounds: int, seed: int
) -> Iterator[LiedRound]:
    """The rounds, as they end; `share` of the curators lie, at least one, drawn for each round.

    ValueError: the query is not a proved sum, has completeness, or has another unit or fewer
    curators than the population; the share is not in (0, 1]; or such lies lie within the range.
    """
    _check(query, population)
    if not 0 < share <= 1:
        raise ValueError("the share of liars is above 0 and at most 1")
    claimed = claims(query)
    store, source = Store.of(population), SeededRandom(seed)
    return (
        _round(query, store, population.curators, share, number, claimed, source)
        for number in range(rounds)
    )


def liar_count(curators: int, share: Fraction) -> int:
    """How many of the curators lie: the nearest number, at least one."""
    return max(1, round(curators * share))


def claims(query: Query) -> dict[Lie, int]:
    """What a liar of each kind sends for its value and noise, ring units. ValueError: the largest
    lie lies within the range."""
    proved = _proved_sum(query)
    lowest = proved.offset[0]
    highest = lowest + proved.top
    result = {
        Lie.ENORMOUS: round(ENORMOUS_AMOUNT / parts(query)[0].value),
        Lie.WRAPPING: lowest - query.n_max * proved.bounds.farthest,
        Lie.OUTSIDE: highest + 1,
        Lie.WITHIN: highest,
    }
    if result[Lie.ENORMOUS] <= highest:
        raise ValueError("the bounds of the query allow even 10^12: no such lie is outside")
    return result


def comparison(
    query: Query,
    population: Population,
    share: Fraction,
    seed: int,
    rows: tuple[LiedRound, ...],
) -> Comparison:
    """All rounds with the query and the population."""
    value = parts(query)[0].value
    return Comparison(
        json.loads(query.canonical()),
        {
            "name": population.name,
            "curators": population.curators,
            "provenance": population.provenance,
        },
        query.unit,
        seed,
        liar_count(population.curators, share),
        {lie.value: format_exact(units * value) for lie, units in claims(query).items()},
        format_exact(_proved_sum(query).influence[0] * value),
        rows,
    )


def plot(comparison_made: Comparison) -> Plot:
    """How far both sums are from the truth, and how many liars were named, over the rounds."""
    released = [row for row in comparison_made.rows if row.proved_error is not None]
    x = tuple(float(row.round) for row in comparison_made.rows)
    declared = tuple(abs(row.declared_error) for row in comparison_made.rows)
    proved = tuple(abs(row.proved_error or 0.0) for row in released)
    passed = tuple(
        float((row.told - row.named) * Fraction(comparison_made.reach))
        for row in comparison_made.rows
    )
    lies_told, named = (
        tuple(float(row.told) for row in comparison_made.rows),
        tuple(float(row.named) for row in comparison_made.rows),
    )
    return Plot(
        "liars",
        f"{comparison_made.liars} of {comparison_made.population['curators']} curators lie",
        (
            Panel(
                "Distance from the true total",
                "round",
                comparison_made.unit,
                (
                    Line("declared", x, declared),
                    Line(
                        "proved", tuple(float(row.round) for row in released), proved, kind="ours"
                    ),
                    Line("what lies within the range can do", x, passed, kind="bound"),
                ),
            ),
            Panel(
                "Liars",
                "round",
                "curators",
                (Line("lied", x, lies_told), Line("named", x, named, kind="ours")),
                y_scale="linear",
            ),
        ),
    )


# --- one round -----------------------------------------------------------------------------------


def _check(query: Query, population: Population) -> None:
    if query.function is not Function.SUM or query.completeness is not None:
        raise ValueError("lies are compared over the function sum, without completeness")
    if not is_proved(query):
        raise ValueError("lies are compared with a proved query")
    check_unit(query, population)
    if population.curators > query.n_max:
        raise ValueError("the population is larger than the query's n_max")


def _proved_sum(query: Query) -> ProvedSum:
    function = proof_plan(query).of(1).function
    assert isinstance(function, ProvedSum)
    return function


def _drawn_lies(curators: int, share: Fraction, number: int, source: SeededRandom) -> Ints:
    """(n,) an index in `KINDS` for each liar, `HONEST` for all others.

    Kinds are assigned in turn; each round begins with the next one.
    """
    lies = np.full(curators, HONEST, np.int64)
    count = liar_count(curators, share)
    liars = source.generator.choice(curators, count, replace=False)
    lies[liars] = (np.arange(count) + number) % len(KINDS)
    return lies


def _round(
    query: Query,
    store: Store,
    curators: int,
    share: Fraction,
    number: int,
    claimed: dict[Lie, int],
    source: SeededRandom,
) -> LiedRound:
    lies = _drawn_lies(curators, share, number, source)
    amounts = np.array([claimed[lie] for lie in KINDS], dtype=object)
    declared, proved = _Declared(query), _Proved(query, source)
    truth = Sums()
    accepted = np.zeros(curators, np.bool_)
    for start in range(0, curators, BLOCK_CURATORS):
        rows = np.arange(start, min(start + BLOCK_CURATORS, curators))
        honest = np.zeros(rows.size, np.bool_)
        lots = readings(query, store, rows, honest)
        truth += sums(query, lots, clamp=False)
        values = encode(query, within_reach(query, lots)).values
        plan = curator_plan(query)
        noise = None if plan is None else draw(plan, source, rows.size)
        kinds = lies[rows]
        lying = kinds != HONEST
        claim = amounts[kinds[lying]]
        declared.add(values, noise, lying, claim, source)
        accepted[rows] = proved.add(values, noise, lying, claim, source)
    value = parts(query)[0].value
    layer = _aggregator_noise(query, source)
    count = int(accepted.sum())
    opened = proved.open(layer, count) if count >= query.min_participants else None
    return LiedRound(
        number,
        format_exact(figures(query, truth)[0]),
        format_exact(declared.open(layer) * value),
        None if opened is None else format_exact(opened * value),
        tuple(
            Told(lie, int((lies == place).sum()), int((~accepted[lies == place]).sum()))
            for place, lie in enumerate(KINDS)
        ),
        int((~accepted[lies == HONEST]).sum()),
    )


def _aggregator_noise(query: Query, source: SeededRandom) -> Ints:
    """What each aggregator adds, (c,): the same in both rounds."""
    plan = aggregator_plan(query)
    if plan is None:
        return np.zeros(query.aggregators, np.int64)
    return draw(plan, source, query.aggregators)[:, 0]


class _Declared:
    """Shares of a declared round, which are not verified."""

    def __init__(self, query: Query) -> None:
        self._scheme = scheme(query)
        self._partials: list[Words] = [np.zeros(1, np.uint64) for _ in range(query.aggregators)]

    def add(
        self,
        values: Ints,
        noise: Ints | None,
        lying: Bits,
        claim: NDArray[np.object_],
        source: SeededRandom,
    ) -> None:
        """Values (b, 1) and noise of curators; the liars among them (b,) send their claims."""
        sent = values.copy() if noise is None else values + noise
        sent[lying, 0] = (claim & _RING_MASK).astype(np.uint64).view(np.int64)
        for place, pieces in enumerate(self._scheme.split(sent, source)):
            self._partials[place] = self._scheme.add(self._partials[place], pieces)

    def open(self, noise: Ints) -> int:
        """The total, ring units; noise (c,) is that of the aggregators."""
        noise_words = noise.astype(np.uint64)[:, np.newaxis]
        partials = {place: words + noise_words[place] for place, words in enumerate(self._partials)}
        return int(self._scheme.combine(partials)[0])


class _Proved:
    """Shares with a proof, which all aggregators check together."""

    def __init__(self, query: Query, source: SeededRandom) -> None:
        self._query = query
        self._plan = proof_plan(query)
        self._proof = self._plan.of(1)
        self._context = proof_context(source.bytes(_HASH_BYTES))
        self._verify_key = source.bytes(SEED_BYTES)
        field = self._proof.prio3.circuit.field
        self._partials: list[Elements] = [field.small([0]) for _ in range(query.aggregators)]

    def add(
        self,
        values: Ints,
        noise: Ints | None,
        lying: Bits,
        claim: NDArray[np.object_],
        source: SeededRandom,
    ) -> Bits:
        """As declared; whose proof every aggregator accepts, (b,)."""
        prio3 = self._proof.prio3
        measurement = self._measured(values, noise, lying, claim)
        nonces, randomness = prio3.draw_randomness(source, len(values))
        sharded = prio3.shard(self._context, measurement, nonces, randomness)
        verifications = [
            prio3.verify(
                self._verify_key, self._context, index, nonces, sharded.public_shares, share
            )
            for index, share in enumerate(sharded.input_shares)
        ]
        decision = prio3.decide(
            self._context, [verification.verifier_shares for verification in verifications]
        )
        accepted = np.ones(len(values), np.bool_)
        for verification in verifications:
            accepted &= prio3.outcomes(verification, decision) == Outcome.ACCEPTED
        field = prio3.circuit.field
        for index, verification in enumerate(verifications):
            aggregated = prio3.aggregate(verification.output_shares, accepted)
            self._partials[index] = field.add(self._partials[index], aggregated)
        return accepted

    def open(self, noise: Ints, accepted: int) -> int:
        """The total of as many accepted contributions, ring units."""
        field = self._proof.prio3.circuit.field
        partials = [
            field.encode(
                field.add(partial, field.elements([int(added)]))[..., np.newaxis]
            ).tobytes()
            for partial, added in zip(self._partials, noise, strict=True)
        ]
        return int(proved_total(self._query, partials, self._plan.offset(accepted, ()))[0])

    def _measured(
        self, values: Ints, noise: Ints | None, lying: Bits, claim: NDArray[np.object_]
    ) -> Elements:
        """Honest measurements, and of liars the nearest one with the rest in its first bit, whose
        weight is 1."""
        function = self._proof.function
        assert isinstance(function, ProvedSum)
        values = values.copy()
        bounded_noise = None if noise is None else clamped(self._proof, noise)
        values[lying, 0] = np.clip(claim, function.bounds.least, function.bounds.most)
        rest = claim - values[lying, 0]
        if bounded_noise is not None:
            bound = function.noise_bounds[0]
            bounded_noise[lying, 0] = np.clip(rest, -bound, bound)
            rest = rest - bounded_noise[lying, 0]
        measurement = function.encode(values, bounded_noise)
        field = self._proof.prio3.circuit.field
        false_bits = field.add(measurement[:, 0, lying], field.elements(rest))
        measurement[:, 0, lying] = false_bits
        return measurement
