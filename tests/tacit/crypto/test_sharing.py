"""Both sharings: round trips, secrecy, linearity, and the plain version as the specification.

Statistical tests have fixed seeds; had they not, each would alarm falsely with probability
`ALARM` (all of them together below 1e-4).
"""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from tacit.crypto import sharing
from tacit.crypto.sharing import (
    PRIME,
    RING,
    Additive,
    Shamir,
    centred,
    combine_additive,
    combine_shamir,
    from_field,
    lagrange_weights,
    multiply_field,
    reduce_field,
    split_additive,
    split_shamir,
    to_field,
    uniform_field,
)
from tacit.randomness import SecureRandom, SeededRandom

ALARM = 1e-6
WORD = st.one_of(
    st.integers(0, 2**64 - 1),
    st.sampled_from([0, 1, PRIME - 1, PRIME, PRIME + 1, 2**57 - 1, 2**57, 2**63, 2**64 - 1]),
)
ELEMENT = st.one_of(
    st.integers(0, PRIME - 1),
    st.sampled_from([0, 1, 2**28, 2**29 - 1, 2**29, PRIME // 2, PRIME // 2 + 1, PRIME - 1]),
)
SIGNED_62 = st.integers(-(2**62) + 1, 2**62 - 1)
SIGNED_56 = st.integers(-(2**56) + 7, 2**56 - 7)  # all of (-p/2, p/2)
QUORUMS = [(2, 2), (2, 3), (3, 5), (5, 5), (9, 16), (16, 16), (33, 64)]


def ints(values):
    return np.array(values, np.int64)


def words(values):
    return np.array(values, np.uint64)


class Script:
    """A source that gives words from a list."""

    def __init__(self, script):
        self.script = list(script)

    def words(self, count):
        drawn, self.script = self.script[:count], self.script[count:]
        assert len(drawn) == count
        return words(drawn)


# --- round trips ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [Additive(3), Shamir(2, 3)])
def test_many_values_in_blocks(shared):
    values = np.random.default_rng(1).integers(-(2**55), 2**55, 100_001)
    before = values.copy()
    pieces = shared.split(values, SecureRandom())
    assert (values == before).all()
    assert (shared.combine(dict(enumerate(pieces))) == values).all()


@pytest.mark.parametrize(
    ("shared", "uniform"),
    [(Additive(3), 2), (Additive(1), 0), (Shamir(2, 3), 1), (Shamir(3, 5), 2)],
)
def test_seeds_and_the_rest_give_the_values_back(shared, uniform):
    """From every quorum, and what is summed stays a sum."""
    assert shared.uniform == uniform
    rng = np.random.default_rng(3)
    totals, partials = np.zeros(301, np.int64), None
    for _ in range(3):
        values = rng.integers(-(2**50), 2**50, 301)
        seeds = [rng.bytes(32) for _ in range(uniform)]
        pieces = [shared.expand(seed, values.size) for seed in seeds]
        pieces += shared.rest(values, iter(pieces))
        assert len(pieces) == shared.count
        totals += values
        zero = [np.zeros(301, np.uint64)] * len(pieces)
        before = zero if partials is None else partials
        added = zip(before, pieces, strict=True)
        partials = [shared.add(total, piece[None]) for total, piece in added]
    need = getattr(shared, "threshold", len(partials))
    for quorum in itertools.combinations(range(len(partials)), need):
        assert (shared.combine({index: partials[index] for index in quorum}) == totals).all()


def test_what_a_seed_stands_for():
    """AES-256 of the counter under the seed (NIST SP 800-38A), little-endian; for the field its top
    57 bits, those from p on passed over."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import ECB

    seed = bytes(range(32))
    block = Cipher(AES(seed), ECB()).encryptor()
    stream = b"".join(block.update(count.to_bytes(16, "big")) for count in range(50))
    expected = [int.from_bytes(stream[8 * i : 8 * i + 8], "little") for i in range(99)]
    assert Additive(3).expand(seed, 99).tolist() == expected
    assert Shamir(2, 3).expand(seed, 99).tolist() == [word >> 7 for word in expected]
    for other in (seed[:-1], seed + b"\0"):
        with pytest.raises(ValueError, match="32 bytes"):
            Additive(3).expand(other, 1)


def test_the_worked_example():
    """Spec: aggregation, section 5: c = 3, value 1000."""
    drawn = [18364758544493064720, 81985529216486895]
    expected = [*drawn, 1001]
    assert split_additive(1000, drawn) == expected
    pieces = Additive(3).split(ints([1000]), Script(drawn))
    assert [int(piece[0]) for piece in pieces] == expected
    assert combine_additive(expected) == 1000


def test_extremes_of_the_ring_and_of_the_field():
    ends = ints([-(2**63), -1, 0, 2**63 - 1])
    shared = Additive(2)
    assert shared.combine(dict(enumerate(shared.split(ends, SecureRandom())))).tolist() == (
        ends.tolist()
    )
    assert to_field(ints([-(PRIME // 2), -1, 0, PRIME // 2])).tolist() == [
        PRIME // 2 + 1, PRIME - 1, 0, PRIME // 2
    ]  # fmt: skip


@pytest.mark.parametrize("value", [PRIME // 2 + 1, -(PRIME // 2) - 1, 2**63 - 1, -(2**63)])
def test_a_value_outside_the_field_is_refused(value):
    with pytest.raises(ValueError):
        Shamir(2, 3).split(ints([0, value]), SecureRandom())


@given(st.integers(), st.sampled_from([RING, PRIME]))
@example(RING // 2, RING)
@example(PRIME // 2, PRIME)
def test_centred_is_the_representative_nearest_zero(value, modulus):
    result = centred(value, modulus)
    assert (result - value) % modulus == 0
    assert -modulus <= 2 * result < modulus


# --- the field -----------------------------------------------------------------------------------


@given(st.lists(WORD, min_size=1))
def test_reduction(values):
    array = words(values)
    assert reduce_field(array).tolist() == [value % PRIME for value in values]
    assert array.tolist() == values


@given(st.lists(ELEMENT, min_size=1), ELEMENT)
def test_multiplication(values, factor):
    array = words(values)
    assert multiply_field(array, factor).tolist() == [v * factor % PRIME for v in values]
    assert array.tolist() == values


@given(st.lists(ELEMENT, min_size=1))
def test_field_elements_are_read_centred(values):
    signed = from_field(words(values))
    assert signed.tolist() == [centred(value, PRIME) for value in values]
    assert to_field(signed).tolist() == values


def test_rejection_draws_again_until_inside_the_field():
    outside = [PRIME << 7, (2**57 - 1) << 7]
    source = Script([5 << 7, *outside, outside[0], (PRIME - 1) << 7, 9 << 7])
    assert uniform_field(3, source).tolist() == [5, 9, PRIME - 1]
    assert source.script == []


def test_lagrange_weights_give_back_a_polynomial():
    values = {x: (7 + 3 * x + 5 * x * x) % PRIME for x in (2, 5, 9)}
    for at, expected in ((0, 7), (4, 7 + 12 + 80)):
        weights = lagrange_weights(list(values), at)
        found = sum(w * v for w, v in zip(weights, values.values(), strict=True)) % PRIME
        assert found == expected


def test_the_moduli():
    assert all(PRIME % q for q in range(2, 10_000))
    assert pow(2, PRIME - 1, PRIME) == pow(3, PRIME - 1, PRIME) == 1
    assert Additive(3).modulus == RING == 2**64
    assert Shamir(2, 3).modulus == PRIME == 2**57 - 13


# --- sums ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 127, 128, 129, 200, 4096, 4097, 10_000])
@pytest.mark.parametrize("columns", [1, 3])
def test_field_sums_of_the_largest_addends(rows, columns):
    """128 elements just below p overflow 64 bits; sums are reduced before."""
    shared = Shamir(2, 3)
    start = words([PRIME - 1] * columns)
    pieces = np.full((rows, columns), PRIME - 1, np.uint64)
    assert shared.add(start, pieces).tolist() == [-(rows + 1) % PRIME] * columns


@pytest.mark.parametrize("shared", [Additive(3), Shamir(2, 3)])
def test_sums_of_pieces_are_pieces_of_sums(shared):
    values = np.random.default_rng(3).integers(-(10**9), 10**9, (500, 4))
    pieces = shared.split(values, SecureRandom())
    zero = np.zeros(4, np.uint64)
    partials = {index: shared.add(zero, piece) for index, piece in enumerate(pieces)}
    assert (shared.combine(partials) == values.sum(axis=0)).all()


# --- refusals ------------------------------------------------------------------------------------


def test_additive_needs_every_piece():
    shared = Additive(3)
    pieces = dict(enumerate(shared.split(ints([1, 2]), SecureRandom())))
    for missing in range(3):
        with pytest.raises(ValueError):
            shared.combine({i: piece for i, piece in pieces.items() if i != missing})
    with pytest.raises(ValueError):
        shared.combine({**pieces, 3: pieces[0]})
    with pytest.raises(ValueError):
        shared.combine({**pieces, 2: pieces[2][:1]})


def test_shamir_refusals():
    shared = Shamir(3, 5)
    pieces = dict(enumerate(shared.split(ints([1, 2]), SecureRandom())))
    few = {i: pieces[i] for i in (0, 4)}
    with pytest.raises(ValueError):
        shared.combine(few)
    with pytest.raises(ValueError):
        shared.combine({**few, 5: pieces[3]})
    with pytest.raises(ValueError):
        shared.combine({**few, -1: pieces[3]})
    with pytest.raises(ValueError):
        shared.combine({**few, 3: pieces[3][:1]})
    with pytest.raises(ValueError):
        shared.combine({**few, 3: words([1, PRIME])})


@pytest.mark.parametrize("liar", range(5))
@pytest.mark.parametrize("quorum", [4, 5])
def test_more_than_k_partial_sums_must_lie_on_one_polynomial(liar, quorum):
    shared = Shamir(3, 5)
    pieces = shared.split(ints([7, -7]), SecureRandom())
    held = [(liar + step) % 5 for step in range(quorum)]
    partials = {index: pieces[index].copy() for index in held}
    assert shared.combine(partials).tolist() == [7, -7]
    partials[liar][1] ^= np.uint64(1)
    with pytest.raises(ValueError, match="polynomial"):
        shared.combine(partials)


@pytest.mark.parametrize(("k", "c"), [(0, 3), (4, 3), (2, 65)])
def test_impossible_thresholds(k, c):
    with pytest.raises(ValueError):
        Shamir(k, c)
    with pytest.raises(ValueError):
        Additive(0)


# --- secrecy -------------------------------------------------------------------------------------

DRAWS = 40_000
VALUES = [0, 1, -1, 2**40, -(2**55)]


def uniform_pvalue(cells: np.ndarray, size: int) -> float:
    return float(stats.chisquare(np.bincount(cells, minlength=size)).pvalue)


@pytest.mark.parametrize("value", VALUES)
def test_any_additive_pieces_but_one_are_jointly_uniform(value):
    """Four bits of each of two pieces, at the top, in the middle and at the bottom of the word."""
    pieces = Additive(3).split(np.full(DRAWS, value), SeededRandom(11))
    for pair in itertools.combinations(pieces, 2):
        for shift in (0, 30, 60):
            one, two = ((piece >> np.uint64(shift)) & np.uint64(15) for piece in pair)
            assert uniform_pvalue((one * np.uint64(16) + two).astype(int), 256) > ALARM


@pytest.mark.parametrize("value", VALUES)
def test_any_shamir_pieces_below_the_threshold_are_jointly_uniform(value):
    pieces = Shamir(3, 5).split(np.full(DRAWS, value), SeededRandom(12))
    for pair in itertools.combinations(pieces, 2):
        for shift in (0, 26, 53):
            one, two = ((piece >> np.uint64(shift)) & np.uint64(15) for piece in pair)
            # p is 2^57 - 13: the cells differ from equal ones by less than 2^-50.
            assert uniform_pvalue((one * np.uint64(16) + two).astype(int), 256) > ALARM


def test_the_uniformity_test_sees_weights_that_hide_nothing():
    """The sources' real-valued weights, in integers: a piece is a known multiple of the value."""
    pieces = np.random.default_rng(13).integers(1, 9, DRAWS).astype(np.uint64) * np.uint64(1000)
    assert uniform_pvalue((pieces & np.uint64(15)).astype(int), 16) < ALARM


@given(SIGNED_56, SIGNED_56, st.data())
def test_shamir_pieces_below_the_threshold_fit_every_value_equally(value, other, data):
    """The same k-1 pieces, whichever, and any other value lie on exactly one polynomial."""
    k, c = data.draw(st.sampled_from([(2, 3), (3, 5), (9, 16)]))
    drawn = data.draw(st.lists(ELEMENT, min_size=k - 1, max_size=k - 1))
    pieces = split_shamir(value, drawn, c)
    points = data.draw(st.permutations(range(1, c + 1)))
    seen = {x: pieces[x - 1] for x in points[: k - 1]}
    known = {0: other % PRIME, **seen}
    last = points[k - 1]
    weights = lagrange_weights(list(known), last)
    fitting = sum(w * v for w, v in zip(weights, known.values(), strict=True)) % PRIME
    assert combine_shamir({**seen, last: fitting}) == other


@pytest.mark.parametrize("shared", [Additive(3), Shamir(3, 5)])
def test_the_same_randomness_draws_as_many_words_whatever_the_value(shared):
    small, large = SeededRandom(5), SeededRandom(5)
    shared.split(np.zeros(1000, np.int64), small)
    shared.split(np.full(1000, -(2**55)), large)
    assert (small.words(4) == large.words(4)).all()


def test_a_block_never_meets_the_randomness_of_another():
    block = sharing._BLOCK
    pieces = Shamir(2, 2).split(np.zeros(2 * block, np.int64), SecureRandom())
    assert (pieces[0][:block] != pieces[0][block:]).all()


# --- any values; the plain version is the specification of the vectorised one ---------------------


@given(st.lists(SIGNED_56, min_size=1, max_size=20), st.data())
def test_shamir_combine_undoes_split_with_any_quorum(values, data):
    k, c = data.draw(st.sampled_from(QUORUMS))
    shared = Shamir(k, c)
    pieces = shared.split(ints(values), SeededRandom(data.draw(st.integers(0, 99))))
    quorum = data.draw(st.permutations(range(c)))[: data.draw(st.integers(k, c))]
    assert shared.combine({index: pieces[index] for index in quorum}).tolist() == values


@given(st.lists(SIGNED_62, min_size=1, max_size=5), st.integers(1, 6), st.data())
def test_additive_twins(values, count, data):
    n = len(values)
    drawn = data.draw(st.lists(WORD, min_size=n * (count - 1), max_size=n * (count - 1)))
    pieces = Additive(count).split(ints(values), Script(drawn))
    for i, value in enumerate(values):
        own = [int(piece[i]) for piece in pieces]
        assert own == split_additive(value, drawn[i::n])
        assert combine_additive(own) == value


@given(st.lists(SIGNED_56, min_size=1, max_size=5), st.data())
def test_shamir_twins(values, data):
    k, c = data.draw(st.sampled_from([*QUORUMS, (1, 3)]))
    n = len(values)
    drawn = data.draw(st.lists(ELEMENT, min_size=n * (k - 1), max_size=n * (k - 1)))
    pieces = Shamir(k, c).split(ints(values), Script(element << 7 for element in drawn))
    for i, value in enumerate(values):
        own = [int(piece[i]) for piece in pieces]
        assert own == split_shamir(value, drawn[i::n], c)
        points = data.draw(st.permutations(range(1, c + 1)))[:k]
        assert combine_shamir({x: own[x - 1] for x in points}) == value
