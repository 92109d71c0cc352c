"""The line over all anchors (the trust file itself: tests/tacit/protocol/test_agreement.py)."""

from __future__ import annotations

import hashlib

from tacit.protocol.trust import anchors_line

ALL = {"north": b"n" * 32, "south": b"s" * 32}


def test_the_line_is_the_first_half_of_the_hash() -> None:
    def field(data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + data

    parts = (b"tacit anchors v2", b"demo", b"c" * 32, b"north", b"n" * 32, b"south", b"s" * 32)
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
