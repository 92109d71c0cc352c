"""Vectors of our own circuits, made once: what a deployed curator sends stays readable.

Each digest is SHA-256 over public share, input shares and verifier shares in their order, of one
contribution under the seeds 0, 1, 2, ..
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tacit.validity.functions import (
    ProvedFunction,
    ProvedMean,
    ProvedVariance,
    ProvedVector,
    ReadingBounds,
    proved_histogram,
)
from tacit.validity.prio3 import Outcome
from tacit.validity.vectors import Block
from tests.tacit.validity.arithmetic import ARITHMETICS
from tests.tacit.validity.rounds import CONTEXT, KEY


def made(name: str, arithmetic) -> tuple[ProvedFunction, list[int], list[int] | None]:
    centred, several = ReadingBounds(-3, 3, 1), ReadingBounds(-3, 3, 4)
    blocks = (Block(2, 3, 4), Block(3, 2, 3, signed=True))
    return {
        "mean": (ProvedMean(centred, (), arithmetic), [2, 1], None),
        "mean with noise": (ProvedMean(several, (9, 7), arithmetic), [-5, 3], [-9, 4]),
        "variance, one": (ProvedVariance(centred, 4096, (), arithmetic), [-2, 4, 1], None),
        "variance, one, with noise": (
            ProvedVariance(centred, 4096, (9, 8, 7), arithmetic),
            [-2, 4, 1],
            [5, -8, 0],
        ),
        "variance": (ProvedVariance(several, 4096, (), arithmetic), [1, 5, 2], None),
        "variance, Field128": (
            ProvedVariance(several, 1 << 31, (9, 8, 7), arithmetic),
            [1, 5, 2],
            [1, 2, 3],
        ),
        "histogram": (proved_histogram(5, 2, (), arithmetic), [0, 1, 0, 1, 0], None),
        "vector with noise": (
            ProvedVector(blocks, (1, 2, 3, 4, 5), arithmetic),
            [3, 1, -2, 0, 1],
            [-1, 2, 0, 4, -5],
        ),
        "vector, L2": (
            ProvedVector((Block(3, 7, 9, signed=True, l2=True), Block(1, 4, 4)), (), arithmetic),
            [4, -6, 2, 3],
            None,
        ),
        "vector, L2, of a part": (
            ProvedVector(
                (Block(2, 14, 18, l2=True),), (), arithmetic, (Block(2, 2**33, 2**34, l2=True),)
            ),
            [10, 11],
            None,
        ),
        "vector, L2, with noise": (
            ProvedVector(
                (Block(2, 3, 4, l2=True), Block(3, 2, 3, signed=True, l2=True)),
                (1, 2, 3, 4, 5),
                arithmetic,
            ),
            [3, 1, -2, 0, 2],
            [-1, 2, 0, 4, -5],
        ),
    }[name]


FROZEN = {
    "mean": "b1051d258bdd558c5324e92ae6225e6d71d2d3f5f3d951b7a4f60028e1e874b3",
    "mean with noise": "38e8150016d2af5dec78a24345ce2e6fac85b4486cd11942b990b139e28af8e0",
    "variance, one": "55d36ccab3ee0a53621e0719e9352cfebdfbb420a530aabb1a094529afbd22d8",
    "variance, one, with noise": "c2f53cefd03e75f7c865df121319a89181f1f074dab31e18d37b158d3b080d79",
    "variance": "7773275f7582cfbbc02cc5f8a8438179d037d3f02b996bf4cb41af3ca8a48fe8",
    "variance, Field128": "a815563ce9f8688728d0d68fa7a2609cded9d38b91f214afea398fbbc450da51",
    "histogram": "3860f790428e98d3932871ee2e89510b68eca03fcea8532723d55a8a4254eb1a",
    "vector with noise": "b104c95dc07a14d49989724ccfa1aa3f9ec61744bfb18b23b56e8e8ceac3c214",
    "vector, L2, with noise": "3c0df331eb8574946bf3f5c820a4e718974469c2340b046b76321fc551954913",
    "vector, L2, of a part": "efa3f111889bf574f98e1181da5eb73498684c612e40be7347bb32c965858e3a",
    "vector, L2": "0c2dc9c4ff530c10a7a7a95997fe2175107efba26a6d43017ddf7e300d413d53",
}


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("name", FROZEN)
def test_the_bytes_of_our_circuits_stay(name, arithmetic):
    function, values, noise = made(name, arithmetic)
    prio3 = function.prio3(3)
    nonces = np.arange(16, dtype=np.uint8)[np.newaxis]
    randomness = np.arange(prio3.randomness_bytes, dtype=np.uint8)[np.newaxis]
    drawn = None if noise is None else np.array([noise])
    measurement = function.encode(np.array([values]), drawn)
    split = prio3.shard(CONTEXT, measurement, nonces, randomness)
    found = [
        prio3.verify(KEY, CONTEXT, index, nonces, split.public_shares, share)
        for index, share in enumerate(split.input_shares)
    ]
    shares = [each.verifier_shares for each in found]
    decision = prio3.decide(CONTEXT, shares)
    assert all(prio3.outcomes(each, decision) == [Outcome.ACCEPTED] for each in found)
    whole = b"".join(rows.tobytes() for rows in (split.public_shares, *split.input_shares, *shares))
    assert hashlib.sha256(whole).hexdigest() == FROZEN[name]
