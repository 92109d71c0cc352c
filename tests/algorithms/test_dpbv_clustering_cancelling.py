"""kCluster can be stopped in the middle of a round, and its blocks change no result."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from algorithms.contract import Cancelled
from algorithms.dpbv_clustering import kcluster as module
from algorithms.dpbv_clustering.distances import Combination, distances
from algorithms.dpbv_clustering.kcluster import BitDistances, Distances, MatrixDistances, kcluster
from common.encoders.dpbv_clustering import Flip, encode, make_codes
from common.randomness import SeededRandom

ROWS, CLUSTERS = 300, 4
CODES = make_codes(((0.0, 50.0),), (25.0,), 64, "grid", 1)
FLIP = Flip.of_epsilon(Fraction(2))
WORDS = encode(SeededRandom(1).generator.uniform(0, 50, (ROWS, 1)), CODES, FLIP, SeededRandom(2))
FORMS: dict[str, Callable[[], Distances]] = {
    "bits": lambda: BitDistances(WORDS, CODES, FLIP),
    "matrix": lambda: MatrixDistances(
        distances(WORDS, CODES, FLIP, Combination("manhattan")),
    ),
}


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of ten records."""
    monkeypatch.setattr(module, "_BITS", 10 * 64)
    monkeypatch.setattr(module, "_PRODUCTS", 10 * ROWS * CLUSTERS)


def counting() -> tuple[list[int], Callable[[], None]]:
    """A beat, and how often it was called."""
    count = [0]

    def beat() -> None:
        count[0] += 1

    return count, beat


@pytest.mark.parametrize("form", FORMS)
def test_a_round_beats_at_every_block(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held, labels = FORMS[form](), np.arange(ROWS) % CLUSTERS
    whole = held.to_clusters(labels, CLUSTERS)
    count, beat = counting()
    small(monkeypatch)
    assert held.to_clusters(labels, CLUSTERS, beat) == pytest.approx(whole, rel=1e-5)
    assert count[0] >= ROWS // 10


@pytest.mark.parametrize("form", FORMS)
def test_it_stops_in_the_middle_of_the_first_round(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch)
    count, beat = counting()

    def stop() -> None:
        beat()
        if count[0] == 20:
            raise Cancelled

    with pytest.raises(Cancelled):
        kcluster(FORMS[form](), CLUSTERS, SeededRandom(3).generator, beat=stop)


def test_blocks_stay_small_however_many_records_and_clusters_there_are() -> None:
    """What lies between two beats is bounded by constants: some 10^9 multiplications."""
    for rows in (100_000, 1_000_000):
        words = np.zeros((rows, 1, 16), np.uint64)
        (first, *_) = BitDistances(words, CODES, FLIP)._blocks(1000, 256)
        assert 1 <= first.stop * 1000 <= module._BITS
        assert first.stop * 1000 * 256 <= module._PRODUCTS
