"""Grants: one-time secrets with which a party may enrol at a service, and what they allow.

Coordinator and aggregators each issue their own, so that no service alone can enrol anyone (spec:
aggregation, section 8). Only the hash of a secret is stored. These checks are common to both; what
else a service refuses, and when an enrolment may be repeated, is its own.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Table, delete, func, insert, select, update
from starlette.requests import Request
from starlette.responses import Response

from common.runtime.process import give_back
from common.store.transactions import Database, Transaction
from common.web.limits import read_within
from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.errors import Conflict, Gone, Invalid, NotFound, Unauthenticated
from tacit.protocol.enrolment import (
    ENROLMENT_LABEL,
    GRANT_HEADER,
    Enrolment,
    Grant,
    GrantAnswer,
    GrantRequest,
    PartyKind,
    grant_hash,
)

BYTES_PER_CURATOR: Final = 136
"""In JSON: an identifier of at most 128 characters, quotes, comma, a little space."""
LARGE_BYTES: Final = 1 << 20
"""Enrolments that may be longer than this are read one at a time."""


class JoinTokenUnknown(Unauthenticated):
    name = "join_token_unknown"
    title = "The join token was not issued here"


class JoinTokenUsed(Conflict):
    name = "join_token_used"
    title = "The join token was used before"


class JoinTokenExpired(Gone):
    name = "join_token_expired"
    title = "The join token has expired"


class EnrolmentRefused(Invalid):
    name = "enrolment_refused"
    title = "The enrolment is not what the join token permits"


@dataclass(frozen=True)
class GrantRow:
    """A stored grant; `used`: when a party enrolled with it; `replaces`: it gives a party on the
    roster another identity."""

    party: str
    kind: PartyKind
    max_curators: int
    expires: datetime
    used: datetime | None
    replaces: bool


async def issue_grant(
    transaction: Transaction,
    table: Table,
    request: GrantRequest,
    now: datetime,
    *,
    service: str,
    url: str,
    fingerprint: bytes,
) -> GrantAnswer:
    """A one-time secret for one party, of the service of this name, address and identity."""
    if request.kind is PartyKind.CURATOR and request.max_curators != 1:
        raise EnrolmentRefused("a lone curator is one curator", pointer="/max_curators")
    secret = secrets.token_urlsafe(32)
    expires = now + timedelta(seconds=request.valid_s)
    await transaction.execute(
        insert(table).values(
            secret_hash=grant_hash(secret),
            party=request.party,
            kind=request.kind.value,
            max_curators=request.max_curators,
            expires=expires,
            replaces=request.replaces,
        )
    )
    grant = Grant(party=service, url=url, fingerprint=fingerprint, secret=secret)
    return GrantAnswer(grant=grant, expires=expires)


async def find_grant(
    transaction: Transaction, table: Table, secret_hash: str, now: datetime
) -> GrantRow:
    """The grant of a secret, used or not. Raises JoinTokenUnknown; for an expired one
    JoinTokenUsed or JoinTokenExpired."""
    result = await transaction.execute(select(table).where(table.c.secret_hash == secret_hash))
    row = result.first()
    if row is None:
        raise JoinTokenUnknown
    if row.expires <= now:
        raise JoinTokenExpired if row.used is None else JoinTokenUsed
    return GrantRow(
        row.party, PartyKind(row.kind), row.max_curators, row.expires, row.used, row.replaces
    )


@dataclass(frozen=True)
class OpenGrant:
    """A grant that can still be used; `id`: the beginning of its secret's hash, which gives no
    access."""

    id: str
    party: str
    kind: PartyKind
    max_curators: int
    expires: datetime


class UnknownGrant(NotFound):
    name = "unknown_grant"
    title = "There is no such grant, or it has been used"


_ID_CHARACTERS: Final = 16
_SHOWN_AT_MOST: Final = 1000


async def open_grants(
    transaction: Transaction, table: Table, now: datetime
) -> tuple[OpenGrant, ...]:
    """The grants that are neither used nor expired, at most a thousand, the first to expire
    first."""
    chosen = (
        select(table)
        .where(table.c.used.is_(None), table.c.expires > now)
        .order_by(table.c.expires, table.c.secret_hash)
        .limit(_SHOWN_AT_MOST)
    )
    return tuple(
        OpenGrant(
            row.secret_hash[:_ID_CHARACTERS],
            row.party,
            PartyKind(row.kind),
            row.max_curators,
            row.expires,
        )
        for row in await transaction.execute(chosen)
    )


async def withdraw_grant(transaction: Transaction, table: Table, grant_id: str) -> None:
    """Delete a grant that is not used: a party that presents it is refused. Raises UnknownGrant."""
    done = await transaction.execute(
        delete(table).where(
            func.substr(table.c.secret_hash, 1, _ID_CHARACTERS) == grant_id, table.c.used.is_(None)
        )
    )
    if done.rowcount == 0:
        raise UnknownGrant


async def use_grant(
    transaction: Transaction, table: Table, secret_hash: str, now: datetime
) -> None:
    """Mark an unused grant as used."""
    unused = table.c.secret_hash == secret_hash, table.c.used.is_(None)
    await transaction.execute(update(table).where(*unused).values(used=now))


async def forget_grants(transaction: Transaction, table: Table, before: datetime) -> None:
    """Drop grants that expired before an instant."""
    await transaction.execute(delete(table).where(table.c.expires < before))


def check_proof(signed: Signed[Enrolment]) -> None:
    """Raise EnrolmentRefused unless the identity that an enrolment names signed it."""
    request = signed.statement
    try:
        verify(ENROLMENT_LABEL, signed, request.identity_key)
    except SignatureBroken as error:
        raise EnrolmentRefused(str(error), pointer="/signature") from None


def check_allowed(granted: GrantRow, request: Enrolment) -> None:
    """Raise EnrolmentRefused unless the grant is for this party and this many curators."""
    ids = request.curators
    if granted.party != request.party or granted.kind is not request.kind:
        raise EnrolmentRefused("the join token is bound to another party", pointer="/party")
    if not 1 <= len(ids) <= granted.max_curators:
        raise EnrolmentRefused(
            "not a number of curators that the join token allows",
            pointer="/curators",
            extra={"max_curators": granted.max_curators},
        )
    if request.kind is PartyKind.CURATOR and ids != (request.party,):
        raise EnrolmentRefused("a lone curator speaks for itself", pointer="/curators")


async def largest_body(
    database: Database,
    table: Table,
    named: str | None,
    now: datetime,
    *,
    open_to_all: int,
    most: int,
) -> int:
    """How many bytes of an enrolment are read: few, unless a named grant (by the hash of its
    secret) allows many curators. A used one can be repeated. Raises as `find_grant`."""
    if named is None:
        return open_to_all
    async with database.reading() as transaction:
        granted = await find_grant(transaction, table, named, now)
    return min(most, open_to_all + BYTES_PER_CURATOR * granted.max_curators)


async def answer_enrolment(
    request: Request,
    limit: int,
    large: asyncio.Lock,
    enrol: Callable[[Signed[Enrolment]], Awaitable[Response]],
) -> Response:
    """Read an enrolment of at most this many bytes and answer it; a large one holds the lock."""

    async def answered() -> Response:
        detail = f"{GRANT_HEADER} names no grant that allows as many curators"
        return await enrol(await read_within(request, Signed[Enrolment], limit, detail))

    if limit <= LARGE_BYTES:
        return await answered()
    async with large:  # one at a time: there is memory for one
        try:
            return await answered()
        finally:
            await asyncio.to_thread(give_back)
