"""Browser sessions of a console: its tables, forms of our own origin and failed sign-ins, and
sessions that stand for a token.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Column, MetaData, String, Table, delete, func, insert, or_, select, update
from starlette.requests import Request

from common.principals import Principal, Scope
from common.runtime.clock import Clock, uuid7
from common.store.columns import Instant
from common.store.tokens import MAX_CHARACTERS, hash_token
from common.store.transactions import Database, Transaction
from common.web.auth import Authenticator
from tacit.errors import Forbidden, TooMany, Unauthenticated


@dataclass(frozen=True)
class ConsoleTables:
    """Sessions and one-time codes are known by SHA-256 alone, as tokens are."""

    sessions: Table
    codes: Table
    audit: Table


def console_tables(metadata: MetaData) -> ConsoleTables:
    """`console_session`, `console_code` and `console_audit`."""
    return ConsoleTables(
        sessions=Table(
            "console_session",
            metadata,
            Column("hash", String(64), primary_key=True),
            Column("token_hash", String(64), nullable=False, index=True),
            Column("csrf", String(64), nullable=False),
            Column("created", Instant, nullable=False),
            Column("seen", Instant, nullable=False),
        ),
        codes=Table(
            "console_code",
            metadata,
            Column("hash", String(64), primary_key=True),
            Column("token_hash", String(64), nullable=False),
            Column("expires", Instant, nullable=False),
        ),
        audit=Table(
            "console_audit",
            metadata,
            Column("id", String(36), primary_key=True),
            Column("at", Instant, nullable=False, index=True),
            Column("token_id", String(36), nullable=False),
            Column("action", String(64), nullable=False),
            Column("object", String(200), nullable=False),
            Column("outcome", String(64), nullable=False),
        ),
    )


# Which requests are a form of our own page, and how often a sign-in may fail.
#
# Cookies do not tell ports apart, and neither does SameSite: another service on this host is "same
# site". So every POST needs the form's secret *and* the word of the browser that it comes from this
# very origin. Spec: console, sections 1 and 3.

FAILURES: Final = 5
_WITHIN_S: Final = 60.0
_ADDRESSES: Final = 4096


class AnotherOrigin(Forbidden):
    """The request is not from a page of this console."""

    name = "another_origin"
    title = "This form was not sent from a page of this console"


class TooManyAttempts(TooMany):
    """So many sign-ins failed from one address that the next has to wait."""

    name = "too_many_attempts"
    title = "Too many sign-ins failed: wait a little"
    retryable_by_default = True


def require_own_origin(request: Request) -> None:
    """Raise AnotherOrigin unless the browser says that the request is from this origin."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        same_origin = site == "same-origin"
    else:  # a browser from before that header
        origin = request.headers.get("origin", "")
        same_origin = origin == f"{request.url.scheme}://{request.headers.get('host', '')}"
    if not same_origin:
        raise AnotherOrigin


def require_secret(expected: str, secret: object) -> None:
    """Raise AnotherOrigin unless a form carries its session's secret."""
    if not isinstance(secret, str) or not hmac.compare_digest(expected.encode(), secret.encode()):
        raise AnotherOrigin


class Failures:
    """Failed sign-ins of the last minute, by address; in the memory of this process only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raise TooManyAttempts, with the seconds to wait, after `FAILURES` in a minute."""
        times, now = self._times.get(address), self._clock.monotonic()
        if times is None or len(times) < FAILURES:
            return
        wait_s = times[0] + _WITHIN_S - now
        if wait_s > 0:
            raise TooManyAttempts(retry_after_s=int(wait_s) + 1)

    def add(self, address: str) -> None:
        """Count one more."""
        times = self._times.setdefault(address, deque(maxlen=FAILURES))
        times.append(self._clock.monotonic())
        self._times.move_to_end(address)
        while len(self._times) > _ADDRESSES:
            self._times.popitem(last=False)


# Sessions of a browser: rows that stand for a token, so that the token is at rest nowhere.
#
# A session is known by a cookie that only `/console` gets. Every request resolves the session *and*
# its token: who revokes the token has ended all its sessions. An id that was not made here is never
# adopted, and each sign-in makes a new one.
#
# Spec: console, section 3.

LONGEST: Final = timedelta(hours=12)
CODE_S: Final = 60
LONGEST_CODE_S: Final = 7 * 86_400
"""Of a link that an operator sends to an owner."""
AUDIT_KEPT: Final = timedelta(days=400)
_SEEN_EVERY: Final = timedelta(seconds=60)


class NotAccepted(Unauthenticated):
    """Unknown, expired and revoked alike: the answer does not state which."""

    name = "not_accepted"
    title = "This token is not accepted"


class ForAMachine(Forbidden):
    """The token is good, but of a device or of another service."""

    name = "for_a_machine"
    title = "This token is for a machine"


@dataclass(frozen=True)
class Visitor:
    """Who looks at a page. `csrf`: what each form of this session carries."""

    principal: Principal
    csrf: str
    session: str

    def has(self, *scopes: Scope) -> bool:
        """Whether any of the scopes is held."""
        return self.principal.has(*scopes)


@dataclass(frozen=True)
class Audited:
    """A line of the audit."""

    id: str
    at: datetime
    token_id: str
    action: str
    object: str
    outcome: str


class Sessions:
    """The sessions of one service; several processes share them by the database."""

    def __init__(
        self,
        database: Database,
        tables: ConsoleTables,
        authenticator: Authenticator,
        clock: Clock,
        *,
        people: frozenset[Scope],
        idle_s: int,
    ) -> None:
        self._database, self._tables, self._clock = database, tables, clock
        self._authenticator = authenticator
        self._people = people
        self._idle = timedelta(seconds=idle_s)

    async def begin(self, token: str) -> str:
        """Begin a session of a token; returns the value of the cookie. Raises NotAccepted,
        ForAMachine."""
        if not token or len(token) > MAX_CHARACTERS:
            raise NotAccepted
        return await self._begin(hash_token(token))

    async def begin_by_code(self, code: str) -> str:
        """Begin a session by a one-time code, which is then spent. Raises as `begin`."""
        codes = self._tables.codes
        async with self._database.begin() as transaction:
            spent = await transaction.execute(
                delete(codes)
                .where(codes.c.hash == hash_token(code), codes.c.expires > self._clock.now())
                .returning(codes.c.token_hash)
            )
            token_hash = spent.scalar_one_or_none()
        if token_hash is None:
            raise NotAccepted
        return await self._begin(token_hash)

    async def begin_of_person(
        self, label: str, role: Scope | None, lifetime: timedelta
    ) -> str | None:
        """Begin a session for a person that an identity provider identified, with a role for
        `lifetime`. Without a role: None, and the person's other sessions end."""
        token_hash = await self._authenticator.stand_for(label, role, lifetime)
        return None if token_hash is None else await self._begin(token_hash)

    async def offer_code(self, token_hash: str, valid_s: int = CODE_S) -> str:
        """A code that begins one session of this token within `valid_s` seconds."""
        code, codes = secrets.token_urlsafe(32), self._tables.codes
        now = self._clock.now()
        async with self._database.begin() as transaction:
            await transaction.execute(delete(codes).where(codes.c.expires <= now))
            await transaction.execute(
                insert(codes).values(
                    hash=hash_token(code),
                    token_hash=token_hash,
                    expires=now + timedelta(seconds=valid_s),
                )
            )
        return code

    async def visitor(self, session: str) -> Visitor | None:
        """Who has this session; None if it was never made here, or is over."""
        rows, session_hash = self._tables.sessions, hash_token(session)
        async with self._database.reading() as transaction:
            result = await transaction.execute(select(rows).where(rows.c.hash == session_hash))
            row = result.first()
        if row is None:
            return None
        now = self._clock.now()
        principal = None
        if now < row.seen + self._idle and now < row.created + LONGEST:
            principal = await self._principal(row.token_hash)
        if principal is None:
            await self.end(session)
            return None
        if now - row.seen >= min(_SEEN_EVERY, self._idle / 4):
            async with self._database.begin() as transaction:
                await transaction.execute(
                    update(rows).where(rows.c.hash == session_hash).values(seen=now)
                )
        return Visitor(principal, row.csrf, session)

    async def end(self, session: str) -> None:
        """End a session at once."""
        rows = self._tables.sessions
        async with self._database.begin() as transaction:
            await transaction.execute(delete(rows).where(rows.c.hash == hash_token(session)))

    async def of_token(self, token_hash: str) -> int:
        """How many sessions of a token there are."""
        rows, now = self._tables.sessions, self._clock.now()
        mine = rows.c.token_hash == token_hash
        is_open = mine & (rows.c.seen > now - self._idle) & (rows.c.created > now - LONGEST)
        async with self._database.reading() as transaction:
            result = await transaction.execute(
                select(func.count()).select_from(rows).where(is_open)
            )
        return int(result.scalar_one())

    async def end_of_token(self, token_hash: str) -> None:
        """End all sessions of a token, and what could begin one."""
        async with self._database.begin() as transaction:
            for table in (self._tables.sessions, self._tables.codes):
                await transaction.execute(delete(table).where(table.c.token_hash == token_hash))

    async def note(self, visitor: Visitor, action: str, subject: str, outcome: str) -> None:
        """Keep in the audit who did what: names of things and no values."""
        async with self._database.begin() as transaction:
            await self._note(transaction, visitor.principal.token_id, action, subject, outcome)

    async def audited(self, before: str | None, limit: int) -> list[Audited]:
        """What was done, the newest first; `before`: the last id that was seen."""
        rows = self._tables.audit
        chosen = select(rows).order_by(rows.c.id.desc()).limit(limit)
        if before is not None:
            chosen = chosen.where(rows.c.id < before)
        async with self._database.reading() as transaction:
            rows_found = await transaction.execute(chosen)
            return [Audited(**row._mapping) for row in rows_found]

    async def _begin(self, token_hash: str) -> str:
        principal = await self._principal(token_hash)
        if principal is None:
            raise NotAccepted
        if not principal.has(*self._people):
            raise ForAMachine
        session, now, rows = secrets.token_urlsafe(32), self._clock.now(), self._tables.sessions
        async with self._database.begin() as transaction:
            await self._forget_old(transaction, now)
            await transaction.execute(
                insert(rows).values(
                    hash=hash_token(session),
                    token_hash=token_hash,
                    csrf=secrets.token_urlsafe(32),
                    created=now,
                    seen=now,
                )
            )
            await self._note(transaction, principal.token_id, "signed in", "", "done")
        return session

    async def _principal(self, token_hash: str) -> Principal | None:
        try:
            return await self._authenticator.holder(token_hash)
        except Unauthenticated:
            return None

    async def _forget_old(self, transaction: Transaction, now: datetime) -> None:
        rows, audit = self._tables.sessions, self._tables.audit
        over = or_(rows.c.seen <= now - self._idle, rows.c.created <= now - LONGEST)
        await transaction.execute(delete(rows).where(over))
        await transaction.execute(delete(audit).where(audit.c.at <= now - AUDIT_KEPT))

    async def _note(
        self, transaction: Transaction, token_id: str, action: str, subject: str, outcome: str
    ) -> None:
        await transaction.execute(
            insert(self._tables.audit).values(
                id=str(uuid7(self._clock)),
                at=self._clock.now(),
                token_id=token_id,
                action=action,
                object=subject,
                outcome=outcome,
            )
        )
