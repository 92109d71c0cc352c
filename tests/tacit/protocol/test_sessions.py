"""Sessions: the worked example of the specification, and every way to lie about one."""

import hashlib
from dataclasses import replace

import pytest

from tacit.crypto.sealing import Direction, SealKey
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.sealing_sessions import (
    SESSION_LABEL,
    Session,
    SessionEnds,
    SessionRefused,
    begin_session,
    open_session,
    session_key,
)

METER, NORTH = Identity.from_bytes(b"\x01" * 32), Identity.from_bytes(b"\x02" * 32)
THIEF = Identity.from_bytes(b"\x03" * 32)
KEY = SealKey(bytes(range(32)))
ENDS = SessionEnds(
    "demo", "meter-1", METER.public_key, "north", NORTH.public_key, Direction.CURATOR_TO_AGGREGATOR
)


def test_both_ends_have_one_key_and_each_session_its_own() -> None:
    one, other = (begin_session(METER, ENDS, KEY.public) for _ in range(2))
    assert open_session(one.announce, ENDS, KEY) == one.key
    assert open_session(other.announce, ENDS, KEY) == other.key
    assert one.key != other.key
    assert one.id != other.id


def _resigned(identity: Identity = METER, **changes: object) -> Signed[Session]:
    session = begin_session(METER, ENDS, KEY.public).announce.statement
    return identity.sign(SESSION_LABEL, session.model_copy(update=changes))


def _flipped(place: int) -> Signed[Session]:
    session = begin_session(METER, ENDS, KEY.public).announce.statement
    sealed = bytearray(session.sealed)
    sealed[place] ^= 1
    return METER.sign(SESSION_LABEL, session.model_copy(update={"sealed": bytes(sealed)}))


LIES = {
    "foreign signature": lambda: _resigned(THIEF),
    "another id": lambda: _resigned(party="meter-2"),
    "re-addressed": lambda: _resigned(aggregator="south"),
    "another deployment": lambda: _resigned(deployment="other"),
    "another session": lambda: _resigned(session=bytes(16)),
    "another key": lambda: _resigned(key=bytes(32)),
    "another direction": lambda: _resigned(direction=Direction.AGGREGATOR_TO_AGGREGATOR),
    "a bit of the ML-KEM ciphertext": lambda: _flipped(3),
    "a bit of the X25519 key": lambda: _flipped(1100),
    "a bit of the secret": lambda: _flipped(1130),
    "a bit of the tag": lambda: _flipped(1167),
    "a label of something else": lambda: METER.sign(
        "tacit enrolment v1", begin_session(METER, ENDS, KEY.public).announce.statement
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused(lie: str) -> None:
    with pytest.raises(SessionRefused):
        open_session(LIES[lie](), ENDS, KEY)


def test_a_stolen_encapsulation_does_not_open_for_the_thief() -> None:
    """Signed by the thief in its own name: the info that it was sealed under names the victim."""
    stolen = begin_session(METER, ENDS, KEY.public).announce.statement
    theirs = replace(ENDS, party="thief", party_key=THIEF.public_key)
    signed = THIEF.sign(SESSION_LABEL, stolen.model_copy(update={"party": "thief"}))
    with pytest.raises(SessionRefused):
        open_session(signed, theirs, KEY)
    same_name = replace(ENDS, party_key=THIEF.public_key)
    with pytest.raises(SessionRefused):
        open_session(THIEF.sign(SESSION_LABEL, stolen), same_name, KEY)


def test_another_seal_key_opens_nothing() -> None:
    with pytest.raises(SessionRefused):
        open_session(begin_session(METER, ENDS, KEY.public).announce, ENDS, SealKey(bytes(32)))


def test_every_field_of_the_statement_is_in_the_key() -> None:
    statement = begin_session(METER, ENDS, KEY.public).announce.statement
    changed = {
        "deployment": "x",
        "party": "x",
        "aggregator": "x",
        "direction": Direction.AGGREGATOR_TO_AGGREGATOR,
        "key": bytes(32),
        "session": bytes(16),
        "sealed": hashlib.shake_256(b"other").digest(1168),
    }
    assert set(changed) == set(Session.model_fields) - {"format"}
    keys = {session_key(bytes(32), statement)}
    keys |= {
        session_key(bytes(32), statement.model_copy(update={name: value}))
        for name, value in changed.items()
    }
    assert len(keys) == len(changed) + 1
