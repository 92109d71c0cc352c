"""Stop: nothing is answered and nothing that was sealed is sent, until started again."""

from __future__ import annotations

from typing import Any

import pytest

from common.web.dependencies import part_of
from curator.participation.loop import Participation
from tests.curator.conftest import HOUR, OPEN, START, OpenSite, Site, query
from tests.curator.double import COORDINATOR, FakeWorld

Answer = dict[str, Any]


async def owner_of(s: Site, curator: str) -> dict[str, str]:
    """Headers of the curator's owner."""
    asked = {"scope": "curator", "subject": curator, "label": "owner"}
    made = await s.request("POST", "/v1/tokens", asked, 201)
    return {"Authorization": f"Bearer {made['token']}"}


async def stop(s: Site, path: str, *, stopped: bool = True, **kwargs: Any) -> Answer:
    answer: Answer = await s.request("PUT", path, {"stopped": stopped}, **kwargs)
    return answer


async def grounds(s: Site, curator: str) -> list[str]:
    return [each["name"] for each in (await s.history(curator))[0]["refused_because"]]


async def test_one_curator_of_a_host_stops_and_starts_again(s: Site) -> None:
    await s.policy(**OPEN)
    await s.enrol("gateway", ["g-1", "g-2", "g-3"])
    answer = await stop(s, "/v1/curators/g-2/stop")
    assert answer["stopped"]
    assert answer["by"]["operator"] is not None
    first = s.open(query())
    await s.take_part()
    members = s.world.members(first)
    assert len(members) == 2
    assert await grounds(s, "g-2") == ["stopped"]
    assert await grounds(s, "g-1") == []
    spent = (await s.get("/v1/curators/g-2/budget"))["units"]["curator"]["debits"]
    assert spent == []
    await s.reading("g-2", "1")  # readings are still collected
    assert not (await stop(s, "/v1/curators/g-2/stop", stopped=False))["stopped"]
    second = s.open(query(), start=START + HOUR)
    await s.take_part()
    assert len(s.world.members(second)) == 3


async def test_a_whole_process_stops_and_stays_so_over_a_restart(site: OpenSite) -> None:
    async with site() as s:
        await s.policy(**OPEN)
        await s.enrol("house-1")
        await s.enrol("gateway", ["g-1", "g-2"])
        await stop(s, "/v1/stop")
        since = (await s.get("/v1/stop"))["since"]
    async with site() as s:
        assert await s.get("/v1/stop") == {"stopped": True, "since": since}
        descriptor = s.open(query())
        await s.take_part()
        assert s.world.members(descriptor) == set()
        for name in ("house-1", "g-1", "g-2"):
            assert await grounds(s, name) == ["stopped"]
        assert (await s.get("/v1/curators/g-1/stop"))["by"]["process"] == since
        await stop(s, "/v1/stop", stopped=False)
        later = s.open(query(), start=START + HOUR)
        await s.take_part()
        assert len(s.world.members(later)) == 3


@pytest.mark.parametrize("party", ["lone", "host", "process"])
async def test_what_was_sealed_and_not_sent_is_never_sent(site: OpenSite, party: str) -> None:
    """Stopped after the debit, while no aggregator could be reached."""
    async with site(retry_s=0.01) as s:
        await s.policy(**OPEN)
        await s.enrol("house-1")
        await s.enrol("gateway", ["g-1", "g-2"])
        descriptor = s.open(query())
        participation = part_of(s.app, Participation)
        assert await participation.discover(COORDINATOR)
        path = {"lone": "/v1/curators/house-1/stop", "host": "/v1/curators/g-2/stop"}
        first = participation._first

        async def stopped_first(*args: Any) -> None:
            await stop(s, path.get(party, "/v1/stop"))
            await first(*args)

        participation._first = stopped_first  # type: ignore[method-assign]
        await participation.contribute_due()
        sent = {"lone": 2, "host": 1, "process": 0}[party]  # g-1 is in the same batch as g-2
        assert len(s.world.members(descriptor)) == sent
        name = "g-2" if party == "host" else "house-1"
        [item] = await s.history(name)
        assert item["state"] == "missed"
        assert item["problems"] == ["stopped"]
        debits = (await s.get(f"/v1/curators/{name}/budget"))["units"]["curator"]["debits"]
        assert len(debits) == 1  # it stays: someone may have got a piece
        await stop(s, path.get(party, "/v1/stop"), stopped=False)
        await participation.resume_deliveries()
        assert len(s.world.members(descriptor)) == sent


async def test_each_takes_back_only_its_own_stop(s: Site, world: FakeWorld) -> None:
    await s.policy(**OPEN)
    await s.enrol("gateway", ["g-1", "g-2"])
    owner = await owner_of(s, "g-1")
    path = "/v1/curators/g-1/stop"
    await stop(s, path, headers=owner)
    assert (await stop(s, path, stopped=False))["stopped"]  # the operator cannot undo it
    await stop(s, path)
    left = await stop(s, path, stopped=False, headers=owner)
    assert left["stopped"]
    assert left["by"]["owner"] is None
    descriptor = s.open(query())
    await s.take_part()
    assert len(world.members(descriptor)) == 1
    assert not (await stop(s, path, stopped=False))["stopped"]


async def test_an_owner_stops_nobody_else(s: Site) -> None:
    await s.enrol("gateway", ["g-1", "g-2"])
    headers = await owner_of(s, "g-1")
    for path in ("/v1/stop", "/v1/curators/g-2/stop", "/v1/curators/nobody/stop"):
        await stop(s, path, status=403, headers=headers)
        await s.request("GET", path, status=403, headers=headers)
    assert not (await s.get("/v1/curators/g-2/stop"))["stopped"]
    await stop(s, "/v1/curators/nobody/stop", status=404)
    for body in ({}, {"stopped": "yes"}, {"stopped": True, "more": 1}, []):
        await s.request("PUT", "/v1/stop", body, 422)
    assert not (await s.get("/v1/stop"))["stopped"]
