"""Signing in at an identity provider: roles by group, and whatever a browser or a provider may send
that must not sign anyone in."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import RSAKey
from pydantic import SecretStr, ValidationError
from sqlalchemy import select

from common.runtime.clock import ManualClock
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.settings import CoordinatorSettings
from coordinator.store.tables import console, tokens
from curator.settings import CuratorSettings
from tests.coordinator.conftest import Houses
from tests.coordinator.console.browser import Browser
from tests.coordinator.console.provider import (
    CLIENT,
    ISSUER,
    KEY,
    MARK,
    SECRET,
    Provider,
    signed_by_hmac,
    unsigned,
)
from tests.coordinator.double import House

HOME = "https://house.test"
ROLES = {"grid-night": "operator", "grid-planning": "analyst"}
SETTINGS: dict[str, Any] = {
    "console": True,
    "public_url": HOME,
    "oidc_issuer": ISSUER,
    "oidc_client_id": CLIENT,
    "oidc_client_secret": SecretStr(SECRET),
    "oidc_roles": ROLES,
}


class Visit:
    """A browser at a console with single sign-on, and the provider."""

    def __init__(self, it: House, provider: Provider, clock: ManualClock) -> None:
        self.it, self.provider, self.clock = it, provider, clock
        self.browser = self.another()

    def another(self) -> Browser:
        browser = Browser(self.it.app)
        browser.client.base_url = HOME  # type: ignore[assignment]
        return browser

    async def begin(self, wanted: str = "/console/rounds") -> dict[str, str]:
        """From the sign-in page to the provider, and what that sends back."""
        answer = await self.browser.get(f"/console/sso?next={wanted}")
        assert answer.status_code == 303, answer.text
        return self.provider.authorize(answer.headers["location"])

    async def come_back(self, fields: dict[str, str]) -> int:
        """The browser follows the provider back, from another site."""
        page = await self.browser.client.get(
            "/console/sso/callback", params=fields, headers={"Sec-Fetch-Site": "cross-site"}
        )
        self.browser.page = page
        return page.status_code

    async def sign_in(self) -> int:
        return await self.come_back(await self.begin())

    async def is_in(self) -> bool:
        return (await self.browser.get("/console/rounds")).status_code == 200


@asynccontextmanager
async def visited(house: Houses, **changes: Any) -> AsyncIterator[Visit]:
    clock = ManualClock()
    async with house(0, clock=clock) as it:
        provider = Provider(clock)
        it.transports[ISSUER] = provider  # type: ignore[index]
        await it.restart(**{**SETTINGS, **changes})
        yield Visit(it, provider, clock)


async def test_a_person_signs_in_by_a_group_and_out(
    house: Houses, capsys: pytest.CaptureFixture[str]
) -> None:
    async with visited(house) as there:
        browser = there.browser
        await browser.get("/console/login?next=/console/rounds")
        assert "Sign in at the identity provider" in browser.words()
        assert 'href="/console/sso?next=/console/rounds"' in browser.page.text
        back = await there.begin()
        assert await there.come_back(back) == 200
        # The page leads on by itself: a redirect from another site would lack the strict cookie.
        assert 'content="0; url=/console/rounds"' in browser.page.text
        cookies = browser.page.headers.get_list("set-cookie")
        assert any("samesite=strict" in each.lower() and "Secure" in each for each in cookies)
        assert await there.is_in()
        assert "operator" in browser.words()
        assert (await browser.get("/console/tokens")).status_code == 200
        assert f"single sign-on: {MARK}" in browser.words()
        await browser.submit("/console/logout")
        assert not await there.is_in()
        await browser.get("/console/login")
        assert "sign out there too" in browser.words()
        away = (await browser.get("/console/sso/end")).headers["location"]
        assert away.startswith(f"{ISSUER}/end?ui=plain&client_id=tacit%3Anight&")
        assert parse_qs(urlsplit(away).query)["post_logout_redirect_uri"] == [
            f"{HOME}/console/login"
        ]
        async with part_of(there.it.app, Database).reading() as transaction:
            stored = str(
                [
                    (await transaction.execute(select(table))).all()
                    for table in (console.sessions, console.codes, console.audit)
                ]
            )
        assert MARK not in stored
    assert MARK not in "".join(capsys.readouterr())


async def test_roles_are_those_of_the_groups(house: Houses) -> None:
    async with visited(house) as there:
        for groups, role in (
            (["grid-planning"], "analyst"),
            (["grid-planning", "grid-night", "other"], "operator"),
            ("grid-planning", "analyst"),
        ):
            there.browser = there.another()
            there.provider.groups = groups
            assert await there.sign_in() == 200
            assert await there.is_in()
            assert f"{role} " in there.browser.words()
            seen = (await there.browser.get("/console/tokens")).status_code
            assert seen == (200 if role == "operator" else 404)
        for groups in ([], ["other"], None, ["GRID-NIGHT"], [["grid-night"]], {"grid-night": 1}, 7):
            there.browser = there.another()
            there.provider.groups = groups
            assert await there.sign_in() == 401, groups
            assert "none of your groups has a role in this service" in there.browser.words()
            assert not await there.is_in()


async def test_who_leaves_a_group_is_out_at_the_next_question_and_everywhere(
    house: Houses,
) -> None:
    async with visited(house, oidc_session_s=900) as there:
        assert await there.sign_in() == 200
        first, there.browser = there.browser, there.another()
        there.provider.groups = []
        assert await there.sign_in() == 401
        there.browser = first  # the refusal ended the session in the other browser
        assert not await there.is_in()
        there.provider.groups = ["grid-night"]
        assert await there.sign_in() == 200
        there.clock.advance(timedelta(seconds=890))
        assert await there.is_in()
        there.clock.advance(timedelta(seconds=11))
        assert not await there.is_in()  # the provider is asked again
        # Each person has one token: sign-ins leave no pile of them.
        assert await there.sign_in() == 200
        assert await there.sign_in() == 200
        there.provider.groups = ["grid-planning"]
        second, there.browser = there.browser, there.another()
        assert await there.sign_in() == 200
        there.browser = second  # the operator of before is one nowhere
        assert not await there.is_in()
        async with part_of(there.it.app, Database).reading() as transaction:
            rows = (await transaction.execute(select(tokens))).all()
        mine = [row for row in rows if row.label == f"single sign-on: {MARK}"]
        good = [row for row in mine if row.revoked is None and row.expires > there.clock.now()]
        assert [row.scopes for row in good] == ["analyst"]
        assert len(mine) == 4


async def test_a_revoked_token_ends_the_session(house: Houses) -> None:
    async with visited(house) as there:
        assert await there.sign_in() == 200
        listed = (await there.it.ask("GET", "/v1/tokens")).json()["tokens"]
        [row] = [each for each in listed if each["label"].endswith(MARK)]
        assert (await there.it.ask("DELETE", f"/v1/tokens/{row['id']}")).status_code < 300
        assert not await there.is_in()


async def test_a_sign_in_belongs_to_the_browser_that_began_it_and_happens_once(
    house: Houses,
) -> None:
    async with visited(house) as there:
        back = await there.begin()
        thief = there.another()
        thief, there.browser = there.browser, thief
        assert await there.come_back(back) == 401  # the address alone, in another browser
        assert "was not begun in this browser" in there.browser.words()
        mine = await there.begin()
        assert await there.come_back({**mine, "state": back["state"]}) == 401
        assert await there.come_back(mine) == 401  # its cookie went with the attempt before
        there.browser = thief
        kept = dict(thief.client.cookies.items())
        assert await there.come_back(back) == 200
        again = there.another()
        again.client.cookies.update(kept)
        there.browser = again
        assert await there.come_back(back) == 401  # the provider takes a code once
        assert "did not sign you in" in there.browser.words()
        # A code of one attempt with the state of another: PKCE does not fit.
        there.browser = there.another()
        other = await there.begin()
        there.browser = there.another()
        victim = await there.begin()
        assert await there.come_back({"state": victim["state"], "code": other["code"]}) == 401
        for fields in ({}, {"error": "access_denied"}, {"code": ""}, {"code": "x" * 5000}):
            begun = await there.begin()
            assert await there.come_back({**fields, "state": begun["state"]}) == 401
        assert await there.come_back({"code": "x", "state": "\ud7ff"}) == 401
        assert not await there.is_in()


LIES: dict[str, Callable[[Provider, int], None]] = {
    "issuer": lambda it, _: it.claims.update(iss="https://id.test/other"),
    "no issuer": lambda it, _: it.claims.update(iss=None),
    "audience": lambda it, _: it.claims.update(aud="another"),
    "audiences": lambda it, _: it.claims.update(aud=["another", CLIENT]),
    "party": lambda it, _: it.claims.update(aud=[CLIENT, "another"], azp="another"),
    "no audience": lambda it, _: it.claims.update(aud=None),
    "expired": lambda it, now: it.claims.update(exp=now - 61, iat=now - 400),
    "no end": lambda it, _: it.claims.update(exp=None),
    "an end that is none": lambda it, _: it.claims.update(exp="never"),
    "of the future": lambda it, now: it.claims.update(iat=now + 120, exp=now + 400),
    "not yet": lambda it, now: it.claims.update(nbf=now + 120),
    "nonce": lambda it, _: it.claims.update(nonce="replayed"),
    "no nonce": lambda it, _: it.claims.update(nonce=None),
    "no subject": lambda it, _: it.claims.update(sub=None),
    "a long subject": lambda it, _: it.claims.update(sub="x" * 161),
    "a subject of lines": lambda it, _: it.claims.update(sub="a\nb"),
    "a subject that is a number": lambda it, _: it.claims.update(sub=7),
    "another's key": lambda it, _: setattr(it, "key", RSAKey.generate_key(2048)),
    "unsigned": lambda it, _: setattr(it, "written", unsigned),
    "a public key as a shared secret": lambda it, _: setattr(
        it, "written", lambda claims: signed_by_hmac(claims, KEY.as_pem(private=False))
    ),
    "no token": lambda it, _: setattr(it, "written", lambda _: ""),
    "nonsense": lambda it, _: setattr(it, "written", lambda _: "a.b.c"),
}


async def test_a_statement_that_is_not_of_the_provider_for_this_sign_in_is_refused(
    house: Houses, capsys: pytest.CaptureFixture[str]
) -> None:
    async with visited(house) as there:
        for lie, tell in LIES.items():
            tell(there.provider, int(there.clock.now().timestamp()))
            assert await there.sign_in() == 401, lie
            assert "answer cannot be accepted; the log has the reason" in there.browser.words()
            assert not await there.is_in()
            there.provider.claims, there.provider.key = {}, KEY
            there.provider.written = there.provider.signed
        said = "".join(capsys.readouterr())
        assert said.count("statement_refused") == len(LIES)
        assert MARK not in said
        assert await there.sign_in() == 200


async def test_a_provider_that_is_away_is_named_on_the_page_and_a_token_still_signs_in(
    house: Houses, capsys: pytest.CaptureFixture[str]
) -> None:
    async with visited(house) as there:
        for place in ("/.well-known/openid-configuration", "/keys", "/token"):
            there.provider.down = set()
            back = await there.begin()
            there.provider.down = {place}
            assert await there.come_back(back) == 401, place
            assert "identity provider does not answer" in there.browser.words()
        there.provider.down = {"/.well-known/openid-configuration"}
        answer = await there.browser.get("/console/sso?next=/console/rounds")
        assert answer.status_code == 401
        assert "identity provider does not answer" in there.browser.words()
        assert (await there.browser.get("/console/sso/end")).status_code == 401
        there.provider.down = set()
        for document in (
            {"issuer": "https://id.test/other"},
            {"token_endpoint": "http://id.test/token"},
            {"authorization_endpoint": "javascript:alert(1)"},
            {"jwks_uri": None},
        ):
            there.provider.document = document
            assert (await there.browser.get("/console/sso")).status_code == 401, document
        await there.browser.sign_in()
        assert await there.is_in()
    assert "provider_away" in "".join(capsys.readouterr())


ELSEWHERE = (
    "https://evil.test/",
    "//evil.test",
    "/console/../../evil",
    "/console/\\evil.test",
    "/consoleevil",
    "javascript:alert(1)",
    "/console/%0d%0aSet-Cookie:evil=1",
    "/console/" + "evil" * 200,
)


async def test_nobody_is_led_elsewhere(house: Houses) -> None:
    async with visited(house) as there:
        for wanted in ELSEWHERE:
            assert await there.come_back(await there.begin(wanted)) == 200
            assert 'content="0; url=/console"' in there.browser.page.text, wanted
        for planted in (b"https://evil.test", b"//evil.test", b"\xff"):  # in the cookie
            back = await there.begin()
            cookies = there.browser.client.cookies
            [name] = [each for each in cookies if each.endswith("_sso")]
            value = cookies[name].split(".")[0] + "." + base64.urlsafe_b64encode(planted).decode()
            cookies.delete(name)
            cookies.set(name, value, domain="house.test", path="/console/sso")
            assert await there.come_back(back) == 200
            assert 'content="0; url=/console"' in there.browser.page.text, planted


async def test_headers_of_a_proxy_sign_nobody_in(house: Houses) -> None:
    async with visited(house) as there:
        names = ("X-Forwarded-User", "Remote-User", "X-Auth-Request-Groups", "X-Forwarded-Groups")
        answer = await there.browser.get("/console", **dict.fromkeys(names, "grid-night"))
        assert answer.status_code == 303


async def test_settings_that_would_let_in_nobody_or_anyone_are_refused() -> None:
    given = {name: value for name, value in SETTINGS.items() if name != "console"}
    CoordinatorSettings(**given)
    for changes, said in (
        ({"oidc_issuer": "http://id.test"}, "begins with https://"),
        ({"oidc_issuer": "https://id.test?a"}, "without"),
        ({"public_url": None}, "public_url"),
        ({"public_url": "http://house.test"}, "https://"),
        ({"oidc_client_id": ""}, "oidc_client_id"),
        ({"oidc_roles": {}}, "oidc_roles"),
        ({"oidc_roles": {"a": "curator"}}, "oidc_roles"),
        ({"oidc_scope": "groups"}, "oidc_scope"),
    ):
        with pytest.raises(ValidationError, match=said):
            CoordinatorSettings(**{**given, **changes})
    with pytest.raises(ValidationError, match="operator alone here"):
        CuratorSettings(**given)
    CuratorSettings(**{**given, "oidc_roles": {"grid-night": "operator"}})


async def test_roles_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_OIDC_ROLES", json.dumps(ROLES))
    assert dict(CoordinatorSettings().oidc_roles) == ROLES
