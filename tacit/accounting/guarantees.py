"""The verified guarantee of a query for each collusion scenario, and what clamped noise adds to its
delta.

Clamping (spec: validity, section 5): in a proved query a curator adds clamp(Z, -T, T). Over a round
that changes the law of the noise by a total variation of at most tau, so a mechanism that was
(epsilon, delta) is (epsilon, delta + (1 + e^epsilon) tau). For the default 2^-64 of a query without
tau that is next to nothing, and a report has it beside `sampler_delta`; from 2^-50 on it is
counted: in what is verified, compared with the declared delta, and debited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final, Literal

from tacit.accounting.amounts import UNVERIFIED, Cost, format_delta
from tacit.accounting.loss.coins import binomial_masses, mixture_delta
from tacit.accounting.loss.profile import delta_at, pure_epsilon
from tacit.accounting.loss.rounding import UP, Draws, both_deltas, capped, decimal_up
from tacit.accounting.scenarios import (
    Honest,
    Scenario,
    TrustModel,
    described,
    honest_draws,
    openers,
    trust_model,
)
from tacit.noise.gaussian_privacy import zcdp_delta, zcdp_epsilon
from tacit.query.fields import MOST_BUDGET, RHO_STEPS
from tacit.query.functions import parts
from tacit.query.mechanisms import (
    LaplacePlan,
    NoisePlan,
    aggregator_plan,
    clamped_tail,
    curator_plan,
    is_gaussian,
    noisy_aggregators,
    zcdp_of,
)
from tacit.query.query import Query
from tacit.query.terms import Mechanism, PrivacyUnit, Stance
from tacit.validity import noise_bound
from tacit.wire import canonical_json

NEGLIGIBLE: Final = Fraction(1, 1 << 50)
"""The largest addition to delta that is stated and not counted."""


def clamp_delta(query: Query, epsilon: Fraction) -> Fraction:
    """(1 + e^epsilon) tau, at most 1; 0 where no curator's noise is clamped."""
    tail = clamped_tail(query)
    return Fraction(0) if tail is None else noise_bound.clamp_delta(tail, epsilon)


def counts_clamping(query: Query, epsilon: Fraction) -> bool:
    """Whether clamping is counted in delta at this epsilon."""
    return clamp_delta(query, epsilon) > NEGLIGIBLE


def with_clamping(query: Query, epsilon: Fraction, delta: Decimal) -> Decimal:
    """delta at this epsilon, at most 1, plus what clamping adds where the query counts that."""
    added = clamp_delta(query, epsilon)
    return capped(UP.add(delta, decimal_up(added))) if added > NEGLIGIBLE else delta


# The verified guarantee for each way in which parties may collude (spec: aggregation, section 7).
#
# - Guarantees hold for any manifest of at least `min_participants` curators.
# - A line states (epsilon, delta) at the *declared epsilon* of its row: `epsilon` (distributed),
#   `epsilon_i` (local); for two-layer the least epsilon among the layers that are sure to draw
#   (epsilon_u if pr_u = 1; epsilon_s if pr_s = 1 and an honest aggregator exists), and where no
#   layer is sure, what the source claims, epsilon_u + epsilon_s.
# - The parts of mean, variance and blocks change together: at epsilon, part p is accounted at its
#   share of epsilon, and the parts compose to 1 - (1-delta_1)(1-delta_2)... (given who drew).
# - Where curators' noise is clamped, a line states what that adds to delta (`clamping`).

Model = Literal["pure-dp", "approximate-dp", "zcdp", "none"]


@dataclass(frozen=True, slots=True)
class VerifiedLine:
    """The verified guarantee in one scenario. epsilon None: no guarantee (infinite), delta 1, and
    `reason` states why.

    `curve`: further (epsilon, delta) pairs of the same guarantee, epsilon rising. `clamp_delta`:
    what clamping adds to delta at most (None: no noise is clamped, or nothing is guaranteed); delta
    has it where it counts (`clamping`). `corrupt_aggregators`: how many the adversary holds. `rho`:
    the zCDP of Gaussian noise, from which the (epsilon, delta) pairs follow.
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
    clamp_delta: Fraction | None = None
    corrupt_aggregators: int = 0
    rho: Fraction | None = None


@dataclass(frozen=True, slots=True)
class HonestNoise:
    """The noise that still covers one part: the honest draws, and the sensitivity that they must
    cover.

    `sensitivity`: L1, ring units, of the privacy unit that was asked for. `share`: of the
    query's epsilon.
    """

    share: Fraction
    sensitivity: int
    dimension: int
    draws: tuple[Draws, ...]


def _honest_plans(query: Query, honest: Honest) -> Iterator[tuple[NoisePlan, int]]:
    """What each layer's honest parties draw, and how many they are."""
    for plan, count in (
        (curator_plan(query), honest.curators),
        (aggregator_plan(query), honest.aggregators),
    ):
        if plan is not None and count > 0:
            yield plan, count


def honest_noise(
    query: Query, honest: Honest, unit: PrivacyUnit | None = None
) -> tuple[HonestNoise, ...]:
    """The noise of each part that the adversary cannot subtract, for `unit` (None: the query's).

    The noise is the same for every unit: its scales are computed for the query's own unit.
    """
    layers: list[tuple[LaplacePlan, int]] = []
    for plan, count in _honest_plans(query, honest):
        if isinstance(plan, LaplacePlan) and plan.probability > 0:
            layers.append((plan, count))
    # parts() reads the fields alone: a copy that skips validation is as good as the query here.
    asked_query = query if unit is None else query.model_copy(update={"privacy_unit": unit})
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
        for index, part in enumerate(parts(asked_query))
    )


# Gaussian noise (spec: profiles, section 3). Honest parties of one layer whose weights add up to R
# hold a variance of R times the whole one: what the query costs is rho / R, for an R below 1 as
# well, and with parts of shares s_p in another unit, whose squared sensitivities are F_p for D_p,
#
#     rho / R  sum_p s_p F_p / D_p.
#
# Of two layers the better one counts.


def remaining_rho(query: Query, honest: Honest, unit: PrivacyUnit | None = None) -> Fraction | None:
    """The zCDP, in `unit` (None: the query's), of a Gaussian query if these honest draws remain
    unknown to the adversary.

    None if no draw remains. A multiple of 10^-12, rounded up.
    """
    weights = [count * plan.weight for plan, count in _honest_plans(query, honest)]
    if not weights:
        return None
    asked_query = query if unit is None else query.model_copy(update={"privacy_unit": unit})
    growth = Fraction(0)
    for part, other in zip(parts(query), parts(asked_query), strict=True):
        assert part.squared_sensitivity is not None
        assert other.squared_sensitivity is not None
        growth += part.epsilon_share * Fraction(other.squared_sensitivity, part.squared_sensitivity)
    rho = zcdp_of(query) * growth / max(weights)
    return Fraction(ceil(rho * RHO_STEPS), RHO_STEPS)


_ROUNDED_VARIANCE: Final = 8
"""Rounding at random with this variance makes a discrete Gaussian of a continuous one of what is
left of its variance, but for 4 exp(-2 pi^2 8), below 10^-67, a coordinate."""


def gaussian_mu_squared(query: Query, honest: Honest, unit: PrivacyUnit) -> Fraction | None:
    """mu^2, with which a round of a Gaussian query is as private as a continuous Gaussian of
    deviation 1 / mu over a sensitivity of 1, but for 10^-67 a coordinate; None where no honest
    noise is left. Spec: profiles, section 3."""
    rho = remaining_rho(query, honest, unit)
    if rho is None:
        return None
    weight = max(count * plan.weight for plan, count in _honest_plans(query, honest))
    least = min(
        weight * Fraction(part.squared_sensitivity or 0) / (2 * zcdp_of(query) * part.epsilon_share)
        for part in parts(query)
    )
    return 2 * rho * least / (least - _ROUNDED_VARIANCE)


def gaussian_cost(query: Query, honest: Honest, unit: PrivacyUnit) -> Cost:
    """What a round of a Gaussian query costs in this unit, at the query's delta."""
    rho = remaining_rho(query, honest, unit)
    if rho is None or (epsilon := _epsilon_of(query, rho)) is None:
        return UNVERIFIED
    return Cost(epsilon, query.delta, rho)


def _epsilon_of(query: Query, rho: Fraction) -> Fraction | None:
    """The epsilon of this rho at the query's delta, rounded up: the declared epsilon if the rho
    meets it; None if it is too large to be useful."""
    if query.epsilon is not None and rho == zcdp_of(query):
        return query.epsilon
    if rho > MOST_BUDGET:
        return None
    epsilon = zcdp_epsilon(float(rho), float(query.delta))
    return Fraction(ceil(Fraction(epsilon) * RHO_STEPS), RHO_STEPS)


def _gaussian_line(
    query: Query,
    scenario: Scenario,
    honest: Honest,
    description: str,
    trust: TrustModel | None,
    conditions: tuple[str, ...],
) -> VerifiedLine:
    fallen = (honest.fallen,) if honest.fallen else ()
    rho = remaining_rho(query, honest)
    if rho is None:
        return _nothing(scenario, description, trust, "; ".join((*fallen, NO_HONEST_NOISE)))
    epsilon = _epsilon_of(query, rho)
    if epsilon is None:
        little = "what the honest parties add is too little to bound anything"
        return _nothing(scenario, description, trust, "; ".join((*fallen, little)))
    weaker = rho > zcdp_of(query)
    why = f"the honest parties hold {_decimal(zcdp_of(query) / rho)} of the noise's variance"
    points = {
        factor * epsilon: decimal_up(Fraction(zcdp_delta(float(rho), float(factor * epsilon))))
        for factor in (Fraction(0), Fraction(1, 2), Fraction(2))
    }
    points[epsilon] = decimal_up(query.delta)
    curve = tuple((at, capped(delta)) for at, delta in sorted(points.items()))
    return VerifiedLine(
        scenario,
        description,
        trust,
        "zcdp",
        epsilon,
        decimal_up(query.delta),
        curve,
        conditions,
        "; ".join((*fallen, *((why,) if weaker else ()))) or None,
        rho=rho,
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
        delta = delta_at(epsilon * part.share, part.sensitivity, part.draws, part.dimension)
        total = both_deltas(total, delta.value)
    return total


def _pure(remaining: tuple[HonestNoise, ...]) -> Fraction | None:
    """An epsilon with delta 0 for the whole query, where one is known."""
    total = Fraction(0)
    for part in remaining:
        epsilon_of_part = pure_epsilon(part.sensitivity, part.draws, part.dimension)
        if epsilon_of_part is None:
            return None
        total += Fraction(epsilon_of_part)
    return total


NO_HONEST_NOISE: Final = "no honest party adds noise, so whoever decrypts it sees the exact value"


def no_guarantee(query: Query, remaining: tuple[HonestNoise, ...]) -> str | None:
    """Why nothing can be stated, if so."""
    draws = remaining[0].draws
    if not draws:
        return NO_HONEST_NOISE
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
_CLAMPED: Final = "clamping the noise of curators adds (1 + e^epsilon) noise_tail"
_NO_NOISE: Final = "mechanism exact adds no noise: the result is the plain sum"


def _nothing(
    scenario: Scenario, description: str, trust: TrustModel | None, reason: str, *conditions: str
) -> VerifiedLine:
    return VerifiedLine(
        scenario, description, trust, "none", None, Decimal(1), (), conditions, reason
    )


@lru_cache(maxsize=1024)  # by the query's value
def priced_text(query: Query) -> str:
    """The canonical text of a query without its name and its group, on which no figure depends.

    Figures are cached under this text, so feeders with the same query share them.
    """
    fields = query.model_dump(mode="json", exclude_none=True, exclude={"name", "group"})
    return canonical_json({**fields, "name": "priced"}).decode()


def verified_line(
    query: Query,
    scenario: Scenario,
    participants: int | None = None,
    operators: Sequence[str] | None = None,
) -> VerifiedLine:
    """The verified guarantee in one scenario; see `verified_lines`."""
    by = None if operators is None else tuple(operators)
    return _cached(priced_text(query), scenario, participants, by)


@lru_cache(maxsize=4096)
def _cached(
    text: str, scenario: Scenario, participants: int | None, operators: tuple[str, ...] | None
) -> VerifiedLine:
    return _compute(Query.model_validate_json(text), scenario, participants, operators)


def what_if(
    query: Query, curators: int, aggregators: int, participants: int | None = None
) -> VerifiedLine:
    """The verified guarantee if exactly this many curators and aggregators collude with the
    recipient, whatever the query assumed (the noise is the query's).

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
    description = described(query, scenario, honest)
    trust = trust_model(query, scenario, participants or query.min_participants)
    conditions = _conditions(query, scenario, participants)
    line = _state(query, scenario, honest, description, trust, conditions)
    return replace(line, corrupt_aggregators=honest.corrupt_aggregators)


def _state(
    query: Query,
    scenario: Scenario,
    honest: Honest,
    description: str,
    trust: TrustModel | None,
    conditions: tuple[str, ...],
) -> VerifiedLine:
    """The verified guarantee against an adversary that leaves these honest draws."""
    if query.mechanism is Mechanism.EXACT:
        return _nothing(scenario, description, trust, _NO_NOISE)
    if query.stance is Stance.PAPER:
        return _nothing(scenario, description, trust, _DATA_DEPENDENT)
    if is_gaussian(query):
        return _gaussian_line(query, scenario, honest, description, trust, conditions)
    fallen = (honest.fallen,) if honest.fallen else ()
    remaining = honest_noise(query, honest)
    reason = no_guarantee(query, remaining)
    if reason is not None:
        return _nothing(scenario, description, trust, "; ".join((*fallen, reason)))
    epsilon = declared_epsilon(query, honest)
    assert epsilon is not None
    noise_delta = composed_delta(remaining, epsilon)
    delta = with_clamping(query, epsilon, noise_delta)
    if delta >= 1:
        little = "what the honest parties add is too little to bound anything"
        clamped = "what clamping the noise of curators adds to delta leaves nothing"
        reason = little if noise_delta >= 1 else clamped
        return _nothing(scenario, description, trust, "; ".join((*fallen, reason)))
    added = clamp_delta(query, epsilon)
    why = (*_why(query, remaining, noise_delta), *((_CLAMPED,) if delta != noise_delta else ()))
    return VerifiedLine(
        scenario,
        description,
        trust,
        "pure-dp" if delta == 0 else "approximate-dp",
        epsilon,
        delta,
        _curve(query, remaining, epsilon, pure=noise_delta == 0),
        conditions,
        "; ".join((*fallen, *why)) or None,
        added or None,
    )


def _curve(
    query: Query, remaining: tuple[HonestNoise, ...], epsilon: Fraction, *, pure: bool
) -> tuple[tuple[Fraction, Decimal], ...]:
    """A few more points of the guarantee: below a pure epsilon, or on both sides of an
    approximate one. At 0, delta is the total variation."""
    factors = (
        (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
        if pure
        else (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(5))
    )
    points = {factor * epsilon: composed_delta(remaining, factor * epsilon) for factor in factors}
    if pure:
        points[epsilon] = Decimal(0)
    elif (end := _pure(remaining)) is not None:
        points[end] = Decimal(0)
    rising = [(at, with_clamping(query, at, delta)) for at, delta in sorted(points.items())]
    corners = [rising[0]]
    for point in rising[1:]:
        if point[1] < corners[-1][1]:
            corners.append(point)
    return tuple(corners)


def _why(query: Query, remaining: tuple[HonestNoise, ...], delta: Decimal) -> tuple[str, ...]:
    if delta == 0:
        return ()
    if query.mechanism is Mechanism.TWO_LAYER:
        silent = Decimal(1)
        for layer in remaining[0].draws:
            silent *= binomial_masses(layer.parties, layer.probability, 1)[0]
        return (
            f"with probability {format_delta(silent)} no honest party draws noise, and "
            "the contribution passes as it is",
        )
    total = sum((layer.total for layer in remaining[0].draws), Fraction(0))
    return (
        f"the honest parties' shares hold {_decimal(total)} of one discrete Laplace, less than the "
        "one that epsilon needs",
    )


def _conditions(query: Query, scenario: Scenario, participants: int | None) -> tuple[str, ...]:
    conditions = []
    curators = curator_plan(query) is not None and query.mechanism is not Mechanism.LOCAL
    if curators and scenario in (Scenario.RECIPIENT, Scenario.ASSUMED):
        if participants is None:
            conditions.append(f"a manifest of at least {query.min_participants} curators")
        conditions.append(
            "hosted curators collude all together if their host does, and count so; so does every "
            "curator identity that the adversary enrolled"
        )
    if len(parts(query)) > 1 and is_gaussian(query):
        conditions.append("the parts of the vector share rho, which adds up")
    elif len(parts(query)) > 1:
        conditions.append("the parts of the vector are accounted one by one and composed (basic)")
    return tuple(conditions)


def verified_lines(
    query: Query,
    participants: int | None = None,
    operators: Sequence[str] | None = None,
) -> tuple[VerifiedLine, ...]:
    """The five rows a to e, each certified. `participants` None: any manifest that is allowed."""
    text, by = priced_text(query), None if operators is None else tuple(operators)
    return tuple(_cached(text, scenario, participants, by) for scenario in Scenario)
