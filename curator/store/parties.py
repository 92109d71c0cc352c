"""Parties, their keys, anchors, curators and next identities, and the process's facts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row, Select, bindparam, delete, func, insert, select, update

from common.store.database import exclusive
from common.store.erasure import to_erase
from common.store.transactions import Transaction
from curator.store.tables import (
    OWN_POLICY,
    PAGE,
    anchors,
    columns,
    curators,
    facts,
    parties,
    party_identities,
)
from tacit.crypto.signing import fingerprint
from tacit.protocol.enrolment import PartyKind
from tacit.protocol.identities import Pin
from tacit.protocol.party_identities import PartyChain, SignedPartySuccession

Ints = NDArray[np.int64]
ENROLLING, ACTIVE = "enrolling", "active"
# Asked for every party of a round: made once, and so compiled once.
_OWN_POLICIES: Final = select(curators.c.key, curators.c.policy, curators.c.owner_policy).where(
    curators.c.key >= bindparam("first"), curators.c.key < bindparam("end"), OWN_POLICY
)
COUNTS: Final = ("accepted", "duplicates", "conflicts", "rejected", "refreshed")
_COUNT: Final = (
    update(curators)
    .where(curators.c.key >= bindparam("first"), curators.c.key <= bindparam("last"))
    .values({name: curators.c[name] + bindparam(f"more_{name}") for name in COUNTS})
)
_SPEAKS: Final = (
    parties.c.state == ACTIVE,
    parties.c.coordinator_token.is_not(None),
    parties.c.coordinator_key.is_not(None),
)


@dataclass(frozen=True)
class Anchor:
    """An aggregator as in the join token; `token` is the party's API token there."""

    aggregator: str
    url: str
    pin: Pin
    token: str | None

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of its current identity key, or of the last one."""
        return self.pin.newest or self.pin.fingerprint


@dataclass(frozen=True)
class Coordinator:
    """A coordinator as parties here know it: its current key, and its identities as followed."""

    url: str
    deployment: str
    key: bytes
    pin: Pin

    @classmethod
    def of(cls, url: str, deployment: str, key: bytes, pin: str | None) -> Coordinator:
        """That of a stored party."""
        own_pin = Pin(fingerprint=fingerprint(key)) if pin is None else _pin(pin)
        return cls(url, deployment, key, own_pin)

    def keys(self, now: datetime) -> tuple[bytes, ...]:
        """The keys that its statements may be signed with now. Raises IdentityForked,
        IdentitySuperseded."""
        return (self.key,) if self.pin.anchored is None else self.pin.anchored.keys(now)


@dataclass(frozen=True)
class PartyRow:
    """A party and its anchors. `first` is its first roster number, `first_key` the key of its
    first curator in this store; both runs are contiguous. `minimum_suite`: of the rounds that it
    takes part in; it only rises. `software_told`: the version that its coordinator knows of;
    `coordinator_pin`: what was followed of its identity, in JSON."""

    id: str
    kind: PartyKind
    state: str
    deployment: str
    identity: bytes
    coordinator_url: str
    coordinator_key: bytes | None
    coordinator_token: str | None
    first: int | None
    first_key: int
    curators: int
    join_token: str | None
    created: datetime
    enrolled: datetime | None
    anchors: tuple[Anchor, ...]
    software_told: str | None = None
    coordinator_pin: str | None = None

    @property
    def coordinator(self) -> Coordinator:
        """Its coordinator, whose key was checked when it enrolled."""
        assert self.coordinator_key is not None
        return Coordinator.of(
            self.coordinator_url, self.deployment, self.coordinator_key, self.coordinator_pin
        )

    @property
    def logged(self) -> str:
        """Its name for logs: a host's name; none for a lone curator, whose name would be a
        curator's."""
        return self.id if self.kind is PartyKind.HOST else "a lone curator"


@dataclass(frozen=True)
class Speaker:
    """An enrolled party at its coordinator, and the token for its requests."""

    party: str
    url: str
    token: str


@dataclass(frozen=True)
class CuratorRow:
    """A curator, its party, the policies that its operator and its owner have set for it alone,
    since when either has stopped it, and the outcomes of its readings."""

    key: int
    id: str
    party: str
    policy: str | None
    owner_policy: str | None
    stopped_by_owner: datetime | None
    stopped_by_operator: datetime | None
    accepted: int
    duplicates: int
    conflicts: int
    rejected: int
    refreshed: int


_ENROLLED: Final = select(parties.c.id, parties.c.deployment).where(
    parties.c.state == bindparam("state"), parties.c.coordinator_key == bindparam("key")
)
_FACT: Final = select(facts.c.value).where(facts.c.name == bindparam("name"))
_ANCHORS: Final = (
    select(anchors)
    .where(anchors.c.party.in_(bindparam("ids", expanding=True)))
    .order_by(anchors.c.aggregator)
)
_PARTIES: Final = (
    select(parties).where(parties.c.id.in_(bindparam("ids", expanding=True))).order_by(parties.c.id)
)
_HIGHEST: Final = select(func.max(curators.c.key))

# --- facts ---------------------------------------------------------------------------------------


async def fact(transaction: Transaction, name: str) -> str | None:
    """A stored fact of the process."""
    result = await transaction.execute(_FACT, {"name": name})
    value: str | None = result.scalar_one_or_none()
    return value


async def put_fact(transaction: Transaction, name: str, value: str) -> None:
    """Store or replace a fact."""
    done = await transaction.execute(update(facts).where(facts.c.name == name).values(value=value))
    if done.rowcount == 0:
        await transaction.execute(insert(facts).values(name=name, value=value))


async def drop_fact(transaction: Transaction, name: str) -> None:
    """Forget a fact."""
    await transaction.execute(delete(facts).where(facts.c.name == name))


# --- parties -------------------------------------------------------------------------------------


async def party(transaction: Transaction, party_id: str) -> PartyRow | None:
    """One party, or nothing."""
    rows = await _parties(transaction, [party_id])
    return rows[0] if rows else None


async def list_parties(
    transaction: Transaction,
    *,
    state: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> list[PartyRow]:
    """Parties by name, after a name: all, unless there is a limit."""
    query = select(parties.c.id).order_by(parties.c.id).limit(limit)
    if state is not None:
        query = query.where(parties.c.state == state)
    if after is not None:
        query = query.where(parties.c.id > after)
    return await _parties(transaction, list((await transaction.execute(query)).scalars()))


_SPEAKERS: Final = select(
    parties.c.id,
    parties.c.coordinator_url,
    parties.c.coordinator_token,
).where(*_SPEAKS)
_COORDINATORS: Final = (
    select(
        parties.c.coordinator_url,
        parties.c.deployment,
        parties.c.coordinator_key,
        parties.c.coordinator_pin,
    )
    .distinct()
    .where(*_SPEAKS)
)

_COORDINATORS_AT: Final = _COORDINATORS.where(parties.c.coordinator_url == bindparam("url"))


async def speakers(transaction: Transaction) -> list[Speaker]:
    """All enrolled parties that may ask their coordinators."""
    return [Speaker(*row) for row in await transaction.execute(_SPEAKERS)]


async def enrolled(transaction: Transaction, coordinator_key: bytes) -> dict[str, list[str]]:
    """The enrolled parties of a coordinator, by deployment."""
    rows = await transaction.execute(_ENROLLED, {"key": coordinator_key, "state": ACTIVE})
    by_coordinator: dict[str, list[str]] = {}
    for row in rows:
        by_coordinator.setdefault(row.deployment, []).append(row.id)
    return by_coordinator


async def coordinators(transaction: Transaction, url: str | None = None) -> set[Coordinator]:
    """The coordinators of all enrolled parties, or of those at an address."""
    if url is None:
        rows = await transaction.execute(_COORDINATORS)
    else:
        rows = await transaction.execute(_COORDINATORS_AT, {"url": url})
    return {Coordinator.of(*row) for row in rows}


async def enrolled_but(
    transaction: Transaction,
    parties_taken: Select[tuple[str]],
    coordinator_key: bytes,
    deployment: str,
) -> list[str]:
    """Enrolled parties of a coordinator's deployment that are not among those taken."""
    rows = await transaction.execute(
        select(parties.c.id).where(
            parties.c.state == ACTIVE,
            parties.c.coordinator_key == coordinator_key,
            parties.c.deployment == deployment,
            parties.c.id.not_in(parties_taken),
        )
    )
    return list(rows.scalars())


async def parties_by_id(transaction: Transaction, ids: Sequence[str]) -> dict[str, PartyRow]:
    """Some parties, by name."""
    return {row.id: row for row in await _parties(transaction, list(dict.fromkeys(ids)))}


async def _parties(transaction: Transaction, ids: Sequence[str]) -> list[PartyRow]:
    result = []
    for start in range(0, len(ids), 500):
        chosen = ids[start : start + 500]
        found = await transaction.execute(_ANCHORS, {"ids": chosen})
        by_party: dict[str, list[Anchor]] = {}
        for row in found:
            anchor = Anchor(row.aggregator, row.url, _pin_of(row), row.token)
            by_party.setdefault(row.party, []).append(anchor)
        rows = await transaction.execute(_PARTIES, {"ids": chosen})
        result += [_party(row, tuple(by_party.get(row.id, ()))) for row in rows]
    return result


def _party(row: Row[Any], found: tuple[Anchor, ...]) -> PartyRow:
    values = dict(row._mapping)
    return PartyRow(**{**values, "kind": PartyKind(values["kind"])}, anchors=found)


async def add_party(transaction: Transaction, row: PartyRow, ids: Sequence[str]) -> None:
    """Store a party that begins to enrol, with its curators and anchors."""
    values = {column.name: getattr(row, column.name) for column in parties.columns}
    await transaction.execute(insert(parties).values({**values, "kind": row.kind.value}))
    nothing = {"accepted": 0, "duplicates": 0, "conflicts": 0, "rejected": 0, "refreshed": 0}
    for start in range(0, len(ids), PAGE):
        page = enumerate(ids[start : start + PAGE], row.first_key + start)
        values_of = [{"key": key, "id": name, "party": row.id, **nothing} for key, name in page]
        await transaction.execute(insert(curators), values_of)
    await put_anchors(transaction, row.id, row.anchors)


async def next_curator_key(transaction: Transaction) -> int:
    """The first key of a new run of curators; reserved in the caller's transaction."""
    await exclusive(transaction, "curator keys")
    return await hosted_curators(transaction)


async def hosted_curators(transaction: Transaction) -> int:
    """How many curators are hosted: their keys are the numbers below."""
    result = await transaction.execute(_HIGHEST)
    highest: int | None = result.scalar_one()
    return 0 if highest is None else highest + 1


async def put_anchors(
    transaction: Transaction, party_id: str, replacement: Sequence[Anchor]
) -> None:
    """Replace a party's anchors."""
    await transaction.execute(delete(anchors).where(anchors.c.party == party_id))
    await transaction.execute(
        insert(anchors),
        [
            {
                "party": party_id,
                "aggregator": item.aggregator,
                "url": item.url,
                "fingerprint": item.fingerprint,
                "token": item.token,
                "pin": item.pin.model_dump_json(),
            }
            for item in replacement
        ],
    )


async def change_party(transaction: Transaction, party_id: str, **values: Any) -> None:
    """Set columns of a party."""
    await transaction.execute(update(parties).where(parties.c.id == party_id).values(**values))


async def set_anchor_token(
    transaction: Transaction, party_id: str, aggregator: str, token: str
) -> None:
    """Keep the API token that an aggregator issued."""
    await transaction.execute(
        update(anchors)
        .where(anchors.c.party == party_id, anchors.c.aggregator == aggregator)
        .values(token=token)
    )


async def set_coordinator(
    transaction: Transaction, coordinator: Coordinator, key: bytes, pin: Pin
) -> None:
    """Store the followed identity of a coordinator, for all parties that knew it by the same
    key; those that know it by the new one get the same least suite."""
    mine = parties.c.deployment == coordinator.deployment
    await transaction.execute(
        update(parties)
        .where(mine, parties.c.coordinator_key == coordinator.key)
        .values(coordinator_key=key, coordinator_pin=pin.model_dump_json())
    )


async def set_pin(transaction: Transaction, anchor: Anchor, deployment: str, pin: Pin) -> None:
    """Store the followed identity of an aggregator, for all parties of its deployment that
    held the same of it."""
    here = select(parties.c.id).where(parties.c.deployment == deployment)
    await transaction.execute(
        update(anchors)
        .where(
            anchors.c.party.in_(here),
            anchors.c.aggregator == anchor.aggregator,
            anchors.c.url == anchor.url,
            anchors.c.fingerprint == anchor.fingerprint,
        )
        .values(pin=pin.model_dump_json(), fingerprint=pin.newest or pin.fingerprint)
    )


async def anchored(transaction: Transaction) -> list[tuple[str, Anchor]]:
    """(deployment, aggregator as it is anchored), each once; without tokens."""
    result = await transaction.execute(
        select(
            parties.c.deployment,
            anchors.c.aggregator,
            anchors.c.url,
            anchors.c.fingerprint,
            anchors.c.pin,
        )
        .join(parties, parties.c.id == anchors.c.party)
        .distinct()
    )
    return [(row.deployment, Anchor(row.aggregator, row.url, _pin_of(row), None)) for row in result]


async def drop_anchor(transaction: Transaction, aggregator: str) -> bool:
    """Forget an aggregator, with the tokens of all parties there; returns whether it was known."""
    done = await transaction.execute(delete(anchors).where(anchors.c.aggregator == aggregator))
    return done.rowcount > 0


def _pin_of(row: Any) -> Pin:
    return Pin(fingerprint=row.fingerprint) if row.pin is None else _pin(row.pin)


@lru_cache(maxsize=64)  # parties of a service anchor the same aggregators
def _pin(text: str) -> Pin:
    return Pin.model_validate_json(text)


# --- curators ------------------------------------------------------------------------------------


async def curator(transaction: Transaction, curator_id: str) -> CuratorRow | None:
    """One curator, or nothing."""
    row = (await transaction.execute(select(curators).where(curators.c.id == curator_id))).first()
    return None if row is None else CuratorRow(**row._mapping)


async def curator_names(
    transaction: Transaction, after: int
) -> AsyncIterator[tuple[list[int], list[str]]]:
    """Keys from `after` on and names of the hosted curators, some at a time. Keys have no gaps."""
    while True:
        page = select(curators.c.key, curators.c.id).where(curators.c.key >= after)
        keys, ids = await columns(transaction, page.order_by(curators.c.key).limit(PAGE))
        if not keys:
            return
        yield keys, ids
        after = max(keys) + 1


async def curator_ids(transaction: Transaction, party_id: str) -> list[str]:
    """A party's curators in the order of their roster numbers."""
    rows = await transaction.execute(
        select(curators.c.id).where(curators.c.party == party_id).order_by(curators.c.key)
    )
    return list(rows.scalars())


async def keys_by_prefix(transaction: Transaction, prefix: str) -> list[int]:
    """The curators whose names begin with a prefix, by key."""
    named = curators.c.id.startswith(prefix, autoescape=True)
    return list((await transaction.execute(select(curators.c.key).where(named))).scalars())


async def curators_by_key(transaction: Transaction, keys: Sequence[int]) -> list[CuratorRow]:
    """These curators, in the order of their enrolment; at most some hundred."""
    query = select(curators).where(curators.c.key.in_(keys)).order_by(curators.c.key)
    return [CuratorRow(**row._mapping) for row in await transaction.execute(query)]


async def existing_curators(transaction: Transaction, ids: Sequence[str]) -> list[str]:
    """Which of these names are taken."""
    existing: list[str] = []
    for start in range(0, len(ids), 500):
        chosen = ids[start : start + 500]
        rows = await transaction.execute(select(curators.c.id).where(curators.c.id.in_(chosen)))
        existing += rows.scalars()
    return existing


async def set_policy(
    transaction: Transaction, key: int, policy: str | None, *, by_owner: bool
) -> None:
    """Store the policy of a curator's operator or its owner, or None: no policy of its own."""
    column = curators.c.owner_policy if by_owner else curators.c.policy
    await transaction.execute(
        update(curators).where(curators.c.key == key).values({column: policy})
    )


async def own_policies(
    transaction: Transaction, first_key: int, length: int
) -> list[tuple[int, str | None, str | None]]:
    """(key, its operator's policy, its owner's) of the curators of a run that have either."""
    values = {"first": first_key, "end": first_key + length}
    rows = await transaction.execute(_OWN_POLICIES, values)
    return [(row.key, row.policy, row.owner_policy) for row in rows]


async def count_readings(transaction: Transaction, keys: Ints, counts: Ints) -> None:
    """Add to the counts that a curator's owner sees. `keys`: of curators, ascending, each once;
    `counts`: a row for each, with a column for each of `COUNTS`."""
    if not keys.size:
        return
    # Neighbours with the same counts, as most of an import are, take one statement.
    begins = np.concatenate(
        ([True], (np.diff(keys) != 1) | (counts[1:] != counts[:-1]).any(axis=1))
    )
    first = np.flatnonzero(begins)
    last = np.append(first[1:], keys.size) - 1
    names = [f"more_{name}" for name in COUNTS]
    await transaction.execute(
        _COUNT,
        [
            {"first": begin, "last": end, **dict(zip(names, more, strict=True))}
            for begin, end, more in zip(
                keys[first].tolist(), keys[last].tolist(), counts[first].tolist(), strict=True
            )
        ],
    )


# --- replaced identities of parties (spec: keys, section 5.2) ------------------------------------
#
# Links to the next identity, and its private key until every service has the link. The private key
# in use is in the party's row; the one before is overwritten.


@dataclass(frozen=True)
class NextIdentity:
    """The next identity of a party: the link, and its private key until it is in use."""

    party: str
    serial: int
    link: SignedPartySuccession
    secret: bytes | None = field(repr=False)


async def waiting_identities(transaction: Transaction) -> tuple[NextIdentity, ...]:
    """Next identities that not all services have yet; by party."""
    query = select(party_identities).where(party_identities.c.shown.is_(False))
    result = await transaction.execute(query.order_by(party_identities.c.party))
    return tuple(
        NextIdentity(
            row.party, row.serial, SignedPartySuccession.model_validate_json(row.link), row.secret
        )
        for row in result
    )


async def identity_serial(transaction: Transaction, party: str) -> int:
    """How often a party's identity was replaced."""
    query = select(func.max(party_identities.c.serial)).where(party_identities.c.party == party)
    return int((await transaction.execute(query)).scalar_one() or 0)


async def add_next_identity(transaction: Transaction, identity: NextIdentity) -> None:
    """Store the next identity, before anyone is shown it."""
    await transaction.execute(
        insert(party_identities).values(
            party=identity.party,
            serial=identity.serial,
            link=identity.link.model_dump_json(),
            secret=identity.secret,
            shown=False,
        )
    )


async def identity_chain(transaction: Transaction, party: str) -> PartyChain:
    """All links of a party, the oldest first; it has one at least."""
    query = select(party_identities.c.link).where(party_identities.c.party == party)
    result = await transaction.execute(query.order_by(party_identities.c.serial))
    links = (SignedPartySuccession.model_validate_json(link) for link in result.scalars())
    return PartyChain(links=tuple(links))


async def mark_identity_shown(transaction: Transaction, identity: NextIdentity) -> None:
    """Note that all services have it."""
    table = party_identities
    mine = (table.c.party == identity.party) & (table.c.serial == identity.serial)
    await transaction.execute(update(table).where(mine).values(shown=True))


async def use_next_identity(transaction: Transaction, identity: NextIdentity) -> None:
    """Put the next identity in use; the earlier private key is destroyed."""
    await to_erase(transaction)
    await transaction.execute(
        update(parties).where(parties.c.id == identity.party).values(identity=identity.secret)
    )
    await transaction.execute(
        update(party_identities)
        .where(party_identities.c.party == identity.party)
        .values(secret=None)
    )


async def forget_identities(transaction: Transaction, party: str) -> None:
    """Forget all links of a party: it enrols again."""
    await transaction.execute(delete(party_identities).where(party_identities.c.party == party))
