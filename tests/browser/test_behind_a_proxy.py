"""The consoles behind nginx, over TLS and each under a prefix, in a real browser; people sign in at
a real identity provider of another site, with its own pages."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from urllib.parse import urlsplit

import httpx
import oidc_provider_mock
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from cli.services.deployment import ServiceAddress
from tests.browser.conftest import PICTURES, WAIT_MS
from tests.e2e.nginx import PREFIX, Behind, behind_nginx, nginx
from tests.rules import energy_sum

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # within the provider
    pytest.mark.skipif(nginx() is None, reason="there is no nginx (Debian's nginx-light)"),
]

READINGS = {"a": "1", "b": "2", "c": "3.5"}
QUERY = energy_sum(
    name="behind-a-proxy",
    bounds=["0", "10"],
    max_readings=1,
    mechanism="exact",
    aggregators=2,
    min_participants=3,
    n_max=100,
    deadline_s=60,
)


ROLES = {
    "coordinator": {"grid-night": "operator", "grid-planning": "analyst"},
    "curator": {"grid-night": "operator"},
}


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    users = [
        oidc_provider_mock.User(sub="nora", claims={"groups": ["grid-night"], "email": "n@x.test"}),
        oidc_provider_mock.User(sub="paul", claims={"groups": ["grid-planning"]}),
        oidc_provider_mock.User(sub="evelyn", claims={"groups": ["cleaning"]}),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
        with oidc_provider_mock.run_server_in_thread(user_claims=users) as server:
            yield f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory, provider: str) -> Iterator[Behind]:
    directory = tmp_path_factory.mktemp("behind")

    def told(service: ServiceAddress) -> dict[str, str]:
        """The settings of a service that the provider knows from now on."""
        asked = {"redirect_uris": [f"{service.url}/console/sso/callback"]}
        client = httpx.post(f"{provider}/oauth2/clients", json=asked, trust_env=False).json()
        return {
            "TACIT_OIDC_ISSUER": provider,
            "TACIT_OIDC_CLIENT_ID": client["client_id"],
            "TACIT_OIDC_CLIENT_SECRET": client["client_secret"],
            "TACIT_OIDC_ROLES": json.dumps(ROLES[service.kind]),
            "TACIT_LOG_LEVEL": "info",
        }

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_TLS_AUTHORITY", str(directory / "tls" / "authority.pem"))
        with behind_nginx(directory, told) as found:
            yield found


@pytest.fixture(scope="module")
def a_round(behind: Behind) -> str:
    """All services reach each other, and a round is released, by addresses with a prefix."""

    async def work() -> str:
        it = behind.world
        await it.enrol("gateway", list(READINGS))
        await it.allow_everything()
        await it.give(READINGS)
        round_id = await it.open(QUERY)
        assert (await it.finish(round_id, 120))["state"] == "released"
        total = Decimal((await it.result(round_id))["result"]["sum"])
        assert total == sum(map(Decimal, READINGS.values()))
        return round_id

    return asyncio.run(work())


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    made = chromium.new_context(ignore_https_errors=True)
    made.set_default_timeout(WAIT_MS)
    yield made
    made.close()


def test_the_api_and_its_page_work_under_a_prefix(
    behind: Behind, a_round: str, context: BrowserContext
) -> None:
    with behind.world.real.coordinator.client() as client:
        for number in range(101):  # more than a page
            client.request("POST", "/v1/tokens", {"scope": "analyst", "label": f"n-{number}"})
        answer = client.request("GET", "/v1/tokens?limit=2")
        link = answer.links["next"]["url"]
        assert link.startswith(f"{PREFIX}/coordinator/v1/tokens?")  # for any client of the web
        listed = [each["label"] for each in client.tokens.list()]
        assert {f"n-{number}" for number in range(101)} <= set(listed)
    page, failed = context.new_page(), list[str]()
    page.on("response", lambda each: failed.append(each.url) if each.status >= 400 else None)
    page.goto(f"{behind.console}/docs")
    page.get_by_text("/v1/rounds", exact=True).first.wait_for()
    document = page.request.get(f"{behind.console}/openapi.json").json()
    assert document["servers"] == [{"url": f"{PREFIX}/coordinator"}]
    assert failed == []


def sign_in(page: Page, address: str, who: str) -> None:
    page.goto(address)
    page.get_by_role("link", name="Sign in at the identity provider").click()
    page.get_by_role("button", name=who).click()


def test_people_sign_in_and_out_and_every_page_stays_under_the_prefix(
    behind: Behind, a_round: str, context: BrowserContext, provider: str
) -> None:
    page = context.new_page()
    strange: list[str] = []

    def within(address: str) -> bool:
        return address.startswith((f"{behind.console}/", "data:"))

    page.goto(f"{behind.console}/console/login")
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / "sign-in-at-a-provider.png", full_page=True)
    sign_in(page, f"{behind.console}/console/rounds", "nora")
    page.wait_for_url(f"{behind.console}/console/rounds")
    assert page.locator(".who").inner_text().startswith("operator")
    page.on("console", lambda each: strange.append(each.text) if each.type == "error" else None)
    page.on("response", lambda each: strange.append(each.url) if each.status >= 400 else None)
    page.on("request", lambda each: None if within(each.url) else strange.append(each.url))
    for cookie in context.cookies():
        if cookie["name"].startswith("tacit_"):
            assert cookie["path"] == f"{PREFIX}/coordinator/console"
            assert cookie["secure"]
    waiting, seen = ["/console"], {"/console"}
    while waiting and len(seen) < 80:
        page.goto(behind.console + waiting.pop(0))
        for link in page.locator("a[href]").all():
            target = link.evaluate("each => each.href").partition("#")[0]
            assert within(target), target
            path = target.removeprefix(behind.console)
            if path not in seen and not re.search(r"\.(csv|zip|json|svg)|/sso", path):
                seen.add(path)
                waiting.append(path)
    assert len(seen) > 20
    page.goto(f"{behind.console}/console/rounds/{a_round}")
    page.get_by_role("button", name="Check in this browser").click()
    page.locator(".check .good, .check [role=status]").first.wait_for()
    page.screenshot(path=PICTURES / "round-behind-a-proxy.png", full_page=True)
    page.goto(f"{behind.console}/console/audit")
    assert "single sign-on: nora" in page.content()
    assert strange == []
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{behind.console}/console/login")
    page.get_by_role("link", name="sign out there too").click()
    assert page.url.startswith(f"{provider}/oauth2/end_session?")


def test_roles_are_the_providers_groups(behind: Behind, context: BrowserContext) -> None:
    page = context.new_page()
    sign_in(page, f"{behind.console}/console/rounds", "paul")
    page.wait_for_url(f"{behind.console}/console/rounds")
    assert page.locator(".who").inner_text().startswith("analyst")
    context.clear_cookies()
    sign_in(page, f"{behind.console}/console/rounds", "evelyn")
    page.get_by_text("none of your groups has a role in this service").wait_for()
    page.screenshot(path=PICTURES / "no-role.png", full_page=True)
    page.goto(f"{behind.console}/console/rounds")
    assert urlsplit(page.url).path == f"{PREFIX}/coordinator/console/login"
    log = (behind.world.real.directory / "coordinator" / "service.log").read_text()
    assert "no_role" in log
    for private in ("nora", "paul", "evelyn", "x.test", "code="):
        assert private not in log


def test_the_curators_console_has_a_prefix_and_a_cookie_of_its_own(
    behind: Behind, a_round: str, context: BrowserContext
) -> None:
    curator = behind.world.real.curator
    page = context.new_page()
    page.goto(curator.url + "/")
    assert page.url == f"{curator.url}/console/login?next=/console"
    sign_in(page, f"{curator.url}/console/readings", "nora")
    page.wait_for_url(f"{curator.url}/console/readings")
    assert page.locator(".who").inner_text().startswith("operator")
    assert f"{curator.url}/v1/readings" in page.content()
    cookies = [each for each in context.cookies() if each["name"].startswith("tacit_")]
    assert [each["path"] for each in cookies] == [f"{PREFIX}/curator/console"]
    context.clear_cookies()
    sign_in(page, f"{curator.url}/console/readings", "paul")  # his group has a role elsewhere alone
    page.get_by_text("none of your groups has a role in this service").wait_for()
