"""What really holds, for each way in which parties may collude (spec: aggregation, section 7).

    key  adversary, besides the recipient of the result        names of the DAP draft
    a    nobody                                                 -
    b    n-1 curators                                           -
    c    n-1 curators, as many aggregators as learn nothing     OAOC: one aggregator, only me
    d    n-1 curators and all aggregators                       OC: only me
    e    the query's own: t_u curators and t_s aggregators      OAMC where t_u is a minority

Colluders subtract what they know: their readings *and their noise*. What protects the victim is
the noise of the honest parties, its own included. A weaker guarantee that remains when the
assumption fails is hedging: rows c and d are part of every statement.

- An operator is one party: whoever runs several aggregators brings all of them. t_s corrupt
  aggregators are at worst all those of the t_s largest operators; an operator that can open
  contributions alone (c of c, or k under shamir) makes rows c and e fall to row d.
- A manifest holds the noise of all c aggregators (additive), of at least c_noise (shamir).
- Guarantees hold for any manifest of at least `min_participants` curators.
- A line states (epsilon, delta) at the *declared epsilon* of its row: `epsilon` (distributed),
  `epsilon_i` (local); for two-layer the least epsilon among the layers that are sure to draw
  (epsilon_u if pr_u = 1; epsilon_s if pr_s = 1 and an honest aggregator exists), and where no layer
  is sure, what the source claims, epsilon_u + epsilon_s.
- The parts of mean, variance and blocks change together: at epsilon, part p is accounted at its
  share of epsilon, and the parts compose to 1 - (1-delta_1)(1-delta_2)... (given who drew).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from common.accounting.loss import (
    Draws,
    binomial_masses,
    both_deltas,
    delta_at,
    mixture_delta,
    pure_epsilon,
)
from common.functions import parts
from common.mechanisms import NoisePlan, aggregator_plan, curator_plan, noisy_aggregators
from common.models.base import format_exact
from common.models.query import Mechanism, PrivacyUnit, Query, Sharing, Stance
from common.noise import SCALE_LIMIT

TrustModel = Literal["OAMC", "OAOC", "OC"]
Model = Literal["pure-dp", "approximate-dp", "none"]


class Scenario(StrEnum):
    """Who colludes; the value is the key of section 7."""

    RECIPIENT = "a"
    CURATORS = "b"
    BLIND_AGGREGATORS = "c"
    EVERYONE = "d"
    ASSUMED = "e"

    @property
    def label(self) -> str:
        """The name on the wire."""
        return _LABELS[self]


_LABELS: Final = {
    Scenario.RECIPIENT: "recipient",
    Scenario.CURATORS: "curators",
    Scenario.BLIND_AGGREGATORS: "curators-and-aggregators",
    Scenario.EVERYONE: "all-aggregators",
    Scenario.ASSUMED: "assumed",
}


@dataclass(frozen=True, slots=True)
class Honest:
    """How many honest parties' draws the adversary cannot subtract, victim included.

    `fallen`: why an operator of several aggregators weakens the row, where one does.
    """

    curators: int
    aggregators: int
    corrupt_aggregators: int
    fallen: str | None = None


@dataclass(frozen=True, slots=True)
class VerifiedLine:
    """What holds in one scenario. epsilon None: nothing holds (infinite), delta 1, `reason` why.

    `curve`: further (epsilon, delta) pairs of the same guarantee, epsilon rising.
    """

    scenario: Scenario
    description: str
    trust_model: TrustModel | None
    model: Model
    epsilon: Fraction | None
    delta: Decimal
    curve: tuple[tuple[Fraction, Decimal], ...] = ()
    conditions: tuple[str, ...] = ()
    reason: str | None = None


class Cost(NamedTuple):
    """An (epsilon, delta) to debit; None: infinite, or nothing verified."""

    epsilon: Fraction | None
    delta: Fraction | None


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


UNVERIFIED: Final = Cost(None, None)
SMALLEST_DELTA: Final = Decimal("1e-30")
"""A delta above 0 is never stated to be smaller than this."""
_FOUR: Final = Context(prec=4, rounding=ROUND_CEILING)


# ------------------------------------------------------------------------------- who stays honest


def openers(query: Query) -> int:
    """How many aggregators together open a contribution."""
    match query.sharing:
        case Sharing.ADDITIVE:
            return query.aggregators
        case Sharing.SHAMIR:
            assert query.threshold is not None
            return query.threshold
        case Sharing.NONE:
            return 1


def honest_draws(
    query: Query, scenario: Scenario, n: int | None, operators: Sequence[str] | None = None
) -> Honest:
    """Whose draws remain in this scenario among n curators (None: `min_participants`).

    `operators` names who runs each aggregator; None takes them to be all different.
    """
    participants = query.min_participants if n is None else n
    if operators is not None and len(operators) != query.aggregators:
        raise ValueError("one operator per aggregator")
    sizes = _operator_sizes(query, operators)
    corrupt, fallen = _corrupt_aggregators(query, scenario, sizes)
    match scenario:
        case _ if query.mechanism is Mechanism.LOCAL or fallen:
            curators = 1  # each noisy contribution is seen alone: only its own draw covers it
        case Scenario.RECIPIENT:
            curators = participants
        case Scenario.ASSUMED:
            curators = participants - query.collusion.curators
        case _:
            curators = 1
    aggregators = max(0, noisy_aggregators(query) - corrupt)
    return Honest(max(1, curators), aggregators, corrupt, fallen)


def _operator_sizes(query: Query, operators: Sequence[str] | None) -> tuple[int, ...]:
    if operators is None:
        return (1,) * query.aggregators
    return tuple(sorted((operators.count(name) for name in set(operators)), reverse=True))


def _corrupt_aggregators(
    query: Query, scenario: Scenario, sizes: tuple[int, ...]
) -> tuple[int, str | None]:
    """How many aggregators the adversary holds, and why it is more of them by an operator."""
    total, needed = query.aggregators, openers(query)
    if scenario in (Scenario.RECIPIENT, Scenario.CURATORS) or query.sharing is Sharing.NONE:
        return (total if scenario is Scenario.EVERYONE else 0), None
    if scenario is Scenario.EVERYONE:
        return total, None
    if sizes[0] >= needed:
        return total, (
            f"one operator runs {sizes[0]} of the {total} aggregators and needs {needed} to open "
            "contributions: it is one party, so the row falls to that of all aggregators"
        )
    if scenario is Scenario.BLIND_AGGREGATORS:
        return _largest_union(sizes, needed - 1), None
    corrupt = sum(sizes[: query.collusion.aggregators])
    if corrupt >= needed:
        return total, (
            f"the {query.collusion.aggregators} aggregators assumed to collude may belong to "
            f"operators that run {corrupt} of the {total} in all, enough to open contributions: "
            "the row falls to that of all aggregators"
        )
    if corrupt > query.collusion.aggregators:
        return corrupt, (
            f"operators run several aggregators: the {query.collusion.aggregators} assumed to "
            f"collude may bring {corrupt}"
        )
    return corrupt, None


def _largest_union(sizes: tuple[int, ...], limit: int) -> int:
    """The most aggregators that whole operators hold together without passing the limit."""
    reachable = {0}
    for size in sizes:
        reachable |= {held + size for held in reachable if held + size <= limit}
    return max(reachable)


def _description(query: Query, scenario: Scenario, honest: Honest) -> str:
    corrupt = honest.corrupt_aggregators
    if query.mechanism is Mechanism.LOCAL:
        return {
            Scenario.RECIPIENT: "the recipient of the result alone",
            Scenario.CURATORS: "the recipient and all other curators",
            Scenario.BLIND_AGGREGATORS: "the recipient and all other curators "
            "(the one aggregator learns each noisy contribution, so none can be added)",
            Scenario.EVERYONE: "the recipient, all other curators and the aggregator",
            Scenario.ASSUMED: f"the query's own assumption: {query.collusion.curators} curators; "
            "the aggregator sees each noisy contribution",
        }[scenario]
    return {
        Scenario.RECIPIENT: "the recipient of the result alone",
        Scenario.CURATORS: "the recipient and all other curators",
        Scenario.BLIND_AGGREGATORS: "the recipient, all other curators and as many aggregators as "
        f"together learn nothing from their pieces ({min(corrupt, openers(query) - 1)} of "
        f"{query.aggregators})",
        Scenario.EVERYONE: "the recipient, all other curators and all aggregators",
        Scenario.ASSUMED: f"the query's own assumption: {query.collusion.curators} curators and "
        f"{query.collusion.aggregators} of {query.aggregators} aggregators",
    }[scenario]


def _trust_model(query: Query, scenario: Scenario, participants: int) -> TrustModel | None:
    match scenario:
        case Scenario.BLIND_AGGREGATORS:
            return None if query.sharing is Sharing.NONE else "OAOC"
        case Scenario.EVERYONE:
            return "OC"
        case Scenario.ASSUMED if query.sharing is not Sharing.NONE:
            if 2 * query.collusion.curators < participants:
                return "OAMC"
            return "OAOC" if query.collusion.curators >= participants - 1 else None
        case _:
            return None


# ------------------------------------------------------------------------------- what then holds


@dataclass(frozen=True, slots=True)
class HonestNoise:
    """What still covers one part: the honest draws, and the sensitivity that they have to cover.

    `sensitivity`: L1, ring units, of the privacy unit asked for. `share`: of the query's epsilon.
    """

    share: Fraction
    sensitivity: int
    dimension: int
    draws: tuple[Draws, ...]


def honest_noise(
    query: Query, honest: Honest, unit: PrivacyUnit | None = None
) -> tuple[HonestNoise, ...]:
    """The noise of each part that the adversary cannot subtract, for `unit` (None: the query's).

    The noise is the declared one, whatever unit is asked: its scales stand on the query's own.
    """
    layers: list[tuple[NoisePlan, int]] = []
    for plan, count in (
        (curator_plan(query), honest.curators),
        (aggregator_plan(query), honest.aggregators),
    ):
        if plan is not None and count > 0 and plan.probability > 0:
            layers.append((plan, count))
    # parts() reads the fields alone: a copy that skips validation is as good as the query here.
    asked = query if unit is None else query.model_copy(update={"privacy_unit": unit})
    return tuple(
        HonestNoise(
            part.epsilon_share,
            part.sensitivity,
            part.dimension,
            tuple(
                Draws(plan.scales[index], count, plan.weight, plan.probability)
                for plan, count in layers
            ),
        )
        for index, part in enumerate(parts(asked))
    )


def declared_epsilon(query: Query, honest: Honest) -> Fraction | None:
    """The epsilon at which a row states its delta; None where the mechanism declares none."""
    match query.mechanism:
        case Mechanism.DISTRIBUTED:
            return query.epsilon
        case Mechanism.LOCAL:
            return query.epsilon_i
        case Mechanism.EXACT:
            return None
        case Mechanism.TWO_LAYER:
            assert query.epsilon_u is not None
            assert query.epsilon_s is not None
            sure = []
            if query.pr_u == 1:
                sure.append(query.epsilon_u)
            if query.pr_s == 1 and honest.aggregators:
                sure.append(query.epsilon_s)
            return min(sure) if sure else query.epsilon_u + query.epsilon_s


def composed_delta(remaining: tuple[HonestNoise, ...], epsilon: Fraction) -> Decimal:
    """delta of the whole query: basic composition over its parts, given who drew."""
    if any(layer.probability != 1 for layer in remaining[0].draws):
        return mixture_delta(
            tuple(
                (epsilon * part.share, part.sensitivity, part.draws, part.dimension)
                for part in remaining
            )
        )
    total = Decimal(0)
    for part in remaining:
        found = delta_at(epsilon * part.share, part.sensitivity, part.draws, part.dimension)
        total = both_deltas(total, found.value)
    return total


def _pure(remaining: tuple[HonestNoise, ...]) -> Fraction | None:
    """An epsilon with delta 0 for the whole query, where one is known."""
    total = Fraction(0)
    for part in remaining:
        found = pure_epsilon(part.sensitivity, part.draws, part.dimension)
        if found is None:
            return None
        total += Fraction(found)
    return total


def no_guarantee(query: Query, remaining: tuple[HonestNoise, ...]) -> str | None:
    """Why nothing can be stated, if so."""
    draws = remaining[0].draws
    if not draws:
        return "no honest party's noise covers the contribution: whoever opens it reads it exactly"
    if query.mechanism is not Mechanism.DISTRIBUTED:
        return None
    total = sum((layer.total for layer in draws), Fraction(0))
    if total < 1 and any(part.dimension > 1 for part in remaining):
        return (
            f"the honest parties' shares hold {_decimal(total)} of one discrete Laplace; below 1, "
            "and with more than one coordinate, no guarantee is known (the law is not log-concave: "
            "a change spread over coordinates is worse than the same change in one)"
        )
    return None


def _decimal(value: Fraction) -> str:
    """A short decimal, rounded down."""
    return f"{int(value * 10_000) / 10_000:g}"


_DATA_DEPENDENT: Final = (
    "the noise scale follows each curator's own data (stance paper): the sensitivity is private "
    "and differs between neighbours, so no (epsilon, delta) is verified"
)
_NO_NOISE: Final = "mechanism exact adds no noise: the result is the plain sum"


def _nothing(
    scenario: Scenario, description: str, trust: TrustModel | None, reason: str, *conditions: str
) -> VerifiedLine:
    return VerifiedLine(
        scenario, description, trust, "none", None, Decimal(1), (), conditions, reason
    )


def verified_line(
    query: Query,
    scenario: Scenario,
    participants: int | None = None,
    operators: Sequence[str] | None = None,
) -> VerifiedLine:
    """What holds in one scenario; see `verified_lines`."""
    return _line(query, scenario, participants, None if operators is None else tuple(operators))


@lru_cache(maxsize=512)
def _cached(
    text: str, scenario: Scenario, participants: int | None, operators: tuple[str, ...] | None
) -> VerifiedLine:
    return _compute(Query.model_validate_json(text), scenario, participants, operators)


def _line(
    query: Query,
    scenario: Scenario,
    participants: int | None,
    operators: tuple[str, ...] | None,
) -> VerifiedLine:
    return _cached(query.canonical().decode(), scenario, participants, operators)


def what_if(
    query: Query, curators: int, aggregators: int, participants: int | None = None
) -> VerifiedLine:
    """What holds if just these many curators and aggregators collude with the recipient,
    whatever the query assumed (the noise stays as the query has it).

    Raises ValueError unless 0 <= curators < participants and 0 <= aggregators <= c.
    """
    n = query.min_participants if participants is None else participants
    if not 0 <= curators < n or not 0 <= aggregators <= query.aggregators:
        raise ValueError("the victim is honest, and no more aggregators collude than there are")
    opened = aggregators >= openers(query)
    honest = Honest(
        1 if opened or query.mechanism is Mechanism.LOCAL else n - curators,
        0 if opened else max(0, noisy_aggregators(query) - aggregators),
        aggregators,
    )
    description = f"{curators} curators and {aggregators} of {query.aggregators} aggregators"
    return _state(query, Scenario.ASSUMED, honest, description, None, ())


def _compute(
    query: Query,
    scenario: Scenario,
    participants: int | None,
    operators: tuple[str, ...] | None,
) -> VerifiedLine:
    honest = honest_draws(query, scenario, participants, operators)
    description = _description(query, scenario, honest)
    trust = _trust_model(query, scenario, participants or query.min_participants)
    conditions = _conditions(query, scenario, participants)
    return _state(query, scenario, honest, description, trust, conditions)


def _state(
    query: Query,
    scenario: Scenario,
    honest: Honest,
    description: str,
    trust: TrustModel | None,
    conditions: tuple[str, ...],
) -> VerifiedLine:
    """What holds against an adversary that leaves these honest draws."""
    if query.mechanism is Mechanism.EXACT:
        return _nothing(scenario, description, trust, _NO_NOISE)
    if query.stance is Stance.PAPER:
        return _nothing(scenario, description, trust, _DATA_DEPENDENT)
    fallen = (honest.fallen,) if honest.fallen else ()
    remaining = honest_noise(query, honest)
    reason = no_guarantee(query, remaining)
    if reason is not None:
        return _nothing(scenario, description, trust, "; ".join((*fallen, reason)))
    epsilon = declared_epsilon(query, honest)
    assert epsilon is not None
    delta = composed_delta(remaining, epsilon)
    if delta >= 1:
        return _nothing(
            scenario,
            description,
            trust,
            "; ".join((*fallen, "what the honest parties add is too little to bound anything")),
        )
    return VerifiedLine(
        scenario,
        description,
        trust,
        "pure-dp" if delta == 0 else "approximate-dp",
        epsilon,
        delta,
        _curve(remaining, epsilon, pure=delta == 0),
        conditions,
        "; ".join((*fallen, *_why(query, remaining, delta))) or None,
    )


def _curve(
    remaining: tuple[HonestNoise, ...], epsilon: Fraction, *, pure: bool
) -> tuple[tuple[Fraction, Decimal], ...]:
    """A few more points of the guarantee: below a pure epsilon, around an approximate one."""
    factors = (
        (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
        if pure
        else (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(5))
    )
    points = {factor * epsilon: composed_delta(remaining, factor * epsilon) for factor in factors}
    if pure:
        points[epsilon] = Decimal(0)
    elif (end := _pure(remaining)) is not None:
        points[end] = Decimal(0)
    rising = sorted(points.items())
    kept = [rising[0]]
    for point in rising[1:]:
        if point[1] < kept[-1][1]:
            kept.append(point)
    return tuple(kept)


def _why(query: Query, remaining: tuple[HonestNoise, ...], delta: Decimal) -> tuple[str, ...]:
    if delta == 0:
        return ()
    if query.mechanism is Mechanism.TWO_LAYER:
        silent = Decimal(1)
        for layer in remaining[0].draws:
            silent *= binomial_masses(layer.parties, layer.probability, 1)[0]
        return (
            f"with probability {shown_delta(silent)} no honest party draws noise, and "
            "the contribution passes as it is",
        )
    total = sum((layer.total for layer in remaining[0].draws), Fraction(0))
    return (
        f"the honest parties' shares hold {_decimal(total)} of one discrete Laplace, less than the "
        "one that epsilon needs",
    )


def _conditions(query: Query, scenario: Scenario, participants: int | None) -> tuple[str, ...]:
    held = []
    curators = curator_plan(query) is not None and query.mechanism is not Mechanism.LOCAL
    if curators and scenario in (Scenario.RECIPIENT, Scenario.ASSUMED):
        if participants is None:
            held.append(f"a manifest of at least {query.min_participants} curators")
        held.append(
            "hosted curators collude all together if their host does, and count so; so does every "
            "curator identity that the adversary enrolled"
        )
    if len(parts(query)) > 1:
        held.append("the parts of the vector are accounted one by one and composed (basic)")
    return tuple(held)


def verified_lines(
    query: Query,
    participants: int | None = None,
    operators: Sequence[str] | None = None,
) -> tuple[VerifiedLine, ...]:
    """The five rows a to e, each certified. `participants` None: any manifest that is allowed."""
    return tuple(verified_line(query, scenario, participants, operators) for scenario in Scenario)


# ---------------------------------------------------------------------------- refusals and debits


def noise_scale_problem(query: Query) -> str | None:
    """Why the noise cannot be drawn, if so."""
    for plan in (curator_plan(query), aggregator_plan(query)):
        if plan is None:
            continue
        for part, scale in zip(parts(query), plan.scales, strict=True):
            if scale <= 0:
                return (
                    f"part {part.name}: its sensitivity is 0 ring units; choose a finer resolution"
                )
            if scale > SCALE_LIMIT:
                return (
                    f"part {part.name}: the noise scale of {float(scale):.3g} ring units is above "
                    f"{SCALE_LIMIT}; choose a coarser resolution or a larger epsilon"
                )
    return None


def sound_refusal(query: Query, operators: Sequence[str] | None = None) -> str | None:
    """Why the sound stance refuses this query; None if it is fit.

    It refuses what does not hold at the declared (epsilon, delta) under the query's own collusion,
    and noise that cannot be drawn. Whether `exact` and the paper stance are allowed is the
    deployment's choice, not this function's: for them only the scale is checked.
    """
    if (problem := noise_scale_problem(query)) is not None:
        return problem
    if query.mechanism is Mechanism.EXACT or query.stance is Stance.PAPER:
        return None
    line = verified_line(query, Scenario.ASSUMED, None, operators)
    if line.epsilon is None:
        return f"under the query's own collusion assumption nothing holds: {line.reason}"
    if Fraction(line.delta) > query.delta:
        return (
            "under the query's own collusion assumption delta is "
            f"{shown_delta(line.delta)} at epsilon {format_exact(line.epsilon)}, above the "
            f"declared {format_exact(query.delta)}: {line.reason}"
        )
    return None


def shown_delta(delta: Decimal) -> str:
    """A delta for people: four digits, rounded up."""
    rounded = _FOUR.plus(max(delta, SMALLEST_DELTA) if delta else delta)
    return f"{rounded:f}" if rounded >= Decimal("1e-4") else f"{rounded:g}"


def debit(query: Query, operators: Sequence[str] | None = None) -> Debit:
    """What a curator's ledger is charged for one round: row e, and row d in the second column.

    Pass the operators of the round's aggregators, where they are known.
    """
    return Debit(
        _cost(verified_line(query, Scenario.ASSUMED, None, operators)),
        _cost(verified_line(query, Scenario.EVERYONE, None, operators)),
    )


def _cost(line: VerifiedLine) -> Cost:
    if line.epsilon is None:
        return UNVERIFIED
    return Cost(line.epsilon, debited_delta(line.delta))


def debited_delta(delta: Decimal) -> Fraction:
    """A delta as ledgers hold it: 0, or at least `SMALLEST_DELTA`."""
    return Fraction(max(delta, SMALLEST_DELTA) if delta else 0)
