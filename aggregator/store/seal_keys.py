"""Seal keys of this aggregator and public ones of others, and the sessions under them.

What is secret of a key is stored under its wrapping key only, which is in a file
(`aggregator.seal_keys`). Spec: keys, sections 2.3 and 2.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from aggregator.store.rounds import LIVE
from aggregator.store.tables import peer_seal_keys, rounds, seal_keys, sessions
from common.store.erasure import to_erase
from common.store.transactions import Transaction


class KeyState(StrEnum):
    """`retired`: it opens no new round; `destroyed`: nothing opens with it any more."""

    PUBLISHED = "published"
    RETIRED = "retired"
    DESTROYED = "destroyed"


@dataclass(frozen=True)
class SealKeyRow:
    """A seal key as stored. `seed` and `verification_secret` are under the wrapping key, and None
    once the key is destroyed."""

    number: int
    key_hash: bytes
    round: str | None
    made: datetime
    until: datetime
    state: KeyState
    seed: bytes | None
    verification_secret: bytes | None
    signed: str
    public_key: bytes


@dataclass(frozen=True)
class Limits:
    """The instants before which keys are no longer needed.

    `ended`: of a key's period, with its grace; `held`: of a period whose keys no live round
    needs any more; `unused`: when a round's key was made with which no round was opened.
    """

    ended: datetime
    held: datetime
    unused: datetime


_ROW = tuple(seal_keys.c[name] for name in SealKeyRow.__dataclass_fields__)
_STATE = tuple(SealKeyRow.__dataclass_fields__).index("state")
_BY_NUMBER = select(*_ROW).where(seal_keys.c.number == bindparam("of_number"))
_PEER_KEYS = select(peer_seal_keys.c.key_hash, peer_seal_keys.c.public_key).where(
    peer_seal_keys.c.key_hash.in_(bindparam("hashes", expanding=True))
)
_ALIVE = seal_keys.c.state != KeyState.DESTROYED.value
_NAMED = select(rounds.c.seal_key).where(rounds.c.seal_key.is_not(None))
_NEEDED = _NAMED.where(rounds.c.state.in_(LIVE))


async def add(transaction: Transaction, row: SealKeyRow) -> None:
    """Keep a new key."""
    values = {**asdict(row), "state": row.state.value}
    await transaction.execute(insert(seal_keys).values(**values))


async def by_number(transaction: Transaction, number: int) -> SealKeyRow | None:
    """A key by its number."""
    row = (await transaction.execute(_BY_NUMBER, {"of_number": number})).first()
    return None if row is None else _row(row)


async def by_round(transaction: Transaction, round_id: str) -> SealKeyRow | None:
    """The key that was made for a round."""
    return await _one(transaction, seal_keys.c.round == round_id)


async def newest(transaction: Transaction, now: datetime) -> SealKeyRow | None:
    """The published key of the current period."""
    result = await transaction.execute(
        select(*_ROW)
        .where(
            seal_keys.c.round.is_(None),
            seal_keys.c.state == KeyState.PUBLISHED.value,
            seal_keys.c.until > now,
        )
        .order_by(seal_keys.c.number.desc())
        .limit(1)
    )
    row = result.first()
    return None if row is None else _row(row)


async def number_of(transaction: Transaction, key_hash: bytes) -> int | None:
    """The number of the key with this hash."""
    result = await transaction.execute(
        select(seal_keys.c.number).where(seal_keys.c.key_hash == key_hash)
    )
    number: int | None = result.scalar_one_or_none()
    return number


async def public_key(transaction: Transaction, key_hash: bytes) -> bytes | None:
    """A public key of this aggregator by its hash."""
    result = await transaction.execute(
        select(seal_keys.c.public_key).where(seal_keys.c.key_hash == key_hash)
    )
    raw: bytes | None = result.scalar_one_or_none()
    return raw


async def highest(transaction: Transaction) -> int:
    """The highest number that was given; 0 before the first."""
    result = await transaction.execute(select(func.max(seal_keys.c.number)))
    return int(result.scalar_one() or 0)


async def numbers(transaction: Transaction, *states: KeyState) -> tuple[int, ...]:
    """The numbers of keys in these states."""
    in_states = seal_keys.c.state.in_([state.value for state in states])
    return tuple((await transaction.execute(select(seal_keys.c.number).where(in_states))).scalars())


async def count_waiting(transaction: Transaction) -> int:
    """How many keys of rounds there are with which no round was opened."""
    result = await transaction.execute(
        select(func.count()).where(
            seal_keys.c.round.is_not(None), _ALIVE, seal_keys.c.number.not_in(_NAMED)
        )
    )
    return int(result.scalar_one())


async def retire(transaction: Transaction, ended: datetime) -> None:
    """Retire keys whose period with its grace was over at that instant."""
    await transaction.execute(
        update(seal_keys)
        .where(seal_keys.c.state == KeyState.PUBLISHED.value, seal_keys.c.until <= ended)
        .values(state=KeyState.RETIRED.value)
    )


async def retire_periods(transaction: Transaction) -> tuple[int, ...]:
    """Retire the keys of periods that are in use; returns the numbers of all keys of periods
    that are not destroyed."""
    of_period = (seal_keys.c.round.is_(None), _ALIVE)
    await transaction.execute(
        update(seal_keys).where(*of_period).values(state=KeyState.RETIRED.value)
    )
    retired = select(seal_keys.c.number).where(*of_period).order_by(seal_keys.c.number)
    return tuple((await transaction.execute(retired)).scalars())


async def due(transaction: Transaction, limits: Limits) -> tuple[int, ...]:
    """Keys that are to be destroyed, the oldest first."""
    over = or_(seal_keys.c.state == KeyState.RETIRED.value, seal_keys.c.until <= limits.ended)
    return await _due(transaction, limits, over)


async def due_by_time(transaction: Transaction, limits: Limits) -> tuple[int, ...]:
    """The keys whose time was over by then, except those that were retired earlier."""
    return await _due(transaction, limits, seal_keys.c.until <= limits.ended)


async def _due(
    transaction: Transaction, limits: Limits, over: ColumnElement[bool]
) -> tuple[int, ...]:
    idle = seal_keys.c.number.not_in(_NEEDED)
    of_period = and_(
        seal_keys.c.round.is_(None), or_(and_(over, idle), seal_keys.c.until <= limits.held)
    )
    used = seal_keys.c.number.in_(_NAMED)
    of_round = and_(
        seal_keys.c.round.is_not(None),
        idle,
        or_(used, seal_keys.c.made <= limits.unused, over),
    )
    result = await transaction.execute(
        select(seal_keys.c.number)
        .where(_ALIVE, or_(of_period, of_round))
        .order_by(seal_keys.c.number)
    )
    return tuple(result.scalars())


async def live_rounds(transaction: Transaction, numbers: Sequence[int]) -> tuple[str, ...]:
    """Live rounds that name one of these keys, or one that is destroyed."""
    gone = select(seal_keys.c.number).where(seal_keys.c.state == KeyState.DESTROYED.value)
    result = await transaction.execute(
        select(rounds.c.id).where(
            rounds.c.state.in_(LIVE),
            or_(rounds.c.seal_key.in_(numbers), rounds.c.seal_key.in_(gone)),
        )
    )
    return tuple(result.scalars())


async def delete_sessions(transaction: Transaction, number: int, most: int) -> bool:
    """Delete about this number of sessions of a key; whether none is left."""
    await to_erase(transaction)
    parties = select(sessions.c.party).where(sessions.c.seal_key == number)
    result = await transaction.execute(parties.order_by(sessions.c.party).limit(1).offset(most))
    bound = result.scalar_one_or_none()
    condition = sessions.c.seal_key == number
    if bound is not None:
        condition = and_(condition, sessions.c.party <= bound)
    await transaction.execute(delete(sessions).where(condition))
    return bound is None


async def destroy(transaction: Transaction, number: int, now: datetime) -> None:
    """Forget what is secret of a key, which nothing can open any more."""
    await to_erase(transaction)
    await transaction.execute(delete(sessions).where(sessions.c.seal_key == number))
    await transaction.execute(
        update(seal_keys)
        .where(seal_keys.c.number == number)
        .values(seed=None, verification_secret=None, destroyed=now, state=KeyState.DESTROYED.value)
    )


async def purge(transaction: Transaction, before: datetime) -> None:
    """Forget keys that were destroyed before an instant, but not the newest: numbers only rise."""
    newest_number = select(func.max(seal_keys.c.number)).scalar_subquery()
    await transaction.execute(
        delete(seal_keys).where(seal_keys.c.destroyed < before, seal_keys.c.number < newest_number)
    )


# --- public keys of other aggregators ------------------------------------------------------------


async def add_peer_key(
    transaction: Transaction, key_hash: bytes, raw: bytes, now: datetime
) -> bool:
    """Keep another aggregator's public key; whether it is new."""
    stored = await peer_keys(transaction, [key_hash])
    if stored:
        return False
    await transaction.execute(
        insert(peer_seal_keys).values(key_hash=key_hash, public_key=raw, received=now)
    )
    return True


async def count_peer_keys(transaction: Transaction) -> int:
    """How many public keys of others are held."""
    result = await transaction.execute(select(func.count()).select_from(peer_seal_keys))
    return int(result.scalar_one())


async def peer_keys(transaction: Transaction, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
    """Those of these public keys that are held, by hash."""
    result = await transaction.execute(_PEER_KEYS, {"hashes": hashes})
    return {row.key_hash: row.public_key for row in result}


async def forget_peer_keys(transaction: Transaction, before: datetime) -> None:
    """Forget public keys that were received before an instant."""
    await transaction.execute(delete(peer_seal_keys).where(peer_seal_keys.c.received < before))


async def _one(transaction: Transaction, condition: Any) -> SealKeyRow | None:
    row = (await transaction.execute(select(*_ROW).where(condition))).first()
    return None if row is None else _row(row)


def _row(row: Row[Any]) -> SealKeyRow:
    values = list(row)
    values[_STATE] = KeyState(values[_STATE])
    return SealKeyRow(*values)


# Sessions under seal keys: the key of each, wrapped. Spec: keys, section 2.3.

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
    parameters = {"number": number, "sender": party, "id": session}
    wrapped: bytes | None = (await transaction.execute(_ONE, parameters)).scalar_one_or_none()
    return wrapped


async def sessions_of_parties(
    transaction: Transaction, number: int, parties: Sequence[int]
) -> dict[int, dict[bytes, bytes]]:
    """The wrapped keys of all sessions of some parties under a seal key, by party and session."""
    sessions_by_party: dict[int, dict[bytes, bytes]] = {party: {} for party in parties}
    for start in range(0, len(parties), _CHUNK):
        parameters = {"number": number, "senders": parties[start : start + _CHUNK]}
        for row in await transaction.execute(_OF_PARTIES, parameters):
            sessions_by_party[row.party][row.session] = row.wrapped
    return sessions_by_party


async def add_session(transaction: Transaction, rows: Sequence[SessionRow]) -> None:
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
