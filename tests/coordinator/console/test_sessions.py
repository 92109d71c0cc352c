"""Sessions: made here alone, ended by whatever ends their token, of no use anywhere else."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import select

from common.runtime.clock import ManualClock
from common.store.transactions import Database
from common.web.auth import Authenticator
from common.web.console.browser_sessions import FAILURES
from common.web.dependencies import part_of
from coordinator.store.tables import console
from tests.coordinator.conftest import Houses
from tests.coordinator.console.browser import ORIGIN, Browser
from tests.coordinator.double import OPERATOR_TOKEN


async def test_a_session_from_its_beginning_to_its_end(house: Houses) -> None:
    async with house(0, console=True) as it:
        browser = Browser(it.app)
        answer = await browser.get("/console/rounds")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/console/login?next=/console/rounds"
        assert (await browser.get(answer.headers["location"])).status_code == 200
        assert browser.field("next") == "/console/rounds"
        answer = await browser.sign_in(wanted="/console/rounds")
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/rounds")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert "Path=/console" in cookie
        assert "Secure" not in cookie  # this one is not behind TLS
        assert OPERATOR_TOKEN not in cookie
        assert (await browser.get("/console/rounds")).status_code == 200
        [(name, session)] = browser.client.cookies.items()
        identity = (await it.client.get("/.well-known/tacit-coordinator")).json()
        # Two services of one host have cookies of their own.
        assert name == f"tacit_coordinator_{identity['fingerprint'][:8]}"
        # A cookie opens no route of the API.
        assert (await browser.get("/v1/rounds")).status_code == 401
        answer = await browser.client.get("/v1/rounds", headers={"Cookie": f"{name}={session}"})
        assert answer.status_code == 401
        async with part_of(it.app, Database).reading() as transaction:
            sessions = (await transaction.execute(select(console.sessions))).all()
            [audited] = (await transaction.execute(select(console.audit))).all()
        assert (audited.action, audited.outcome) == ("signed in", "done")
        assert len(sessions) == 1
        for secret in (OPERATOR_TOKEN, session):
            assert secret not in str([*sessions, audited])
        await browser.get("/console/rounds")
        assert (await browser.submit("/console/logout")).headers["location"] == "/console/login"
        assert (await browser.get("/console/rounds")).status_code == 303


async def test_over_tls_the_cookie_is_secure(house: Houses) -> None:
    async with house(0, console=True, public_url="https://house.test") as it:
        assert "Secure" in (await Browser(it.app).sign_in()).headers["set-cookie"]


async def test_an_id_that_was_not_made_here_is_never_adopted(house: Houses) -> None:
    async with house(0, console=True) as it:
        browser = Browser(it.app)
        await browser.sign_in()
        [(name, first)] = browser.client.cookies.items()
        planted = Browser(it.app)
        planted.client.cookies.set(name, "x" * 43, domain="house.test", path="/console")
        assert (await planted.get("/console/rounds")).status_code == 303
        await planted.sign_in()
        second = [value for key, value in planted.client.cookies.items() if key == name][-1]
        assert second not in (first, "x" * 43)


async def test_idle_and_old_sessions_end(house: Houses) -> None:
    clock = ManualClock()
    async with house(0, console=True, console_idle_s=14_400, clock=clock) as it:
        browser = Browser(it.app)
        for idle_h, ends in ((3.9, False), (4.1, True)):
            await browser.sign_in()
            clock.advance(timedelta(hours=idle_h))
            assert (await browser.get("/console/rounds")).status_code == (303 if ends else 200)
        await browser.sign_in()
        statuses = []
        for _ in range(4):  # looked at often enough it lasts 12 hours
            clock.advance(timedelta(hours=3.5))
            statuses.append((await browser.get("/console/rounds")).status_code)
        assert statuses == [200, 200, 200, 303]


async def test_a_revoked_token_ends_its_sessions_in_a_second_process_too(house: Houses) -> None:
    async with house(0, console=True) as it, it.replica() as (other, _):
        answer = await it.ask("POST", "/v1/tokens", {"scope": "analyst", "label": "x"})
        browser, elsewhere = Browser(it.app), Browser(other)
        await browser.sign_in(answer.json()["token"])
        elsewhere.client.cookies = browser.client.cookies
        assert (await elsewhere.get("/console/rounds")).status_code == 200
        gone = await it.ask("DELETE", f"/v1/tokens/{answer.json()['id']}")
        assert gone.status_code in (200, 204)
        part_of(other, Authenticator).forget()  # what it knows is at most 5 seconds old
        assert (await browser.get("/console/rounds")).status_code == 303
        assert (await elsewhere.get("/console/rounds")).status_code == 303


async def test_what_is_not_accepted_is_said_and_after_five_failures_one_waits(
    house: Houses,
) -> None:
    clock = ManualClock()
    async with house(0, console=True, clock=clock) as it:
        browser = Browser(it.app)
        for token in ("", "nonsense", "tct_operator_" + "A" * 43, "x" * 5000):
            answer = await browser.sign_in(token)
            assert answer.status_code == 401
            assert "This token is not accepted." in browser.words()
            assert "set-cookie" not in answer.headers
            assert token == "" or token not in answer.text
        assert (await browser.sign_in(await it.token("curator"))).status_code == 401
        assert "This token is for a machine." in browser.words()
        clock.advance(timedelta(seconds=61))
        for _ in range(FAILURES):
            assert (await browser.sign_in("wrong")).status_code == 401
        refused = await browser.sign_in()  # the right one has to wait, too
        assert refused.status_code == 429
        assert 0 < int(refused.headers["retry-after"]) <= 61
        clock.advance(timedelta(seconds=61))
        assert (await browser.sign_in()).status_code == 303


async def test_after_the_sign_in_only_own_pages_are_shown(house: Houses) -> None:
    elsewhere = ("https://evil.test/", "//evil.test", "/console/../v1", "/v1/rounds",
                 "/console\\evil", "")  # fmt: skip
    async with house(0, console=True) as it:
        for wanted in elsewhere:
            answer = await Browser(it.app).sign_in(wanted=wanted)
            assert answer.headers["location"] == "/console", wanted


async def test_a_code_signs_in_once_and_within_a_minute(house: Houses) -> None:
    clock = ManualClock()
    async with house(0, console=True, clock=clock) as it:
        made = (await it.ask("POST", "/v1/console/codes", {})).json()
        assert made["path"] == f"/console/login#{made['code']}"
        first, second = Browser(it.app), Browser(it.app)
        assert (await first.post("/console/login", {"code": made["code"]})).status_code == 303
        assert (await first.get("/console/rounds")).status_code == 200
        assert (await second.post("/console/login", {"code": made["code"]})).status_code == 401
        late = (await it.ask("POST", "/v1/console/codes", {})).json()["code"]
        clock.advance(timedelta(seconds=61))
        assert (await second.post("/console/login", {"code": late})).status_code == 401
        party = await it.token("curator")
        assert (await it.ask("POST", "/v1/console/codes", {}, token=party)).status_code == 403


FOREIGN: tuple[dict[str, str], ...] = (
    {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.test"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://house.test:8797"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "null"},
    {"Origin": "http://house.test:8797"},
    {},
)


async def test_no_form_from_elsewhere_is_taken(house: Houses) -> None:
    async with house(0, console=True) as it:
        mine, other = Browser(it.app), Browser(it.app)
        for headers in FOREIGN:
            refused = await mine.post("/console/login", {"token": OPERATOR_TOKEN}, headers)
            assert refused.status_code == 403, headers
        for each in (mine, other):
            await each.sign_in()
            await each.get("/console/rounds")
        secret = mine.field("csrf")
        for headers in FOREIGN:
            answer = await mine.post("/console/logout", {"csrf": secret}, headers)
            assert answer.status_code == 403, headers
        assert (await mine.get("/console/rounds")).status_code == 200
        # A form needs the secret of its own session.
        for wrong in ("", "x", other.field("csrf")):
            assert (await mine.post("/console/logout", {"csrf": wrong})).status_code == 403
        old = {"Origin": ORIGIN}  # a browser from before Sec-Fetch-Site
        assert (await mine.post("/console/logout", {"csrf": secret}, old)).status_code == 303


async def test_a_console_that_is_off_is_not_there(house: Houses) -> None:
    async with house(0) as it:
        for path in ("/", "/console", "/console/login", "/console/static/x/console.css"):
            assert (await it.client.get(path)).status_code == 404
        assert (await it.ask("POST", "/v1/console/codes", {})).status_code == 404
