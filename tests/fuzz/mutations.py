"""Bytes that are almost right: mutations of valid ones, by a seeded generator."""

from __future__ import annotations

import random
from collections.abc import Iterator

_EDGES = (b"\x00", b"\xff", b"\x7f", b"\x80", b"\x9f", b"\xbf", b"\xff\xff\xff\xff", b"\x00" * 8)


def mutated(valid: bytes, cases: int, seed: int) -> Iterator[bytes]:
    """So many mutations of `valid`, each different from it."""
    choose = random.Random(seed)
    made = 0
    while made < cases:
        body = bytearray(valid)
        for _ in range(choose.choice((1, 1, 1, 2, 4, 16))):
            _change(body, choose)
        if bytes(body) != valid:
            made += 1
            yield bytes(body)


def _change(body: bytearray, choose: random.Random) -> None:
    kind = choose.randrange(7)
    at = choose.randrange(len(body) + 1)
    if kind == 0 and body:
        body[at % len(body)] ^= 1 << choose.randrange(8)
    elif kind == 1 and body:
        body[at % len(body)] = choose.randrange(256)
    elif kind == 2:
        del body[at:]
    elif kind == 3:
        del body[at : at + choose.randrange(1, 17)]
    elif kind == 4:
        body[at:at] = choose.choice(_EDGES)
    elif kind == 5:
        body[at:at] = body[at : at + choose.randrange(1, 33)]
    else:
        body[at:at] = choose.randbytes(choose.randrange(1, 9))
