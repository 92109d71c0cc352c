"""The line over all anchors, and what follows from a trust file's identities.

What a trust file accepts of a round: tests/tacit/protocol/round/test_checks.py.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tacit.crypto.signing import fingerprint
from tacit.protocol.identities import (
    IdentityChain,
    KeyNotAnchored,
    Reason,
    Role,
    SuccessionRefused,
)
from tacit.protocol.trust import Pinned, Trust, anchors_line
from tests.tacit.protocol.test_identities import (
    NOW,
    PAIRS,
    THIEF,
    WEEK,
    document,
    key,
    link,
    shown,
    signed,
)

ALL = {"north": b"n" * 32, "south": b"s" * 32}


def test_the_line_is_the_first_half_of_the_hash() -> None:
    def field(data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + data

    parts = (b"tacit anchors v1", b"demo", b"c" * 32, b"north", b"n" * 32, b"south", b"s" * 32)
    digest = hashlib.sha256(b"".join(map(field, parts))).hexdigest()[:32]
    line = anchors_line("demo", b"c" * 32, dict(reversed(ALL.items())))
    assert line.replace(" ", "") == digest
    assert [len(group) for group in line.split(" ")] == [4] * 8


def test_the_line_covers_every_identity() -> None:
    lines = {
        anchors_line("demo", b"c" * 32, ALL),
        anchors_line("other", b"c" * 32, ALL),
        anchors_line("demo", b"d" * 32, ALL),
        anchors_line("demo", b"c" * 32, {**ALL, "north": b"x" * 32}),
        anchors_line("demo", b"c" * 32, {"north": b"s" * 32, "south": b"n" * 32}),
        anchors_line("demo", b"c" * 32, {"nort": b"n" * 32, "south": b"s" * 32}),
        anchors_line("demo", b"c" * 32, {"north": b"n" * 32}),
        anchors_line("demo", b"c" * 32, {}),
    }
    assert len(lines) == 8


def pinning(*serials: int) -> Trust:
    """North with these of its keys."""
    trust = Trust(deployment="demo", coordinator=("c" * 64,))
    for serial in serials:
        trust = trust.pinning("north", hexadecimal(serial))
    return trust


def hexadecimal(serial: int) -> str:
    return fingerprint(key(serial)).hex()


def held(trust: Trust) -> dict[str, Pinned]:
    return {item.fingerprint: item for item in trust.named("north").fingerprints}


def test_a_trust_file_follows_planned_successions() -> None:
    found = held(pinning(0).following("north", shown(0, 1, 2), NOW))
    assert list(found) == [hexadecimal(0), hexadecimal(1), hexadecimal(2)]
    first, second, third = found.values()
    assert first.holds(NOW)  # its overlap
    assert not first.holds(NOW + WEEK)
    assert not second.holds(NOW - WEEK)
    assert second.holds(NOW)
    assert third.holds(NOW + 100 * WEEK)
    again = pinning(0).following("north", shown(0, 1), NOW).following("north", shown(0, 1, 2), NOW)
    assert held(again) == found


def test_a_compromised_key_is_marked_as_stolen() -> None:
    links = [link(1, reason=Reason.COMPROMISED)]
    found = held(pinning(0).following("north", shown(0, 1, links=links), NOW))
    assert [item.compromised for item in found.values()] == [True, False]
    own = replaced_coordinator(Reason.PLANNED)
    trust = Trust(deployment="demo", coordinator=(hexadecimal(0),))
    both = (hexadecimal(0), hexadecimal(1))
    assert trust.following_coordinator(own, NOW).coordinator == both
    own = replaced_coordinator(Reason.COMPROMISED)
    assert trust.following_coordinator(own, NOW).coordinator == both[1:]


def replaced_coordinator(reason: Reason) -> IdentityChain:
    changes: dict[str, Any] = {"role": Role.COORDINATOR, "name": "demo"}
    documents = [document(serial, **changes) for serial in (0, 1)]
    said = link(
        1, **changes, document=documents[1], reason=reason, replaced=documents[0].fingerprint
    )
    return IdentityChain(
        documents=tuple(signed(documents[serial], PAIRS[serial]) for serial in (0, 1)),
        links=(said,),
    )


def test_nothing_follows_from_what_is_not_pinned() -> None:
    with pytest.raises(KeyNotAnchored):
        pinning(5).following("north", shown(0, 1), NOW)
    with pytest.raises(KeyNotAnchored):
        pinning(0).following("south", shown(0, 1), NOW)
    stolen = link(1, document=document(1, key=THIEF))
    with pytest.raises(SuccessionRefused):
        pinning(0).following("north", shown(0, links=[stolen]), NOW)
    later = held(pinning(1).following("north", shown(0, 1, 2), NOW))
    assert list(later) == [hexadecimal(1), hexadecimal(2)]  # nothing of before the pinned one
