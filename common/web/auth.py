"""Authentication: bearer tokens to principals, with a small cache in front of the store.

The operator may do what an analyst may. Nothing else is implied: `curator`, `aggregator`,
`device` and `coordinator` are identities of parties, and no other token may pass for one. A
route that several may call names them all (any one of the scopes suffices).

A revocation takes effect immediately in the process that made it (`Authenticator.forget`), and
after `ttl_s` in the others.
"""

import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fastapi import FastAPI
from fastapi.security import HTTPBearer
from sqlalchemy import Table, select, update
from starlette.requests import Request

from common.principals import Principal, Scope
from common.runtime.clock import Clock
from common.runtime.compute_processes import ASKER
from common.runtime.process import make_private_directory
from common.runtime.settings import ServiceSettings
from common.store.database import exclusive
from common.store.tokens import (
    MAX_CHARACTERS,
    TokenRecord,
    find_token,
    hash_token,
    insert_token,
    keep_person,
    new_token,
    note_use,
    record_token,
)
from common.store.transactions import Database, Transaction
from tacit.errors import Unauthenticated

IMPLIED: Final[Mapping[Scope, frozenset[Scope]]] = MappingProxyType(
    {Scope.OPERATOR: frozenset({Scope.ANALYST})}
)
OF_PEOPLE: Final = frozenset({Scope.OPERATOR, Scope.ANALYST})
FROM_SETTINGS: Final = "operator, from the settings"
FROM_FILE: Final = "operator, made at the first start"


class TokenMissing(Unauthenticated):
    """No bearer token came with the request."""

    name = "token_missing"
    title = "A bearer token is required"


class TokenUnknown(Unauthenticated):
    """The token was never issued here, or was revoked."""

    name = "token_unknown"
    title = "The token is not known, or was revoked"


class TokenExpired(Unauthenticated):
    """The token was valid once."""

    name = "token_expired"
    title = "The token has expired"


class Authenticator:
    """Turns tokens into principals; keeps the last ones for a few seconds."""

    def __init__(
        self,
        database: Database,
        table: Table,
        clock: Clock,
        *,
        ttl_s: float = 5.0,
        capacity: int = 4096,
    ) -> None:
        self._database = database
        self._table = table
        self._clock = clock
        self._ttl_s = ttl_s
        self._capacity = capacity
        self._cache: OrderedDict[str, tuple[float, TokenRecord]] = OrderedDict()

    async def principal(self, token: str) -> Principal:
        """The holder of a token, or `TokenUnknown` or `TokenExpired`."""
        if not token or len(token) > MAX_CHARACTERS:
            raise TokenUnknown
        return await self.holder(hash_token(token))

    async def holder(self, token_hash: str) -> Principal:
        """The same of a token that is known by its hash alone."""
        record = self._remembered(token_hash)
        if record is None:
            record = await self._database.read(
                lambda transaction: find_token(transaction, self._table, token_hash)
            )
            if record is None or record.revoked is not None:
                raise TokenUnknown
            await self._note_use(record)
            self._remember(token_hash, record)
        if record.expires is not None and record.expires <= self._clock.now():
            raise TokenExpired
        if (asker := ASKER.get()) is not None:
            asker.caller = record.id
        scopes = frozenset(record.scopes)
        implied = frozenset[Scope]().union(*[IMPLIED.get(scope, ()) for scope in scopes])
        return Principal(record.id, scopes | implied, record.subject)

    async def stand_for(self, label: str, role: Scope | None, lifetime: timedelta) -> str | None:
        """The hash of the token of a person who signed in, identified by `label`, for `lifetime`
        from now. A token of another role is revoked; without a role the person has none."""
        async with self._database.begin() as transaction:
            await exclusive(transaction, "tokens of people")
            token_hash = await keep_person(
                transaction, self._table, label, role, lifetime, self._clock
            )
        self.forget()
        return token_hash

    async def _note_use(self, record: TokenRecord) -> None:
        """Keep that a person's token was used today."""
        day = self._clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        is_recent = record.last_used is not None and record.last_used >= day
        if is_recent or OF_PEOPLE.isdisjoint(record.scopes):
            return
        async with self._database.begin() as transaction:
            await note_use(transaction, self._table, record.id, day)

    def forget(self) -> None:
        """Ask the store again for every token: call it after a revocation."""
        self._cache.clear()

    def _remembered(self, token_hash: str) -> TokenRecord | None:
        cached = self._cache.get(token_hash)
        if cached is None:
            return None
        if self._clock.monotonic() - cached[0] >= self._ttl_s:
            del self._cache[token_hash]
            return None
        self._cache.move_to_end(token_hash)
        return cached[1]

    def _remember(self, token_hash: str, record: TokenRecord) -> None:
        self._cache[token_hash] = (self._clock.monotonic(), record)
        while len(self._cache) > self._capacity:
            self._cache.popitem(last=False)


def install_authenticator(app: FastAPI, authenticator: Authenticator) -> None:
    """Let `authenticate` and `require` of this app use `authenticator`; call it in the lifespan."""
    app.state.authenticator = authenticator


async def authenticate(request: Request) -> Principal:
    """The caller of this request; for routes outside FastAPI's dependencies too."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise TokenMissing
    authenticator: Authenticator = request.app.state.authenticator
    return await authenticator.principal(token.strip())


class _Bearer(HTTPBearer):
    """A dependency, and in the API's document the scheme of tokens: one object for both."""

    def __init__(self, scopes: tuple[Scope, ...]) -> None:
        said = "`Authorization: Bearer tct_...`"
        super().__init__(scheme_name="HTTPBearer", description=said, auto_error=False)
        self._scopes = scopes

    async def __call__(self, request: Request) -> Principal:  # type: ignore[override]
        found = await authenticate(request)
        if self._scopes:
            found.demand(*self._scopes)
        return found


def require(*scopes: Scope) -> Callable[[Request], Awaitable[Principal]]:
    """A dependency that returns the principal if it has any of `scopes` (without scopes: any
    token)."""
    return _Bearer(scopes)


async def ensure_operator_token(
    database: Database, table: Table, settings: ServiceSettings, clock: Clock
) -> Path | None:
    """Ensure that a new service has an operator token; the path of its file if there is one.

    A token in the settings is stored, and an earlier one is revoked. Without one in the
    settings, and with no valid operator token in the store, one is made and written to
    `<data_dir>/operator.token` with mode 0600. Several replicas may call this at the same time.
    """
    path = settings.data_dir / "operator.token"
    async with database.begin() as transaction:
        await exclusive(transaction, "operator token")
        if settings.operator_token is not None:
            token = settings.operator_token.get_secret_value()
            await _replace_configured(transaction, table, token, clock)
            return None
        if await _operator_exists(transaction, table, clock.now()):
            return path if path.exists() else None
        token = _read_or_write(path)
        if await find_token(transaction, table, hash_token(token)) is not None:
            path.unlink(missing_ok=True)  # it was revoked, or has expired
            token = _read_or_write(path)
        record = record_token(token, (Scope.OPERATOR,), clock, label=FROM_FILE)
        await insert_token(transaction, table, record)
        return path


async def _replace_configured(
    transaction: Transaction, table: Table, token: str, clock: Clock
) -> None:
    token_hash = hash_token(token)
    await transaction.execute(
        update(table)
        .where(
            table.c.label == FROM_SETTINGS,
            table.c.hash != token_hash,
            table.c.revoked.is_(None),
        )
        .values(revoked=clock.now())
    )
    if await find_token(transaction, table, token_hash) is None:
        record = record_token(token, (Scope.OPERATOR,), clock, label=FROM_SETTINGS)
        await insert_token(transaction, table, record)


async def _operator_exists(transaction: Transaction, table: Table, now: datetime) -> bool:
    rows = await transaction.execute(
        select(table.c.scopes).where(
            table.c.revoked.is_(None), table.c.expires.is_(None) | (table.c.expires > now)
        )
    )
    return any(Scope.OPERATOR in row.scopes.split() for row in rows)


def _read_or_write(path: Path) -> str:
    """The token in the file, or a new one, written there before it is used."""
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        pass
    token = new_token(Scope.OPERATOR)
    make_private_directory(path.parent)
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())
    return token
