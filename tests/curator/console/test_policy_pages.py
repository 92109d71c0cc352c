"""What curators agree to, on pages: an operator's forms and an owner's."""

from __future__ import annotations

import html
from fractions import Fraction
from typing import Any

import pytest

from tacit.accounting.composition import ZcdpLimit
from tacit.report.model import guess
from tests.coordinator.console.browser import Browser
from tests.curator.conftest import OPEN, OPERATOR, Site
from tests.curator.console.test_pages import HOSTILE, owner

pytestmark = pytest.mark.usefixtures("given")
FORM: dict[str, str] = {
    "accept": "any",
    "min_participants": "2",
    "curator/period/epsilon": "1",
    "curator/period/delta": "0.000001",
    "curator/lifetime/epsilon": "",
    "record/period/epsilon": "1",
    "record/period/delta": "0.000001",
    "record/lifetime/epsilon": "",
}


async def send(browser: Browser, path: str, step: str, **changes: str) -> Any:
    fields = {**FORM, **changes, "csrf": browser.field("csrf"), "step": step}
    return await browser.post(path, fields)


async def test_the_default_is_tried_and_then_holds(s: Site, browser: Browser) -> None:
    await browser.sign_in(OPERATOR)
    path = "/console/policy"
    assert (await browser.get(path)).status_code == 200
    before = await s.get("/v1/policy")
    await send(browser, path, "try", **{"curator/period/epsilon": "0.5"})
    found = await s.request(
        "POST",
        "/v1/policy/preview",
        {
            **before,
            "allow_unverified": False,
            "curator": {"period": {"epsilon": "0.5", "delta": "0.000001"}},
            "record": {"period": {"epsilon": "1", "delta": "0.000001"}},
        },
        200,
    )
    assert (found["rounds"], found["answered"]) == (2, 1)
    assert "Of 2 questions since" in browser.words()
    assert "would have answered 1" in browser.words()
    assert await s.get("/v1/policy") == before
    answer = await send(browser, path, "save", **{"curator/period/epsilon": "0.5"})
    assert answer.status_code == 303
    await browser.get(answer.headers["location"])
    assert "It holds from the next question on." in browser.words()
    right = 100 * float(guess([("0.5", "0.000001")]))
    assert 62.24 < right < 62.26
    assert f"guesses right in at most {right:g} of 100 cases" in browser.words()
    after = await s.get("/v1/policy")
    assert after["curator"]["period"] == {"epsilon": "0.5", "delta": "0.000001"}
    untouched = set(before) - {"curator", "record", "allow_unverified"}
    assert {name: after[name] for name in untouched} == {name: before[name] for name in untouched}


async def test_what_is_wrong_is_said_at_its_field_and_kept(s: Site, browser: Browser) -> None:
    await browser.sign_in(OPERATOR)
    await browser.get("/console/policy")
    before = await s.get("/v1/policy")
    for field, value in (
        ("min_participants", "0"),
        ("curator/period/epsilon", "1e999"),
        ("record/period/delta", HOSTILE[0]),
        ("curator/period/zcdp/epsilon", "-1"),
        ("record/lifetime/zcdp/delta", "1"),
    ):
        answer = await send(browser, "/console/policy", "save", **{field: value})
        assert answer.status_code == 422
        assert f'id="{field}-error"' in browser.page.text
        text = browser.page.text.replace("&#34;", "&quot;")
        assert f'value="{html.escape(value)}"' in text
    assert await s.get("/v1/policy") == before


async def test_limits_in_rho_are_set_shown_and_deleted(s: Site, browser: Browser) -> None:
    """(8, 10^-6) in zCDP lets who sees all guess right less often than (8, 10^-6) alone."""
    await browser.sign_in(OPERATOR)
    path = "/console/policy"
    await browser.get(path)
    none = {"curator/period/epsilon": "", "curator/period/delta": ""}
    year = {"curator/period/zcdp/epsilon": "8", "curator/period/zcdp/delta": "0.000001"}
    answer = await send(browser, path, "save", **none, **year)
    assert answer.status_code == 303
    limits = (await s.get("/v1/policy"))["curator"]
    assert limits["period"] == {"zcdp": {"epsilon": "8", "delta": "0.000001"}}
    await browser.get(path)
    assert 'name="curator/period/zcdp/epsilon" inputmode="decimal" value="8"' in browser.page.text
    assert "guesses right in at most 83.08 of 100 cases" in browser.words()
    await browser.get("/console/curators/g-1")
    most = ZcdpLimit(Fraction(8), Fraction(1, 10**6)).most_rho() / 10**9
    assert f"of {most} rho, which is epsilon 8 at delta 0.000001, spent" in browser.words()
    await browser.get(path)
    half = await send(browser, path, "save", **none, **{**year, "curator/period/zcdp/delta": ""})
    assert half.status_code == 422
    assert 'id="curator/period/zcdp/delta-error"' in browser.page.text
    assert (await send(browser, path, "save", **none)).status_code == 303
    assert (await s.get("/v1/policy"))["curator"].get("period", {}) == {}


async def test_an_owner_makes_its_own_stricter_and_drops_it(s: Site, browser: Browser) -> None:
    await s.policy(**OPEN, curator={"period": {"epsilon": "1"}})
    await browser.sign_in(await owner(s, "g-1"))
    path = "/console/curators/g-1/policy"
    await browser.get(path)
    assert "both must agree" in browser.words()
    await send(browser, path, "save", **{"curator/period/epsilon": "2"})
    assert "the operator allows 1" in browser.words()
    assert 'id="curator/period/epsilon-error"' in browser.page.text
    some = {"accept": "some", "curator/period/epsilon": "0.25"}
    await send(browser, path, "try", **some)
    assert "g-1 would have answered 0" in browser.words()
    assert (await send(browser, path, "save", **some)).status_code == 303
    held = await s.get("/v1/curators/g-1/policy?of=owner")
    assert not held["accept_any"]
    assert held["curator"]["period"]["epsilon"] == "0.25"
    assert "owner" not in await s.get("/v1/curators/g-2/policy?of=owner")
    await browser.get(path)
    assert (await send(browser, path, "drop")).status_code == 303
    assert (await s.get("/v1/curators/g-1/policy?of=owner")) == await s.get("/v1/policy")


async def test_nobody_else_sees_or_changes_it(s: Site, browser: Browser) -> None:
    await browser.sign_in(await owner(s, "g-1"))
    await browser.get("/console/curators/g-1/policy")
    before = await _policies(s)
    for path in ("/console/policy", "/console/curators/g-2/policy"):
        assert (await browser.get(path)).status_code == 404
        await browser.get("/console/curators/g-1/policy")
        assert (await send(browser, path, "save", min_participants="9")).status_code == 404
    stranger = Browser(s.app)
    await stranger.sign_in(OPERATOR)
    await stranger.get("/console/policy")
    fields = {**FORM, "step": "save", "csrf": browser.field("csrf")}
    assert (await stranger.post("/console/policy", fields)).status_code == 403
    assert await _policies(s) == before


async def _policies(s: Site) -> list[Any]:
    return [await s.get("/v1/policy"), await s.get("/v1/curators/g-2/policy?of=owner")]
