"""What the report of a proved round says of its hosts, its total and who was left out."""

from __future__ import annotations

import numpy as np

from tacit.query.proofs import PART_LENGTH
from tests.coordinator.conftest import Houses
from tests.coordinator.rounds.test_verifying import corrupt, enrolled, opened, proved


async def test_the_report_names_the_largest_host_the_total_and_the_refused(house: Houses) -> None:
    async with house(3) as it:
        lone = [it.federation.sender(f"curator-{index}") for index in range(3)]
        small = it.federation.sender("gateway", [f"home-{index}" for index in range(30)])
        large = it.federation.sender("depot", [f"flat-{index}" for index in range(70)])
        for sender in (*lone, small, large):
            await enrolled(it, sender)
        current = await opened(it, proved())
        for sender in lone:
            await current.prove(sender, np.array([4]), corrupt if sender is lone[0] else None)
        for host, count in ((small, 30), (large, 70)):
            await current.prove_parts(host, np.full((count, 1), 5))
        shown = await it.finish(current)
        assert (shown["state"], shown["refused"]) == ("released", 1), shown
        report = (await it.ask("GET", f"/v1/rounds/{current.id}/report")).json()
        stated = report["validity"]
        assert stated["refused"] == 1
        (item,) = stated["influence"]  # bounds 0 to 10, two readings; 2 * 4 + 100 * 5 in all
        assert (item["lone"]["coordinate"], item["host"]["coordinate"]) == ("20", "1400")
        assert float(item["lone"]["share_of_total"]) >= 20 / 508
        assert item["host_parts"] == [70]
        furthest = "the host that reaches furthest, 70 curators in 1 part, by at most 1,400 kWh"
        assert furthest in stated["sentences"][0]
        preview = await it.ask("POST", "/v1/queries/preview", proved())
        assert furthest in preview.json()["validity"]["sentences"][0]
        assert "of the released total" in stated["sentences"][0]
        assert stated["sentences"][-1].startswith("1 of the round's curators was left out")
        assert PART_LENGTH > 70  # one part each


async def test_a_round_without_hosts_has_none_in_its_report(house: Houses) -> None:
    async with house(3) as it:
        lone = [it.federation.sender(f"curator-{index}") for index in range(3)]
        for sender in lone:
            await enrolled(it, sender)
        current = await opened(it, proved())
        for sender in lone:
            await current.prove(sender, np.array([4]))
        assert (await it.finish(current))["state"] == "released"
        stated = (await it.ask("GET", f"/v1/rounds/{current.id}/report")).json()["validity"]
        assert stated["refused"] == 0
        assert stated["influence"][0]["host"] is None
