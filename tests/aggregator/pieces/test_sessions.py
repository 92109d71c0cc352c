"""Sessions over HTTP: begun once, known afterwards, refused where anything of them is another's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from aggregator.context import Aggregator
from aggregator.errors import SealBrokenHere
from aggregator.pieces.unsealing import Beginning, session_for
from aggregator.seal_keys import HeldSession
from common.runtime.clock import ManualClock
from tacit.crypto.sealing import Direction
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.party_identities import PartyChain, PartySuccession, succeed_party
from tacit.protocol.round.pieces import Piece
from tacit.protocol.sealing_sessions import (
    SESSION_LABEL,
    OwnSession,
    Session,
    SessionEnds,
    begin_session,
)
from tacit.wire import encode_binary
from tests.aggregator.double import Federation, Round, Sender, query
from tests.aggregator.pieces.test_pieces import held, problem

ASKED = query(aggregators=2, mechanism="exact")


async def stored(federation: Federation) -> int:
    async with federation.peers[0].part(Aggregator).database.reading() as transaction:
        found = await transaction.execute(text("SELECT count(*) FROM session"))
        return int(found.scalar_one())


async def opened(federation: Federation) -> tuple[Round, Sender, Piece]:
    await federation.lone(1, "other")
    (sender,) = await federation.lone(1)
    current = await federation.open(ASKED)
    return current, sender, current.piece(sender, 0, np.array([5], np.uint64))


def begun(federation: Federation, current: Round, sender: Sender, **changes: Any) -> OwnSession:
    """Another session of a sender, with ends of its choice."""
    entry = current.descriptor.aggregators[0]
    values: dict[str, Any] = {
        "deployment": "test",
        "party": sender.id,
        "party_key": sender.identity.public_key,
        "aggregator": entry.id,
        "aggregator_key": entry.identity_key,
        "direction": Direction.CURATOR_TO_AGGREGATOR,
    }
    key = federation.public_keys[changes.pop("key", entry.seal.public_key_hash)]
    return begin_session(sender.identity, SessionEnds(**{**values, **changes}), key)


async def test_a_session_is_announced_once_and_known_in_all_rounds_of_its_key(
    pair: Federation,
) -> None:
    current, sender, piece = await opened(pair)
    assert piece.announce is not None
    plain = piece.model_copy(update={"announce": None})
    answer = await current.send(sender, 0, plain)
    assert (answer.status_code, problem(answer)) == (409, "unknown_session")
    assert answer.json()["retryable"] is True
    assert await stored(pair) == await held(current) == 0
    assert (await current.send(sender, 0, piece)).status_code == 201
    assert (await current.send(sender, 0, piece)).status_code == 200
    assert (await current.send(sender, 0, plain)).status_code == 200
    again = await pair.open(ASKED)
    second = again.piece(sender, 0, np.array([7], np.uint64))
    assert second.announce is None and second.session == piece.session
    # after a restart the process reads it from its store
    aggregator = pair.peers[0].part(Aggregator)
    aggregator.seal_keyring.forget_all_but([])
    aggregator.forget_rounds()
    assert (await again.send(sender, 0, second)).status_code == 201
    assert await stored(pair) == 1


def resigned(own: OwnSession, identity: Identity, **changes: Any) -> Signed[Session]:
    statement = own.announce.statement.model_copy(update=changes)
    return identity.sign(SESSION_LABEL, statement)


Lie = Callable[[Federation, Round, Sender, Sender, OwnSession], Signed[Session]]
REFUSED: dict[str, Lie] = {
    "of another, as it is": lambda f, r, _me, other, own: resigned(
        begun(f, r, other), other.identity, session=own.id
    ),
    "foreign signature": lambda _f, _r, _me, other, own: resigned(own, other.identity),
    "sealed to another aggregator": lambda f, r, me, _other, own: resigned(
        begun(f, r, me, key=r.descriptor.aggregators[1].seal.public_key_hash),
        me.identity,
        key=own.announce.statement.key,
        session=own.id,
    ),
}
"""Further lies are the library's to refuse."""


async def test_a_session_that_is_not_the_partys_own_begins_nothing(pair: Federation) -> None:
    current, sender, piece = await opened(pair)
    other = pair.senders["other-0"]
    own = pair.session(sender, 0, current.descriptor.aggregators[0])
    for name, lie in REFUSED.items():
        announce = lie(pair, current, sender, other, own)
        lying = piece.model_copy(update={"announce": announce})
        answer = await current.send(sender, 0, lying)
        assert (answer.status_code, problem(answer)) == (400, "session_refused"), name
        path = f"/v1/parties/{sender.id}/sessions/{encode_binary(own.id)}"
        alone = await pair.peers[0].ask("PUT", path, announce, sender.tokens[0])
        known = {"session_refused", "unknown_seal_key"}
        assert problem(alone) in known, name
    assert await stored(pair) == await held(current) == 0
    assert (await current.send(sender, 0, piece)).status_code == 201


async def test_a_session_of_another_length_is_no_session(single: Federation) -> None:
    await single.lone(1, "other")
    (sender,) = await single.lone(1)
    current = await single.open(query())
    piece = current.piece(sender, 0, np.array([5], np.uint64))
    body = piece.model_dump(mode="json", exclude_none=True)
    for length in (1167, 1169, 0):
        body["announce"]["statement"]["sealed"] = encode_binary(bytes(length))
        answer = await single.peers[0].ask("POST", current.path("pieces"), body, sender.tokens[0])
        assert answer.status_code == 422
    assert await stored(single) == 0


async def test_the_stored_session_decides(pair: Federation) -> None:
    """The same id announced again with other bytes is not looked at, and its pieces do not open."""
    current, sender, piece = await opened(pair)
    own = pair.session(sender, 0, current.descriptor.aggregators[0])
    assert (await pair.announce(sender, 0, own)).status_code == 201
    assert (await pair.announce(sender, 0, own)).status_code == 200
    other = begun(pair, current, sender)
    entry = current.descriptor.aggregators[0]
    pair.begun[sender.id, 0, entry.seal.public_key_hash] = other
    false = current.piece(sender, 0, np.array([5], np.uint64)).model_copy(
        update={"session": own.id, "announce": resigned(other, sender.identity, session=own.id)}
    )
    assert problem(await current.send(sender, 0, false)) == "seal_broken"
    assert await held(current) == 0
    assert (await current.send(sender, 0, piece)).status_code == 201


async def test_of_two_processes_the_first_that_stored_a_session_decides(pair: Federation) -> None:
    current, sender, piece = await opened(pair)
    assert (await current.send(sender, 0, piece)).status_code == 201
    aggregator = pair.peers[0].part(Aggregator)
    context = await aggregator.round(current.id)
    own = context.seal_secret
    async with aggregator.database.reading() as transaction:
        party = await _party(transaction, sender)
    known = await session_for(aggregator, context, party, piece.session or b"", None)
    assert known is not None
    async with aggregator.database.begin() as transaction:
        beginning = await Beginning.of(transaction, own, [party.key])
        assert beginning.add(party, known) is False
        with pytest.raises(SealBrokenHere):
            beginning.add(party, HeldSession(known.id, bytes(32), known.wrapped, fresh=True))


async def _party(transaction: Any, sender: Sender) -> Any:
    from aggregator.store.roster import active_party

    party = await active_party(transaction, sender.id)
    assert party is not None
    return party


async def test_a_party_has_64_sessions_under_a_key(pair: Federation) -> None:
    current, sender, piece = await opened(pair)
    other = pair.senders["other-0"]
    for _ in range(64):
        own = begun(pair, current, sender)
        assert (await pair.announce(sender, 0, own)).status_code == 201
    answer = await pair.announce(sender, 0, begun(pair, current, sender))
    assert (answer.status_code, problem(answer)) == (429, "too_many_sessions")
    answer = await current.send(sender, 0, piece)
    assert (answer.status_code, problem(answer)) == (429, "too_many_sessions")
    assert await held(current) == 0
    assert (await pair.announce(sender, 0, own)).status_code == 200
    assert (
        await current.send(other, 0, current.piece(other, 0, np.array([5], np.uint64)))
    ).status_code == 201


async def test_hosts_announce_apart_from_their_batches(pair: Federation) -> None:
    host = await pair.host("gateway", 70)
    (sender,) = await pair.lone(1)
    current = await pair.open(ASKED)
    entry, peer = current.descriptor.aggregators[0], pair.peers[0]
    (body,) = current.batches(host, 0, np.zeros((70, 1), np.uint64))
    own = pair.session(host, 0, entry)
    answer = await peer.ask(
        "POST", current.path("batches"), body, host.tokens[0], form="application/octet-stream"
    )
    assert (answer.status_code, problem(answer)) == (409, "unknown_session")
    path = f"/v1/parties/{host.id}/sessions/"
    foreign = await peer.ask("PUT", path + encode_binary(own.id), own.announce, sender.tokens[0])
    assert (foreign.status_code, problem(foreign)) == (403, "not_your_party")
    elsewhere = await peer.ask("PUT", path + encode_binary(bytes(16)), own.announce, host.tokens[0])
    assert (elsewhere.status_code, problem(elsewhere)) == (400, "session_refused")
    unknown = resigned(own, host.identity, key=bytes(32))
    lost = await peer.ask("PUT", path + encode_binary(own.id), unknown, host.tokens[0])
    assert (lost.status_code, problem(lost)) == (404, "unknown_seal_key")
    assert (await current.send_batch(host, 0, body)).status_code == 201
    assert (await current.send_batch(host, 0, body)).status_code == 200
    (again,) = current.batches(host, 0, np.zeros((70, 1), np.uint64))
    assert again != body
    assert (await current.send_batch(host, 0, again)).status_code == 200
    (other,) = current.batches(host, 0, np.ones((70, 1), np.uint64))
    assert problem(await current.send_batch(host, 0, other)) == "piece_conflict"


async def test_a_replaced_key_begins_sessions_until_its_overlap_is_over(
    pair: Federation, clock: ManualClock
) -> None:
    current, sender, _ = await opened(pair)
    old, new = sender.identity, Identity.generate()
    statement = PartySuccession(
        deployment="test",
        party=sender.id,
        replaced=old.fingerprint,
        identity_key=new.public_key,
        effective=clock.now(),
        overlap_until=clock.now() + timedelta(seconds=600),
    )
    chain = PartyChain(links=(succeed_party(statement, new, old),))
    peer, path = pair.peers[0], f"/v1/parties/{sender.id}"
    for _ in range(2):  # the same again changes nothing
        answer = await peer.ask("PUT", f"{path}/identity", chain, sender.tokens[0])
        assert answer.json() == {"party": sender.id, "fingerprint": new.fingerprint.hex()}

    async def announced(identity: Identity) -> tuple[int, str]:
        sender.identity = identity
        own = begun(pair, current, sender)
        where = f"{path}/sessions/{encode_binary(own.id)}"
        answer = await peer.ask("PUT", where, own.announce, sender.tokens[0])
        return answer.status_code, "" if answer.is_success else problem(answer)

    assert await announced(old) == await announced(new) == (201, "")
    assert await announced(Identity.generate()) == (400, "session_refused")
    clock.advance(timedelta(seconds=600))
    assert await announced(old) == (403, "identity_superseded")
    assert await announced(new) == (201, "")
