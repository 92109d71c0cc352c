"""Pages of tokens and the audit: made once, shown once, revoked at once, and written down."""

from __future__ import annotations

import re
from datetime import timedelta

from common.runtime.clock import ManualClock
from tests.coordinator.conftest import Houses
from tests.coordinator.console.browser import Browser
from tests.coordinator.console.test_rounds import EVIL, signed_in


async def test_a_token_is_made_shown_once_and_works(house: Houses) -> None:
    async with house(0, console=True) as it:
        browser = await signed_in(it)
        await browser.get("/console/tokens")
        fields = {"label": EVIL, "scope": "analyst", "days": "30"}
        page = await browser.submit("/console/tokens", **fields)
        assert page.headers["cache-control"] == "no-store"
        found = re.search(r"<code>(tct_analyst_[\w-]+)</code>", page.text)
        assert found is not None
        secret = found[1]
        assert "<img" not in page.text
        assert (await it.ask("GET", "/v1/rounds", token=secret)).status_code == 200
        assert (await it.ask("GET", "/v1/tokens", token=secret)).status_code == 403
        assert secret not in (await browser.get("/console/tokens")).text
        [token] = [
            each
            for each in (await it.ask("GET", "/v1/tokens")).json()["tokens"]
            if each["label"] == EVIL
        ]
        assert token["expires"] is not None
        analyst = Browser(it.app)
        await analyst.sign_in(secret)
        assert (await analyst.get("/console/rounds")).status_code == 200
        assert (await analyst.get("/console/tokens")).status_code == 404
        assert (await analyst.get("/console/audit")).status_code == 404
        await browser.get(f"/console/tokens/{token['id']}")
        assert (await browser.submit(f"/console/tokens/{token['id']}")).status_code == 303
        assert (await it.ask("GET", "/v1/rounds", token=secret)).status_code == 401
        assert (await analyst.get("/console/rounds")).status_code == 303
        await browser.get("/console/audit")
        text = browser.words()
        assert "revoked a token" in text
        assert "made a token" in text
        assert secret not in browser.page.text
        audit = (await it.ask("GET", "/v1/audit")).json()["audit"]
        assert [each["action"] for each in audit][:3] == [
            "revoked a token",
            "signed in",
            "made a token",
        ]
        assert audit[0]["object"] == token["id"]
        first = await it.ask("GET", "/v1/audit?limit=1")
        rest = await it.ask("GET", first.links["next"]["url"].removeprefix("http://house.test"))
        assert [*first.json()["audit"], *rest.json()["audit"]][:2] == audit[:2]
        assert (await it.ask("GET", "/v1/audit", token=secret)).status_code == 401


async def test_ones_own_token_is_revoked_by_its_label_alone(house: Houses) -> None:
    async with house(0, console=True) as it:
        browser = await signed_in(it)
        await browser.get("/console/tokens")
        own = re.search(
            r'/console/tokens/([^"]+)">[^<]*</a> <span class="quiet">yours', browser.page.text
        )
        assert own is not None
        path = f"/console/tokens/{own[1]}"
        await browser.get(path)
        assert "you will be signed out" in browser.words()
        assert (await browser.submit(path, typed="no")).status_code == 422
        assert (await browser.get("/console/tokens")).status_code == 200
        label = next(
            each["label"] or each["id"]
            for each in (await it.ask("GET", "/v1/tokens")).json()["tokens"]
            if each["id"] == own[1]
        )
        await browser.get(path)
        assert (await browser.submit(path, typed=label)).status_code == 303
        assert (
            (await browser.get("/console/tokens")).headers["location"].startswith("/console/login")
        )


WRONG = (
    ({"label": " "}, "say for whom or what it is"),
    ({"days": "0"}, "whole days from 1 to 3660"),
    ({"scope": "curator"}, "tokens of machines are made elsewhere"),
    ({"scope": "everything"}, "must be one of"),
    ({"label": "x" * 201}, "at most 200"),
)


async def test_a_token_that_cannot_be_is_said_at_its_field(house: Houses) -> None:
    async with house(0, console=True) as it:
        browser = await signed_in(it)
        before = len((await it.ask("GET", "/v1/tokens")).json()["tokens"])
        for changes, said in WRONG:
            await browser.get("/console/tokens")
            fields = {"label": "night report", "scope": "analyst", "days": "30", **changes}
            assert (await browser.submit("/console/tokens", **fields)).status_code == 422
            assert said in browser.words()
        assert len((await it.ask("GET", "/v1/tokens")).json()["tokens"]) == before
        assert (await browser.get("/console/tokens/nothing")).status_code == 404
        assert (await browser.submit("/console/tokens/nothing")).status_code == 404


async def test_the_day_of_a_persons_token_is_kept_and_no_partys(house: Houses) -> None:
    clock = ManualClock()
    async with house(0, console=True, clock=clock) as it:
        sender = await it.host("gateway", 2)
        made = await it.ask("POST", "/v1/tokens", {"scope": "analyst", "label": "nightly"})
        token = made.json()["token"]

        async def used() -> dict[str, str | None]:
            found = (await it.ask("GET", "/v1/tokens?limit=1000")).json()["tokens"]
            return {each["subject"] or each["label"]: each["last_used"] for each in found}

        assert (await used())["nightly"] is None
        await it.ask("GET", "/v1/rounds", token=token)
        assert (await used())["nightly"] == clock.now().date().isoformat()
        clock.advance(timedelta(days=1, hours=2))
        assert (await used())["nightly"] == (clock.now() - timedelta(days=1)).date().isoformat()
        await it.ask("GET", "/v1/rounds", token=token)
        assert (await used())["nightly"] == clock.now().date().isoformat()
        assert (await used())[sender.id] is None
        browser = await signed_in(it)
        await browser.get("/console/tokens")
        text = browser.words()
        assert "nightly analyst" in text
        assert "today" in text


async def test_the_sessions_of_a_token_end_at_once_and_the_token_stays(house: Houses) -> None:
    async with house(0, console=True) as it:
        made = await it.ask("POST", "/v1/tokens", {"scope": "analyst", "label": "report"})
        secret, token_id = made.json()["token"], made.json()["id"]
        analysts = [Browser(it.app) for _ in range(2)]
        for each in analysts:
            await each.sign_in(secret)
        browser = await signed_in(it)
        path = f"/console/tokens/{token_id}"
        await browser.get(path)
        assert "2 sessions of it are open" in browser.words()
        ends = f"{path}/sessions"
        assert (await analysts[0].get(path)).status_code == 404
        assert (await browser.post(ends, {"csrf": "x" * 43})).status_code == 403
        assert (await analysts[0].get("/console/rounds")).status_code == 200
        await browser.get(path)
        assert (await browser.submit(ends)).status_code == 303
        for each in analysts:
            assert (await each.get("/console/rounds")).status_code == 303
        assert (await it.ask("GET", "/v1/rounds", token=secret)).status_code == 200
        await browser.get(path)
        assert "None is open." in browser.words()
        await browser.get("/console/audit")
        assert "ended the sessions of a token" in browser.words()
        assert (await browser.get("/console/tokens/nothing")).status_code == 404
