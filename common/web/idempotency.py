"""Safe retries of POSTs that create: `Idempotency-Key`, as in the IETF draft of that name.

The answer is stored in the transaction that creates, so either both exist or neither does:

    async with engine.begin() as connection:
        if stored := await recall(connection, table, key):
            return stored.response()
        ... create ...
        await remember(connection, table, key, answer, clock.now())

The same key with another request is refused (422), and while the first is in progress, 409. A key
belongs to the principal, the method and the path it was sent with; no other request can match it.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    Column,
    Insert,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    String,
    Table,
    bindparam,
    delete,
    insert,
    select,
    text,
)
from starlette.requests import Request
from starlette.responses import Response

from common.store.columns import Instant
from common.store.database import lock_key
from common.store.transactions import Transaction
from tacit.errors import Conflict, Invalid, Malformed

HEADER: Final = "Idempotency-Key"
MAX_CHARACTERS: Final = 255
REPLAYED: Final = "Idempotency-Replayed"


class IdempotencyKeyMissing(Malformed):
    """This operation needs a key."""

    name = "idempotency_key_missing"
    title = "The header Idempotency-Key is required"


class IdempotencyKeyMalformed(Malformed):
    """The key is empty, too long, or not printable ASCII."""

    name = "idempotency_key_malformed"
    title = "The header Idempotency-Key is malformed"


class IdempotencyKeyReused(Invalid):
    """The key was used for another request."""

    name = "idempotency_key_reused"
    title = "The Idempotency-Key was used for another request"


class IdempotencyInProgress(Conflict):
    """The first request with this key has no answer yet."""

    name = "idempotency_in_progress"
    title = "A request with this Idempotency-Key is in progress"
    retryable_by_default = True


@dataclass(frozen=True, slots=True)
class RequestKey:
    """A key in its own space, and the digest of the request that it identifies."""

    id: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer as it was given, to be given again."""

    status: int
    body: bytes
    media_type: str = "application/json"
    location: str | None = None

    def response(self, *, replayed: bool = True) -> Response:
        """The answer as a response; marked when it is a replay."""
        headers = {REPLAYED: "true"} if replayed else {}
        if self.location is not None:
            headers["Location"] = self.location
        return Response(self.body, self.status, headers=headers, media_type=self.media_type)


def idempotency_table(metadata: MetaData) -> Table:
    """The table `idempotency_key`, added to a service's own metadata."""
    return Table(
        "idempotency_key",
        metadata,
        Column("id", String(64), primary_key=True),
        Column("fingerprint", String(64), nullable=False),
        Column("status", Integer, nullable=True),
        Column("body", LargeBinary, nullable=True),
        Column("media_type", String(100), nullable=True),
        Column("location", String(500), nullable=True),
        Column("created", Instant, nullable=False, index=True),
    )


async def request_key(
    request: Request, holder: str, *, required: bool = False
) -> RequestKey | None:
    """The key of a request, if it has one. `holder` is its owner: `Principal.token_id`."""
    sent = request.headers.get(HEADER)
    if sent is None:
        if required:
            raise IdempotencyKeyMissing
        return None
    key = sent.strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not 1 <= len(key) <= MAX_CHARACTERS or not key.isascii() or not key.isprintable():
        raise IdempotencyKeyMalformed
    return RequestKey(
        id=_digest(holder, request.method, request.url.path, key),
        fingerprint=_digest(
            request.url.query,
            request.headers.get("content-type", ""),
            await request.body(),
        ),
    )


def form_key(holder: str, path: str, key: str, content: bytes) -> RequestKey:
    """The key that a form of a page carries. Raises IdempotencyKeyMalformed."""
    if not 1 <= len(key) <= MAX_CHARACTERS or not key.isascii() or not key.isprintable():
        raise IdempotencyKeyMalformed
    return RequestKey(id=_digest(holder, "form", path, key), fingerprint=_digest(content))


async def recall(
    transaction: Transaction, table: Table, key: RequestKey | None
) -> StoredAnswer | None:
    """The earlier answer; None the first time, and then only this transaction has the key until
    it ends."""
    if key is None:
        return None
    if transaction.dialect.name == "postgresql":
        lock = await transaction.execute(
            text("SELECT pg_try_advisory_xact_lock(:key)"),
            {"key": lock_key(f"idempotency {key.id}")},
        )
        if not lock.scalar_one():
            raise IdempotencyInProgress(retry_after_s=1)
    row = (await transaction.execute(_by_id(table), {"key": key.id})).first()
    if row is None:
        return None
    if row.fingerprint != key.fingerprint:
        raise IdempotencyKeyReused
    return StoredAnswer(row.status, row.body, row.media_type, row.location)


async def remember(
    transaction: Transaction,
    table: Table,
    key: RequestKey | None,
    answer: StoredAnswer,
    now: datetime,
) -> None:
    """Store the answer of a key, in the transaction that made what the answer describes."""
    if key is None:
        return
    values = {
        "id": key.id,
        "fingerprint": key.fingerprint,
        "created": now,
        "status": answer.status,
        "body": answer.body,
        "media_type": answer.media_type,
        "location": answer.location,
    }
    await transaction.execute(_add(table), values)


async def forget_before(transaction: Transaction, table: Table, instant: datetime) -> int:
    """Drop keys older than `instant`; how many there were."""
    done = await transaction.execute(delete(table).where(table.c.created < instant))
    return done.rowcount


@cache
def _by_id(table: Table) -> Select[Any]:
    return select(table).where(table.c.id == bindparam("key"))


@cache
def _add(table: Table) -> Insert:
    return insert(table)


def _digest(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()
