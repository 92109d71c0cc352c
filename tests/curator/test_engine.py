"""The engine alone, as a simulation uses it: no HTTP, no store, any source of randomness."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.web.wire import parse_cbor
from curator.engine import Engine, Terms, Total, no_readings, prepare_together
from curator.sealer import Sealer, SealingKey
from tacit.crypto.sealing import TAG_BYTES, Span, read_part_header, spans
from tacit.crypto.signing import Identity
from tacit.protocol import proved_pieces
from tacit.protocol.round import Piece
from tacit.query.functions import Readings
from tacit.randomness import SecureRandom, SeededRandom
from tests.curator.conftest import HOUR, NOISY, PLAIN, START, query
from tests.curator.double import FakeWorld

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def sealer(party: str) -> Sealer:
    key = SealingKey.from_bytes(party, 0, bytes(range(32)))
    return Sealer(party, Identity.from_bytes(bytes(32)), key)


def test_a_segment_is_sealed_from_arrays() -> None:
    world = FakeWorld()
    world.next_number = 64
    engine = Engine(sealer("gw"), SeededRandom(7))
    descriptor = world.open_round(query(PLAIN), START, START + HOUR, NOW)
    (span,) = spans(0, 40, descriptor.segment_size)
    assert span == Span(0, 0, 40)
    present = np.arange(40) % 2 == 0
    owner = np.arange(20, dtype=np.int64)
    readings = Readings(20, owner, (owner + 1) * 10**9, np.zeros(20, np.int64))
    prepared = engine.prepare_segment(Terms.of(descriptor), span, present, readings)
    assert [body.aggregator for body in prepared.bodies] == [a.id for a in world.aggregators]
    assert prepared.used.tolist() == [1] * 20
    assert len({len(body.content) for body in prepared.bodies}) == 1


@pytest.mark.parametrize("readings", [0, 3])
def test_a_piece_has_one_size(readings: int) -> None:
    world = FakeWorld()
    engine = Engine(sealer("house"), SeededRandom(7))
    noise = {"layer": "curator", "collusion": {"curators": 0, "aggregators": 0}}
    descriptor = world.open_round(query(NOISY, **noise), START, START + HOUR, NOW)
    empty = no_readings(descriptor.query, 1)
    zeros = np.zeros(readings, np.int64)
    some = Readings(1, zeros, zeros + 10**12, zeros) if readings else empty
    sizes = {len(body.content) for body in engine.prepare(Terms.of(descriptor), some).bodies}
    assert sizes == {
        len(body.content) for body in engine.prepare(Terms.of(descriptor), empty).bodies
    }


FUNCTIONS: dict[str, dict[str, Any]] = {
    "sum": {},
    "count": {"function": "count"},
    "mean": {"function": "mean"},
    "variance": {"function": "variance", "resolution": "0.01"},
    "variance of one": {"function": "variance", "max_readings": 1},
    "histogram": {"function": "histogram", "edges": ["0", "1", "2", "5"]},
    "slots": {"function": "vector_sum", "dimension": 4, "l1_bound": "3"},
    "completeness": {
        "function": "mean",
        "completeness": "curators",
        "split": ["0.4", "0.4", "0.2"],
    },
}
LAYERS: dict[str, dict[str, Any]] = {
    "exact": PLAIN,
    "curators": {**NOISY, "layer": "curator", "collusion": {"curators": 0, "aggregators": 0}},
    "a tail so large that noise is clamped": {
        **NOISY,
        "layer": "curator",
        "collusion": {"curators": 0, "aggregators": 0},
        "noise_tail": "0.9",
        "delta": "0.5",
    },
}


@cache
def proved_terms(function: str, layer: str) -> Terms:
    world = FakeWorld()
    world.next_number = 64
    asked = {**FUNCTIONS[function], "validity": "proved", "n_max": 64, "min_participants": 2}
    return Terms.of(world.open_round(query(LAYERS[layer], **asked), START, START + HOUR, NOW))


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_whatever_the_readings_are_they_can_be_proved_and_have_one_length(
    function: str, layer: str, data: st.DataObject
) -> None:
    """Of lone curators and of a part: what could not be proved would tell about readings."""
    terms = proved_terms(function, layer)
    counts = data.draw(st.lists(st.integers(0, 7), min_size=3, max_size=3))
    owner = np.repeat(np.arange(3), counts)
    amount = st.one_of(st.integers(-(2**62), 2**62), st.integers(-(10**14), 10**14))
    quantity = data.draw(st.lists(amount, min_size=owner.size, max_size=owner.size))
    offset = np.sort(SeededRandom(1).generator.integers(0, 2**32, owner.size))
    readings = Readings(3, owner, np.array(quantity, np.int64), offset)
    engine = Engine(sealer("gw"), SeededRandom(7))
    proofs = terms.proofs
    assert proofs is not None
    for each in prepare_together(terms, [engine] * 3, readings):
        for index, body in enumerate(each.bodies):
            piece = parse_cbor(body.content, Piece)
            assert len(piece.sealed) == proofs.of(1).share_bytes(index) + TAG_BYTES
    span, present = Span(0, 0, 10), np.arange(10) % 4 == 1
    total = Total.of(terms.query, readings)
    several = [total, Total.of(terms.query, no_readings(terms.query, 0))]
    for index, body in enumerate(engine.prepare_part(terms, span, present, several).bodies):
        header, _ = read_part_header(body.content, terms.descriptor.segment_size)
        assert header.plaintext_bytes == proofs.of(3).share_bytes(index)
        assert (header.count, header.share_index, header.span) == (3, index, span)


def test_nothing_that_is_drawn_is_drawn_twice() -> None:
    """The same readings again: no nonce, seed or sealed byte is as before."""
    terms = proved_terms("histogram", "exact")
    engine = Engine(sealer("gw"), SecureRandom())
    empty = no_readings(terms.query, 1)
    split = proved_pieces.split
    made: list[bytes] = []

    def kept(*given: Any) -> Any:
        found = split(*given)
        made.extend(bytes(row[0, :16]) for row in found[:1])
        made.extend(bytes(row[0, 16:48]) for row in found[:1])
        made.extend(bytes(row[0, -64:]) for row in found)
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(proved_pieces, "split", kept)
        for _ in range(20):
            engine.prepare(terms, empty)
    assert len(set(made)) == len(made) == 20 * 5
