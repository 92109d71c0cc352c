"""A curator's policy: which rounds it participates in, and how much budget it may spend.

Every ground is a public parameter of the round, so a refusal reveals nothing about data (spec:
budget, section 5). A process has one default policy; a curator may have its own.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Final, Literal, cast

from pydantic import Field, PlainValidator, WithJsonSchema, field_validator

from curator.errors import PolicyRefused
from curator.settings import CuratorSettings
from tacit.accounting.composition import LARGEST_EPSILON, Currency, ZcdpLimit
from tacit.protocol.federation import ColumnName, Descriptor, step_of
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.disclosure import DisclosureRule
from tacit.query.fields import Collusion
from tacit.query.terms import MAX_AGGREGATORS, Mechanism, Noise, PrivacyUnit, Stance, Validity
from tacit.wire import Binary, Exact, WireModel, require

FingerprintText = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""As `tacit keys show` and `GET /v1/parties` print it."""
QueryHash = Annotated[Binary, Field(min_length=32, max_length=32)]


def _at_least(value: object) -> object:
    number = isinstance(value, int) and not isinstance(value, bool)
    good = value == "all" or (number and 1 <= cast(int, value) <= MAX_AGGREGATORS)
    return require(good, value, f'must be "all", or a whole number in 1..{MAX_AGGREGATORS}')


AtLeast = Annotated[
    int | Literal["all"],
    PlainValidator(_at_least),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MAX_AGGREGATORS},
                {"const": "all", "type": "string"},
            ]
        }
    ),
]


def _unless_empty(value: object) -> object:
    nothing = isinstance(value, dict) and all(field is None for field in value.values())
    return None if nothing else value


class AtDelta(WireModel):
    """A limit on zCDP: the epsilon that all spending together guarantees at a delta."""

    epsilon: Exact
    delta: Exact

    @field_validator("epsilon")
    @classmethod
    def _epsilon(cls, value: Fraction) -> Fraction:
        return require(0 <= value <= LARGEST_EPSILON, value, f"must lie in 0..{LARGEST_EPSILON}")

    @field_validator("delta")
    @classmethod
    def _delta(cls, value: Fraction) -> Fraction:
        return require(0 < value < 1, value, "must lie in (0, 1)")

    @property
    def limit(self) -> ZcdpLimit:
        """To compare sums with."""
        return ZcdpLimit(self.epsilon, self.delta)


class Limit(WireModel):
    """The most that can be spent; a missing figure is no limit.

    `epsilon` and `delta` limit the sums of epsilons and of deltas (basic composition), `zcdp`
    the sum of all zCDP; all given figures apply.
    """

    epsilon: Exact | None = None
    delta: Exact | None = None
    zcdp: AtDelta | None = None

    @field_validator("zcdp", mode="before")
    @classmethod
    def _empty(cls, value: object) -> object:
        """As an empty limit, one of which both figures were deleted."""
        return _unless_empty(value)

    @field_validator("epsilon", "delta")
    @classmethod
    def _not_negative(cls, value: Fraction | None) -> Fraction | None:
        return require(value is None or 0 <= value <= 10**8, value, "must lie in 0..10^8")


class Limits(WireModel):
    """Limits of one privacy unit, under the query's own collusion assumption.

    `all_aggregators` limits a period's total if every aggregator colludes (scenario d).
    """

    period: Limit = Limit()
    lifetime: Limit = Limit()
    all_aggregators: Limit = Limit()

    def meet(self, other: Limits) -> Limits:
        """The smaller of both, figure by figure; of two in zCDP the one that allows less rho."""
        return Limits.model_validate(
            {
                name: Limit(
                    epsilon=_least(mine.epsilon, theirs.epsilon),
                    delta=_least(mine.delta, theirs.delta),
                    zcdp=_stricter(mine.zcdp, theirs.zcdp),
                )
                for name in Limits.model_fields
                for mine, theirs in [(getattr(self, name), getattr(other, name))]
            }
        )


def _least(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return other if one is None else one if other is None else min(one, other)


def _stricter(one: AtDelta | None, other: AtDelta | None) -> AtDelta | None:
    if one is None or other is None:
        return one or other
    return min(
        one, other, key=lambda stated: (stated.limit.most_rho(), stated.epsilon, stated.delta)
    )


class Policy(WireModel):
    """What a curator agrees to.

    `queries` (hashes) counts when `accept_any` is false; `algorithms`: the federated jobs in
    which it participates, by name; `public_columns`: columns of the owner's tables that may be
    sent without noise. A round that shares among aggregators must have at least
    `min_aggregators` of them (`all`: those of the party's join token), including the
    `required_aggregators` (fingerprints), and a guarantee that holds if at least `min_collusion`
    of them, and of other curators, are corrupt. With `require_validity` every contribution must
    be proved, so that no other curator can move the sum at will. `exact`: the weakest rule under
    which it contributes to a sum without noise; without one it never does.
    """

    period_s: Annotated[int, Field(ge=60, le=366 * 86_400)] = 86_400
    record: Limits = Limits()
    curator: Limits = Limits()
    min_participants: Annotated[int, Field(ge=1)] = 2
    mechanisms: tuple[Mechanism, ...] = tuple(Mechanism)
    stances: tuple[Stance, ...] = tuple(Stance)
    noises: tuple[Noise, ...] = tuple(Noise)
    allow_unverified: bool = False
    accept_any: bool = True
    queries: tuple[QueryHash, ...] = ()
    allow_repeats: bool = False
    algorithms: tuple[Annotated[str, Field(max_length=40)], ...] = ()
    public_columns: tuple[ColumnName, ...] = ()
    min_aggregators: AtLeast = "all"
    required_aggregators: tuple[FingerprintText, ...] = ()
    min_collusion: Collusion = Collusion()
    require_validity: Literal[Validity.PROVED] | None = None
    exact: DisclosureRule | None = None

    @field_validator("exact", mode="before")
    @classmethod
    def _no_rule(cls, value: object) -> object:
        """As none, one of which all fields were deleted."""
        return _unless_empty(value)

    def limits(self, unit: PrivacyUnit) -> Limits:
        """The limits of one privacy unit."""
        return self.record if unit is PrivacyUnit.RECORD else self.curator


def initial_policy(settings: CuratorSettings) -> Policy:
    """The default policy until an operator sets one."""
    epsilon, delta = Fraction(settings.policy_epsilon), Fraction(settings.policy_delta)
    limit = Limit(epsilon=epsilon, delta=delta)
    if settings.policy_currency is Currency.ZCDP:
        limit = Limit(zcdp=AtDelta(epsilon=epsilon, delta=delta))
    limits = Limits(period=limit)
    return Policy(
        period_s=settings.policy_period_s,
        record=limits,
        curator=limits,
        allow_unverified=settings.policy_allow_unverified,
        require_validity=Validity.PROVED if settings.policy_require_validity else None,
        exact=settings.policy_exact_rule,
    )


def agreed(default: Policy, operators: str | None, owners: str | None) -> tuple[Policy, ...]:
    """The policies that apply to a curator, which must all agree: the operator's for it (else
    the default one), and its owner's, whose limits use the operator's periods."""
    operator = default if operators is None else Policy.model_validate_json(operators)
    if owners is None:
        return (operator,)
    owner = Policy.model_validate_json(owners)
    return operator, owner.model_copy(update={"period_s": operator.period_s})


def check_algorithm(policy: Policy, algorithm: str) -> None:
    """Raise PolicyRefused unless the policy names the algorithm."""
    if algorithm not in policy.algorithms:
        raise PolicyRefused(
            "the algorithm is not among those agreed",
            pointer="/algorithms",
            extra={"algorithm": algorithm},
        )


def check_collection(policy: Policy, descriptor: Descriptor, *, verified: bool) -> None:
    """Raise PolicyRefused unless the policy agrees to a collection's public parameters."""
    check_algorithm(policy, descriptor.algorithm)
    if Stance(descriptor.stance) not in policy.stances:
        raise PolicyRefused(f"stance {descriptor.stance} is not allowed", pointer="/stances")
    if not verified and not policy.allow_unverified:
        raise PolicyRefused("the reports have no verified figure", pointer="/allow_unverified")
    if descriptor.min_participants < policy.min_participants:
        raise PolicyRefused(
            "the round asks for fewer participants than the policy requires",
            pointer="/min_participants",
        )
    if descriptor.label is not None and descriptor.label not in policy.public_columns:
        raise PolicyRefused(
            "the label is a column that its owner has not declared public",
            pointer="/public_columns",
            extra={"column": descriptor.label},
        )


def check_policy(
    policy: Policy, descriptor: RoundDescriptor, *, verified: bool, anchors: int
) -> None:
    """Raise PolicyRefused unless the policy agrees to the round's public parameters.

    `anchors`: how many aggregators the party's join token names.
    """
    query = descriptor.query
    step = step_of(query)
    if step is not None:
        check_algorithm(policy, step.algorithm)
    elif not policy.accept_any and query.digest() not in policy.queries:
        raise PolicyRefused("the query is not among those agreed", pointer="/queries")
    if query.mechanism not in policy.mechanisms:
        raise PolicyRefused(f"mechanism {query.mechanism} is not allowed", pointer="/mechanisms")
    if query.rule is not None:
        _check_rule(policy, query.rule)
    if query.stance not in policy.stances:
        raise PolicyRefused(f"stance {query.stance} is not allowed", pointer="/stances")
    noise = query.noise or Noise.LAPLACE
    if noise not in policy.noises and query.mechanism is not Mechanism.EXACT:
        raise PolicyRefused(f"noise {noise} is not allowed", pointer="/noises")
    if query.min_participants < policy.min_participants:
        raise PolicyRefused(
            "the round asks for fewer participants than the policy",
            pointer="/min_participants",
            extra={"minimum": policy.min_participants, "asked": query.min_participants},
        )
    if policy.require_validity is not None and query.validity is not policy.require_validity:
        raise PolicyRefused(
            "the round accepts contributions without a proof", pointer="/require_validity"
        )
    if not verified and not policy.allow_unverified:
        raise PolicyRefused("the round has no verified figure", pointer="/allow_unverified")
    _check_aggregators(policy, descriptor, anchors)


def _check_rule(policy: Policy, rule: DisclosureRule) -> None:
    if policy.exact is None:
        raise PolicyRefused("sums without noise are not agreed to", pointer="/exact")
    if (weaker := rule.weaker_than(policy.exact)) is not None:
        raise PolicyRefused(f"the round's rule is weaker: {weaker}", pointer="/exact")


def _check_aggregators(policy: Policy, descriptor: RoundDescriptor, anchors: int) -> None:
    """Check the aggregators. The one aggregator of a local round sees each noisy value, and the
    guarantee assumes nothing about it: it must be a required one, if any are required."""
    present = {entry.fingerprint.hex() for entry in descriptor.aggregators}
    required = set(policy.required_aggregators)
    local = descriptor.query.mechanism is Mechanism.LOCAL
    if (required and not present <= required) if local else not required <= present:
        raise PolicyRefused(
            "an aggregator that the policy requires is not in the round",
            pointer="/required_aggregators",
            extra={"missing": sorted(required - present)},
        )
    if local:
        return
    collusion, least = descriptor.query.collusion, policy.min_collusion
    fewest = anchors if policy.min_aggregators == "all" else policy.min_aggregators
    for name, minimum, number in (
        ("min_aggregators", fewest, len(present)),
        ("min_collusion/aggregators", least.aggregators, collusion.aggregators),
        ("min_collusion/curators", least.curators, collusion.curators),
    ):
        if number < minimum:
            raise PolicyRefused(
                _TOO_FEW[name], pointer=f"/{name}", extra={"minimum": minimum, "asked": number}
            )


_TOO_FEW: Final = {
    "min_aggregators": "the round shares among fewer aggregators than the policy demands",
    "min_collusion/aggregators": "the round's figure assumes fewer corrupt aggregators than the "
    "policy demands",
    "min_collusion/curators": "the round's figure assumes fewer corrupt curators than the policy "
    "demands",
}
