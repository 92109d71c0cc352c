"""Sessions: the worked example of the specification, and every way to lie about one."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tacit.crypto.seal_keys import SealKey
from tacit.crypto.sealing import Direction, open_words
from tacit.crypto.signing import Identity, Signed, fingerprint
from tacit.protocol.sessions import (
    SESSION_LABEL,
    Session,
    SessionEnds,
    SessionRefused,
    begin_session,
    open_session,
    piece_context,
    session_key,
)
from tacit.wire import encode_binary

VECTORS = Path(__file__).parents[4] / "shared" / "data" / "keys" / "session_vectors.json"
METER, NORTH = Identity.from_bytes(b"\x01" * 32), Identity.from_bytes(b"\x02" * 32)
THIEF = Identity.from_bytes(b"\x03" * 32)
KEY = SealKey(bytes(range(32)))
ENDS = SessionEnds(
    "demo", "meter-1", METER.public_key, "north", NORTH.public_key, Direction.CURATOR_TO_AGGREGATOR
)


@pytest.mark.skipif(not VECTORS.exists(), reason="the session vectors are not here")
def test_the_worked_example_opens() -> None:
    """Section 2.6, whose sealed bytes are frozen: the library draws its own randomness."""
    found: dict[str, Any] = json.loads(VECTORS.read_text())
    hexes = {name: value for name, value in found.items() if isinstance(value, str)}
    key = SealKey(bytes.fromhex(hexes["seal_key_seed"]))
    assert key.public.raw.hex() == hexes["public_key"]
    assert key.public.hash.hex() == hexes["key_hash"]
    assert fingerprint(METER.public_key).hex() == hexes["party_fingerprint"]
    statement = Session.model_validate_json(json.dumps(found["session"]))
    assert ENDS.info(statement.key, statement.session).hex() == hexes["info"]
    assert _digest(statement).hex() == hexes["session_digest"]
    signed = Signed[Session](
        statement=statement, signature=encode_binary(bytes.fromhex(hexes["signature"]))
    )
    piece_key = open_session(signed, ENDS, key)
    assert piece_key.hex() == hexes["piece_key"]
    assert piece_key == session_key(bytes.fromhex(hexes["secret"]), statement)
    place = piece_context(
        bytes.fromhex(hexes["descriptor_hash"]),
        "meter-1",
        "north",
        found["index"],
        found["dimension"],
    )
    words = open_words(
        piece_key, bytes.fromhex(hexes["nonce"]), bytes.fromhex(hexes["sealed"]), place
    )
    assert words.tolist() == [0, 1, 2**64 - 1]


def _digest(statement: Session) -> bytes:
    return hashlib.sha256(SESSION_LABEL.encode() + b"\x00" + statement.canonical()).digest()


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
