"""Aggregators on two hosts with TLS between them. The link is cut in the middle of a round, comes
back, or is slow: rounds end with the whole sum or without one, none hangs, and nothing is lost."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.two_hosts import Link, missing, two_hosts
from tests.e2e.world import World

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

READINGS = {"a": "1", "b": "2", "c": "3.5"}
SUM = sum(map(Decimal, READINGS.values()))
QUERY: dict[str, Any] = {
    "function": "sum",
    "unit": "kWh",
    "bounds": ["0", "10"],
    "max_readings": 1,
    "resolution": "0.001",
    "mechanism": "exact",
    "rule": {"min_participants": 2},
    "min_participants": 3,
    "n_max": 100,
    "deadline_s": 10,
    "aggregators": 3,
}
ADDITIVE = {**QUERY, "sharing": "additive"}
SHAMIR = {**QUERY, "sharing": "shamir", "threshold": 2}
Hosts = tuple[World, Link]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hosts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hosts]:
    directory = tmp_path_factory.mktemp("hosts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_TLS_AUTHORITY", str(directory / "tls" / "authority.pem"))
        async with two_hosts(directory) as (it, link):
            await it.enrol("gateway", list(READINGS))
            await it.allow_everything(allow_repeats=True)
            await it.give(READINGS)
            yield it, link


async def ended(it: World, query: dict[str, Any], name: str) -> tuple[str, dict[str, Any]]:
    round_id = await it.open({**query, "name": name})
    return round_id, await it.finish(round_id)


async def is_whole(it: World, query: dict[str, Any], name: str) -> None:
    """The next round has all curators: nothing before it cost one."""
    round_id, found = await ended(it, {**query, "deadline_s": 60}, name)
    assert found["state"] == "released", found
    assert Decimal((await it.result(round_id))["result"]["sum"]) == SUM


async def opened_in_a_cut(it: World, link: Link, query: dict[str, Any], name: str) -> str:
    """A round whose curators answer only once the link is cut."""
    curator = it.running.processes["curator"]
    curator.send_signal(signal.SIGSTOP)
    try:
        round_id = await it.open({**query, "name": name})
        link.cut()
    finally:
        curator.send_signal(signal.SIGCONT)
    return round_id


async def until_seen(it: World, said: str) -> None:
    """Wait until the coordinator's readiness says this of the aggregators."""

    def look() -> str:
        with it.real.coordinator.client() as client:
            return str(client.get("/readyz")["checks"]["aggregators"])

    async with asyncio.timeout(300):
        while not (await it.call(look)).startswith(said):
            await asyncio.sleep(0.5)


async def test_a_round_over_the_link(hosts: Hosts) -> None:
    it, _ = hosts
    await is_whole(it, ADDITIVE, "whole")
    [north] = [each for each in it.real.aggregators if each.id == "aggregator-3"]
    assert north.url.startswith("https://10.")


async def test_a_cut_in_the_middle_of_a_round_ends_it_and_costs_nothing_later(
    hosts: Hosts,
) -> None:
    it, link = hosts
    round_id = await opened_in_a_cut(it, link, ADDITIVE, "cut")
    try:
        found = await it.finish(round_id)
        assert found["state"] == "aborted", found
        assert "aggregator-3" in found["reason"]
        await until_seen(it, "aggregator-3 has not answered for")
    finally:
        link.heal()
    await until_seen(it, "ok")
    await is_whole(it, ADDITIVE, "after-the-cut")


async def test_a_quorum_goes_on_without_the_other_host(hosts: Hosts) -> None:
    it, link = hosts
    await is_whole(it, SHAMIR, "quorum")
    round_id = await opened_in_a_cut(it, link, SHAMIR, "quorum-in-a-cut")
    try:
        found = await it.finish(round_id)
    finally:
        link.heal()
    assert found["state"] == "released", found
    assert Decimal((await it.result(round_id))["result"]["sum"]) == SUM
    await until_seen(it, "ok")
    await is_whole(it, SHAMIR, "quorum-after-the-cut")


async def test_a_cut_that_ends_before_the_deadline_costs_no_round(hosts: Hosts) -> None:
    it, link = hosts
    round_id = await it.open({**ADDITIVE, "deadline_s": 100, "name": "short-cut"})
    link.cut()
    await asyncio.sleep(3)
    link.heal()
    found = await it.finish(round_id)
    assert found["state"] == "released", found
    assert Decimal((await it.result(round_id))["result"]["sum"]) == SUM
    await until_seen(it, "ok")


async def test_a_slow_link_slows_rounds_and_loses_none(hosts: Hosts) -> None:
    it, link = hosts
    link.slow("128kbit")
    try:
        await is_whole(it, {**ADDITIVE, "deadline_s": 60}, "slow")
    finally:
        link.fast()
