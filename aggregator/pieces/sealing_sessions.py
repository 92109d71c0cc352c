"""Sealing sessions of parties: found by id, begun by a signed announcement, stored.

An announcement comes with the first piece under a session, and with later ones until the party has
an answer; a host sends it before its batches, by the route at the end. Spec: keys, section 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from fastapi import Request, Response

from aggregator.context import Aggregator, AggregatorPart, RoundContext
from aggregator.errors import (
    NotPaired,
    NotYourParty,
    SealBrokenHere,
    SealKeyGone,
    SessionRefusedHere,
    TooManySessions,
    UnknownParty,
    UnknownSealKey,
    UnknownSession,
)
from aggregator.pieces.unsealing import session_name
from aggregator.roster.identities import by_any_key
from aggregator.seal_keys import HeldSession, SealSecret
from aggregator.store import roster
from aggregator.store import seal_keys as key_store
from aggregator.store import seal_keys as store
from aggregator.store.roster import Party
from aggregator.store.seal_keys import KeyState, SessionRow
from aggregator.web import Curator
from common.bodies import CBOR
from common.store.database import exclusive
from common.store.transactions import Transaction
from common.web.openapi import api_router, gives, takes
from common.web.wire import answer, read_body
from tacit.answers.registry import AnnouncedSession
from tacit.crypto.sealing import Direction, SealBroken
from tacit.crypto.signing import Signed
from tacit.protocol.sealing_sessions import Session, SessionEnds, SessionRefused, open_session
from tacit.wire import encode_binary

MOST_SESSIONS: Final = 64
"""Of one party under one seal key."""


async def session_for(
    aggregator: Aggregator,
    context: RoundContext,
    sender: Party,
    session: bytes,
    announce: Signed[Session] | None,
) -> HeldSession | None:
    """The session of a piece of this sender; None once the round's key is destroyed, when
    nothing can be stored any more. Raises UnknownSession or SessionRefusedHere."""
    if context.own_key is None and not context.elsewhere:
        return None
    own = context.seal_secret
    cached = own.sessions.get(sender.key, session)
    if cached is not None:
        return cached
    if announce is not None:
        deployment = context.descriptor.deployment
        return await begun_by(aggregator, own, deployment, sender, announce)
    async with aggregator.database.reading() as transaction:
        wrapped = await store.wrapped_key(transaction, own.number, sender.key, session)
    if wrapped is None:
        raise UnknownSession
    held_session = HeldSession(session, _unwrapped(own, sender, wrapped), wrapped)
    own.sessions.put(sender.key, held_session)
    return held_session


async def begun_by(
    aggregator: Aggregator,
    own: SealSecret,
    deployment: str,
    sender: Party,
    announce: Signed[Session],
) -> HeldSession:
    """The session that a party announces, not stored yet, by its current key or one whose overlap
    is not over. Raises SessionRefusedHere, IdentitySuperseded."""

    def by(key: bytes) -> HeldSession:
        return begun(aggregator, own, deployment, replace(sender, identity_key=key), announce)

    return await by_any_key(aggregator, sender, by)


def begun(
    aggregator: Aggregator,
    own: SealSecret,
    deployment: str,
    sender: Party,
    announce: Signed[Session],
) -> HeldSession:
    """The session that a party announces, by its key. Raises SessionRefusedHere."""
    ends = SessionEnds(
        deployment=deployment,
        party=sender.id,
        party_key=sender.identity_key,
        aggregator=aggregator.id,
        aggregator_key=own.identity_key,
        direction=Direction.CURATOR_TO_AGGREGATOR,
    )
    try:
        key = open_session(announce, ends, own.key)
    except SessionRefused as error:
        raise SessionRefusedHere(str(error)) from None
    wrapped = own.wrapping.wrap(session_name(sender.id), key)
    return HeldSession(announce.statement.session, key, wrapped, fresh=True)


class Beginning:
    """New sessions under one seal key inside one transaction: those that may be stored.

    A session that is stored already, by another replica, decides: a piece under other bytes of the
    same id does not open.
    """

    def __init__(self, own: SealSecret, held: dict[int, dict[bytes, bytes]], usable: bool) -> None:
        self._own, self._held, self._usable = own, held, usable
        self.rows: list[SessionRow] = []
        self.added: list[tuple[int, HeldSession]] = []

    @classmethod
    async def of(
        cls, transaction: Transaction, own: SealSecret, parties: Iterable[int]
    ) -> Beginning:
        """With what is stored of these parties."""
        stored_sessions = await store.sessions_of_parties(
            transaction, own.number, sorted(set(parties))
        )
        row = await key_store.by_number(transaction, own.number)
        return cls(own, stored_sessions, row is not None and row.state is not KeyState.DESTROYED)

    def add(self, sender: Party, session: HeldSession) -> bool:
        """Take a session; whether it is new. Raises SealKeyGone, TooManySessions, or SealBrokenHere
        for other bytes of a known id."""
        if not self._usable:
            raise SealKeyGone
        wrapped = self._held[sender.key]
        stored = wrapped.get(session.id)
        if stored is not None:
            if _unwrapped(self._own, sender, stored) != session.key:
                raise SealBrokenHere("another session of this id is known")
            self.added.append((sender.key, replace(session, wrapped=stored, fresh=False)))
            return False
        if len(wrapped) >= MOST_SESSIONS:
            raise TooManySessions(extra={"most": MOST_SESSIONS})
        wrapped[session.id] = session.wrapped
        self.rows.append(SessionRow(self._own.number, sender.key, session.id, session.wrapped))
        self.added.append((sender.key, replace(session, fresh=False)))
        return True

    async def store(self, transaction: Transaction) -> None:
        """Write them."""
        if self.rows:
            await store.add_session(transaction, self.rows)
            self.rows = []

    def remember(self) -> None:
        """Keep them in memory: after the commit."""
        for party, session in self.added:
            self._own.sessions.put(party, session)


async def announce(aggregator: Aggregator, sender: Party, signed: Signed[Session]) -> bool:
    """Store a session that a party announces separately; whether it is new.

    Raises UnknownSealKey, SealKeyGone, SealKeyUnavailable, and what is wrong with the session.
    """
    async with aggregator.database.reading() as transaction:
        coordinator = await roster.coordinator(transaction)
        number = await key_store.number_of(transaction, signed.statement.key)
    if coordinator is None:
        raise NotPaired
    if number is None:
        raise UnknownSealKey
    own = await aggregator.seal_keyring.of(number)
    session = await begun_by(aggregator, own, coordinator.deployment, sender, signed)
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, SESSIONS_LOCK)
        beginning = await Beginning.of(transaction, own, [sender.key])
        new = beginning.add(sender, session)
        await beginning.store(transaction)
    beginning.remember()
    return new


SESSIONS_LOCK: Final = "aggregator rounds"
"""That of the writer of pieces, which stores sessions, too."""


def _unwrapped(own: SealSecret, sender: Party, wrapped: bytes) -> bytes:
    try:
        return own.wrapping.unwrap(session_name(sender.id), wrapped)
    except SealBroken:
        raise SealKeyGone from None


router = api_router()


@router.put(
    "/v1/parties/{party}/sessions/{session}",
    **gives(AnnouncedSession, 200, 201, also=[CBOR]),
    tags=["pieces"],
    summary="Announce a session under a seal key",
    openapi_extra=takes(Signed[Session]),
)
async def announce_session(
    request: Request, party: str, session: str, aggregator: AggregatorPart, caller: Curator
) -> Response:
    if caller.subject != party:
        raise NotYourParty
    body = await read_body(request, Signed[Session])
    if encode_binary(body.statement.session) != session:
        raise SessionRefusedHere("another session than the path's", pointer="/statement/session")
    async with aggregator.database.reading() as transaction:
        sender = await roster.active_party(transaction, party)
    if sender is None:
        raise UnknownParty
    new = await announce(aggregator, sender, body)
    announced = AnnouncedSession(party=party, session=session)
    return answer(request, announced, status=201 if new else 200)
