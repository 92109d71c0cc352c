"""What owners and operators see of their curators, and how they stop them, on pages."""

from __future__ import annotations

import csv

import pytest

from tacit.report.model import guess
from tests.coordinator.console.browser import Browser
from tests.curator.conftest import HOUR, NOISY, OPEN, OPERATOR, START, Site, query

pytestmark = pytest.mark.usefixtures("given")
HOSTILE = ("</b><img src=x onerror=alert(1)>", "{{7*7}}")


async def owner(s: Site, curator: str) -> str:
    asked = {"scope": "curator", "subject": curator, "label": "owner"}
    made: str = (await s.request("POST", "/v1/tokens", asked, 201))["token"]
    return made


async def test_what_the_page_tells_is_what_the_api_tells(s: Site, browser: Browser) -> None:
    await browser.sign_in(OPERATOR)
    assert (await browser.get("/console/curators/g-1")).status_code == 200
    words = browser.words()
    history = await s.history("g-1")
    assert [each["declared"]["status"] for each in history] == ["unverified", "verified"]
    statement = await s.get("/v1/curators/g-1/budget")
    for each in history:
        assert each["query_name"] in words
        assert f"/answers/{each['round']}" in browser.page.text
    noisy = history[1]
    hundred = -(-100 * float(noisy["declared"]["guess"]) // 1)
    assert f"{hundred:.0f} of 100" in words
    assert "no bound" in words
    assert "1 answer is part of a sum without noise" in words
    for unit in ("record", "curator"):
        period = statement["units"][unit]["period"]
        took = f"took epsilon {period['epsilon']}, or rho {period['rho']}."
        assert f"Answers with a proven bound {took}" in words
        zcdp = period["rho"], period["rho_delta"]
        right = 100 * float(guess([(period["epsilon"], period["delta"])], zcdp))
        assert f"guesses right at most {right:g} of 100 times" in words
    counts = await s.get("/v1/curators/g-1/readings")
    assert f"used in answers {counts['contributed']} cut to the bounds {counts['clamped']}" in (
        words
    )


async def test_all_answers_are_taken_away_as_a_table(s: Site, browser: Browser) -> None:
    await s.policy(**(OPEN | {"min_participants": 10**6}))
    s.open(query(NOISY), start=START + HOUR)
    await s.take_part()
    await browser.sign_in(await owner(s, "g-1"))
    page = await browser.get("/console/curators/g-1/answers.csv")
    assert page.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(page.text.splitlines()))
    history = await s.history("g-1")
    assert len(rows) == len(history) == 3
    for row, each in zip(rows, history, strict=True):
        declared, used = each.get("declared", {}), each.get("readings", {})
        assert row["round"] == each["round"]
        assert row["state"] == each["state"]
        for name in ("status", "epsilon", "delta", "guess"):
            assert row[name] == (declared.get(name) or "")
        assert row["readings_used"] == str(used.get("used", ""))
    assert rows[0]["refused_because"] == "policy_refused"
    assert (await browser.get("/console/curators/g-2/answers.csv")).status_code == 404


async def test_open_pages_follow_what_is_new(s: Site, browser: Browser) -> None:
    await browser.sign_in(OPERATOR)
    path = "/console/curators/g-1/live"
    page = await browser.get(path)
    assert page.status_code == 200
    assert "<html" not in page.text
    known = {"If-None-Match": page.headers["etag"]}
    assert (await browser.get(path, **known)).status_code == 304
    await s.request("PUT", "/v1/curators/g-1/stop", {"stopped": True})
    assert (await browser.get(path, **known)).status_code == 200
    await browser.sign_in(await owner(s, "g-2"))
    assert (await browser.get("/console/curators/g-2/live")).status_code == 200
    for path in ("/console/summary/live", "/console/curators/g-1/live"):
        assert (await browser.get(path)).status_code == 404
    own = await browser.get("/console/readings/live")
    assert own.status_code == 200
    assert "g-1" not in own.text


async def test_one_answer_with_its_ladder(s: Site, browser: Browser) -> None:
    await browser.sign_in(await owner(s, "g-1"))
    paper, noisy = await s.history("g-1")
    told = await s.get(f"/v1/curators/g-1/contributions/{noisy['round']}")
    assert {key: told[key] for key in noisy} == noisy
    assert len(told["verified"]) == 5
    assert told["asked"] == {
        "purpose": None,
        "register": "energy_import",
        "unit": "kWh",
        "bounds": ["0", "5"],
        "min_participants": query(NOISY).min_participants,
        "noise_by": "aggregators",
    }
    path = f"/console/curators/g-1/answers/{noisy['round']}"
    assert (await browser.get(path)).status_code == 200
    words = browser.words()
    assert "2 readings were used, each cut to 0 to 5 kWh: 1 had to be" in words
    assert "This query promises protection down to here" in words
    assert noisy["descriptor_hash"] in words
    await browser.get(f"/console/curators/g-1/answers/{paper['round']}")
    assert "No bound is proven for this answer" in browser.words()
    assert (await browser.get("/console/curators/g-1/answers/none")).status_code == 404


async def test_an_owner_sees_its_own_curator_alone(s: Site, browser: Browser) -> None:
    await browser.sign_in(await owner(s, "g-1"))
    first = await browser.get("/console")
    assert first.headers["location"] == "/console/curators/g-1"
    await browser.get("/console/curators/g-1")
    assert "g-2" not in browser.page.text
    assert "house-1" not in browser.page.text
    round_id = (await s.history("g-1"))[0]["round"]
    csrf = browser.field("csrf")
    for other in ("g-2", "house-1", "nobody"):
        for rest in ("", f"/answers/{round_id}", "/stop"):
            answer = await browser.get(f"/console/curators/{other}{rest}")
            assert answer.status_code == 404
        fields = {"csrf": csrf, "typed": other}
        answer = await browser.post(f"/console/curators/{other}/stop", fields)
        assert answer.status_code == 404
    for path in ("/console/stop", "/console/start"):
        fields = {"csrf": csrf, "typed": "3"}
        assert (await browser.post(path, fields)).status_code == 404
    assert not (await s.get("/v1/curators/g-2/stop"))["stopped"]


async def test_a_device_signs_in_nowhere(s: Site, browser: Browser) -> None:
    asked = {"scope": "device", "subject": "g-1", "label": "meter"}
    made = await s.request("POST", "/v1/tokens", asked, 201)
    assert (await browser.sign_in(made["token"])).status_code == 401
    assert (await browser.get("/console/curators/g-1")).status_code == 303


async def test_stop_is_typed_and_taken_back(s: Site, browser: Browser) -> None:
    await browser.sign_in(await owner(s, "g-1"))
    path = "/console/curators/g-1/stop"
    await browser.get(path)
    assert (await browser.submit(path, typed="g-2")).status_code == 422
    assert not (await s.get("/v1/curators/g-1/stop"))["stopped"]
    done = await browser.submit(path, typed=" g-1 ")
    assert done.headers["location"] == "/console/curators/g-1?said=stopped"
    assert (await s.get("/v1/curators/g-1/stop"))["by"]["owner"] is not None
    await browser.get(done.headers["location"])
    assert "Stopped by its owner" in browser.words()
    operator = Browser(s.app)
    await operator.sign_in(OPERATOR)
    await operator.get("/console/curators/g-1")
    await operator.submit("/console/curators/g-1/start")
    assert (await s.get("/v1/curators/g-1/stop"))["stopped"]
    await browser.submit("/console/curators/g-1/start")
    assert not (await s.get("/v1/curators/g-1/stop"))["stopped"]


async def test_a_whole_process_stops_by_its_number(s: Site, browser: Browser) -> None:
    await browser.sign_in(OPERATOR)
    await browser.get("/console/stop")
    assert (await browser.submit("/console/stop", typed="2")).status_code == 422
    await browser.submit("/console/stop", typed="3")
    assert (await s.get("/v1/stop"))["stopped"]
    await browser.get("/console")
    assert "All curators of this process are stopped" in browser.words()
    await browser.submit("/console/start")
    assert not (await s.get("/v1/stop"))["stopped"]


@pytest.mark.usefixtures("given")
async def test_no_form_from_elsewhere_is_taken(s: Site, browser: Browser) -> None:
    await browser.sign_in(OPERATOR)
    assert next(iter(browser.client.cookies)).startswith("tacit_curator_")
    await browser.get("/console/stop")
    typed = {"typed": "3", "csrf": browser.field("csrf")}
    for path in ("stop", "start", "curators/g-1/stop", "curators/g-1/start", "curators/g-1/policy"):
        elsewhere = {"Sec-Fetch-Site": "cross-site"}
        refused = await browser.post(f"/console/{path}", typed, headers=elsewhere)
        assert refused.status_code == 403
        assert (await browser.post(f"/console/{path}", {"typed": "3"})).status_code == 403
    assert not (await s.get("/v1/curators/g-1/stop"))["stopped"]
