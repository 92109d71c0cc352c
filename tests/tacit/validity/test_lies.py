"""Whoever lies is refused by all, and by no one else's fault."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tacit.randomness import SeededRandom
from tacit.validity.field import Elements
from tacit.validity.functions import (
    ProvedFunction,
    ProvedMean,
    ProvedSum,
    ProvedVariance,
    ProvedVector,
    ReadingBounds,
    proved_count,
    proved_histogram,
)
from tacit.validity.prio3 import Contributions, Outcome, Prio3, Verification
from tacit.validity.vectors import Block
from tests.tacit.validity.rounds import CONTEXT, KEY, accepted, outcomes, split

FUNCTIONS: dict[str, tuple[ProvedFunction, list[int]]] = {
    "count": (proved_count(1), [1]),
    "sum": (ProvedSum(ReadingBounds(0, 8191, 1)), [1000]),
    "mean": (ProvedMean(ReadingBounds(-3, 3, 2)), [3, 2]),
    "variance, one reading": (ProvedVariance(ReadingBounds(-3, 3, 1), 4096), [2, 4, 1]),
    "variance": (ProvedVariance(ReadingBounds(-3, 3, 2), 8192), [1, 5, 2]),
    "variance, Field128": (ProvedVariance(ReadingBounds(-(2**30), 2**30, 2), 2), [1, 5, 2]),
    "histogram": (proved_histogram(5, 1), [0, 0, 1, 0, 0]),
    "vector": (ProvedVector((Block(3, 7, 9, signed=True),)), [4, -5, 0]),
    "vector, L2": (ProvedVector((Block(3, 7, 9, signed=True, l2=True),)), [4, -6, 2]),
    "vector, L2 and a count, Field128": (
        ProvedVector((Block(2, 2**40, 2**41, l2=True), Block(1, 5, 5))),
        [2**39, 2**40, 4],
    ),
}


@pytest.fixture(params=FUNCTIONS)
def case(request: pytest.FixtureRequest) -> tuple[ProvedFunction, Elements]:
    function, values = FUNCTIONS[request.param]
    return function, function.encode(np.array([values]))


def test_elements_that_are_no_bits_are_refused(case):
    function, honest = case
    field, length = function.circuit.field, honest.shape[1]
    lies = [honest]
    for value in (2, 10**6, field.prime - 1, field.two_inverse, 1337):
        for place in sorted({0, length // 2, length - 1}):
            lie = honest.copy()
            lie[:, place] = field.elements([value])
            lies.append(lie)
    flipped = np.repeat(honest, length, axis=2)
    free = getattr(function.circuit, "free", 0)
    for place in range(length):
        one = field.small([1]) if not honest[:, place].any() else field.small([0])
        flipped[:, place, place] = one[:, 0]
    whole = np.concatenate(lies, axis=2)
    found = accepted(function.prio3(3), whole, 3)
    assert found[0]
    assert not found[1:].any()
    # One bit flipped is another value: accepted only where the whole is allowed again.
    if function.circuit.checks > function.circuit.calls and not free:
        assert not accepted(function.prio3(3), flipped).all()


@pytest.mark.parametrize("shares", [2, 5])
def test_what_is_made_of_bits_but_not_allowed_is_refused(shares):
    histogram = proved_histogram(4, 1)
    circuit = histogram.circuit
    rows = [[0, 0, 1, 0, 1], [1, 1, 0, 0, 0], [1, 1, 0, 0, 1], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0]]
    rows += [[2, -1, 0, 0, 1], [0, 0, 0, 0, 0]]
    measurement = circuit.field.elements(np.array(rows).T)
    found = accepted(histogram.prio3(shares), measurement)
    assert found.tolist() == [True, *[False] * 5, True]

    mean = ProvedMean(ReadingBounds(-3, 3, 1))
    k, a, b = (
        np.array(each) for each in zip((1, 5, 1), (0, 3, 3), (1, 6, 1), (0, 6, 0), strict=True)
    )
    found = accepted(mean.prio3(shares), mean.circuit.encode((k, a, b)))
    assert found.tolist() == [True, False, False, False]

    squares = ProvedVariance(ReadingBounds(-3, 3, 1), 4096)
    y = np.array([4, 5, -4, 4 + 2**32])
    values = [np.repeat(each, 4) for each in (np.array([1]), np.array([5]), np.array([1]))]
    found = accepted(squares.prio3(shares), squares.circuit.encode((*values, y)))
    assert found.tolist() == [True, False, False, False]

    vector = ProvedVector((Block(2, 3, 3),))
    fits = vector.encode(np.array([[1, 2], [0, 0], [3, 0]]))
    too_much = fits.copy()
    too_much[0, 0] = 1
    too_much[0, 1] = 1
    found = accepted(vector.prio3(shares), np.concatenate((fits, too_much), axis=2))
    assert found.tolist() == [True, True, True, False, False, True]


@pytest.mark.parametrize("shares", [2, 5])
@pytest.mark.parametrize("scale", [1, 2**35])
def test_a_norm_above_its_bound_is_refused_whatever_sum_of_squares_is_claimed(shares, scale):
    """Entries in their ranges, W = 5: (3, 4) and (-5, 0) pass with their own sum of squares alone,
    (5, 1) and (-4, -4) with none. `scale` takes it to Field128."""
    function = ProvedVector((Block(2, 5 * scale, 5 * scale, signed=True, l2=True),))
    (block,) = function.blocks
    assert function.circuit.field.limbs == (1 if scale == 1 else 2)
    claims = [each * scale**2 for each in (0, 9, 16, 24, 25)] + [25 * scale**2 - 1, 1]
    entries = [(3, 4), (-5, 0), (5, 1), (-4, -4), (0, 1)]
    bits, honest = [], []
    for values in entries:
        numbers = [block.entry.encode(np.array([value * scale + block.top])) for value in values]
        for claim in claims:
            weight = block.weight.encode(np.array([claim], dtype=object))
            bits.append(np.concatenate([*numbers, weight]))
            honest.append(claim == sum(value**2 for value in values) * scale**2)
    measurement = function.circuit.field.small(np.concatenate(bits, axis=1))
    found = accepted(function.prio3(shares), measurement, shares)
    assert found.tolist() == honest
    assert sum(honest) == 2 + (scale == 1)


def tampered(prio3: Prio3, given: Contributions, aggregator: int, place: int) -> Contributions:
    rows = given.input_shares[aggregator].copy()
    rows[:, place] ^= 1
    shares = list(given.input_shares)
    shares[aggregator] = rows
    return replace(given, input_shares=tuple(shares))


def test_one_flipped_bit_anywhere_is_refused(case):
    function, honest = case
    prio3 = function.prio3(3)
    nonces, given = split(prio3, honest, 3)
    size = function.circuit.field.element_bytes
    measurement = function.circuit.measurement_length * size
    proof = function.circuit.proof_length * size
    places = [(0, 0), (0, measurement - size), (0, measurement), (0, measurement + proof - size)]
    places += [(0, measurement + function.circuit.gadget.arity * size)]
    places += [(index, 0) for index in range(1, 3)]
    if prio3.joint:
        places += [(index, prio3.input_share_bytes(index) - 1) for index in range(3)]
    for aggregator, place in places:
        decided, _ = outcomes(prio3, nonces, tampered(prio3, given, aggregator, place))
        assert (decided != Outcome.ACCEPTED).all(), (aggregator, place)


def verified(
    prio3: Prio3, honest: np.ndarray, given: Contributions, **changes: Any
) -> list[Verification]:
    """`changes`: what the last aggregator is shown instead."""
    found = []
    for index, share in enumerate(given.input_shares):
        shown = {
            "verify_key": KEY,
            "context": CONTEXT,
            "nonces": honest,
            "public_shares": given.public_shares,
        }
        if index == prio3.shares - 1:
            shown |= changes
        found.append(prio3.verify(aggregator=index, input_shares=share, **shown))
    return found


def test_an_aggregator_that_is_shown_something_else_does_not_accept(case):
    function, honest = case
    prio3 = function.prio3(3)
    nonces, given = split(prio3, honest, 4)
    changes: list[dict[str, Any]] = [
        {"verify_key": bytes(32)},
        {"context": b"another round"},
        {"nonces": nonces ^ np.uint8(1)},
    ]
    for change in changes:
        found = verified(prio3, nonces, given, **change)
        decision = prio3.decide(CONTEXT, [each.verifier_shares for each in found])
        assert (prio3.outcomes(found[-1], decision) != Outcome.ACCEPTED).all(), change
    if prio3.joint:
        # Its own part it puts in itself; another's part makes another seed.
        public = given.public_shares.copy()
        public[:, 0] ^= 1
        found = verified(prio3, nonces, given, public_shares=public)
        decision = prio3.decide(CONTEXT, [each.verifier_shares for each in found])
        assert (prio3.outcomes(found[-1], decision) != Outcome.ACCEPTED).all()


def test_joint_randomness_and_proof_of_another_measurement_are_refused():
    function = proved_histogram(5, 1)
    prio3 = function.prio3(2)
    nonces, randomness = prio3.draw_randomness(SeededRandom(6), 1)
    honest = function.encode(np.array([[0, 1, 0, 0, 0]]))
    other = function.encode(np.array([[1, 0, 0, 0, 0]]))
    first, second = (prio3.shard(CONTEXT, each, nonces, randomness) for each in (honest, other))
    cut = function.circuit.measurement_length * 8
    mixed = np.concatenate(
        (first.input_shares[0][:, :cut], second.input_shares[0][:, cut:]), axis=1
    )
    given = replace(second, input_shares=(mixed, second.input_shares[1]))
    decided, _ = outcomes(prio3, nonces, given)
    assert (decided != Outcome.ACCEPTED).all()


def test_two_hundred_guesses_are_refused():
    """A false bin, 200 seeds of joint randomness searched: none passes."""
    function = proved_histogram(3, 1)
    lie = function.circuit.field.elements(np.repeat([[3], [-2], [0], [1]], 200, axis=1))
    assert not accepted(function.prio3(2), lie, 8).any()


def test_a_point_that_is_a_root_is_refused_though_its_shares_are_zero(case):
    function, honest = case
    plain = function.prio3(2)
    tag = plain._tag(CONTEXT, 5)  # the query randomness: usage 5

    def hash_rows(rows: np.ndarray, length: int) -> np.ndarray:
        found = plain.hash_rows(rows, length).copy()
        if rows[0, 2 : 2 + len(tag)].tobytes() == tag:
            found[:] = 0
            size = function.circuit.field.element_bytes
            found[:, ::size] = 1  # the point 1 is a root of every order
        return found

    prio3 = replace(plain, hash_rows=hash_rows)
    nonces, given = split(prio3, honest, 9)
    found = verified(prio3, nonces, given)
    assert not any(each.verifier_shares.any() or each.permitted.any() for each in found)
    if not prio3.joint:  # the decision alone would accept it
        assert prio3.decide(CONTEXT, [each.verifier_shares for each in found]).proved.all()
    decision = prio3.decide(CONTEXT, [each.verifier_shares for each in found])
    assert all(prio3.outcomes(each, decision).tolist() == [Outcome.POINT] for each in found)


def test_words_from_the_prime_on_are_told_at_acceptance_and_refused_later(case):
    function, honest = case
    prio3 = function.prio3(2)
    nonces, given = split(prio3, honest, 10)
    explicit = given.input_shares[0]
    assert prio3.in_field(0, explicit).all()
    assert prio3.in_field(1, given.input_shares[1]).all()
    size = function.circuit.field.element_bytes
    bad = explicit.copy()
    bad[:, :size] = 0xFF
    assert not prio3.in_field(0, bad).any()
    assert not prio3.in_field(0, explicit[:, :-1]).any()
    assert not prio3.in_field(1, explicit[:, :-1]).any()
    with pytest.raises(ValueError, match="not an element of the field"):
        prio3.verify(KEY, CONTEXT, 0, nonces, given.public_shares, bad)
    found = verified(prio3, nonces, given)
    shares = [each.verifier_shares.copy() for each in found]
    shares[1][:, :size] = 0xFF
    assert not prio3.decide(CONTEXT, shares).proved.any()
    shares[0][:] = 0  # nor is such a share taken for zeros, which alone would be accepted
    assert not prio3.decide(CONTEXT, shares).proved.any()


@pytest.mark.parametrize("count", [0, 2, pytest.param(300, marks=pytest.mark.slow)])
def test_any_number_at_once_is_the_same_as_one_by_one(case, count):
    function, honest = case
    prio3 = function.prio3(2)
    many = np.repeat(honest, count, axis=2)
    nonces, randomness = prio3.draw_randomness(SeededRandom(2), count)
    whole = prio3.shard(CONTEXT, many, nonces, randomness)
    decided, _ = outcomes(prio3, nonces, whole)
    assert decided.shape == (2, count)
    assert not decided.any()
    for place in {0, count // 2, count - 1} if count else ():
        one = slice(place, place + 1)
        alone = prio3.shard(CONTEXT, many[:, :, one], nonces[one], randomness[one])
        assert (alone.public_shares == whole.public_shares[one]).all()
        for index in range(2):
            assert (alone.input_shares[index] == whole.input_shares[index][one]).all()


def test_a_split_of_wrong_lengths_is_refused(case):
    function, honest = case
    prio3 = function.prio3(2)
    nonces, randomness = prio3.draw_randomness(SeededRandom(2), 1)
    for arguments in (
        (honest[:, 1:], nonces, randomness),
        (honest, nonces[:, 1:], randomness),
        (honest, nonces, randomness[:, 1:]),
        (honest, np.concatenate((nonces, nonces)), randomness),
    ):
        with pytest.raises(ValueError, match="wrong length"):
            prio3.shard(CONTEXT, *arguments)


def test_wrong_lengths_and_keys_are_refused():
    function = proved_count(1)
    prio3 = function.prio3(2)
    nonces, given = split(prio3, function.encode(np.array([[1]])), 1)
    share = given.input_shares[1]
    for arguments in (
        (KEY[:31], CONTEXT, 1, nonces, given.public_shares, share),
        (KEY, CONTEXT, 2, nonces, given.public_shares, share),
        (KEY, CONTEXT, -1, nonces, given.public_shares, share),
        (KEY, CONTEXT, 1, nonces[:, :15], given.public_shares, share),
        (KEY, CONTEXT, 1, nonces, share, share),
        (KEY, CONTEXT, 1, nonces, given.public_shares, share[:, :31]),
    ):
        with pytest.raises(ValueError):
            prio3.verify(*arguments)
    verifier = prio3.verify(KEY, CONTEXT, 1, nonces, given.public_shares, share).verifier_shares
    with pytest.raises(ValueError, match="of 2 aggregators"):
        prio3.decide(CONTEXT, [verifier])
    with pytest.raises(ValueError, match="wrong length"):
        prio3.decide(CONTEXT, [verifier, verifier[:, 1:]])
