"""Both fields against Python's integers.

The XOF against the draft's vector, and words that are passed over.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.validity.arithmetic import expand, turboshake128, xof_rows
from tacit.validity.field import FIELD64, FIELD128
from tests.tacit.validity.arithmetic import ARITHMETICS

RANDOM = 20_000


@pytest.fixture(params=ARITHMETICS)
def arithmetic(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=["field64", "field128"])
def field(arithmetic: Any, request: pytest.FixtureRequest) -> Any:
    return getattr(arithmetic, request.param)


def operands(prime: int) -> tuple[list[int], list[int]]:
    source = random.Random(7)
    edges = [0, 1, 2, prime - 1, prime - 2, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64, 2**64 - 1]
    edges += [2**64 - 28, 27 << 64, 28 << 64, 2**96, 2**127, (2**64 - 29) << 64, (2**64 - 1) << 32]
    edges += [((2**64 - 29) << 64) + 2**64 - 1, (28 << 64) + 1]  # their sum is 2^128
    edges = [edge % prime for edge in edges]
    left = [a for a in edges for _ in edges] + [source.randrange(prime) for _ in range(RANDOM)]
    right = [b for _ in edges for b in edges] + [source.randrange(prime) for _ in range(RANDOM)]
    return left, right


def test_operations_are_those_of_the_integers(field):
    p = field.prime
    left, right = operands(p)
    a, b = field.elements(left), field.elements(right)
    assert field.integers(a).tolist() == left
    together = list(zip(left, right, strict=True))
    assert field.integers(field.add(a, b)).tolist() == [(x + y) % p for x, y in together]
    assert field.integers(field.subtract(a, b)).tolist() == [(x - y) % p for x, y in together]
    assert field.integers(field.multiply(a, b)).tolist() == [x * y % p for x, y in together]
    assert field.integers(field.negate(a)).tolist() == [-x % p for x in left]
    assert int(field.integers(field.sum(a))) == sum(left) % p


def test_operations_broadcast_and_leave_their_arguments(field):
    left, right = operands(field.prime)
    a = field.elements(left[:60]).reshape(field.limbs, 3, 20)
    b = field.elements(right[:3])[..., np.newaxis]
    copies = a.copy(), b.copy()
    for operation in (field.add, field.subtract, field.multiply):
        found = operation(a, b)
        for row in range(3):
            whole = np.broadcast_to(b[:, row], (field.limbs, 20))
            assert (found[:, row] == operation(a[:, row], whole)).all()
    assert (a == copies[0]).all()
    assert (b == copies[1]).all()


def test_sums_of_many_large_elements(field):
    largest = field.elements([field.prime - 1])
    many = np.repeat(largest, 100_000, axis=1)
    assert int(field.integers(field.sum(many))) == -100_000 % field.prime


def test_inverses_and_powers(field):
    values = [0, 1, 2, field.prime - 1, 12345678901234567]
    a = field.elements(values)
    inverses = field.integers(field.inverse(a)).tolist()
    assert inverses == [pow(x, -1, field.prime) if x else 0 for x in values]
    powers = field.integers(field.power(a, 1000)).tolist()
    assert powers == [pow(x, 1000, field.prime) for x in values]
    assert field.integers(field.power(a, 0)).tolist() == [1] * len(values)
    with pytest.raises(ZeroDivisionError, match="zero has no inverse"):
        field.inverse_of(field.prime)


def test_roots_have_their_order(field):
    for exponent in range(field.two_adicity + 1):
        root = field.root(1 << exponent)
        assert pow(root, 1 << exponent, field.prime) == 1
        assert exponent == 0 or pow(root, 1 << (exponent - 1), field.prime) == field.prime - 1
    for order in (0, 3, 1 << (field.two_adicity + 1)):
        with pytest.raises(ValueError, match="no root of unity"):
            field.root(order)


def test_words_from_the_prime_on_are_refused_and_never_reduced(field):
    size, p = field.element_bytes, field.prime
    edges = [0, p - 1, p, p + 1, (1 << 8 * size) - 1]
    source = random.Random(3)
    edges += [source.randrange(p, 1 << 8 * size) for _ in range(400)]
    encoded = b"".join(value.to_bytes(size, "little") for value in edges)
    rows = np.frombuffer(encoded, np.uint8).reshape(len(edges), size)
    elements, valid = field.decode(rows)
    assert valid.tolist() == [value < p for value in edges]
    assert field.integers(elements)[0].tolist() == [v if v < p else 0 for v in edges]
    several = rows[[0, 1, 1, 2, 1, 0]].reshape(2, 3 * size)
    assert field.decode(several)[1].tolist() == [True, False]


def test_bytes_are_little_endian_and_row_by_row(field):
    elements = field.elements([[1, 2, 3], [field.prime - 1, 0, 256]])
    rows = field.encode(elements)
    size = field.element_bytes
    assert rows.shape == (3, 2 * size)
    first = (1).to_bytes(size, "little") + (field.prime - 1).to_bytes(size, "little")
    assert rows[0].tobytes() == first
    assert (field.decode(rows)[0] == elements).all()


VECTOR = Path(__file__).parents[4] / "shared" / "data" / "vdaf" / "XofTurboShake128.json"


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_the_draft_s_vector(arithmetic):
    if not VECTOR.is_file():
        pytest.skip("the shared data are not beside this clone")
    vector = json.loads(VECTOR.read_text())
    tag = bytes.fromhex(vector["dst"])
    seed, binder = (np.frombuffer(bytes.fromhex(vector[k]), np.uint8) for k in ("seed", "binder"))
    rows = xof_rows(tag, seed[np.newaxis], binder[np.newaxis])
    assert arithmetic.hash_rows(rows, 32).tobytes().hex() == vector["derived_seed"]
    elements = expand(arithmetic.hash_rows, FIELD128, rows, vector["length"])
    assert FIELD128.encode(elements).tobytes().hex() == vector["expanded_vec_field128"]


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("length", [0, 1, 7, 8, 167, 168, 169, 335, 336, 337, 1000])
@pytest.mark.parametrize("out", [1, 32, 168, 169, 400])
def test_rows_are_hashed_one_by_one_whatever_their_length(arithmetic, length, out):
    rows = np.arange(3 * length, dtype=np.uint8).reshape(3, length)
    found = arithmetic.hash_rows(rows, out)
    for place in range(3):
        assert (turboshake128(rows[place : place + 1], out) == found[place : place + 1]).all()


def test_words_from_the_prime_on_are_passed_over():
    """A hash that gives the words 1, 2^64 - 1, 2, 2^64 - 1, 3, .. to every second row."""

    def hash_rows(rows, length):
        words = np.arange(1, length // 8 + 1, dtype="<u8")
        bad = np.stack((words, np.full_like(words, 2**64 - 1)), axis=1).reshape(-1)[: len(words)]
        found = [bad if row[0] else words for row in rows]
        return np.stack(found).view(np.uint8)

    rows = np.array([[0], [1], [0]], np.uint8)
    wanted = list(range(1, 101))
    elements = FIELD64.integers(expand(hash_rows, FIELD64, rows, 100)).T.tolist()
    assert elements == [wanted] * 3
