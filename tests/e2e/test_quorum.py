"""`shamir` 3 of 5 with two aggregators gone for good (spec: aggregation, section 10, check 6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.proxy import Watcher
from tests.e2e.test_crashes import QUERY
from tests.e2e.world import world

pytestmark = pytest.mark.slow


async def test_two_of_five_aggregators_may_die_after_accepting(tmp_path: Path) -> None:
    async with world(tmp_path, 5) as it:
        await it.enrol("gateway", ["a", "b", "c"])
        await it.allow_everything()
        await it.give({"a": "0.001", "b": "0.002", "c": "0.004"})
        mortal, accepted = ("aggregator-4", "aggregator-5"), set[str]()

        def watching(name: str) -> Watcher:
            async def watch(moment: str, _: str, path: str) -> None:
                if moment == "response" and path.endswith("/batches") and name not in accepted:
                    accepted.add(name)
                    if len(accepted) == len(mortal):
                        for each in mortal:
                            await it.call(it.kill, each)

            return watch

        for name in mortal:
            it.proxies[name].watch = watching(name)
        shamir = {"sharing": "shamir", "aggregators": 5, "threshold": 3}
        round_id = await it.open({**QUERY, **shamir, "name": "quorum"})
        finished = await it.finish(round_id, 60)
        assert accepted == set(mortal)
        assert finished["state"] == "released", finished
        assert (await it.result(round_id))["result"]["sum"] == "0.007"
