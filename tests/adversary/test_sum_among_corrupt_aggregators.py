"""A coordinator opens a round among the aggregators that it has corrupted; the others never hear.

Two of three aggregators are corrupt. A round of those two alone satisfies every rule of a round and
names an epsilon, yet the two open each curator's contribution, and know all the noise. A curator's
policy says how many aggregators a round has at least, which ones, and how many of them its figure
must assume to be corrupt. Unless its owner lowers it: all those of its join token.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.curator.conftest import NOISY, Site, query
from tests.curator.double import FakeWorld

TWO: dict[str, Any] = {**NOISY, "aggregators": 2, "collusion": {"curators": 0, "aggregators": 1}}


async def victim(s: Site) -> None:
    """A curator with one reading, under the policy of a fresh service."""
    await s.enrol("victim")
    await s.reading("victim", "3.217")


async def ground(s: Site) -> dict[str, Any]:
    """Why the victim refused the last round, in its owner's statement."""
    (found,) = (await s.history("victim"))[0]["refused_because"]
    assert found["name"] == "policy_refused"
    return dict(found["figures"])


def fingerprint(world: FakeWorld, index: int) -> str:
    return world.aggregators[index].identity.fingerprint.hex()


async def test_two_of_three_open_nothing(s: Site, world: FakeWorld) -> None:
    await victim(s)
    descriptor = s.open(query(TWO))
    await s.take_part()
    assert world.members(descriptor) == set()
    assert await ground(s) == {"minimum": 3, "asked": 2}
    # Control: an owner who is content with two shows its reading to these two, and a ledger
    # that says epsilon 1: true only while one of them is honest, as it says, too.
    await s.policy(min_aggregators=2)
    descriptor = s.open(query(TWO, name="again"))
    await s.take_part()
    assert world.result(descriptor) == {"sum": "3.217"}
    declared = (await s.history("victim"))[0]["declared"]
    assert (declared["status"], declared["epsilon"]) == ("verified", "1")
    assert declared["assumes"] == (
        "at most 1 of the aggregators aggregator-0, aggregator-1 and 0 other curators collude"
    )
    (debit,) = (await s.get("/v1/curators/victim/budget"))["units"]["curator"]["debits"]
    assert (debit["round"], debit["assumes"]) == (descriptor.round, declared["assumes"])


async def test_a_round_without_the_aggregator_that_the_owner_trusts(
    s: Site, world: FakeWorld
) -> None:
    await victim(s)
    await s.policy(min_aggregators=2, required_aggregators=[fingerprint(world, 2)])
    descriptor = s.open(query(TWO))
    await s.take_part()
    assert world.members(descriptor) == set()
    assert await ground(s) == {"missing": [fingerprint(world, 2)]}
    # Control: it is among three, and in a round of two others of which one is required.
    whole = s.open(query(NOISY))
    await s.take_part()
    assert world.members(whole) == {0}
    await s.policy(min_aggregators=2, required_aggregators=[fingerprint(world, 1)])
    descriptor = s.open(query(TWO, name="again"))
    await s.take_part()
    assert world.members(descriptor) == {0}


@pytest.mark.parametrize(
    ("who", "collusion", "least"),
    [
        ("aggregators", {"curators": 0, "aggregators": 1}, 2),
        ("curators", {"curators": 3, "aggregators": 2}, 4),
    ],
)
async def test_a_figure_that_assumes_too_little(
    s: Site, world: FakeWorld, who: str, collusion: dict[str, int], least: int
) -> None:
    """Three aggregators, and noise that is enough only while most of them are honest."""
    await victim(s)
    asked = query(NOISY, collusion=collusion, min_participants=5)
    await s.policy(min_collusion={who: least})
    descriptor = s.open(asked)
    await s.take_part()
    assert world.members(descriptor) == set()
    assert await ground(s) == {"minimum": least, "asked": collusion[who]}
    # Control: one that an owner may accept.
    await s.policy(min_collusion={who: collusion[who]})
    descriptor = s.open(asked)
    await s.take_part()
    assert world.members(descriptor) == {0}
