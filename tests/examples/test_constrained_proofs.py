"""The reference client's shares and proofs are the engine's, byte for byte, and are accepted."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.protocol.round.pieces import pack, proof_context, rows_of, unpack
from tacit.query.functions import Readings, encode
from tacit.query.proofs import proof_plan
from tacit.query.query import Query
from tacit.randomness import SeededRandom
from tacit.validity.functions import ProvedSum, ReadingBounds
from tacit.validity.prio3 import Outcome, Prio3
from tests.examples.client import load_client
from tests.examples.test_constrained_curator import QUERY

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "protocol.md"
CONTEXT = proof_context(bytes(range(32)))
KEY = bytes(range(100, 132))
SHARES = pytest.mark.parametrize("shares", [2, 3, 5])
BOUNDS = [
    *(ReadingBounds(0, top, 1) for top in range(1, 10)),
    ReadingBounds(0, 1, 3),
    ReadingBounds(-1, 0, 1),
    ReadingBounds(-3, 4, 2),
    ReadingBounds(2, 5, 1),
    ReadingBounds(0, 96, 1),
]


@pytest.fixture(scope="module")
def client() -> ModuleType:
    return load_client()


def both(
    client: ModuleType, prio3: Prio3, bounds: ReadingBounds, total: int, seed: int
) -> tuple[list[bytes], list[bytes]]:
    """The plaintexts of a contribution by the client and by the engine, from the same seeds."""
    nonces, randomness = prio3.draw_randomness(SeededRandom(seed), 1)
    measurement = ProvedSum(bounds).encode(np.array([[total]]))
    split = prio3.shard(CONTEXT, measurement, nonces, randomness)
    top, seeds = bounds.most - bounds.least, [bytes(each) for each in randomness.reshape(-1, 32)]
    made = client.proved_shares(total - bounds.least, top, CONTEXT, bytes(nonces[0]), seeds)
    return made, [bytes(rows[0]) for rows in pack(nonces, split)]


def accepted(prio3: Prio3, contributions: list[list[bytes]]) -> tuple[np.ndarray, list[int]]:
    """Which contributions all aggregators accept, and the total of these."""
    found = []
    for index, plains in enumerate(zip(*contributions, strict=True)):
        taken = unpack(prio3, index, rows_of(prio3, index, plains))
        row = (taken.nonces, taken.public_shares, taken.input_shares)
        found.append(prio3.verify(KEY, CONTEXT, index, *row))
    decision = prio3.decide(CONTEXT, [each.verifier_shares for each in found])
    outcomes = [prio3.outcomes(each, decision) for each in found]
    counted = np.all([each == Outcome.ACCEPTED for each in outcomes], axis=0)
    return counted, prio3.unshard_centred(
        [prio3.aggregate(each.output_shares, counted) for each in found]
    )


@SHARES
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_every_value_gives_the_engine_s_bytes_and_is_accepted(
    client: ModuleType, bounds: ReadingBounds, shares: int
) -> None:
    prio3, totals = ProvedSum(bounds).prio3(shares), range(bounds.least, bounds.most + 1)
    contributions = []
    for total in totals:
        made, wanted = both(client, prio3, bounds, total, seed=total - bounds.least)
        assert made == wanted
        contributions.append(made)
    counted, (found,) = accepted(prio3, contributions)
    assert counted.all()
    assert found == sum(totals) - len(totals) * bounds.least


@given(top=st.integers(1, 2**62 - 1), data=st.data(), shares=st.integers(2, 8))
def test_any_range(top: int, data: st.DataObject, shares: int) -> None:
    bounds = ReadingBounds(0, top, 1)
    total = data.draw(st.sampled_from([0, top]) | st.integers(0, top))
    made, wanted = both(load_client(), ProvedSum(bounds).prio3(shares), bounds, total, seed=7)
    assert made == wanted


def test_words_from_the_prime_on_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash of whose words a quarter is no field element, for both."""

    def hashed(row: bytes, length: int) -> bytes:
        words = np.frombuffer(hashlib.shake_128(row).digest(length), "<u8")
        return np.where(words % 4, words, np.uint64(2**64 - 2**32 + 1)).astype("<u8").tobytes()

    class Stream:
        def __init__(self, data: bytes, domain: int) -> None:
            self.data, self.place = data, 0
            assert domain == 1

        def read(self, length: int) -> bytes:
            self.place += length
            return hashed(self.data, self.place)[-length:]

    def hash_rows(rows: np.ndarray, length: int) -> np.ndarray:
        found = b"".join(hashed(bytes(row), length) for row in rows)
        return np.frombuffer(found, np.uint8).reshape(len(rows), length)

    client, bounds = load_client(), ReadingBounds(0, 1000, 1)
    monkeypatch.setattr(client, "TurboSHAKE128", SimpleNamespace(new=Stream))
    prio3 = replace(ProvedSum(bounds).prio3(3), hash_rows=hash_rows)
    made, wanted = both(client, prio3, bounds, 700, seed=1)
    assert made == wanted
    assert accepted(prio3, [made])[0].all()


@SHARES
@pytest.mark.parametrize(("top", "bits"), [(1, [2]), (5, [2, 0, 0]), (5, [0, 3, 1])])
def test_what_is_no_bit_is_refused(
    monkeypatch: pytest.MonkeyPatch, top: int, bits: list[int], shares: int
) -> None:
    client, bounds = load_client(), ReadingBounds(0, top, 1)
    monkeypatch.setattr(client, "bits_of", lambda *_: bits)
    prio3 = ProvedSum(bounds).prio3(shares)
    made, wanted = both(client, prio3, bounds, 1, seed=1)
    assert accepted(prio3, [made, wanted])[0].tolist() == [False, True]


@pytest.mark.parametrize("value", ["0", "0.0005", "0.0015", "2.25", "-1.5", "7", "-7"])
@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"function": "count"},
        {"function": "count", "max_readings": 4},
        {"bounds": ["-2", "3"], "max_readings": 3},
        {"bounds": ["1", "5"]},
        {"bounds": ["-5", "-1"], "resolution": "0.01"},
    ],
    ids=str,
)
def test_a_reading_becomes_the_engine_s_contribution(
    client: ModuleType, change: dict[str, Any], within: bool, value: str
) -> None:
    asked = {**QUERY, "validity": "proved", "epsilon": "1", **change}
    query = Query.model_validate_json(json.dumps(asked))
    window = {"start": "2025-11-03T18:00:00Z", "end": "2025-11-03T19:00:00Z"}
    moment = "2025-11-03T18:30:00Z" if within else window["end"]
    found, least, most = client.contribution({"query": asked, "window": window}, moment, value)

    number = int(client.Fraction(value) * 1000 * 10**9)  # nano-Wh
    there = np.zeros(int(within), np.int64)
    readings = Readings(1, there, there + number, there)
    assert [[found]] == encode(query, readings).values.tolist()
    function = proof_plan(query).of(1).function
    assert isinstance(function, ProvedSum)
    assert (most - least, (least,)) == (function.top, function.offset)


def test_the_example_of_the_page_is_the_engine_s(client: ModuleType) -> None:
    text = PAGE.read_text().split("## In a proved round")[1].split("\n## ")[0]
    (block,) = re.findall(r"```\n(descriptor hash .*?)```", text, re.DOTALL)
    # A line that begins with blanks goes on with the line before.
    lines = re.sub(r"\n +", " ", block.strip()).splitlines()
    shown = dict(re.split(r" {2,}", line, maxsplit=1) for line in lines)
    numbers = {name: [int(each) for each in re.findall(r"\d+", shown[name])] for name in NUMBERS}
    digest, nonce, helper, hiding = (
        bytes.fromhex(shown[name])
        for name in ("descriptor hash", "nonce", "seed of 1", "hiding seed")
    )
    prio3 = ProvedSum(ReadingBounds(0, 5, 1)).prio3(2)
    rows = [np.frombuffer(each, np.uint8)[np.newaxis] for each in (nonce, helper + hiding)]
    bits = prio3.circuit.field.elements(numbers["bits"])[..., np.newaxis]
    split = prio3.shard(proof_context(digest), bits, *rows)
    plains = [bytes(each[0]) for each in pack(rows[0], split)]
    assert [bytes.fromhex(shown[f"plaintext {index}"]) for index in range(2)] == plains

    words = np.frombuffer(plains[0][16:], "<u8").tolist()
    shares = numbers["bits of 1"] + numbers["proof of 1"]
    total = [(own + other) % client.PRIME for own, other in zip(words, shares, strict=True)]
    assert total == numbers["bits"] + numbers["proof"]
    assert numbers["bits"] == client.bits_of(4, 5)
    wire = client.twice_as_many([*numbers["hiding"], *numbers["bits"]])
    assert wire == numbers["wire"]
    assert numbers["proof"] == [*numbers["hiding"], *((x * x - x) % client.PRIME for x in wire[:7])]


NUMBERS = ("bits", "hiding", "wire", "proof", "bits of 1", "proof of 1")
