"""What takes bytes from strangers: each with valid bytes, and the only errors it may raise.

A target returns whether it took the bytes. What is sealed must never be taken once it is changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cbor2
import numpy as np

from common.bodies import decode_cbor, parse_cbor, parse_json
from tacit import sets
from tacit.crypto.sealing import (
    BatchHeader,
    SealBroken,
    Span,
    open_batch,
    open_words,
    read_batch_header,
    seal_batch,
    seal_words,
)
from tacit.crypto.signing import Signed
from tacit.errors import DomainError
from tacit.protocol.enrolment import JoinToken
from tacit.protocol.round.pieces import Piece
from tacit.query.query import Query
from tacit.wire import encode_binary
from tests.tacit.examples import METERED, fields

KEY = bytes(range(32))
DIGEST = b"d" * 32


@dataclass(frozen=True)
class Target:
    """`take(bytes)` raises one of `refusals` or returns; `sealed`: whether it must refuse."""

    name: str
    valid: bytes
    take: Callable[[bytes], Any]
    refusals: tuple[type[Exception], ...]
    sealed: bool = False


def _batch() -> bytes:
    presence = sets.pack(np.ones(16, bool))
    header = BatchHeader("gateway-1", DIGEST, 1, 0, Span(0, 64, 16), 4, bytes(16), presence)
    return seal_batch(KEY, header, np.arange(64, dtype=np.uint64))


def _open_batch(body: bytes) -> None:
    _, offset = read_batch_header(body)
    open_batch(KEY, body, offset)


def _piece() -> dict[str, Any]:
    nonce, sealed = seal_words(KEY, np.arange(4, dtype=np.uint64), b"context")
    return {
        "sender": "house-7",
        "session": encode_binary(bytes(16)),
        "nonce": encode_binary(nonce),
        "sealed": encode_binary(sealed),
    }


def _open_words(body: bytes) -> None:
    open_words(KEY, body[:12], body[12:], b"context")


def _join_token() -> bytes:
    grant = {
        "party": "aggregator-1",
        "url": "http://aggregator.test",
        "fingerprint": encode_binary(DIGEST),
        "secret": "s" * 43,
    }
    token = {
        "party": "house-7",
        "kind": "curator",
        "max_curators": 1,
        "coordinator": grant,
        "aggregators": [grant],
        "expires": "2027-01-01T00:00:00Z",
    }
    return JoinToken.model_validate_json(json.dumps(token)).to_text().encode()


def valid_query() -> bytes:
    """A query that is accepted, as JSON."""
    changes = {"layer": "aggregator", "collusion": {"curators": 0, "aggregators": 1}}
    return json.dumps(fields(**METERED, **changes, min_participants=100)).encode()


def targets() -> list[Target]:
    """All of them."""
    piece = _piece()
    nonce, sealed = seal_words(KEY, np.arange(16, dtype=np.uint64), b"context")
    signed = json.dumps({"statement": piece, "signature": encode_binary(b"s" * 64)}).encode()
    return [
        Target("sealed batch", _batch(), _open_batch, (SealBroken,), sealed=True),
        Target("sealed piece", nonce + sealed, _open_words, (SealBroken,), sealed=True),
        Target("batch header", _batch(), read_batch_header, (SealBroken,)),
        Target("cbor", cbor2.dumps([piece, 1.5, None, {"a": b"x"}]), decode_cbor, (DomainError,)),
        Target("cbor piece", cbor2.dumps(piece), lambda b: parse_cbor(b, Piece), (DomainError,)),
        Target(
            "json piece", json.dumps(piece).encode(), lambda b: parse_json(b, Piece), (DomainError,)
        ),
        Target("json query", valid_query(), lambda b: parse_json(b, Query), (DomainError,)),
        Target("signed", signed, lambda b: parse_json(b, Signed[Piece]), (DomainError,)),
        Target(
            "join token",
            _join_token(),
            lambda b: JoinToken.from_text(b.decode("latin-1")),
            (ValueError,),
        ),
        Target(
            "set",
            sets.pack(np.arange(100) % 3 == 0),
            lambda b: sets.unpack(b, 100),
            (ValueError,),
        ),
    ]
