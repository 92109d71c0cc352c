"""Pages of the budget: what the API tells the same token; limits and events by their forms."""

from __future__ import annotations

import html
import re
from datetime import datetime, timedelta
from typing import Any

from common.runtime.clock import ManualClock
from common.web.console import formatting
from coordinator.budget.ledger import Update
from coordinator.console.budget import EPSILONS, RHOS, together
from coordinator.console.ledger import KINDS
from tacit.wire import format_exact, format_instant
from tests.coordinator.budget.test_routes import limited
from tests.coordinator.conftest import Houses
from tests.coordinator.console.browser import Browser
from tests.coordinator.console.test_rounds import EVIL, released, signed_in
from tests.coordinator.double import NOISY, House, query

YEAR: dict[str, Any] = {"epsilon": "20", "delta": "0.01", "period_s": 365 * 86_400}
SOON = ManualClock().now() + timedelta(days=2)
SCHEDULE = {"first_start": format_instant(SOON), "period_s": 86_400}
"""It opens nothing while a test runs."""


async def test_the_page_tells_what_the_api_tells(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        await released(it)
        await limited(it, YEAR)
        browser = await signed_in(it)
        page = await browser.get("/console/budget?delta=0.000001")
        text = browser.words()
        overview = (await it.ask("GET", "/v1/budget?delta=0.000001")).json()
        outlook = (await it.ask("POST", "/v1/budget/outlook", {})).json()
        [limit] = outlook["limits"]
        assert limit["left"] == "19"
        assert "19 of 20 epsilon left" in text
        assert formatting.fingerprint(overview["ledger"]["head"][:16]) in text
        for unit in ("curator", "record"):
            for line in overview["released"][unit]:
                assert formatting.group(line["key"]) in text
                if line["epsilon"] != "inf":
                    assert f"{together(line['epsilon'], line['delta'])} of 100" in text
                    assert line["tight"]["epsilon"] in text
                assert line["worst"]["curator"] in text
        for bound in overview["claimed"]["bounds"]:
            assert bound["name"] in text
        history = f"/v1/budget/history?period_s={YEAR['period_s']}&from={limit['begins']}"
        points = (await it.ask("GET", history)).json()["points"]
        [table] = re.findall(r"<details><summary>The same.*?</details>", page.text, re.DOTALL)
        assert points[-1]["epsilon"] == "1"
        past = [row for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL) if "ahead" not in row]
        assert len(past) == 1 + len(points)
        assert 'class="number">1</td><td class="number">1</td>' in past[-1]
        assert 'class="chart burn-down"' in page.text
        assert f"until the period ends on {at_end(limit['ends'], '%d %b %Y')}." in text
        await policy(it, browser)
        await verified(it, browser)
        await by_an_analyst(it)


def at_end(instant: str, form: str) -> str:
    return f"{datetime.fromisoformat(instant):{form}}"


async def test_a_period_of_less_than_a_day_ends_at_an_hour(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        await limited(it, {"epsilon": "20", "period_s": 3600})
        [limit] = (await it.ask("POST", "/v1/budget/outlook", {})).json()["limits"]
        browser = await signed_in(it)
        await browser.get("/console/budget")
        ends = at_end(limit["ends"], "%d %b %Y, %H:%M UTC")
        assert f"until the period ends on {ends}." in browser.words()


async def policy(it: House, browser: Browser) -> None:
    [name, *_] = (await it.ask("GET", "/v1/curators")).json()["curators"]
    for place in ("", "?limit=1", "/limits", "/ledger", "/events", f"/curators/{name['id']}"):
        page = await browser.get(f"/console/budget{place}")
        assert page.status_code == 200
        assert not re.search(r"\sstyle=|\son\w+=|javascript:", page.text)
        assert page.headers["cache-control"] == "no-store"
        assert len(page.content) < 150_000
    assert (await Browser(it.app).get("/console/budget")).status_code == 303


async def verified(it: House, browser: Browser) -> None:
    """The ledger is verified from its page."""
    await browser.get("/console/budget/ledger")
    await browser.submit("/console/budget/ledger")
    found = (await it.ask("GET", "/v1/budget/verification")).json()
    assert found["verified"] is True
    assert f"{found['rows']} rows were read" in browser.words()
    assert found["head"] in browser.words()
    assert (await browser.get("/console/budget/ledger?curator=nobody")).status_code == 404
    assert (await browser.get("/console/budget/curators/nobody")).status_code == 404
    found = await browser.get("/console/budget/curators?curator=a/b")
    assert found.headers["location"] == "/console/budget/curators/a%2Fb"


async def by_an_analyst(it: House) -> None:
    """It sees no curator and no form."""
    browser = await signed_in(it, "analyst")
    page = await browser.get("/console/budget")
    assert page.status_code == 200
    assert "gateway" not in page.text
    for place in ("limits", "ledger", "events", "curators/gateway"):
        assert f"/console/budget/{place}" not in page.text
        assert (await browser.get(f"/console/budget/{place}")).status_code == 404
    await browser.get("/console/budget")
    for place in ("limits", "ledger", "events"):
        assert (await browser.submit(f"/console/budget/{place}")).status_code == 404
    assert len((await it.ask("GET", "/v1/budget/limits")).json()["limits"]) == 1


async def test_under_a_limit_in_rho_gaussian_rounds_are_tried_at_rhos(house: Houses) -> None:
    asked = query(
        **{"noise": "gaussian", "mechanism": "distributed", "epsilon": None, "rho": "0.003"},
        **{"collusion": {"aggregators": 2}, "schedule": SCHEDULE, "window": None},
    )
    async with house(3, console=True, clock=ManualClock()) as it:
        await it.host("gateway", 20)
        asked = {name: value for name, value in asked.items() if value is not None}
        created = (await it.ask("POST", "/v1/queries", asked)).json()
        await limited(it, {**YEAR, "epsilon": "8", "delta": "0.000001", "currency": "zcdp"})
        browser = await signed_in(it, "analyst")
        await browser.get(f"/console/budget?query_id={created['id']}")
        stops = re.findall(r'data-stop="([^"]*)"', browser.page.text)
        assert stops == [format_exact(each) for each in RHOS]
        assert "0.003 (alone: epsilon 0.328)" in browser.words()
        assert 'type="range" min="0" max="11" value="4"' in browser.page.text


async def test_each_stop_is_the_answer_of_the_api(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        await it.host("gateway", 20)
        asked = query(**{**NOISY, "schedule": SCHEDULE, "window": None})
        asked = {name: value for name, value in asked.items() if value is not None}
        created = (await it.ask("POST", "/v1/queries", asked)).json()
        await limited(it, YEAR)
        browser = await signed_in(it, "analyst")
        await browser.get(f"/console/budget?query_id={created['id']}")
        epsilons = [format_exact(each) for each in EPSILONS]
        preview = await it.ask("POST", "/v1/queries/preview", {**asked, "epsilons": epsilons})
        [table] = re.findall(r"<details open>.*?</details>", browser.page.text, re.DOTALL)
        rows = re.findall(r"<tr><td.*?</tr>", table, re.DOTALL)
        assert len(rows) == len(EPSILONS)
        for row, stop in zip(rows, preview.json()["stops"], strict=True):
            half_width = stop["error"]["parts"][0]["interval"]["half_width"]
            shown = html.unescape(re.sub(r"<[^>]+>", " ", row))
            assert f"± {formatting.with_error('0', half_width)[1]} kWh" in shown
            assert f"{formatting.hundred(stop['guess'])} of 100" in shown
            one = {"query": {**asked, "epsilon": stop["epsilon"]}, "period_s": 86_400}
            outlook = await it.ask("POST", "/v1/budget/outlook", {"queries": [one]})
            until = outlook.json()["limits"][0]["exhausted"]
            assert ("a year and more" in shown) is (until is None)
            if until is not None:
                at = datetime.fromisoformat(until)
                assert f"{at.day} {at:%b %Y}" in shown


WRONG = (
    ({"epsilon-0": "much"}, "✗ must be"),
    ({"epsilon-0": "1", "delta-0": "2"}, "must lie in [0, 1)"),
    ({"epsilon-0": "1", "period-0": "soon"}, "✗ must be a whole number"),
    ({"epsilon-0": "1", "unit-0": "record", "period-0": "86400"}, "has no period"),
)


async def test_limits_are_tried_on_the_schedules_and_then_hold(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        await it.host("gateway", 20)
        asked = query(**{**NOISY, "schedule": SCHEDULE, "window": None})
        await it.ask("POST", "/v1/queries", {k: v for k, v in asked.items() if v is not None})
        browser = await signed_in(it)
        page = await browser.get("/console/budget")
        assert "Nothing stops spending" in browser.words()
        assert f"epsilon 1 {together('1', '0')} of 100 times" in browser.words()
        assert "/console/budget/limits" in page.text
        for wrong, said in WRONG:
            await browser.get("/console/budget/limits")
            answer = await browser.submit("/console/budget/limits", step="set", **wrong)
            assert answer.status_code == 422
            assert said in browser.words()
            for value in wrong.values():
                assert f'value="{value}"' in answer.text
        await browser.get("/console/budget/limits")
        fields = {"epsilon-0": "3", "delta-0": "", "period-0": "", "epsilon-1": ""}
        await browser.submit("/console/budget/limits", step="look", **fields)
        text = browser.words()
        tried = {"limits": [{"epsilon": "3"}], "days": 30}
        [found] = (await it.ask("POST", "/v1/budget/outlook", tried)).json()["limits"]
        at = datetime.fromisoformat(found["exhausted"])
        assert f"that is refused comes on {at.day} {at:%b %Y, %H:%M} UTC" in text
        assert at < ManualClock().now() + timedelta(days=30)
        assert (await it.ask("GET", "/v1/budget/limits")).json()["limits"] == []
        names = re.findall(r'type="hidden" name="([^"]+)"', browser.page.text)
        kept = {name: browser.field(name) for name in names}
        done = await browser.post("/console/budget/limits", kept)
        assert done.headers["location"] == "/console/budget?said=limits"
        limits = (await it.ask("GET", "/v1/budget/limits")).json()["limits"]
        plain = {"unit": "curator", "scenario": "assumed", "currency": "epsilon"}
        assert limits == [{**plain, "epsilon": "3"}]
        await browser.get("/console/budget/limits")
        assert browser.field("step") == "look"
        assert 'value="3"' in browser.page.text


async def test_an_event_is_recorded_once(house: Houses) -> None:
    async with house(0, console=True, clock=ManualClock()) as it:
        await it.host("gateway", 3)
        [name, *_] = (await it.ask("GET", "/v1/curators")).json()["curators"]
        browser = await signed_in(it)
        await browser.get(f"/console/budget/events?curators={name['id']}")
        assert name["id"] in browser.page.text
        fields = {
            "csrf": browser.field("csrf"),
            "key": browser.field("key"),
            "kind": "flagged",
            "curators": name["id"],
            "reason": EVIL,
        }
        for _ in range(2):
            assert (await browser.post("/console/budget/events", fields)).status_code == 303
        events = (await it.ask("GET", "/v1/budget/events?limit=100")).json()["events"]
        assert [each["kind"] for each in events].count("flagged") == 1
        page = await browser.get("/console/budget/ledger")
        assert "<img" not in page.text
        assert html.escape(EVIL, quote=False).replace('"', "&#34;") in page.text
        await browser.get(f"/console/budget/curators/{name['id']}")
        assert "flagged" in browser.words()
        again = {**fields, "key": "another"}
        assert (await browser.post("/console/budget/events", again)).status_code == 422
        assert "flagged cannot follow" in browser.words()
        unknown = await browser.post("/console/budget/events", {**again, "curators": "nobody"})
        assert unknown.status_code == 422
        nothing = await browser.post("/console/budget/events", {"csrf": fields["csrf"], "key": "k"})
        assert nothing.status_code == 422


def test_every_kind_of_event_has_its_words() -> None:
    kinds = Update.model_json_schema()["properties"]["kind"]["enum"]
    assert set(KINDS) == set(kinds)


PAPER = {
    "mechanism": "two-layer",
    "stance": "paper",
    "epsilon": None,
    "epsilon_u": "1",
    "epsilon_s": "1",
    "pr_u": "0.5",
    "pr_s": "0.5",
}


async def test_nothing_finite_holds_after_a_round_of_the_paper_stance(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        await released(it, **PAPER)
        await limited(it, {"epsilon": "20"})
        browser = await signed_in(it)
        page = await browser.get("/console/budget")
        assert page.status_code == 200
        assert "No bound since" in browser.words()
        assert "burn-down" not in page.text


async def test_sums_without_noise_are_told_apart(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        host = await it.host("gateway", 20)

        async def release(**changes: Any) -> dict[str, Any]:
            await it.released(host, query(**changes))
            shown: dict[str, Any] = (await it.read("/v1/budget", delta="1e-6"))["released"]
            return shown

        noisy = await release(**NOISY)
        assert (noisy["rounds"], noisy["exact_answers"]) == (1, 0)
        browser = await signed_in(it)
        for path in ("/console/budget", "/console/budget/curators/gateway.0"):
            await browser.get(path)
            assert "without noise" not in browser.words()
        both = await release()
        assert (both["rounds"], both["exact_answers"]) == (2, 1)
        assert (both["curator"], both["record"]) == (noisy["curator"], noisy["record"])
        for path in ("/console/budget", "/console/budget/curators/gateway.0"):
            await browser.get(path)
            said = "1 sum without noise was asked for under a rule and is in no figure here"
            assert said in browser.words()


async def test_a_limit_in_rho_is_set_shown_and_drawn_in_rho(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        await released(it)
        browser = await signed_in(it)
        await browser.get("/console/budget/limits")
        fields = {"currency-0": "zcdp", "epsilon-0": "8", "delta-0": ""}
        answer = await browser.submit("/console/budget/limits", step="look", **fields)
        assert answer.status_code == 422
        assert "an epsilon at a delta above 0: give both" in browser.words()
        fields["delta-0"] = "0.000001"
        await browser.get("/console/budget/limits")
        await browser.submit("/console/budget/limits", step="look", **fields)
        assert "Epsilon 8 at delta 0.000001 in rho for the lifetime" in browser.words()
        names = re.findall(r'type="hidden" name="([^"]+)"', browser.page.text)
        await browser.post("/console/budget/limits", {n: browser.field(n) for n in names})
        [limit] = (await it.ask("GET", "/v1/budget/limits")).json()["limits"]
        assert (limit["currency"], limit["epsilon"], limit["delta"]) == ("zcdp", "8", "0.000001")
        await browser.get("/console/budget")
        text = browser.words()
        # One round of epsilon 1 is rho 0.462117158.
        assert "0.59 of 1.05 rho left" in text
        assert "guarantees epsilon 8 at delta 0.000001" in text
        assert "0.59 of rho 1.052358004 is left" in text
        assert "Rho of each round" in text
        await browser.get("/console/budget/limits")
        assert 'name="epsilon-0" inputmode="decimal" value="8"' in browser.page.text
        assert 'value="zcdp" selected' in browser.page.text
