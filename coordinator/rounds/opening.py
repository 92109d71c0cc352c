"""Opening a round: its descriptor, with the aggregators' current keys, signed and stored.

Nothing is stored before every aggregator of the round has shown its key, now or within the last
minute; what is stored is announced by the conductor, and shown to curators only after that.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Final

from pydantic import Field

from common.runtime.clock import uuid7
from common.store.database import exclusive
from common.store.transactions import Transaction
from coordinator.budget import charging
from coordinator.budget.ledger import LOCK
from coordinator.budget.round_charges import Price
from coordinator.errors import (
    NotEnoughAggregators,
    RosterTooLarge,
    UnknownAggregator,
    WindowFixed,
    WindowMissing,
)
from coordinator.registry import members
from coordinator.registry.aggregators import check_followed
from coordinator.registry.peers import AnotherIdentity, Peer
from coordinator.rounds import differencing
from coordinator.rounds.context import Conduct
from coordinator.store import registry
from coordinator.store import rounds as store
from coordinator.store.queries import QueryRow
from coordinator.store.registry import AggregatorRow
from tacit import sets
from tacit.accounting.guarantees import priced_text
from tacit.crypto.signing import Signed
from tacit.protocol.round.agreement import check_descriptor, segment_size_of
from tacit.protocol.round.descriptor import (
    DESCRIPTOR_LABEL,
    MAX_GROUP_ROSTER,
    AggregatorEntry,
    LedgerHead,
    RoundDescriptor,
)
from tacit.protocol.sealing_sessions import SealKeyStatement
from tacit.query.fields import Window
from tacit.query.query import Query
from tacit.query.terms import MAX_AGGREGATORS, Identifier
from tacit.wire import WireModel

LONG: Final = timedelta(hours=3)
"""A round that may end this long after a seal key's time needs its own keys."""
KEYS_KEPT: Final = timedelta(days=1)
"""How long after a round's deadline the mirror serves its seal keys."""


class OpenRequest(WireModel):
    """Open a round of a query, now. `aggregators`: which ones (default: the first by id)."""

    query_id: Identifier
    window: Window | None = None
    deadline_s: Annotated[int, Field(ge=1, le=31 * 86_400)] | None = None
    aggregators: (
        Annotated[tuple[Identifier, ...], Field(min_length=1, max_length=MAX_AGGREGATORS)] | None
    ) = None


@dataclass(frozen=True)
class Prepared:
    """A round's signed descriptor, as every party will check it, and what it costs its members."""

    signed: Signed[RoundDescriptor]
    price: Price


async def prepare(
    conduct: Conduct,
    query_row: QueryRow,
    request: OpenRequest,
    price: Price | None = None,
    cohort: sets.Bits | None = None,
) -> Prepared:
    """A round that could be opened; nothing is stored. price: by default that of its query;
    cohort: the only curators that it invites, by roster number, if a job has fixed them."""
    query = query_row.query
    window = _window(query, request.window)
    now = conduct.clock.now()
    async with conduct.database.reading() as transaction:
        rows = _chosen(query.aggregators, request, await registry.list_aggregators(transaction))
        version, size = await registry.roster_state(transaction)
        invited = None
        if query.group is not None:
            invited = await members.invited(transaction, query.group, size)
        elif cohort is not None and size <= MAX_GROUP_ROSTER:
            invited = sets.resized(sets.pack(cohort), size)
        if invited is not None:
            enrolled = await members.expected(transaction, sets.unpack(invited, size), now)
        else:
            enrolled = await registry.active_curators(transaction, size, now)
        seq, head = await conduct.ledger.head(transaction)
    if enrolled > query.n_max:
        raise RosterTooLarge(extra={"curators": enrolled, "n_max": query.n_max})
    round_id, open_for = str(uuid7(conduct.clock)), request.deadline_s or query.deadline_s
    until = now + timedelta(seconds=open_for)
    for row in rows:
        check_followed(row)  # first, as no further attempt mends it
    await conduct.attendance.require(rows)
    peers = [conduct.peers.of(row) for row in await conduct.identities.followed(rows)]
    try:
        entries = await _sealed(peers, now, round_id, until, own=conduct.key_per_round)
    except AnotherIdentity:  # replaced since the last look
        rows = await conduct.identities.followed(rows, again=True)
        peers = [conduct.peers.of(row) for row in rows]
        entries = await _sealed(peers, now, round_id, until, own=conduct.key_per_round)
    now = conduct.clock.now()
    opened = now.replace(microsecond=now.microsecond // 1000 * 1000)
    descriptor = RoundDescriptor(
        deployment=conduct.deployment,
        round=round_id,
        query_id=query_row.id,
        query=query,
        window=window,
        opened=opened,
        deadline=opened + timedelta(seconds=open_for),
        aggregators=entries,
        roster_version=version,
        roster_size=size,
        segment_size=segment_size_of(query),
        ledger=LedgerHead(seq=seq, head=head),
        members=None if invited is None else sets.compressed(invited),
    )
    await conduct.own.load()  # another process may have replaced it
    signed = conduct.own.current.sign(DESCRIPTOR_LABEL, descriptor)
    check_descriptor(signed, conduct.own.current.public_key, now)
    if price is None:
        operators = tuple(entry.operator for entry in entries)
        price = await conduct.figured(
            (priced_text(query), operators), partial(charging.price_of, query, operators)
        )
    return Prepared(signed, price)


async def add(
    conduct: Conduct, transaction: Transaction, prepared: Prepared, slot: int | None = None
) -> None:
    """Store an open round and its debit; the connection holds the ledger's lock from here on.

    Raises BudgetExceeded: two rounds whose budget suffices for one are never both stored; and
    DifferenceRefused if the sum could not be released with all curators in it.
    """
    signed = prepared.signed
    descriptor = signed.statement
    await exclusive(transaction, LOCK)
    state = await conduct.ledger.current(transaction)
    plan = charging.planned(state, descriptor, prepared.price)
    await differencing.forewarn(transaction, descriptor, plan.members)
    await _expect_seal_keys(transaction, descriptor)
    event = charging.debit(state, descriptor, plan)
    await conduct.ledger.append(transaction, [event])
    await store.add(
        transaction,
        descriptor.round,
        descriptor.query_id,
        descriptor.opened,
        descriptor.deadline,
        signed.model_dump_json(),
        json.dumps(_summary(descriptor)),
        slot,
    )


def _window(query: Query, window_asked: Window | None) -> Window:
    if query.window is not None:
        if window_asked not in (None, query.window):
            raise WindowFixed(pointer="/window")
        return query.window
    if window_asked is None:
        raise WindowMissing("this query has no window of its own: give a window", pointer="/window")
    return window_asked


def _summary(descriptor: RoundDescriptor) -> dict[str, object]:
    """What lists show of a descriptor, so that they need not read it."""
    return {
        "query": descriptor.query.name,
        "function": descriptor.query.function.value,
        "unit": descriptor.query.unit,
        "minimum": descriptor.query.min_participants,
        "window": descriptor.window.model_dump(mode="json"),
        "descriptor_hash": descriptor.digest().hex(),
        "aggregators": [entry.id for entry in descriptor.aggregators],
    }


def _chosen(count: int, request: OpenRequest, rows: Sequence[AggregatorRow]) -> list[AggregatorRow]:
    if request.aggregators is None:
        chosen = list(rows[:count])
    else:
        by_id = {row.id: row for row in rows}
        for index, name in enumerate(request.aggregators):
            if name not in by_id:
                raise UnknownAggregator(pointer=f"/aggregators/{index}")
        chosen = [by_id[name] for name in request.aggregators]
    if len(chosen) != count or len({row.id for row in chosen}) != count:
        raise NotEnoughAggregators(extra={"needed": count, "registered": len(rows)})
    return chosen


async def _sealed(
    peers: Sequence[Peer], now: datetime, round_id: str, deadline: datetime, *, own: bool
) -> tuple[AggregatorEntry, ...]:
    """With seal keys: those of the hour, or keys for this round only (`own`), which a long round
    needs, as an aggregator does not keep the key of an hour for days."""
    if not own:
        keys = await asyncio.gather(*(peer.seal_key(now) for peer in peers))
        if all(deadline < key.statement.until + LONG for key in keys):
            return tuple(_entry(peer, key) for peer, key in zip(peers, keys, strict=True))
    keys = await asyncio.gather(*(peer.round_seal_key(round_id) for peer in peers))
    return tuple(_entry(peer, key) for peer, key in zip(peers, keys, strict=True))


def _entry(peer: Peer, seal_key: Signed[SealKeyStatement]) -> AggregatorEntry:
    return AggregatorEntry(
        id=peer.id,
        operator=peer.row.operator,
        url=peer.row.url,
        identity_key=peer.row.identity_key,
        seal_key=seal_key,
    )


async def _expect_seal_keys(transaction: Transaction, descriptor: RoundDescriptor) -> None:
    """Curators may ask for the keys of a round."""
    await registry.forget_seal_keys(transaction, descriptor.opened)
    keys = [(entry.seal.public_key_hash, entry.id) for entry in descriptor.aggregators]
    await registry.expect_seal_keys(transaction, keys, descriptor.deadline + KEYS_KEPT)
