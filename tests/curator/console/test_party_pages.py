"""Parties of a process, enrolment by a pasted token, and tokens of owners and devices."""

from __future__ import annotations

import re

from tests.coordinator.console.browser import Browser
from tests.curator.conftest import OPERATOR, Site
from tests.curator.console.test_pages import owner

PATH = "/console/parties"


async def test_a_token_is_looked_at_before_anything_is_sent(s: Site, browser: Browser) -> None:
    await browser.sign_in(OPERATOR)
    await browser.get("/console")
    assert 'href="/console/parties#enrol"' in browser.page.text
    await browser.get(PATH)
    assert "No party is enrolled here yet" in browser.words()
    text = s.world.join_token("gateway", 3)
    await browser.submit(PATH, token=text, curators="g-1\ng-2\n")
    words = browser.words()
    assert "Enrol gateway?" in words
    assert "A host of 2 of at most 3 curators" in words
    assert (await s.get("/v1/parties"))["parties"] == []
    done = await browser.submit(
        PATH,
        token=browser.field("token"),
        curators=browser.field("curators"),
        step=browser.field("step"),
    )
    assert done.headers["location"] == "/console/parties?said=enrolled"
    [party] = (await s.get("/v1/parties"))["parties"]
    assert (party["party"], party["state"], party["curators"]) == ("gateway", "active", 2)
    await browser.get(PATH)
    for each in party["aggregators"]:
        assert each["id"] in browser.words()
        assert each["fingerprint"] in browser.page.text
    assert "A host of 2 curators" in browser.words()
    await s.reading("g-1", "1")  # it is hosted from now on
    await browser.submit(PATH, token=text, curators="g-1\ng-2", step="enrol")
    assert browser.page.status_code == 422


async def test_a_device_gets_its_token_on_a_page(s: Site, browser: Browser) -> None:
    await s.enrol("gateway", ["g-1", "g-2"])
    await browser.sign_in(OPERATOR)
    await browser.get("/console/readings")
    assert "/console/tokens?scope=device" in browser.page.text
    await browser.get("/console/tokens?scope=device&subject=g-1")
    assert "<option selected>device</option>" in browser.page.text
    fields = {"label": "meter", "scope": "device", "days": "30", "subject": "g-1"}
    page = await browser.submit("/console/tokens", **fields)
    found = re.search(r"<code>(tct_device_[\w-]+)</code>", page.text)
    assert found is not None
    item = {"curator": "g-1", "time": s.clock.now().isoformat(), "value": "1", "unit": "kWh"}
    bearer = {"Authorization": f"Bearer {found[1]}"}
    await s.request("POST", "/v1/readings", item, 200, headers=bearer)
    await s.request("GET", "/v1/tokens", None, 403, headers=bearer)
    for changes, said in (
        ({"subject": ""}, "subject-error"),
        ({"subject": "nobody"}, "No such curator is hosted here"),
        ({"scope": "analyst"}, "made elsewhere"),
    ):
        page = await browser.submit("/console/tokens", **{**fields, **changes})
        assert page.status_code == 422
        assert said in page.text
    audited = (await s.get("/v1/audit"))["audit"]
    assert "made a token" in {each["action"] for each in audited}


async def test_an_owner_has_none_of_these_pages(s: Site, browser: Browser) -> None:
    await s.enrol("gateway", ["g-1", "g-2"])
    await browser.sign_in(await owner(s, "g-1"))
    await browser.get("/console/curators/g-1")
    secret = browser.field("csrf")
    for path in (PATH, "/console/tokens", "/console/audit"):
        assert (await browser.get(path)).status_code == 404
    for path in (PATH, "/console/tokens"):
        assert (await browser.post(path, {"csrf": secret})).status_code == 404
