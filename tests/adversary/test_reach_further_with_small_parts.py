"""A host moves a proved sum further than the report says, by parts of its own choice.

Noise of curators is proved to lie within T(n'), and n' parts of one curator may each have T(1): far
more than one part of n' curators. The report counts a part for each segment of roster numbers, so a
host may not send more; the coordinator's account of a round counts those that came.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.query.proofs import proof_plan
from tacit.query.query import Query
from tacit.report.validity import validity_statement
from tests.aggregator.double import Federation, Sender
from tests.aggregator.pieces.test_pieces import problem
from tests.aggregator.proved import ProvedRound, keyed, proved

CURATORS = 12
NOISY: dict[str, Any] = {
    "mechanism": "distributed",
    "epsilon": "1",
    "layer": "curator",
    "min_participants": 10,
    "n_max": 100,
    "aggregators": 2,
}


def largest(current: ProvedRound) -> list[bytearray]:
    """One curator's largest value and largest noise, with the proof that holds for both."""
    function = proof_plan(current.descriptor.query).of(1).function
    (reach,) = function.influence
    elements = function.encode(np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64))
    elements[:] = 1  # every bit set: the top of the range
    assert reach > 0
    return current.shared(elements)


def stated(asked: Query) -> int:
    """By how much a host of these curators moves the sum at most, as the preview states."""
    (item,) = validity_statement(asked, [[CURATORS]]).influence
    assert item.host is not None
    return int(item.host.coordinate)


async def test_a_host_has_one_part_in_a_segment(pair: Federation) -> None:
    host, lone = await pair.host("gateway", CURATORS), await pair.lone(10)
    current = await keyed(pair, proved(**NOISY))
    for sender in lone:
        await current.prove(sender, np.array([0]))
    for place in range(CURATORS):
        present = np.arange(CURATORS) == place
        for index, plain in enumerate(largest(current)):
            numbers = {0: 201} if place == 0 else {place: 400, 0: 409}
            for part, status in numbers.items():
                body = current.part(host, index, bytes(plain), present=present, part=part)
                answer = await current.send_batch(host, index, body)
                assert answer.status_code == status
                assert status != 400 or problem(answer) == "wrong_round"
    total, manifest = await current.proved_release()
    assert manifest.count == 11
    assert abs(int(total[0])) <= stated(current.descriptor.query)


async def test_parts_of_one_curator_each_would_reach_further(pair: Federation) -> None:
    """The control: as many lone curators, each with its largest value and noise."""
    senders: list[Sender] = await pair.lone(CURATORS)
    current = await keyed(pair, proved(**NOISY))
    for sender in senders:
        await current.deliver(sender, largest(current))
    total, _ = await current.proved_release()
    assert abs(int(total[0])) > 2 * stated(current.descriptor.query)
