"""A round that was credited: ledger, API and pages say the same, and a group that knows less than
another is never shown with a larger figure."""

from __future__ import annotations

import re
from typing import Any

from tests.coordinator.conftest import Houses
from tests.coordinator.console.test_rounds import signed_in
from tests.coordinator.double import query
from tests.coordinator.rounds.test_differencing import NOISY, finish, hours


def by_key(overview: dict[str, Any], unit: str) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in overview["released"][unit]}


async def test_a_credited_round_is_credited_everywhere(house: Houses) -> None:
    async with house(3, console=True) as it:
        host = await it.host("gateway", 6)
        kept = await it.open(query(name="kept", **NOISY), window=hours(1))
        assert (await finish(it, kept, host))["state"] == "released"
        for number in (2, 3):
            ended = await it.open(query(name=f"ended-{number}", **NOISY), window=hours(number))
            await it.ask("POST", f"/v1/rounds/{ended.id}/abort", {"reason": "test"})
            assert (await it.finish(ended))["state"] == "aborted"
        compared = (await it.ask("GET", f"/v1/budget/rounds/{ended.id}")).json()
        assert (compared["charged"], compared["credited"]) == (0, 6)
        overview = (await it.ask("GET", "/v1/budget?delta=0.000001")).json()
        for unit, one in (("curator", "1"), ("record", "0.25")):
            rows = by_key(overview, unit)
            assert [rows[key]["epsilon"] for key in "abe"] == [one] * 3
            for less, more in ("ab", "bc", "cd", "ae", "ed"):
                assert float(rows[less]["epsilon"]) <= float(rows[more]["epsilon"])
                tight = [float(rows[key]["tight"]["epsilon"]) for key in (less, more)]
                assert tight[0] <= tight[1]
            assert rows["e"]["counts"].startswith("all rounds but 2 credited")
            assert rows["c"]["counts"].startswith("all rounds, also 2 credited")
        browser = await signed_in(it)
        pages = {}
        for path in ("rounds", f"rounds/{ended.id}", "budget", "budget/ledger"):
            assert (await browser.get(f"/console/{path}")).status_code == 200
            pages[path] = browser.words()
        assert pages["rounds"].count("no sum; credited") == 2
        assert "It is credited" in pages[f"rounds/{ended.id}"]
        assert "counts all rounds but 2 credited" in pages["budget"]
        credit = rf"credited ?: round {ended.id} ?, query \S+ ?, epsilon 1\b"
        assert re.search(credit, pages["budget/ledger"])
