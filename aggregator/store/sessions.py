"""Sessions under this aggregator's seal keys: the key of each, under the seal key's wrapping key.

Spec: keys, section 2.3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, insert, select

from aggregator.store.tables import sessions
from common.store.transactions import Transaction

_CHUNK = 500
_ONE = select(sessions.c.wrapped).where(
    sessions.c.seal_key == bindparam("number"),
    sessions.c.party == bindparam("sender"),
    sessions.c.session == bindparam("id"),
)
_OF_PARTIES = select(sessions.c.party, sessions.c.session, sessions.c.wrapped).where(
    sessions.c.seal_key == bindparam("number"),
    sessions.c.party.in_(bindparam("senders", expanding=True)),
)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """`party`: its key in the store; `wrapped`: the session's key."""

    seal_key: int
    party: int
    session: bytes
    wrapped: bytes


async def wrapped_key(
    transaction: Transaction, number: int, party: int, session: bytes
) -> bytes | None:
    """The wrapped key of a session."""
    wanted = {"number": number, "sender": party, "id": session}
    found: bytes | None = (await transaction.execute(_ONE, wanted)).scalar_one_or_none()
    return found


async def of_parties(
    transaction: Transaction, number: int, parties: Sequence[int]
) -> dict[int, dict[bytes, bytes]]:
    """The wrapped keys of all sessions of some parties under a seal key, by party and session."""
    found: dict[int, dict[bytes, bytes]] = {party: {} for party in parties}
    for start in range(0, len(parties), _CHUNK):
        wanted = {"number": number, "senders": parties[start : start + _CHUNK]}
        for row in await transaction.execute(_OF_PARTIES, wanted):
            found[row.party][row.session] = row.wrapped
    return found


async def add(transaction: Transaction, rows: Sequence[SessionRow]) -> None:
    """Keep new sessions."""
    await transaction.execute(
        insert(sessions),
        [
            {
                "seal_key": row.seal_key,
                "party": row.party,
                "session": row.session,
                "wrapped": row.wrapped,
            }
            for row in rows
        ],
    )
