"""The engine alone, as a simulation uses it: no HTTP, no store, any source of randomness."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from curator.engine import Engine, SealingKey, Terms, no_readings
from tacit.crypto.sealing import Span, spans
from tacit.query.functions import Readings
from tacit.randomness import SeededRandom
from tests.curator.conftest import HOUR, NOISY, PLAIN, START, query
from tests.curator.double import FakeWorld

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_segment_is_sealed_from_arrays() -> None:
    world = FakeWorld()
    world.next_number = 64
    engine = Engine(SealingKey.from_bytes("gw", 0, bytes(range(32))), SeededRandom(7))
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
    engine = Engine(SealingKey.from_bytes("house", 0, bytes(range(32))), SeededRandom(7))
    noise = {"layer": "curator", "collusion": {"curators": 0, "aggregators": 0}}
    descriptor = world.open_round(query(NOISY, **noise), START, START + HOUR, NOW)
    empty = no_readings(descriptor.query, 1)
    zeros = np.zeros(readings, np.int64)
    some = Readings(1, zeros, zeros + 10**12, zeros) if readings else empty
    sizes = {len(body.content) for body in engine.prepare(Terms.of(descriptor), some).bodies}
    assert sizes == {
        len(body.content) for body in engine.prepare(Terms.of(descriptor), empty).bodies
    }
