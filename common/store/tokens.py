"""API tokens, kept as SHA-256 only, and their renewal by an identity after all were ended.

API tokens: `tct_<scope>_<32 random bytes in base64url>`, kept as SHA-256 only.

The store can verify a token but never print it again. A token has scopes, may be
bound to a subject (the id of a curator, an aggregator or a host), may expire, may be revoked.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    MetaData,
    Row,
    Select,
    String,
    Table,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)

from common.principals import Scope
from common.runtime.clock import Clock, uuid7
from common.store.columns import Instant
from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from tacit.crypto.signing import SignatureBroken, Signed, verify_once
from tacit.errors import Forbidden
from tacit.protocol.enrolment import RENEWAL_LABEL, TokenRenewal

MAX_CHARACTERS: Final = 512


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What the store knows of a token."""

    id: str
    hash: str
    scopes: tuple[Scope, ...]
    subject: str | None
    label: str
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None
    last_used: datetime | None = None
    """The day, of tokens of people alone: a party's would tell when it was there."""

    def is_good(self, now: datetime) -> bool:
        """Neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or self.expires > now)


def token_table(metadata: MetaData) -> Table:
    """The table `token`, added to a service's own metadata."""
    return Table(
        "token",
        metadata,
        Column("id", String(36), primary_key=True),
        Column("hash", String(64), nullable=False, unique=True),
        Column("scopes", String(200), nullable=False),
        Column("subject", String(200), nullable=True, index=True),
        Column("label", String(200), nullable=False),
        Column("created", Instant, nullable=False),
        Column("expires", Instant, nullable=True),
        Column("revoked", Instant, nullable=True),
        Column("last_used", Instant, nullable=True),
    )


def hash_token(token: str) -> str:
    """SHA-256 of a token, in hex. Tokens are random, so a slow hash would add nothing."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token(scope: Scope) -> str:
    """A fresh token with 256 random bits."""
    random = base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
    return f"tct_{scope.value}_{random}"


def record_token(
    token: str,
    scopes: Sequence[Scope],
    clock: Clock,
    *,
    subject: str | None = None,
    label: str = "",
    lifetime: timedelta | None = None,
) -> TokenRecord:
    """The record of a token that exists; insert it to make the token valid."""
    return record_hash(
        hash_token(token), scopes, clock, subject=subject, label=label, lifetime=lifetime
    )


def record_hash(
    token_hash: str,
    scopes: Sequence[Scope],
    clock: Clock,
    *,
    subject: str | None = None,
    label: str = "",
    lifetime: timedelta | None = None,
) -> TokenRecord:
    """The same of a token that is known by its hash alone."""
    if not scopes:
        raise ValueError("a token needs a scope")
    now = clock.now()
    return TokenRecord(
        id=str(uuid7(clock)),
        hash=token_hash,
        scopes=tuple(dict.fromkeys(scopes)),
        subject=subject,
        label=label,
        created=now,
        expires=None if lifetime is None else now + lifetime,
    )


def mint(
    scopes: Sequence[Scope],
    clock: Clock,
    *,
    subject: str | None = None,
    label: str = "",
    lifetime: timedelta | None = None,
) -> tuple[str, TokenRecord]:
    """A new token, to be shown once, and its record, to be inserted."""
    if not scopes:
        raise ValueError("a token needs a scope")
    token = new_token(scopes[0])
    return token, record_token(
        token, scopes, clock, subject=subject, label=label, lifetime=lifetime
    )


async def insert_token(transaction: Transaction, table: Table, record: TokenRecord) -> None:
    """Store a token's record."""
    await transaction.execute(
        insert(table).values(
            id=record.id,
            hash=record.hash,
            scopes=" ".join(record.scopes),
            subject=record.subject,
            label=record.label,
            created=record.created,
            expires=record.expires,
            revoked=record.revoked,
        )
    )


async def find_token(transaction: Transaction, table: Table, token_hash: str) -> TokenRecord | None:
    """The record of a token, by its hash; also when it expired or was revoked."""
    row = (await transaction.execute(_by_hash(table), {"token_hash": token_hash})).first()
    return None if row is None else _record(row)


async def token_by_id(transaction: Transaction, table: Table, token_id: str) -> TokenRecord | None:
    """The record of an id, revoked or not."""
    row = (await transaction.execute(select(table).where(table.c.id == token_id))).first()
    return None if row is None else _record(row)


@cache
def _by_hash(table: Table) -> Select[Any]:
    return select(table).where(table.c.hash == bindparam("token_hash"))


async def list_tokens(
    transaction: Transaction,
    table: Table,
    *,
    after: str | None = None,
    limit: int = 100,
    subject: str | None = None,
) -> tuple[TokenRecord, ...]:
    """Records in the order of their making, a page at a time (`after` is the last id seen)."""
    query = select(table).order_by(table.c.id).limit(limit)
    if after is not None:
        query = query.where(table.c.id > after)
    if subject is not None:
        query = query.where(table.c.subject == subject)
    return tuple(_record(row) for row in await transaction.execute(query))


async def first_made(transaction: Transaction, table: Table) -> datetime | None:
    """When the first token of the service was made: at its first start."""
    result = await transaction.execute(select(func.min(table.c.created)))
    earliest: datetime | None = result.scalar_one()
    return earliest


async def count_ending(
    transaction: Transaction, table: Table, now: datetime, until: datetime, life: timedelta
) -> int:
    """How many tokens that belong to no party and were made for at least `life` end by then."""
    rows = await transaction.execute(
        select(table.c.created, table.c.expires).where(
            table.c.subject.is_(None),
            *_good(table, now),
            table.c.expires <= until,
            table.c.scopes != Scope.COORDINATOR.value,
        )
    )
    return sum(row.expires - row.created >= life for row in rows)


async def note_use(transaction: Transaction, table: Table, token_id: str, day: datetime) -> None:
    """Keep the last day on which a token was used."""
    await transaction.execute(update(table).where(table.c.id == token_id).values(last_used=day))


async def revoke_token(
    transaction: Transaction, table: Table, token_id: str, now: datetime
) -> bool:
    """Make a token permanently invalid; whether it was valid until now."""
    done = await transaction.execute(
        update(table).where(table.c.id == token_id, table.c.revoked.is_(None)).values(revoked=now)
    )
    return done.rowcount == 1


async def keep_person(
    transaction: Transaction,
    table: Table,
    label: str,
    role: Scope | None,
    lifetime: timedelta,
    clock: Clock,
) -> str | None:
    """The hash of the one valid token with this label and role, until `lifetime` from now: the
    existing one, or a new one, which is shown to nobody. Others of the label are revoked."""
    now = clock.now()
    mine = (table.c.label == label, table.c.subject.is_(None), *_good(table, now))
    if role is None:
        await transaction.execute(update(table).where(*mine).values(revoked=now))
        return None
    other = table.c.scopes != role.value
    await transaction.execute(update(table).where(*mine, other).values(revoked=now))
    kept = await transaction.execute(
        update(table).where(*mine).values(expires=now + lifetime).returning(table.c.hash)
    )
    token_hash: str | None = kept.scalars().first()
    if token_hash is None:
        record = mint((role,), clock, label=label, lifetime=lifetime)[1]
        await insert_token(transaction, table, record)
        token_hash = record.hash
    return token_hash


async def revoke_subject(
    transaction: Transaction, table: Table, subject: str, now: datetime
) -> int:
    """Revoke every token of a party; how many there were."""
    done = await transaction.execute(
        update(table)
        .where(table.c.subject == subject, table.c.revoked.is_(None))
        .values(revoked=now)
    )
    return done.rowcount


async def expire_holder(
    transaction: Transaction, table: Table, scope: Scope, subject: str | None, now: datetime
) -> None:
    """End the tokens of one scope and subject, which an identity may renew."""
    whose = table.c.scopes == scope.value, table.c.subject == subject  # IS NULL of no subject
    await transaction.execute(update(table).where(*whose, *_good(table, now)).values(expires=now))


async def end_renewable(transaction: Transaction, table: Table, now: datetime) -> None:
    """End the tokens that identities can renew: those of parties and of the coordinator."""
    of_party = and_(table.c.scopes == Scope.CURATOR.value, table.c.subject.is_not(None))
    of_coordinator = table.c.scopes == Scope.COORDINATOR.value
    await transaction.execute(
        update(table).where(*_good(table, now), or_(of_party, of_coordinator)).values(expires=now)
    )


async def end_tokens(
    transaction: Transaction, table: Table, kept_id: str, now: datetime
) -> dict[str, int]:
    """End every token but the one of this id, an operator's; returns how many of each scope
    there were. Renewable ones expire; all others are revoked."""
    good = _good(table, now)
    rows = await transaction.execute(
        select(table.c.scopes, func.count())
        .where(*good, table.c.id != kept_id)
        .group_by(table.c.scopes)
    )
    counts = {str(scopes): int(count) for scopes, count in rows}
    await end_renewable(transaction, table, now)
    await transaction.execute(
        update(table).where(*_good(table, now), table.c.id != kept_id).values(revoked=now)
    )
    return counts


def _good(table: Table, now: datetime) -> tuple[ColumnElement[bool], ...]:
    """Neither revoked nor expired."""
    return table.c.revoked.is_(None), table.c.expires.is_(None) | (table.c.expires > now)


def _record(row: Row[Any]) -> TokenRecord:
    return TokenRecord(
        id=row.id,
        hash=row.hash,
        scopes=tuple(Scope(scope) for scope in row.scopes.split()),
        subject=row.subject,
        label=row.label,
        created=row.created,
        expires=row.expires,
        revoked=row.revoked,
        last_used=row.last_used,
    )


# Who was ended with all others gets another token by its identity: parties, and the coordinator at
# an aggregator.
#
# Spec: keys, section 5.2. After a theft an operator ends the tokens of a service (`POST
# /v1/tokens/end`, or an identity that is replaced as compromised): they expire. Who held one makes
# another, and tells its hash alone. A token that was revoked, of a party that left or whose
# identity forked, is renewed by nobody.

MADE_WITHIN: Final = timedelta(seconds=300)
_LABEL: Final = "renewed by its identity"
_LOCK: Final = "token renewal"


class RenewalRefused(Forbidden):
    name = "renewal_refused"
    title = "No token is renewed for this request"


@dataclass(frozen=True)
class Holder:
    """The owner of a token: its scope, and the party (none for the one coordinator)."""

    scope: Scope
    subject: str | None = None

    def has(self, record: TokenRecord) -> bool:
        """Whether a token is of this holder alone."""
        return (record.scopes, record.subject) == ((self.scope,), self.subject)


def check_request(
    signed: Signed[TokenRenewal], *, service: str, party: str, identity_key: bytes, now: datetime
) -> TokenRenewal:
    """A party's request, if its identity signed it for this service just now. Raises
    RenewalRefused. It needs no transaction for which others wait."""
    try:
        renewal = verify_once(RENEWAL_LABEL, signed, identity_key)
    except SignatureBroken as error:
        raise RenewalRefused(str(error)) from None
    if (renewal.service, renewal.party) != (service, party) or not _is_fresh(renewal.made, now):
        raise RenewalRefused("it is for another service or party, or of another time")
    return renewal


async def renew_by_identity(
    database: Database,
    table: Table,
    signed: Signed[TokenRenewal],
    holder: Holder,
    *,
    service: str,
    identity_key: bytes,
    clock: Clock,
) -> None:
    """Answer a party's request. Raises RenewalRefused."""
    assert holder.subject is not None
    async with database.reading() as transaction:
        await check_ended(transaction, table, signed.statement, holder, clock.now())
    renewal = check_request(
        signed,
        service=service,
        party=holder.subject,
        identity_key=identity_key,
        now=clock.now(),
    )
    async with database.begin() as transaction:
        await renew(transaction, table, renewal, holder, clock)


async def check_ended(
    transaction: Transaction, table: Table, renewal: TokenRenewal, holder: Holder, now: datetime
) -> None:
    """Raise RenewalRefused unless the named token was ended, and not revoked. Only its holder
    can name it, so this comes before anything that takes time."""
    record = await find_token(transaction, table, renewal.token_hash)
    if record is None or not holder.has(record) or record.revoked is not None:
        raise RenewalRefused("the token is not known, or was revoked")
    if record.is_good(now):
        raise RenewalRefused("the token is good")


async def renew(
    transaction: Transaction, table: Table, renewal: TokenRenewal, holder: Holder, clock: Clock
) -> None:
    """Replace all tokens of the holder by the new one. A repetition changes nothing, even after
    the new one was ended. Raises RenewalRefused as `check_ended`, and for a new token that was
    ended or is another's."""
    now = clock.now()
    await exclusive(transaction, _LOCK)
    await check_ended(transaction, table, renewal, holder, now)
    known = await find_token(transaction, table, renewal.new_hash)
    if known is not None:
        if holder.has(known) and known.is_good(now):
            return
        raise RenewalRefused("the new token was ended, or is another's")
    await expire_holder(transaction, table, holder.scope, holder.subject, now)
    record = record_hash(
        renewal.new_hash, (holder.scope,), clock, subject=holder.subject, label=_LABEL
    )
    await insert_token(transaction, table, record)


def _is_fresh(made_at: datetime, now: datetime) -> bool:
    return abs(now - made_at) <= MADE_WITHIN
