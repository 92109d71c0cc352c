"""Rounds, their sealed shares of noise and of verifiers, and the sets that they revealed.

A transition names the state it expects: it happens once. With a round's end its sealed words are
destroyed. The row of a revealed set outlives its round: it is needed permanently, because a later
round over the same time may be opened at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, Literal, TypeAlias, get_args

from sqlalchemy import Row, Update, bindparam, delete, func, insert, select, update

from aggregator.store.tables import (
    batches,
    contributions,
    expired_rounds,
    pieces,
    revealed_sets,
    rounds,
    share_chunks,
)
from common.store.erasure import to_erase
from common.store.released_sets import ReleasedSets
from common.store.transactions import Transaction
from tacit.protocol.round.state import RoundState

LIVE = (
    RoundState.OPEN.value,
    RoundState.FROZEN.value,
    RoundState.VERIFIED.value,
    RoundState.COMMITTED.value,
)


@dataclass(frozen=True)
class RoundRow:
    """A round as stored, without its documents; texts are JSON of `tacit.protocol.round`."""

    key: int
    id: str
    state: RoundState
    descriptor_hash: bytes
    seal_key: int
    deadline: datetime
    received: int
    key_check: bytes | None
    candidates_hash: bytes | None
    manifest_hash: bytes | None
    nonce: bytes | None
    commitment: str | None
    reveal_request: bytes | None
    abort_statement: str | None
    reason: str | None
    finished: datetime | None


Document: TypeAlias = Literal[
    "descriptor",
    "noise_shares",
    "key_shares",
    "relayed_key_shares",
    "accepted",
    "candidates",
    "verification",
    "verdict",
    "manifest",
    "reveal",
]
"""What grows with the roster or the vector, and is read where it is needed: JSON texts."""


@dataclass(frozen=True)
class ContributionRow:
    """`announce`: the session that it is sealed under, as JSON."""

    position: int
    nonce: bytes
    sealed: bytes
    announce: str


# Asked several times in every round: made once, and so compiled once.
_ROW = tuple(rounds.c[name] for name in RoundRow.__dataclass_fields__)
_STATE = tuple(RoundRow.__dataclass_fields__).index("state")
_BY_ID = select(*_ROW).where(rounds.c.id == bindparam("round_id"))
_BY_KEY = select(*_ROW).where(rounds.c.key == bindparam("round_key"))
_PLACES = (
    select(contributions.c.position)
    .where(contributions.c.round == bindparam("round_key"))
    .order_by(contributions.c.position)
)


_EXPIRED = select(expired_rounds.c.id).where(expired_rounds.c.id == bindparam("round_id"))
_DOCUMENTS = {
    name: select(rounds.c[name]).where(rounds.c.key == bindparam("round_key"))
    for name in get_args(Document)
}
_PARTIAL = select(rounds.c.partial).where(rounds.c.key == bindparam("round_key"))
_STATES = select(rounds.c.key, rounds.c.state).where(
    rounds.c.key.in_(bindparam("keys", expanding=True))
)
_ADD = insert(rounds).returning(rounds.c.key)
_RECEIVED = (
    update(rounds)
    .where(rounds.c.key == bindparam("round_key"))
    .values(received=rounds.c.received + bindparam("more"))
)
_DESTROY = (
    update(batches).where(batches.c.round == bindparam("round_key")).values(body=b""),
    update(pieces).where(pieces.c.round == bindparam("round_key")).values(bodies=b""),
    update(contributions).where(contributions.c.round == bindparam("round_key")).values(sealed=b""),
    delete(share_chunks).where(share_chunks.c.round == bindparam("round_key")),
)


@cache
def _advance(names: tuple[str, ...]) -> Update:
    """The transition that sets these columns."""
    return (
        update(rounds)
        .where(rounds.c.key == bindparam("round_key"), rounds.c.state == bindparam("before"))
        .values({name: bindparam(f"new_{name}") for name in names})
    )


# --- rounds --------------------------------------------------------------------------------------


async def add_round(
    transaction: Transaction,
    round_id: str,
    descriptor_hash: bytes,
    descriptor: str,
    seal_key: int,
    deadline: datetime,
    noise_shares: str | None,
    key_shares: str | None,
) -> int:
    """Keep a new round, open; its key in the store."""
    values = {
        "id": round_id,
        "state": RoundState.OPEN.value,
        "descriptor_hash": descriptor_hash,
        "descriptor": descriptor,
        "seal_key": seal_key,
        "deadline": deadline,
        "received": 0,
        "noise_shares": noise_shares,
        "key_shares": key_shares,
    }
    return int((await transaction.execute(_ADD, values)).scalar_one())


async def round_row(transaction: Transaction, round_id: str) -> RoundRow | None:
    """A round by its id."""
    row = (await transaction.execute(_BY_ID, {"round_id": round_id})).first()
    return None if row is None else _round(row)


async def round_by_key(transaction: Transaction, key: int) -> RoundRow:
    """A round by its key in the store."""
    return _round((await transaction.execute(_BY_KEY, {"round_key": key})).one())


async def document(transaction: Transaction, key: int, name: Document) -> str | None:
    """One of a round's documents."""
    result = await transaction.execute(_DOCUMENTS[name], {"round_key": key})
    text: str | None = result.scalar_one()
    return text


async def partial_sum(transaction: Transaction, key: int) -> bytes | None:
    """The sum of a committed round, its noise inside; nothing after an abort."""
    result = await transaction.execute(_PARTIAL, {"round_key": key})
    content: bytes | None = result.scalar_one()
    return content


async def states(transaction: Transaction, keys: Sequence[int]) -> dict[int, RoundState]:
    """The states of rounds by key; a purged round is missing."""
    result = await transaction.execute(_STATES, {"keys": keys})
    return {int(row.key): RoundState(row.state) for row in result}


async def advance(
    transaction: Transaction, key: int, before: RoundState, after: RoundState, **values: object
) -> bool:
    """One transition; whether the round was in the state `before`."""
    new = {"state": after.value, **values}
    done = await transaction.execute(
        _advance(tuple(new)),
        {
            "round_key": key,
            "before": before.value,
            **{f"new_{name}": value for name, value in new.items()},
        },
    )
    return done.rowcount == 1


async def count_received(transaction: Transaction, key: int, curators: int) -> None:
    """Add to the number of curators whose pieces are held."""
    await transaction.execute(_RECEIVED, {"round_key": key, "more": curators})


async def count_states(transaction: Transaction) -> dict[str, int]:
    """How many rounds there are in each state."""
    result = await transaction.execute(
        select(rounds.c.state, func.count()).group_by(rounds.c.state)
    )
    return {row[0]: int(row[1]) for row in result}


async def overdue(transaction: Transaction, before: datetime) -> tuple[str, ...]:
    """Live rounds whose deadline is before an instant."""
    result = await transaction.execute(
        select(rounds.c.id).where(rounds.c.state.in_(LIVE), rounds.c.deadline < before)
    )
    return tuple(result.scalars())


async def live(transaction: Transaction) -> tuple[str, ...]:
    """Rounds that are neither released nor aborted."""
    result = await transaction.execute(select(rounds.c.id).where(rounds.c.state.in_(LIVE)))
    return tuple(result.scalars())


async def purge(transaction: Transaction, before: datetime, limit: int) -> int:
    """Delete finished rounds whose deadline is before an instant, the oldest first and at most
    `limit` of them; how many there were. Their ids stay: no round is opened twice."""
    result = await transaction.execute(
        select(rounds.c.key, rounds.c.id)
        .where(rounds.c.state.not_in(LIVE), rounds.c.deadline < before)
        .order_by(rounds.c.deadline)
        .limit(limit)
    )
    old = {row.key: row.id for row in result}
    if not old:
        return 0
    await transaction.execute(insert(expired_rounds), [{"id": name} for name in old.values()])
    for table in (pieces, batches, contributions, share_chunks):
        await transaction.execute(delete(table).where(table.c.round.in_(old)))
    await transaction.execute(delete(rounds).where(rounds.c.key.in_(old)))
    return len(old)


async def is_expired(transaction: Transaction, round_id: str) -> bool:
    """Whether this round was here, and was deleted after its retention."""
    return (await transaction.execute(_EXPIRED, {"round_id": round_id})).first() is not None


async def destroy_pieces(transaction: Transaction, key: int) -> None:
    """Destroy all sealed words of a round, and the verifier shares; numbers, presence and tags
    stay."""
    await to_erase(transaction)
    for statement in _DESTROY:
        await transaction.execute(statement, {"round_key": key})


def _round(row: Row[Any]) -> RoundRow:
    values = list(row)
    values[_STATE] = RoundState(values[_STATE])
    return RoundRow(*values)


# --- contributions of noise ----------------------------------------------------------------------


async def add_contribution(transaction: Transaction, key: int, row: ContributionRow) -> None:
    """Keep an aggregator's sealed share of noise."""
    await transaction.execute(
        insert(contributions).values(
            round=key,
            position=row.position,
            nonce=row.nonce,
            sealed=row.sealed,
            announce=row.announce,
        )
    )


async def held_places(transaction: Transaction, key: int) -> tuple[int, ...]:
    """The senders of the shares of noise that a round has: indices in the descriptor, ascending."""
    return tuple((await transaction.execute(_PLACES, {"round_key": key})).scalars())


async def held_contributions(transaction: Transaction, key: int) -> dict[int, ContributionRow]:
    """The shares of noise that a round has, by the sender's index in the descriptor."""
    result = await transaction.execute(
        select(contributions).where(contributions.c.round == key).order_by(contributions.c.position)
    )
    return {
        row.position: ContributionRow(row.position, row.nonce, row.sealed, row.announce)
        for row in result
    }


# The sets of curators whose sums this aggregator helped to open: one row per family of a round. A
# row outlives its round: a later round over the same time may be opened at any time.

REVEALED: Final = ReleasedSets(revealed_sets, revealed_sets.c.round)


async def forget_revealed(transaction: Transaction, round_id: str) -> None:
    """Delete the set of a round whose sum no one can open any more."""
    await transaction.execute(delete(revealed_sets).where(revealed_sets.c.round == round_id))


# Sealed chunks of verifier shares, by round, place of the aggregator in the descriptor, number.

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


async def put_chunk(
    transaction: Transaction, key: int, position: int, chunk: int, body: bytes
) -> None:
    """Keep a chunk, in place of an earlier one."""
    place = {"round_key": key, "position": position, "chunk": chunk}
    await transaction.execute(_DROP, place)
    await transaction.execute(
        _PUT, {"round": key, "position": position, "chunk": chunk, "body": body}
    )


async def chunk_body(transaction: Transaction, key: int, position: int, chunk: int) -> bytes | None:
    """A chunk."""
    parameters = {"round_key": key, "position": position, "chunk": chunk}
    content: bytes | None = (await transaction.execute(_BODY, parameters)).scalar_one_or_none()
    return content


async def held_chunks(transaction: Transaction, key: int) -> set[tuple[int, int]]:
    """(place of the aggregator, chunk) of all that are held of a round."""
    result = await transaction.execute(_HELD, {"round_key": key})
    return {(int(row.position), int(row.chunk)) for row in result}
