"""Policies: the default, which policies hold for which curators, and a policy tried on the past.

An owner's policy is no wider than its operator's for it: both must agree in every round, so a wider
one would have no effect and is refused.

A trial computes which rounds of the last days a curator would have answered: a curator that was
asked in each of them, with an empty ledger at the start, is asked again in their order. Nothing is
written, and no reading is looked at. Spec: console, section 6.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Annotated, Final, Literal

import numpy as np
from fastapi import Depends, Query, Request, Response

from common.principals import Principal, Scope
from common.store.transactions import Database, Transaction
from common.web.dependencies import part
from common.web.openapi import api_router, gives, takes
from common.web.wire import read_body
from curator import examples
from curator.errors import (
    BudgetExceeded,
    InExactSum,
    NotConcerned,
    NotInRound,
    PolicyRefused,
    StepMissed,
    WindowContributed,
)
from curator.ledger import (
    LIFETIME,
    PAID,
    Bits,
    Charges,
    Debit,
    Totals,
    charges_of,
    for_account,
    job_charges,
    largest_over_instants,
    period_of,
    shortages,
)
from curator.owner.statement import OwnCurator, OwnCuratorPart
from curator.policy import Limits, Policy, agreed, check_policy, initial_policy
from curator.settings import CuratorSettings
from curator.store import history, records
from curator.store import parties as store
from curator.store.parties import CuratorRow, PartyRow, list_parties
from curator.web import ClockPart, DatabasePart, Operator, answer
from tacit.crypto.signing import Signed
from tacit.errors import FieldError, Invalid
from tacit.protocol.federation import JobTerms, step_of
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.fields import Window
from tacit.query.terms import PrivacyUnit
from tacit.wire import Instant, WireModel

DAYS: Final = 30
MOST: Final = 3000
"""Rounds: the newest. Every quarter of an hour for 30 days is 2,880."""
_OUTSIDE: Final = (NotConcerned.name, NotInRound.name)
"""Grounds that no policy changes."""
_ONE: Final = np.ones(1, np.bool_)


@dataclass
class Ledger:
    """Of one curator and one unit: what it has spent in the current period and in total."""

    period_s: int
    limits: Limits
    unit: PrivacyUnit
    debits: list[Debit] = field(default_factory=list)
    period: Totals = field(default_factory=lambda: Totals.zero(1))
    lifetime: Totals = field(default_factory=lambda: Totals.zero(1))
    began: datetime | None = None

    def affords(self, descriptor: RoundDescriptor, charges: Charges) -> bool:
        """Whether no limit would be exceeded."""
        start, end = period_of(descriptor.opened, self.period_s)
        if start != self.began:
            self.began, self.period = start, Totals.zero(1)
        period, lifetime = self.period, self.lifetime
        if self.unit is PrivacyUnit.RECORD:
            window = descriptor.window
            met = [
                item
                for item in self.debits
                if item.window.start < window.end and window.start < item.window.end
            ]
            recent = [item for item in met if start <= item.made < end]
            period = largest_over_instants(recent, window, 0, 1, verified_only=True)
            lifetime = largest_over_instants(met, window, 0, 1, verified_only=False)
        return not shortages(self.limits, charges[self.unit], period, lifetime, _ONE)

    def pay(self, descriptor: RoundDescriptor, charges: Charges) -> None:
        """Debit a round that `affords` allowed."""
        charge = charges[self.unit]
        self.period = self.period.plus(for_account(charge, self.period_s), _ONE)
        self.lifetime = self.lifetime.plus(for_account(charge, LIFETIME), _ONE)
        if self.unit is PrivacyUnit.RECORD:
            made = descriptor.opened
            self.debits.append(Debit(charge, 0, _ONE, descriptor.window, made, False))


def answered(
    policies: Sequence[Policy],
    rounds: Iterable[RoundDescriptor],
    anchors: int,
    jobs: Mapping[str, JobTerms] = MappingProxyType({}),
) -> Counter[str]:
    """How many rounds end with each refusal's name, and "answered" for the rest.

    `policies`: all of them must agree. `rounds`: in the order in which they were opened.
    `anchors`: how many aggregators the party's join token names. `jobs`: those that are debited
    once.
    """
    ledgers = [
        (policy, Ledger(policy.period_s, policy.limits(unit), unit))
        for policy in policies
        for unit in PrivacyUnit
    ]
    windows: set[tuple[bytes, str]] = set()
    summed: dict[str, list[Window]] = defaultdict(list)
    begun: set[str] = set()
    outcomes: Counter[str] = Counter()
    for descriptor in rounds:
        job = descriptor.query.job or ""
        if job in jobs and _later(descriptor) and job not in begun:
            outcomes[StepMissed.name] += 1
            continue
        charges = _charges(descriptor, jobs.get(job))
        window = (descriptor.query.digest(), descriptor.window.model_dump_json())
        exact = summed[descriptor.query.register_name] if descriptor.query.rule else []
        ground = WindowContributed.name if window in windows else None
        asked = descriptor.window
        if any(earlier.start < asked.end and asked.start < earlier.end for earlier in exact):
            ground = ground or InExactSum.name
        name = _refusal(policies, ledgers, descriptor, charges, anchors, ground)
        outcomes[name or "answered"] += 1
        if name is None:
            windows.add(window)
            exact.append(asked)
            begun.add(job)
            for _, ledger in ledgers:
                ledger.pay(descriptor, charges)
    return outcomes


def _later(descriptor: RoundDescriptor) -> bool:
    """Whether it is a later step of a job."""
    step = step_of(descriptor.query)
    return step is not None and step.step > 1


def _charges(descriptor: RoundDescriptor, terms: JobTerms | None) -> Charges:
    """Of a round; the first of a job that is debited once pays for all."""
    if terms is None:
        return charges_of(descriptor.query, descriptor.operators)
    if _later(descriptor):
        return PAID
    return job_charges(descriptor.query, terms.epsilon, descriptor.operators)


def _refusal(
    policies: Sequence[Policy],
    ledgers: Sequence[tuple[Policy, Ledger]],
    descriptor: RoundDescriptor,
    charges: Charges,
    anchors: int,
    repeated: str | None,
) -> str | None:
    """The ground's name, in the order of `consent`."""
    verified = charges[descriptor.query.privacy_unit].verified
    for policy in policies:
        try:
            check_policy(policy, descriptor, verified=verified, anchors=anchors)
        except PolicyRefused as error:
            return error.name
        if repeated is not None and not policy.allow_repeats:
            return repeated
    for policy, ledger in ledgers:
        if ledger.limits == Limits():
            continue
        if not charges[ledger.unit].verified and not policy.allow_unverified:
            return PolicyRefused.name
        if not ledger.affords(descriptor, charges):
            return BudgetExceeded.name
    return None


async def past(
    transaction: Transaction, now: datetime, of: tuple[CuratorRow, PartyRow] | None
) -> tuple[list[RoundDescriptor], datetime]:
    """Rounds of the last days, oldest first, and since when: those that concerned the curator;
    without a curator, those in which any party of the process was asked."""
    since, party, outside = now - timedelta(days=DAYS), None, set[str]()
    if of is not None:
        row, party_row = of
        party, position = party_row.id, row.key - party_row.first_key
        outside = await history.left_out(transaction, party, position, since, _OUTSIDE)
    texts = await history.opened_since(transaction, since, MOST, party)
    descriptors = [
        Signed[RoundDescriptor].model_validate_json(text).statement
        for round_id, text in texts
        if round_id not in outside
    ]
    return descriptors, descriptors[0].opened if len(texts) == MOST else since


class Tried(WireModel):
    """Of `rounds` that were opened since then: how many would have been answered, and how many
    refused, by the ground's name."""

    since: Instant
    rounds: int
    answered: int
    refused: dict[str, int]


async def try_on(
    database: Database,
    policies: Sequence[Policy],
    now: datetime,
    of: tuple[CuratorRow, PartyRow] | None,
) -> Tried:
    """Try policies, which must all agree, on the past rounds of a curator or of the whole
    process."""
    async with database.reading() as transaction:
        rounds, since = await past(transaction, now, of)
        anchors = len(of[1].anchors) if of else await _most_anchors(transaction)
        jobs = await records.debited_once(transaction)
    counts = await asyncio.to_thread(answered, policies, rounds, anchors, jobs)
    refused = {name: counts[name] for name in sorted(counts) if name != "answered"}
    return Tried(since=since, rounds=len(rounds), answered=counts["answered"], refused=refused)


async def _most_anchors(transaction: Transaction) -> int:
    return max((len(row.anchors) for row in await list_parties(transaction)), default=0)


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
        """The default policy. It is read again if other processes may have replaced it."""
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
    """The policies of a span, with the curators to which each applies: those whose owner has a
    policy have two, which must both agree."""
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
    errors = [FieldError(pointer, sentence) for pointer, sentence in wider(owner, operator)]
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
            own_limit = getattr(getattr(owner, name), figure)
            limit = getattr(getattr(operator, name), figure)
            if limit is not None and (own_limit is None or own_limit > limit):
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
    summary="Set the default policy; it applies from the next contribution on",
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
    return answer(await try_on(database, (body,), clock.now(), None))


@router.get("/v1/curators/{curator_id}/policy", **gives(Policy), summary="A curator's policy")
async def get_own_policy(own: OwnCuratorPart, policies: PoliciesPart, of: Of = None) -> Response:
    row, _ = await own.find()
    operators, *owners = agreed(await policies.current(), row.policy, row.owner_policy)
    by_owner = _by_owner(own.caller) if of is None else of == "owner"
    return answer(owners[0] if owners and by_owner else operators)


@router.put(
    "/v1/curators/{curator_id}/policy",
    **gives(Policy),
    summary="Give a curator its own policy; an owner's is no wider than the operator's",
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
    return answer(await try_on(own.database, both, clock.now(), (row, party)))


def _by_owner(caller: Principal) -> bool:
    return not caller.has(Scope.OPERATOR)


def beside(
    policy: Policy, row: CuratorRow, caller: Principal, default: Policy
) -> tuple[Policy, ...]:
    """A caller's policy for a curator and the other side's, as both would apply."""
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
