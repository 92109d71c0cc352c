"""The quorum that is taken keeps most curators, and enough noise."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

from coordinator.rounds.state_machine import _best, _common, quorum_size
from tacit import sets
from tacit.protocol.round.messages import AcceptedSet
from tacit.query.query import Query
from tests.coordinator.double import NOISY, query


def shamir(**changes: Any) -> Query:
    asked = query(sharing="shamir", aggregators=5, threshold=3, **changes)
    return Query.model_validate_json(json.dumps(asked))


def held(place: int, members: np.ndarray[Any, Any], noise: tuple[int, ...] = ()) -> AcceptedSet:
    return AcceptedSet(
        round="01928374-5566-7788-99aa-bbccddeeff00",
        descriptor_hash=bytes(32),
        aggregator=f"aggregator-{place}",
        members=sets.pack(members),
        contributions=noise,
    )


class Descriptor:
    """As much of a descriptor as the choice looks at."""

    def __init__(self, asked: Query, size: int) -> None:
        self.query, self.roster_size = asked, size


def choose(asked: Query, accepted: list[AcceptedSet], size: int) -> list[int]:
    descriptor: Any = Descriptor(asked, size)
    return _best(descriptor, accepted)


def test_all_that_hold_the_same() -> None:
    everyone = np.ones(9, np.bool_)
    assert choose(shamir(), [held(i, everyone) for i in range(5)], 9) == [0, 1, 2, 3, 4]


def test_one_without_the_others_noise_is_left_out() -> None:
    everyone = np.ones(9, np.bool_)
    noise = (0, 1, 2, 3)
    accepted = [held(i, everyone, noise if i else ()) for i in range(5)]
    assert choose(shamir(**NOISY), accepted, 9) == [1, 2, 3, 4]


def test_noise_comes_before_participants() -> None:
    everyone, few = np.ones(9, np.bool_), np.arange(9) < 3
    accepted = [held(i, everyone, ()) for i in range(2)]
    accepted += [held(i, few, (2, 3, 4)) for i in range(2, 5)]
    assert choose(shamir(**NOISY), accepted, 9) == [2, 3, 4]


@pytest.mark.parametrize("seed", range(4))
def test_no_other_quorum_keeps_more(seed: int) -> None:
    random, size = np.random.default_rng(seed), 70
    members = [random.random(size) < 0.7 for _ in range(5)]
    asked = shamir()
    accepted = [held(i, item) for i, item in enumerate(members)]
    best = choose(asked, accepted, size)
    kept = np.logical_and.reduce([members[i] for i in best]).sum()
    counts = _common(accepted, size)
    for count in range(quorum_size(asked), 6):
        for chosen in itertools.combinations(range(5), count):
            other = np.logical_and.reduce([members[i] for i in chosen]).sum()
            assert counts[sum(1 << i for i in chosen)] == other
            assert other <= kept
