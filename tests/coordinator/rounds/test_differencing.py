"""The differencing guard of the coordinator: before a round is opened, and before it is frozen."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import httpx
import numpy as np
import pytest

from tacit.wire import format_instant
from tests.aggregator.double import Round, Sender
from tests.coordinator.conftest import Houses
from tests.coordinator.double import NOISY, WINDOW, House, integers, problem, query
from tests.coordinator.registry.test_groups import declare, deliver, named

LATER = {"start": WINDOW["end"], "end": "2026-01-01T01:00:00Z"}


def present(count: int, *absent: int) -> np.ndarray:
    bits = np.ones(count, np.bool_)
    bits[list(absent)] = False
    return bits


async def finish(it: House, opened: Round, host: Sender, *absent: int) -> dict[str, Any]:
    """All curators of a host but some deliver, and the round is closed; how it ends."""
    bits = present(len(host.curators), *absent)
    await deliver(opened, host, integers(bits.size), bits)
    return await it.finish(opened, by="close")


async def opening(it: House, window: Any = WINDOW, **asked: Any) -> httpx.Response:
    created = await it.ask("POST", "/v1/queries", query(**asked))
    assert created.status_code in (200, 201), created.text
    return await it.ask("POST", "/v1/rounds", {"query_id": created.json()["id"], "window": window})


def hours(number: int, start_minute: int = 0) -> dict[str, str]:
    """An hour far from those with other numbers: what happens in one does not touch another."""
    start = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(days=number, minutes=start_minute)
    return {"start": format_instant(start), "end": format_instant(start + timedelta(hours=1))}


MEMBERS = {
    "the same": ((3,), (3,), False),
    "one more": ((3,), (), True),
    "another one": ((3,), (4,), True),  # two differ, and the minimum is three
    "three fewer": ((), (3, 4, 5), False),
}


async def test_two_rounds_of_one_family(house: Houses) -> None:
    family = {"family": "net", "family_minimum": 3}
    async with house(3) as it:
        host = await it.host("gateway", 10)
        for number, (case, (first, second, refused)) in enumerate(MEMBERS.items()):
            # Both are open before either is frozen: nothing could be known at the opening.
            window = hours(number)
            one = await it.open(query(**family), window=window)
            two = await it.open(query(name="other", **family), window=window)
            assert (await finish(it, one, host, *first))["state"] == "released"
            found = await finish(it, two, host, *second)
            assert (found["state"] == "aborted") == refused, (case, found)
            if refused:
                assert one.id in found["reason"]
                assert "minimum is 3" in found["reason"]
                assert len(found["aborts"]) == 3
                assert {item["statement"]["frozen"] for item in found["aborts"]} == {"yes"}
                answer = await it.ask("GET", f"/v1/rounds/{two.id}/result")
                assert problem(answer) == (409, "not_released")


async def test_sums_without_a_family_go_on_where_curators_drop_out(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 10)
        family = {"family": "net", "family_minimum": 3}
        for number, asked in enumerate((family, {}, {})):
            opened = await it.open(query(**NOISY, name=f"sum-{number}", **asked), window=hours(1))
            found = await finish(it, opened, host, 0, 2 * number + 1, 2 * number + 2)
            assert found["state"] == "released", found


STEP = {
    **NOISY,
    "name": f"kmeans:1:{'0' * 64}",
    "job": "j",
    "function": "vector_sum",
    "dimension": 1,
    "coordinates": "values",
}
COMPARED: list[tuple[dict[str, Any], dict[str, Any], int, bool]] = [
    # one query, another, minutes between their hours, whether one fewer is refused; every rule of
    # what is compared with what: tests/tacit/protocol
    ({**NOISY, "family": "a"}, {**NOISY, "name": "none"}, 59, True),
    ({**NOISY, "family": "a"}, {**NOISY, "family": "b"}, 60, False),
    (NOISY, NOISY, 0, True),
    (NOISY, {**NOISY, "name": "other"}, 0, False),
    (STEP, STEP, 0, False),
    ({"family": "a"}, {**NOISY, "name": "none"}, 0, True),
]


@pytest.mark.slow
async def test_what_is_compared(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 6)
        for number, (one, other, minutes, refused) in enumerate(COMPARED):
            first = await it.open(query(**one), window=hours(number))
            second = await it.open(query(**other), window=hours(number, minutes))
            assert (await finish(it, first, host))["state"] == "released"
            found = await finish(it, second, host, 3)
            assert (found["state"] == "aborted") == refused, (number, found)


@pytest.mark.slow
async def test_a_round_that_released_nothing_is_not_compared(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 6)
        rounds = [await it.open(query(name=f"q{number}")) for number in range(3)]
        wire = it.wires[1]
        wire.fault = lambda method, path: "request" if path.endswith("commitment") else None
        await deliver(rounds[0], host, integers(6), present(6, 1))
        await it.ask("POST", f"/v1/rounds/{rounds[0].id}/close")
        await it.wires[1].heard("commitment")
        # It is frozen, and may yet be opened: so long it counts.
        found = await finish(it, rounds[1], host)
        assert found["state"] == "aborted"
        assert rounds[0].id in found["reason"]
        answer = await it.ask("POST", f"/v1/rounds/{rounds[0].id}/abort")
        assert answer.json()["state"] == "aborted", answer.text
        wire.fault = lambda _method, _path: None
        assert (await finish(it, rounds[2], host))["state"] == "released"


async def test_substation_and_feeders(house: Houses) -> None:
    family = {"family": "net", "family_minimum": 4, **NOISY}
    async with house(3) as it:
        host = await it.host("gateway", 20)
        everyone = named("gateway", *range(20))
        await declare(it, "substation", everyone)
        await declare(it, "feeder-1", everyone[:8], parent="substation")
        await declare(it, "feeder-2", everyone[8:18], parent="substation")  # two hang on neither
        for number, group in enumerate(("feeder-1", "feeder-2")):
            opened = await it.open(query(name=group, group=group, **family))
            inside = np.zeros(20, np.bool_)
            inside[8 * number : 8 + 10 * number] = True
            await deliver(opened, host, integers(20), inside)
            assert (await it.finish(opened))["state"] == "released"
        refused = await opening(it, group="substation", **family)
        assert problem(refused) == (409, "difference_refused")
        assert len(refused.json()["rounds"]) == 2
        # Another family, or none, changes nothing; another window does.
        for other in ({"family": "own"}, {"family": None, "family_minimum": None}):
            refused = await opening(it, group="substation", **{**family, **other})
            assert problem(refused) == (409, "difference_refused")
        assert (await opening(it, LATER, group="substation", **family)).is_success


async def test_a_refused_opening_leaves_no_trace(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 6)
        opened = await it.open(query(family="net", **NOISY))
        assert (await finish(it, opened, host, 2))["state"] == "released"
        before = (await it.ask("GET", "/v1/budget/curators/gateway.2")).json()
        rounds = (await it.ask("GET", "/v1/rounds")).json()
        answer = await opening(it, name="again", family="net", **NOISY)
        assert problem(answer) == (409, "difference_refused")
        assert answer.json()["rounds"] == [opened.id]
        assert answer.json()["minimum"] == 2
        assert "gateway" not in answer.text
        assert (await it.ask("GET", "/v1/budget/curators/gateway.2")).json() == before
        assert (await it.ask("GET", "/v1/rounds")).json() == rounds


async def test_sets_are_known_after_a_restart(house: Houses, database_url: str) -> None:
    async with house(3, database_url) as it:
        host = await it.host("gateway", 6)
        first, second = await it.open(query(name="a")), await it.open(query(name="b"))
        assert (await finish(it, first, host))["state"] == "released"
        await it.restart()
        assert (await finish(it, second, host, 1))["state"] == "aborted"


@pytest.mark.slow
async def test_of_two_that_freeze_at_once_one_is_released(house: Houses, database_url: str) -> None:
    async with house(3, database_url) as it:
        host = await it.host("gateway", 6)
        rounds = [await it.open(query(name=f"q{number}")) for number in range(4)]
        for number, opened in enumerate(rounds):
            await deliver(opened, host, integers(6), present(6, *range(number)))
        await asyncio.gather(
            *(it.ask("POST", f"/v1/rounds/{opened.id}/close") for opened in rounds)
        )
        ends = [(await it.finish(opened))["state"] for opened in rounds]
        # Neighbours differ in one: of two neighbours never both.
        assert "released" in ends
        assert not any(pair == ("released", "released") for pair in pairwise(ends))
