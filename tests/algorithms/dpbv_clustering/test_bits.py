"""Bits, coins, their decoding and what they lose.

Spec: dpbv-clustering, section 8, checks 1 to 5 and 7.

kCluster can be stopped in the middle of a round, and its blocks change no result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.contract import Cancelled
from algorithms.dpbv_clustering import clustering_methods as module
from algorithms.dpbv_clustering.clustering_methods import (
    BitDistances,
    Distances,
    MatrixDistances,
    kcluster,
)
from algorithms.dpbv_clustering.distances import (
    Combination,
    Decoder,
    distances,
    matrix,
    product,
)
from tacit.accounting.randomised_response import delta_of_responses, response_epsilon, total_epsilon
from tacit.encoders.dpbv_clustering import (
    POINT_STEPS,
    Box,
    Cells,
    Code,
    Flip,
    MalformedBits,
    claimed_delta,
    encode,
    from_wire,
    log10_complement,
    make_codes,
    most_differing,
    noisy_points,
    pack,
    point_scale,
    ratio_test_error,
    to_wire,
    unary_reports,
    unpack,
)
from tacit.randomness import SeededRandom
from tests.property_examples import examples

MILLIONTH = Fraction(1, 10**6)
GRID = Code(np.arange(8) + 0.5, 2.0, 6.0, 2.0)


def code(low: float, high: float, half: float, bits: int = 1000, seed: int = 1) -> Code:
    return make_codes(((low, high),), (half,), bits, "uniform", seed)[0]


def test_the_worked_example() -> None:
    assert make_codes(((2, 6),), (2,), 8, "grid", 0)[0].points.tolist() == GRID.points.tolist()
    bits = GRID.clean(np.array([2.0, 3.0, 6.0]))
    assert ["".join(map(str, row)) for row in bits.astype(int).tolist()] == [
        "11110000",
        "01111000",
        "00001111",
    ]
    hamming = matrix(pack(bits), 8)
    assert hamming[np.triu_indices(3, 1)].tolist() == [2, 8, 6]
    plain = Decoder(8, 8.0, 0.0)
    assert [plain.decode(each) for each in (2, 8, 6)] == [1, 4, 3]
    noisy = Decoder(8, 8.0, 0.25)
    assert noisy.floor == 3
    assert noisy.decode(5) == 4.0
    assert noisy.flip_variance == pytest.approx(7.5)


@pytest.mark.parametrize("epsilon", [1, 4])
def test_decoding_is_unbiased_and_varies_as_said(epsilon: int) -> None:
    """1500 fresh sets of points. Mean within 4 standard errors: a false alarm in 1 of 16,000 for
    each of 15 means; the deviation of 1500 draws has a standard error of 1.9 %."""
    flip = Flip.of_epsilon(Fraction(epsilon))
    source = SeededRandom(100 + epsilon)
    distances = np.array([0.0, 1.0, 5.0, 20.0, 50.0])
    found = np.empty((1500, 5))
    violated = 0
    for run in range(1500):
        each = code(0, 50, 25, seed=run)
        decoder = Decoder.of(each, flip)
        start = np.zeros(5)
        left = encode(start[:, None], (each,), flip, source)[:, 0]
        right = encode((start + distances)[:, None], (each,), flip, source)[:, 0]
        turned = np.bitwise_count(left ^ right).sum(axis=1)
        found[run] = [decoder.decode(value) for value in turned.tolist()]
        violated += int((np.abs(found[run] - distances) > decoder.tail_bound(0.05)).sum())
    decoder = Decoder(1000, 100.0, float(flip.probability))
    deviations = np.sqrt([decoder.variance(each) for each in distances.tolist()])
    assert (np.abs(found.mean(axis=0) - distances) < 4 * deviations / math.sqrt(1500)).all()
    assert found.std(axis=0) == pytest.approx(deviations, rel=0.08)
    assert violated < 0.05 * found.size
    assert deviations[0] == pytest.approx({1: 3.62, 4: 0.314}[epsilon], rel=0.01)


def enumerated(differing: int, epsilon_bit: float, epsilon: float) -> float:
    p = 1 / (1 + math.exp(-epsilon_bit))
    total = 0.0
    for bits in itertools.product((0, 1), repeat=differing):
        kept = sum(bits)
        one = p**kept * (1 - p) ** (differing - kept)
        other = (1 - p) ** kept * p ** (differing - kept)
        total += max(0.0, one - math.exp(epsilon) * other)
    return total


@given(st.integers(1, 9), st.floats(0.05, 4), st.floats(0, 1.2))
@examples(60)
def test_the_accountant_equals_enumeration(differing: int, bit: float, share: float) -> None:
    epsilon = share * differing * bit
    exact = enumerated(differing, bit, epsilon)
    found = float(delta_of_responses(differing, Fraction(bit), Fraction(epsilon)))
    assert exact - 1e-12 <= found <= exact * (1 + 2e-7) + 1e-12
    if Fraction(epsilon) >= differing * Fraction(bit):
        assert found == 0
    else:  # the complement is another sum
        complement = 10 ** log10_complement(differing, bit, epsilon)
        assert complement == pytest.approx(1 - exact, abs=1e-12)


@pytest.mark.parametrize(
    ("differing", "epsilon", "expected"),
    [
        (1000, 8, 0.048534),
        (1000, 1, 0.007495),
        (10, 1, 0.1001),
    ],
)
def test_the_budget_of_a_bit(differing: int, epsilon: int, expected: float) -> None:
    found = response_epsilon(differing, Fraction(epsilon), MILLIONTH)
    assert float(found) == pytest.approx(expected, rel=1e-3 if differing == 10 else 1.5e-5)
    assert delta_of_responses(differing, found, Fraction(epsilon)) <= MILLIONTH
    more = found * Fraction(1001, 1000)
    assert delta_of_responses(differing, more, Fraction(epsilon)) > MILLIONTH


def test_what_theorem_4_says_and_what_holds() -> None:
    assert float(claimed_delta(1000, Fraction(2))) == pytest.approx(7.5e-56, rel=0.01)
    assert float(claimed_delta(1000, Fraction(1))) == pytest.approx(8.9e-137, rel=0.01)
    assert log10_complement(1000, 2.0, 2.0) == pytest.approx(-189.6, abs=0.05)
    assert log10_complement(100, 2.0, 2.0) == pytest.approx(-19.6, abs=0.05)
    assert log10_complement(1000, 1.0, 1.0) == pytest.approx(-53.3, abs=0.05)
    assert float(total_epsilon(1000, Fraction(2), MILLIONTH)) == pytest.approx(1705.5, abs=0.05)
    assert float(total_epsilon(64_000, Fraction(2), MILLIONTH)) == pytest.approx(99_031, abs=1)


def brute_most_differing(each: Code, radius: float) -> int:
    values = np.unique(
        np.concatenate(
            [
                np.clip(side + nudge, each.lower, each.upper)
                for side in (each.points - each.half_window, each.points + each.half_window)
                for nudge in (-1e-9, 0.0, 1e-9)
            ]
            + [np.array([each.lower, each.upper])]
        )
    )
    bits = each.clean(values)
    differ = (bits[:, None, :] != bits[None, :, :]).sum(axis=2)
    near = np.abs(values[:, None] - values[None, :]) <= radius + 5e-9
    return int(differ[near].max())


@given(
    st.integers(8, 40),
    st.floats(0.2, 10),
    st.sampled_from([math.inf, 0.3, 2.0, 5.0]),
    st.integers(0, 1000),
)
@examples(60)
def test_how_many_bits_can_differ(bits: int, half: float, radius: float, seed: int) -> None:
    each = code(0, 10, half, bits, seed)
    # the brute force nudges by 1e-9 to both sides, so its pairs may be 2e-9 farther apart
    found = most_differing(each, radius + 1e-8)
    assert brute_most_differing(each, radius) == found or radius < math.inf
    assert found >= brute_most_differing(each, radius)
    values = SeededRandom(seed).generator.uniform(0, 10, (2, 200))
    near = np.abs(values[0] - values[1]) <= radius
    turned = (each.clean(values[0]) != each.clean(values[1])).sum(axis=1)
    assert turned[near].max(initial=0) <= found


def test_the_error_of_the_test_is_what_it_computes() -> None:
    for differing, bit in ((1, 1.0), (2, 1.0), (5, 0.5), (8, 2.0)):
        flip = 1 / (1 + math.exp(bit))
        exact = 0.0
        for turned in range(differing + 1):
            mass = math.comb(differing, turned) * flip**turned * (1 - flip) ** (differing - turned)
            exact += mass * (1 if 2 * turned > differing else 0.5 if 2 * turned == differing else 0)
        assert ratio_test_error(differing, flip) == pytest.approx(exact)
    assert ratio_test_error(0, 0.3) == 0.5
    assert ratio_test_error(3, 0.0) == 0.0


def test_the_coin_is_rounded_up_and_accounted_as_thrown() -> None:
    for epsilon in ("0.001", "0.5", "1", "2", "20"):
        flip = Flip.of_epsilon(Fraction(epsilon))
        exact = 1 / (1 + math.exp(float(Fraction(epsilon))))
        assert exact * (1 - 1e-12) <= float(flip.probability) <= exact + 2.0**-32
        assert flip.epsilon <= float(Fraction(epsilon)) * (1 + 1e-14)
    assert Flip.of_epsilon(None).epsilon == math.inf
    for wrong in (Fraction(0), Fraction(1, 10**10)):
        with pytest.raises(ValueError, match="bit"):
            Flip.of_epsilon(wrong)


def test_coins_fall_as_often_as_said() -> None:
    flip = Flip.of_epsilon(Fraction(1))
    drawn = flip.draw(SeededRandom(5), 1_000_001)
    q = float(flip.probability)
    assert len(drawn) == 1_000_001
    assert abs(drawn.mean() - q) < 5 * math.sqrt(q * (1 - q) / len(drawn))  # 1 in 1.7 million


@given(st.integers(8, 200), st.integers(1, 4), st.integers(0, 2**32))
@examples(40)
def test_records_cross_the_wire(bits: int, dimension: int, seed: int) -> None:
    drawn = SeededRandom(seed).generator.random((dimension, bits)) < 0.5
    record = pack(drawn)
    octets = to_wire(record)
    assert (from_wire(octets, dimension, bits) == record).all()
    assert (unpack(record, bits) == drawn).all()
    # bit i at position i % 64 of word i // 64, little-endian
    place = bits - 1
    assert int(octets[place // 64 * 8 + place % 64 // 8] >> (place % 8) & 1) == drawn[0, place]
    with pytest.raises(MalformedBits):
        from_wire(octets + b"\0", dimension, bits)
    if bits % 64:
        with pytest.raises(MalformedBits, match="pad"):
            from_wire(octets[:-1] + b"\x80", dimension, bits)


@given(st.integers(1, 70), st.integers(1, 70), st.integers(8, 300), st.integers(0, 2**32))
@examples(40)
def test_the_kernels_agree(left: int, right: int, bits: int, seed: int) -> None:
    generator = SeededRandom(seed).generator
    one, other = generator.random((left, bits)) < 0.5, generator.random((right, bits)) < 0.5
    expected = (one[:, None, :] != other[None, :, :]).sum(axis=2)
    assert (product(pack(one), pack(other), bits) == expected).all()


@pytest.mark.parametrize(("rows", "bits"), [(1, 8), (257, 1000), (530, 130)])
def test_the_compiled_matrix_agrees(rows: int, bits: int) -> None:
    """Tiles of 256 records, whole and cut, on and above the diagonal."""
    pytest.importorskip("numba")
    from algorithms.dpbv_clustering.compiled import hamming_matrix

    words = pack(SeededRandom(rows).generator.random((rows, bits)) < 0.5)
    assert (
        hamming_matrix(words) == np.bitwise_count(words[:, None] ^ words[None]).sum(axis=2)
    ).all()
    assert (matrix(words, bits) == matrix(words, bits, product)).all()


def test_boxes_map_and_clip() -> None:
    box = Box((0.0, -1.0), (16.0, 1.0), (0.0, 50.0))
    values = np.array([[8.0, 0.0], [99.0, -5.0]])
    assert box.apply(values).tolist() == [[25.0, 25.0], [50.0, 0.0]]
    assert box.raw(box.apply(values)).tolist() == [[8.0, 0.0], [16.0, -1.0]]
    alike = Box((0.0, 0.0), (16.0, 8.0), (0.0, 50.0), one_factor=True)
    assert alike.ranges == ((0.0, 50.0), (0.0, 25.0))
    assert alike.apply(np.array([[16.0, 4.0]])).tolist() == [[50.0, 12.5]]
    assert Box((0.0,), (3.0,)).apply(np.array([[9.0]])).tolist() == [[3.0]]
    for low, high in ((1.0, 1.0), (2.0, 1.0), (0.0, math.inf)):
        with pytest.raises(ValueError, match="range"):
            Box((low,), (high,))


def test_cells_hold_every_record_once() -> None:
    cells = Cells(Box((0.0, 0.0), (4.0, 4.0)), 4)
    values = np.array([[0.0, 0.0], [3.9, 0.1], [4.0, 4.0], [-9.0, 99.0]])
    assert cells.places(values).tolist() == [0, 12, 15, 3]
    assert cells.sums(values).sum() == 4
    assert (cells.places(cells.centres()) == np.arange(16)).all()


def test_unary_reports_have_the_stated_odds() -> None:
    """No report is more than e^epsilon as likely under one cell as under another: by the law."""
    flip = Flip.of_epsilon(Fraction(2))
    q = float(flip.probability)
    reports = unary_reports(np.zeros(40_000, np.int64), 5, flip, SeededRandom(2))
    shares = reports.mean(axis=0)
    assert abs(shares[0] - 0.5) < 5 * math.sqrt(0.25 / 40_000)
    assert np.abs(shares[1:] - q).max() < 5 * math.sqrt(q * (1 - q) / 40_000)
    worst = 0.0
    for bits in itertools.product((0, 1), repeat=3):
        law = []
        for own in (0, 1):
            mass = 1.0
            for place, bit in enumerate(bits):
                one = 0.5 if place == own else q
                mass *= one if bit else 1 - one
            law.append(mass)
        worst = max(worst, law[0] / law[1])
    assert worst <= math.exp(2) * (1 + 1e-12)


def test_noisy_points_are_whole_steps_with_the_stated_noise() -> None:
    box = Box((0.0, 10.0), (1.0, 20.0))
    values = np.tile([[0.25, 99.0]], (20_000, 1))
    steps = noisy_points(values, box, Fraction(8), SeededRandom(4))
    scale = float(point_scale(2, Fraction(8)))
    assert scale == 2 * POINT_STEPS / 8
    error = 5 * math.sqrt(2) * scale / math.sqrt(20_000)
    assert np.abs(steps.mean(axis=0) - [POINT_STEPS / 4, POINT_STEPS]).max() < error
    with pytest.raises(ValueError, match="too small a budget"):
        point_scale(256, Fraction(1, 1000))


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
