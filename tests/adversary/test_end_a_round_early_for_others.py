"""A host wants a round closed before its neighbours have delivered: to leave them out of a sum.

A round is over once all invited have delivered or refused, so that nobody waits for a deadline.
A host's word is therefore worth no more than its own absence: it speaks for its curators alone,
and those of others are awaited by number, whatever it delivers beside its refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from coordinator.rounds import progress
from coordinator.rounds.progress import Delivered
from tacit.sets import pack
from tacit.wire import encode_binary
from tests.aggregator.double import Round, Sender
from tests.coordinator import conftest as coordinator
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, integers, problem, query

house = coordinator.house
DEADLINE_S = 3600


async def enrolled(it: House, name: str, count: int) -> tuple[Sender, str]:
    """A host of so many curators, and its token."""
    host = it.federation.sender(name, [f"{name}.{index}" for index in range(count)])
    answer = await it.send_enrolment(it.enrolment(host, await it.grant(host)))
    host.first = answer.json()["first"]
    return await it.federation.enrol(host), answer.json()["token"]


def refusal(members: Sequence[bool], **grounds: int) -> dict[str, Any]:
    """A party's word."""
    return {"members": encode_binary(pack(np.array(members, np.bool_))), "grounds": grounds}


async def refuse(it: House, opened: Round, token: str, body: dict[str, Any]) -> tuple[int, str]:
    """Say it; status, and the problem's name."""
    answer = await it.ask("PUT", f"/v1/rounds/{opened.id}/refusal", body, token)
    return (204, "") if answer.status_code == 204 else problem(answer)


async def asked(it: House, opened: Round) -> dict[str, Any]:
    answer = await it.ask("GET", f"/v1/rounds/{opened.id}/refusals")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def liar(it: House) -> tuple[Round, Sender]:
    """A host refuses for its five curators and delivers for all five; the other host has not yet.

    As many pieces are held as curators are still awaited.
    """
    mallory, token = await enrolled(it, "mallory", 5)
    honest, _ = await enrolled(it, "honest", 5)
    opened = await it.open(query(deadline_s=DEADLINE_S))
    assert await refuse(it, opened, token, refusal([True] * 5, policy=5)) == (204, "")
    await opened.contribute(mallory, integers(5))
    return opened, honest


async def test_a_host_that_refuses_and_delivers_closes_no_round(house: Houses) -> None:
    async with house() as it:
        opened, honest = await liar(it)
        for _ in range(2):  # the coordinator looked, by number, and looks again
            for wire in it.wires:
                await wire.heard("/missing")
        assert (await it.ask("GET", f"/v1/rounds/{opened.id}")).json()["state"] == "open"
        await opened.contribute(honest, integers(5))
        finished = await it.finish(opened)
        assert (finished["state"], finished["participants"]) == ("released", 10)


async def test_control_counted_without_numbers_the_honest_are_shut_out(
    house: Houses, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_number = progress.delivered

    async def by_count(*arguments: Any, **_: Any) -> Delivered:
        return await by_number(*arguments, expected=None, all_invited=True)

    monkeypatch.setattr(progress, "delivered", by_count)
    async with house() as it:
        opened, _ = await liar(it)
        finished = await it.finish(opened)
        assert (finished["state"], finished["participants"]) == ("released", 5)


async def test_a_round_ends_when_all_have_delivered_or_refused(house: Houses) -> None:
    async with house() as it:
        willing, _ = await enrolled(it, "willing", 4)
        mixed, mixed_token = await enrolled(it, "mixed", 3)
        _, token = await enrolled(it, "unwilling", 6)
        opened = await it.open(query(deadline_s=DEADLINE_S))
        await opened.contribute(willing, integers(4))
        assert await refuse(it, opened, token, refusal([True] * 6, policy=4, own=2)) == (204, "")
        # a refusal survives the coordinator
        await it.restart()
        assert (await it.ask("GET", f"/v1/rounds/{opened.id}")).json()["state"] == "open"
        two = refusal([True, False, True], descriptor=2)
        assert await refuse(it, opened, mixed_token, two) == (204, "")
        await opened.contribute(mixed, integers(3))
        finished = await it.finish(opened)
        assert (finished["state"], finished["participants"]) == ("released", 7)
        found = await asked(it, opened)
        assert found["refused"] == 8
        assert found["grounds"] == {"policy": 4, "descriptor": 2, "own": 2}


async def test_a_round_that_all_refuse_ends_at_once_and_says_so(house: Houses) -> None:
    async with house() as it:
        _, one = await enrolled(it, "one", 6)
        _, other = await enrolled(it, "other", 3)
        opened = await it.open(query(deadline_s=DEADLINE_S, min_participants=5))
        assert await refuse(it, opened, one, refusal([True] * 6, policy=6)) == (204, "")
        assert await refuse(it, opened, other, refusal([True] * 3, own=3)) == (204, "")
        finished = await it.finish(opened)
        assert finished["state"] == "aborted"
        assert finished["reason"] == (
            "Fewer participants than the query's minimum: 5 are needed, and 0 of those invited "
            "are left. 6 refused: their policies forbid it; 3 refused: their budget does not allow "
            "it, or they have answered for this window"
        )
        # nothing was frozen, so that nobody is charged for good
        assert [item["statement"]["frozen"] for item in finished["aborts"]] == ["never"] * 3
        assert (await asked(it, opened))["grounds"] == {"policy": 6, "descriptor": 0, "own": 3}


async def test_a_party_speaks_for_its_own_curators_once_and_in_time(house: Houses) -> None:
    async with house() as it:
        _, token = await enrolled(it, "host", 3)
        await enrolled(it, "other", 3)
        opened = await it.open(query(deadline_s=DEADLINE_S))
        bad = "bad_parameter"
        for body, expected in (
            (refusal([True] * 9, policy=9), (422, bad)),  # a bitmap beyond its run
            (refusal([False] * 3 + [True] * 3, policy=3), (422, bad)),  # stray bits
            (refusal([True] * 3, policy=2), (422, bad)),
            (refusal([True] * 3, policy=4), (422, bad)),
            (refusal([True] * 3), (422, bad)),
            (refusal([True] * 3, policy=0), (422, bad)),
            (refusal([True] * 3, budget_exceeded=3), (422, bad)),  # a ground that is not told
        ):
            assert await refuse(it, opened, token, body) == expected, body
        good = refusal([True, False, False], own=1)
        for scope in ("analyst", "operator", "aggregator", "device"):
            stranger = await it.token(scope)
            assert await refuse(it, opened, stranger, good) == (403, "scope_missing")
        assert (await asked(it, opened))["refused"] == 0
        assert await refuse(it, opened, token, good) == (204, "")
        assert await refuse(it, opened, token, good) == (204, "")
        changed = refusal([True, True, False], own=2)
        assert await refuse(it, opened, token, changed) == (409, "refusal_conflict")
        assert (await asked(it, opened))["refused"] == 1
        await asyncio.gather(it.ask("POST", f"/v1/rounds/{opened.id}/abort"))
        await it.finish(opened)
        _, late_token = await enrolled(it, "late", 1)
        assert await refuse(it, opened, late_token, refusal([True], own=1)) == (410, "round_closed")
        unknown = "01928374-5566-7788-99aa-bbccddeeff00"
        answer = await it.ask("PUT", f"/v1/rounds/{unknown}/refusal", good, token)
        assert problem(answer) == (404, "unknown_round")
        # nobody but the operator is told the grounds
        shown = await it.ask("GET", f"/v1/rounds/{opened.id}/refusals", None, late_token)
        assert problem(shown) == (403, "scope_missing")
