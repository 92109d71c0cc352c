"""Seeds in the place of uniform pieces: what aggregators take, what they sum, what they refuse.

Spec: federated-counting, section 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.protocol.enrolment import PartyKind
from tacit.protocol.round.pieces import SHORT
from tests.aggregator.conftest import Alliance
from tests.aggregator.double import Federation, vector
from tests.aggregator.pieces.test_pieces import problem

LONG = SHORT + 1
SHARINGS = [
    pytest.param(3, {"sharing": "additive"}, 2, id="additive"),
    pytest.param(3, {"sharing": "shamir", "threshold": 2}, 1, id="shamir"),
]


@pytest.mark.parametrize(("count", "sharing", "seeds"), SHARINGS)
async def test_sums_of_seeds_are_those_of_words(
    alliance: Alliance, count: int, sharing: dict[str, Any], seeds: int
) -> None:
    async with alliance(count) as federation:
        host, (lone, late) = await federation.host("gateway", 70), await federation.lone(2)
        current = await federation.open(vector(LONG, aggregators=count, **sharing))
        due = [index < seeds for index in range(count)]
        assert [current.form.seeded(index, hosted=False) for index in range(count)] == due
        assert [current.form.seeded(index, hosted=True) for index in range(count)] == due
        values = np.random.default_rng(1).integers(-9, 9, (72, LONG))
        await current.contribute(host, values[:70])
        await current.contribute(lone, values[70:71])
        shares = current.split(values[71:])
        for index, share in enumerate(shares[:-1]):  # one aggregator never gets the last one's
            piece = current.piece(late, index, share[0])
            assert (await current.send(late, index, piece)).status_code == 201
            again = current.piece(late, index, share[0])
            assert (await current.send(late, index, again)).status_code == 200, "the same seed"
            other = current.piece(late, index, current.split(values[71:])[index][0])
            answer = await current.send(late, index, other)
            assert (answer.status_code, problem(answer)) == (409, "piece_conflict")
        total, manifest = await current.release()
        assert manifest.count == 71
        assert (total == values[:71].sum(axis=0)).all()


async def test_words_for_a_seed_and_a_seed_for_words(pair: Federation) -> None:
    """Whoever leaves the rule gets a refusal, and nothing is stored."""
    host, (lone,) = await pair.host("gateway", 70), await pair.lone(1)
    assert (lone.kind, host.kind) == (PartyKind.CURATOR, PartyKind.HOST)
    long = await pair.open(vector(LONG, aggregators=2))
    short = await pair.open(vector(SHORT, aggregators=2))
    seed, words = np.zeros(32, np.uint8), np.ones(LONG, np.uint64)
    wrong = [
        (long, 0, words),
        (long, 0, seed[:-1]),
        (long, 1, seed),
        (short, 0, seed),
        (short, 1, seed),
    ]
    for current, index, share in wrong:
        piece = current.piece(lone, index, share)
        answer = await current.send(lone, index, piece)
        assert (answer.status_code, problem(answer)) == (400, "wrong_length")
    batch = (70, SHORT)
    assert short.form.seeded(0, hosted=True)
    for index, share in ((0, np.zeros((1, 31), np.uint8)), (0, np.zeros((1, 33), np.uint8))):
        (body,) = short.batches(host, index, share)
        answer = await short.send_batch(host, index, body)
        assert (answer.status_code, problem(answer)) == (400, "wrong_length")
    (body,) = short.batches(host, 1, np.ones(batch, np.uint64))
    answer = await short.send_batch(host, 0, body)
    assert (answer.status_code, problem(answer)) == (400, "seal_broken")
    assert (await short.send_batch(host, 1, body)).status_code == 201
