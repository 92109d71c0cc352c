"""Sealed chunks of verifier shares, by round, place of the aggregator in the descriptor, number."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, insert, select

from aggregator.store.tables import share_chunks
from common.store.transactions import Transaction

_AT = (
    share_chunks.c.round == bindparam("round_key"),
    share_chunks.c.position == bindparam("position"),
    share_chunks.c.chunk == bindparam("chunk"),
)
_BODY = select(share_chunks.c.body).where(*_AT)
_DROP = delete(share_chunks).where(*_AT)
_PUT = insert(share_chunks)
_HELD = select(share_chunks.c.position, share_chunks.c.chunk).where(
    share_chunks.c.round == bindparam("round_key")
)


async def put(transaction: Transaction, key: int, position: int, chunk: int, body: bytes) -> None:
    """Keep a chunk, in place of an earlier one."""
    place = {"round_key": key, "position": position, "chunk": chunk}
    await transaction.execute(_DROP, place)
    await transaction.execute(
        _PUT, {"round": key, "position": position, "chunk": chunk, "body": body}
    )


async def body(transaction: Transaction, key: int, position: int, chunk: int) -> bytes | None:
    """A chunk."""
    wanted = {"round_key": key, "position": position, "chunk": chunk}
    content: bytes | None = (await transaction.execute(_BODY, wanted)).scalar_one_or_none()
    return content


async def held(transaction: Transaction, key: int) -> set[tuple[int, int]]:
    """(place of the aggregator, chunk) of all that are held of a round."""
    found = await transaction.execute(_HELD, {"round_key": key})
    return {(int(row.position), int(row.chunk)) for row in found}
