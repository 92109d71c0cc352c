"""A coordinator opens a sum, calls the round aborted, and asks the same of the same readings.

A policy without `allow_repeats` answers a query once for each window. Whether a round ended without
a sum is not the coordinator's to say: only its aggregators can sign that they froze nothing, and so
many of them that no quorum can have opened a sum.
"""

from __future__ import annotations

from typing import Any

import pytest

from common.web.dependencies import part_of
from curator.participation.loop import Participation
from tacit.crypto.signing import Identity
from tacit.protocol.round.descriptor import ABORT_LABEL, AbortStatement, Frozen, RoundDescriptor
from tests.curator.conftest import NOISY, Site, query
from tests.curator.double import FakeWorld
from tests.curator.test_policy import LOCAL

AVERAGED: dict[str, Any] = {
    **NOISY,
    "epsilon": "0.001",
    "layer": "curator",
    "collusion": {"curators": 1, "aggregators": 1},
}


def call_aborted(
    world: FakeWorld, descriptor: RoundDescriptor, *signers: Identity | None, **changes: Any
) -> None:
    """What the coordinator says of a round, with statements in the names of its aggregators."""
    aborts = []
    for item, signer in zip(world.aggregators, signers, strict=False):
        values: dict[str, Any] = {
            "round": descriptor.round,
            "descriptor_hash": descriptor.digest(),
            "aggregator": item.id,
            "frozen": Frozen.NEVER,
            "reason": "no quorum",
        }
        signed = (signer or item.identity).sign(
            ABORT_LABEL, AbortStatement(**{**values, **changes})
        )
        aborts.append(signed.model_dump(mode="json"))
    world.states[descriptor.round] = {"state": "aborted", "aborts": aborts}


FORGED = Identity.generate()


@pytest.mark.parametrize(
    ("signers", "changes"),
    [((None,), {}), ((FORGED, FORGED, FORGED), {})],
    ids=["one too few", "forged"],
)
async def test_a_round_is_not_aborted_because_the_coordinator_says_so(
    s: Site, world: FakeWorld, signers: tuple[Identity | None, ...], changes: dict[str, Any]
) -> None:
    await s.policy()
    await s.enrol("house")
    await s.reading("house", "3.2")
    first = s.open(query(AVERAGED))
    await s.take_part()
    call_aborted(world, first, *signers, **changes)
    await part_of(s.app, Participation).settle()
    second = s.open(query(AVERAGED))
    await s.take_part()
    assert not world.members(second)
    (ground,) = (await s.history("house"))[0]["refused_because"]
    assert (ground["name"], ground["figures"]) == ("window_contributed", {"round": first.round})
    # Control: where repeats are allowed, the same readings are hidden by another noise, and the
    # two can be averaged. (Two draws of scale 20 million units: equal once in ten million.)
    await s.policy(allow_repeats=True)
    third = s.open(query(AVERAGED))
    await s.take_part()
    assert world.total(third)[0] != world.total(first)[0]


async def test_a_round_that_its_aggregators_never_froze_is_asked_again(
    s: Site, world: FakeWorld
) -> None:
    await s.policy()
    await s.enrol("house")
    first = s.open(query(AVERAGED))
    await s.take_part()
    call_aborted(world, first, None, None)
    second = s.open(query(AVERAGED))
    await s.take_part()
    assert world.members(second) == {0}
    assert (await s.get("/v1/curators/house/budget"))["units"]["curator"]["lifetime"][
        "epsilon"
    ] == "0.001"


async def test_a_local_round_is_never_asked_again(s: Site, world: FakeWorld) -> None:
    """Its one aggregator saw the noisy value as soon as it arrived."""
    await s.policy()
    await s.enrol("house")
    first = s.open(query(LOCAL))
    await s.take_part()
    call_aborted(world, first, None)
    second = s.open(query(LOCAL))
    await s.take_part()
    assert not world.members(second)
