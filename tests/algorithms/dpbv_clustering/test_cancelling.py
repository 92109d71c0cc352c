"""kCluster can be stopped in the middle of a round, and its blocks change no result."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from algorithms.contract import Cancelled
from algorithms.dpbv_clustering import clustering_methods as module
from algorithms.dpbv_clustering.clustering_methods import (
    BitDistances,
    Distances,
    MatrixDistances,
    kcluster,
)
from algorithms.dpbv_clustering.distances import Combination, Decoder, distances
from tacit.encoders.dpbv_clustering import Flip, encode, make_codes
from tacit.randomness import SeededRandom

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


def test_wide_values_are_taken_a_run_of_bits_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs hold all bits once, and the sums over a run stay small for 256 clusters."""
    codes = make_codes(((0.0, 50.0), (0.0, 50.0)), (25.0, 25.0), 65_500, "grid", 1)
    words = encode(SeededRandom(1).generator.uniform(0, 50, (20, 2)), codes, FLIP, SeededRandom(2))
    held = BitDistances(words, codes, FLIP)
    runs = list(held._runs(256))
    assert max(run.bits for run in runs) * 256 <= module._BITS
    for place in (0, 1):
        own = [run for run in runs if run.place == place]
        assert sum(run.bits for run in own) == 65_500
        assert sum(run.floor for run in own) == pytest.approx(Decoder.of(codes[place], FLIP).floor)
    labels = np.arange(20) % 3
    narrow = held.to_clusters(labels, 3)
    monkeypatch.setattr(module, "_BITS", 1 << 40)
    assert len(list(held._runs(3))) == 2
    assert held.to_clusters(labels, 3) == pytest.approx(narrow, rel=1e-6, abs=1e-6)
    assert held.to_records(labels[:3]) == pytest.approx(
        distances(words, codes, FLIP, Combination("manhattan"))[:, labels[:3]], rel=1e-4, abs=1e-3
    )
