"""Policies: the default one, which policies hold for which curators, and the routes to change them.

An owner's policy is no wider than its operator's for it: both must agree in every round, so a wider
one would have no effect and is refused. Spec: console, section 6.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

import numpy as np
from fastapi import Depends, Query, Request, Response

from common.principals import Principal, Scope
from common.store.transactions import Database, Transaction
from common.web.dependencies import part
from common.web.openapi import api_router, gives, takes
from common.web.wire import read_body
from curator import examples
from curator.ledger import Bits
from curator.owner import policy_trial
from curator.owner.policy_trial import Tried
from curator.owner.statement import OwnCurator, OwnCuratorPart
from curator.policy import Limits, Policy, agreed, initial_policy
from curator.settings import CuratorSettings
from curator.store import parties as store
from curator.store.parties import CuratorRow, PartyRow
from curator.web import ClockPart, DatabasePart, Operator, answer
from tacit.errors import FieldError, Invalid
from tacit.query.terms import PrivacyUnit

POLICY: Final = "policy"
"""The fact of the store that holds it."""


class Policies:
    """The default policy; `load` it."""

    def __init__(self, database: Database, current: Policy) -> None:
        self._database, self._current = database, current

    @classmethod
    async def load(cls, database: Database, settings: CuratorSettings) -> Policies:
        """The policy that an operator set last, else that of the settings."""
        stored = await _stored(database)
        return cls(database, initial_policy(settings) if stored is None else stored)

    async def current(self) -> Policy:
        """The default policy. Where other processes may have replaced it, it is read again."""
        if self._database.dialect.name == "postgresql":
            self._current = await _stored(self._database) or self._current
        return self._current

    async def put(self, policy: Policy) -> None:
        """Replace it, durably."""
        async with self._database.begin() as transaction:
            await store.put_fact(transaction, POLICY, policy.model_dump_json())
        self._current = policy


async def holding(
    transaction: Transaction, row: PartyRow, default: Policy, offset: int, length: int
) -> Sequence[tuple[Policy, Bits]]:
    """The policies of a span, with the curators that each holds for: for those whose owner has one
    of its own two, and both must agree."""
    own = await store.own_policies(transaction, row.first_key + offset, length)
    rest = np.ones(length, np.bool_)
    groups: dict[tuple[str | None, str | None], Bits] = {}
    for key, *texts in own:
        index = key - row.first_key - offset
        rest[index] = False
        groups.setdefault((texts[0], texts[1]), np.zeros(length, np.bool_))[index] = True
    policies = [
        (policy, members) for texts, members in groups.items() for policy in agreed(default, *texts)
    ]
    return [(default, rest), *policies] if rest.any() else policies


async def _stored(database: Database) -> Policy | None:
    async with database.reading() as transaction:
        text = await store.fact(transaction, POLICY)
    return None if text is None else Policy.model_validate_json(text)


class WiderThanTheOperators(Invalid):
    """What an owner agrees to and its operator does not."""

    name = "wider_than_the_operators"
    title = "An owner's policy may be stricter than the operator's, not wider"


def check_stricter(owner: Policy, operator: Policy) -> None:
    """Raise WiderThanTheOperators with each field that is wider, and the operator's limit."""
    errors = [FieldError(pointer, said) for pointer, said in wider(owner, operator)]
    if errors:
        raise WiderThanTheOperators(errors=errors)


def wider(owner: Policy, operator: Policy) -> Iterator[tuple[str, str]]:
    """The fields in which an owner's policy allows what the operator's does not: a pointer, and
    the operator's limit."""
    if owner.period_s != operator.period_s:
        yield "/period_s", f"the operator's periods have {operator.period_s} seconds"
    for unit in PrivacyUnit:
        for name, most in _wider_limits(owner.limits(unit), operator.limits(unit)):
            yield f"/{unit}/{name}", f"the operator allows {most}"
    for name in ("allow_unverified", "accept_any", "allow_repeats"):
        if getattr(owner, name) and not getattr(operator, name):
            yield f"/{name}", "the operator does not allow it"
    for name in ("mechanisms", "stances", "noises", "algorithms", "public_columns"):
        allowed = getattr(operator, name)
        if not set(getattr(owner, name)) <= set(allowed):
            yield f"/{name}", f"the operator allows {', '.join(allowed) or 'none'}"
    if not operator.accept_any and not set(owner.queries) <= set(operator.queries):
        yield "/queries", "the operator does not agree to all of them"
    # One more is stricter where all must be in a round, and wider for a local round's one.
    required = set(operator.required_aggregators)
    if required and required != set(owner.required_aggregators):
        yield "/required_aggregators", f"the operator requires {', '.join(sorted(required))}"
    if owner.min_participants < operator.min_participants:
        yield "/min_participants", f"the operator demands {operator.min_participants}"
    if _fewer(owner.min_aggregators, operator.min_aggregators):
        yield "/min_aggregators", f"the operator demands {operator.min_aggregators}"
    for name in ("curators", "aggregators"):
        least = getattr(operator.min_collusion, name)
        if getattr(owner.min_collusion, name) < least:
            yield f"/min_collusion/{name}", f"the operator demands {least}"
    if owner.exact is not None:
        if operator.exact is None:
            yield "/exact", "the operator does not agree to sums without noise"
        elif (weaker := owner.exact.weaker_than(operator.exact)) is not None:
            yield "/exact", weaker
    if operator.require_validity is not None and owner.require_validity is None:
        yield "/require_validity", f"the operator demands {operator.require_validity}"


def _wider_limits(owner: Limits, operator: Limits) -> Iterator[tuple[str, str]]:
    for name in Limits.model_fields:
        most = getattr(operator, name).model_dump(mode="json")
        for figure, text in most.items():
            own = getattr(getattr(owner, name), figure)
            limit = getattr(getattr(operator, name), figure)
            if limit is not None and (own is None or own > limit):
                yield f"{name}/{figure}", text


def _fewer(owner: int | str, operator: int | str) -> bool:
    if owner == "all":
        return False
    return operator == "all" or int(owner) < int(operator)


PoliciesPart = Annotated[Policies, Depends(part(Policies))]
Of = Annotated[
    Literal["operator", "owner"] | None,
    Query(description="Whose; else the caller's own. Of an owner without one: the operator's."),
]


router = api_router("policy")


@router.get("/v1/policy", **gives(Policy), summary="The default policy of this process")
async def get_policy(_: Operator, policies: PoliciesPart) -> Response:
    return answer(await policies.current())


@router.put(
    "/v1/policy",
    **gives(Policy),
    summary="Set the default policy; it holds from the next contribution on",
    openapi_extra=takes(Policy, examples.POLICY),
)
async def put_policy(request: Request, _: Operator, policies: PoliciesPart) -> Response:
    body = await read_body(request, Policy)
    await policies.put(body)
    return answer(body)


@router.post(
    "/v1/policy/preview",
    summary="Which rounds of the last 30 days a policy would have answered",
    openapi_extra=takes(Policy, examples.POLICY),
    response_model=Tried,
)
async def preview_policy(
    request: Request, _: Operator, database: DatabasePart, clock: ClockPart
) -> Response:
    body = await read_body(request, Policy)
    return answer(await policy_trial.try_on(database, (body,), clock.now(), None))


@router.get("/v1/curators/{curator_id}/policy", **gives(Policy), summary="A curator's policy")
async def get_own_policy(own: OwnCuratorPart, policies: PoliciesPart, of: Of = None) -> Response:
    row, _ = await own.find()
    operators, *owners = agreed(await policies.current(), row.policy, row.owner_policy)
    by_owner = _by_owner(own.caller) if of is None else of == "owner"
    return answer(owners[0] if owners and by_owner else operators)


@router.put(
    "/v1/curators/{curator_id}/policy",
    **gives(Policy),
    summary="Give a curator a policy of its own; an owner's is no wider than the operator's",
    openapi_extra=takes(Policy, examples.POLICY),
)
async def put_own_policy(request: Request, own: OwnCuratorPart, policies: PoliciesPart) -> Response:
    policy = await read_body(request, Policy)
    await set_own(own, await policies.current(), policy)
    return answer(policy)


@router.delete(
    "/v1/curators/{curator_id}/policy",
    status_code=204,
    summary="Delete your override of a curator's policy",
)
async def drop_own_policy(own: OwnCuratorPart, policies: PoliciesPart) -> None:
    await set_own(own, await policies.current(), None)


@router.post(
    "/v1/curators/{curator_id}/policy/preview",
    summary="Which rounds of the last 30 days a curator would have answered with a policy",
    openapi_extra=takes(Policy, examples.POLICY),
    response_model=Tried,
)
async def preview_own_policy(
    request: Request, own: OwnCuratorPart, policies: PoliciesPart, clock: ClockPart
) -> Response:
    policy = await read_body(request, Policy)
    row, party = await own.find()
    both = beside(policy, row, own.caller, await policies.current())
    return answer(await policy_trial.try_on(own.database, both, clock.now(), (row, party)))


def _by_owner(caller: Principal) -> bool:
    return not caller.has(Scope.OPERATOR)


def beside(
    policy: Policy, row: CuratorRow, caller: Principal, default: Policy
) -> tuple[Policy, ...]:
    """A caller's policy for a curator and that of the other, as both would hold."""
    text = policy.model_dump_json()
    if _by_owner(caller):
        return agreed(default, row.policy, text)
    return agreed(default, text, row.owner_policy)


async def set_own(own: OwnCurator, default: Policy, policy: Policy | None) -> None:
    """Set the caller's own policy for a curator; None deletes it.

    Raises ForeignCurator, UnknownCurator, WiderThanTheOperators.
    """
    by_owner = _by_owner(own.caller)
    text = None if policy is None else policy.model_dump_json()
    async with own.changing() as (transaction, row, _):
        if policy is not None and by_owner:
            check_stricter(policy, agreed(default, row.policy, None)[0])
        await store.set_policy(transaction, row.key, text, by_owner=by_owner)
