"""The XOF against the draft's vector, and words that are passed over."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tacit.validity.arithmetic import expand, turboshake128, xof_rows
from tacit.validity.field import FIELD64, FIELD128
from tests.tacit.validity.arithmetic import ARITHMETICS

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
