"""The curator's console in a real browser: everybody can use it, and a stop is two pages away."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from cli.services.deployment import Deployment
from tests.browser.conftest import PICTURES, SHOWN, WAIT_MS, Site, signed_in, windows
from tests.browser.test_console import LOOKS, violations

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def curators(site: Site) -> Site:
    return Site(site.home, Deployment.load(site.home).curator.url)


@pytest.fixture(scope="module")
def operator(curators: Site, chromium: Browser) -> Any:
    """The cookies of the process' operator, who came by `tacit console --curator`."""
    return signed_in(chromium, curators.command("console", "--curator", "--no-open").strip())


@pytest.fixture
def look(chromium: Browser, curators: Site, operator: Any) -> Iterator[Any]:
    """`look(width, scheme, script=False)`: a window at the curator's console."""
    yield from windows(chromium, curators, operator)


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_fits_and_is_accessible(look: Any, width: int, scheme: str) -> None:
    it = look(width, scheme)
    PICTURES.mkdir(parents=True, exist_ok=True)
    one = "/console/curators/meter-000"
    links = [each.get_attribute("href") for each in it.go(one).locator("table a").all()]
    assert len(links) >= 4  # the rounds of the demo; tests of other pages may have opened one
    paths = {
        "curators": "/console",
        "given": one,
        "answer-paper": links[-4],
        "answer": links[-3],
        "stop": f"{one}/stop",
        "stop-all": "/console/stop",
        "filtered": "/console?only=silent",
        "own-policy": f"{one}/policy",
        "policy": "/console/policy",
        "readings": "/console/readings",
        "import": "/console/readings/import",
        "parties": "/console/parties",
        "tokens": "/console/tokens?scope=device",
        "audit": "/console/audit",
        "readings-then": "/console/readings?span=7%20d&to=2025-10-29T00:00:00Z",
    }
    for name, path in paths.items():
        page = it.go(path)
        page.screenshot(path=PICTURES / f"{name}-{width}-{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == []


@pytest.mark.parametrize("script", [True, False])
def test_a_curator_stops_and_takes_part_again(look: Any, curators: Site, script: bool) -> None:
    it = look(script=script)
    page = it.go("/console/curators/meter-001")
    page.get_by_role("link", name="Stop …").click()
    page.get_by_label("Type the name").fill("meter-001")
    page.keyboard.press("Enter")
    expect(page.get_by_text("This curator is stopped.")).to_be_visible()
    told = curators.command("policy", "stops", "--curator", "meter-001")
    assert told.startswith("meter-001: stopped (operator since")
    page.get_by_role("button", name="Remove my stop").click()
    expect(page.get_by_role("link", name="Stop …")).to_be_visible()
    assert "not stopped" in curators.command("policy", "stops", "--curator", "meter-001")


@pytest.mark.parametrize("script", [True, False])
def test_a_policy_is_tried_and_saved_by_keyboard(look: Any, curators: Site, script: bool) -> None:
    page = look(script=script).go("/console/curators/meter-002/policy")
    field = page.get_by_label("A day may cost, epsilon").first
    field.fill("0.5")
    page.get_by_role("button", name="Try it on the last 30 days").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("would have answered")).to_be_visible()
    expect(page.get_by_label("A day may cost, epsilon").first).to_have_value("0.5")
    page.get_by_role("button", name="Save").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("It holds from the next question on.")).to_be_visible()
    shown = curators.command("policy", "show", "--curator", "meter-002", "--json")
    assert json.loads(shown)["curator"]["period"]["epsilon"] == "0.5"
    page.get_by_role("button", name="Let the default hold again").click()
    expect(page.get_by_text("is gone")).to_be_visible()


CSV = "meter,when,kwh\n" + "".join(
    f"meter-{number:03d},2025-10-01T00:00:00Z,0.25\n" for number in range(3, 9)
)


@pytest.mark.parametrize("script", [True, False])
def test_a_file_is_seen_before_it_is_sent(look: Any, tmp_path: Path, script: bool) -> None:
    """With script its first rows are shown, by the browser alone; without it is just imported."""
    it = look(script=script)
    path = tmp_path / "meters.csv.gz"
    path.write_bytes(
        gzip.compress((CSV + f"meter-000,{'soon' if script else 'later'},1\n").encode())
    )
    page = it.go("/console/readings/import")
    page.get_by_label("unit", exact=True).select_option("kWh")
    page.get_by_label("File", exact=True).set_input_files(path)
    if script:
        shown = page.get_by_role("region", name="First rows of the file")
        expect(shown.get_by_role("columnheader")).to_have_text(["meter", "when", "kwh"])
        expect(shown.locator("tbody tr")).to_have_count(5)
        assert violations(page) == []
        found = page.locator("#columns option").evaluate_all("all => all.map((each) => each.value)")
        assert found == ["meter", "when", "kwh"]
    page.get_by_label("curator column").fill("meter")
    page.get_by_label("time column").fill("when")
    page.get_by_label("value column").fill("kwh")
    page.get_by_role("button", name="Import it").click()
    expect(page.get_by_role("heading", name="The file is in")).to_be_visible()
    expect(page.locator("table tbody tr")).to_have_count(1)
    if script:
        assert violations(page) == []


def test_a_file_that_is_no_table_leaves_the_form(look: Any) -> None:
    """A file that is no table leaves the form as it is, with what is wrong at its head."""
    it = look()
    page = it.go("/console/readings/import")
    page.get_by_label("unit", exact=True).select_option("kWh")
    page.get_by_label("File", exact=True).set_input_files(
        {"name": "holiday.jpg", "mimeType": "image/jpeg", "buffer": bytes(range(256)) * 40}
    )
    page.get_by_role("button", name="Import it").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("unit", exact=True)).to_have_value("kWh")
    [answered] = it.faults  # the browser notes a page of status 422
    assert "422" in answered
    it.faults.clear()


CHECK = "Check in this browser"


def check_answer(page: Page, number: int) -> None:
    """Open one of the four answers, once it is known how its round ended, and check it."""
    # To follow the link by a click would not wait: a reload stops a page that is still to come.
    page.goto(urljoin(page.url, str(page.locator("table a").nth(number).get_attribute("href"))))
    for _ in range(WAIT_MS // 1000):
        if not page.get_by_text("is published yet").count():
            break
        page.wait_for_timeout(1000)
        page.reload()
    page.get_by_role("button", name=CHECK).click()


def fulfil(body: dict[str, Any]) -> Callable[[Route], None]:
    return lambda route: route.fulfill(json=body)


def test_every_answer_is_checked_in_the_browser(look: Any) -> None:
    """Three mechanisms and the paper's, by keys that the coordinator does not supply."""
    it = look()
    for number in range(4):
        page = it.go("/console/curators/meter-000")
        check_answer(page, number)
        expect(page.locator(".verdict.good")).to_contain_text(" committed to.")
        titles = page.locator(".checks b").all_inner_texts()
        assert "✓ It is the round that the curator answered" in titles
        assert "✓ Every aggregator is the one you know" in titles


def test_a_coordinator_that_published_another_round_is_refused(look: Any) -> None:
    """One answer's page with the transcript of another round, as a coordinator could serve it."""
    it = look()
    page = it.go("/console/curators/meter-000")
    links = [str(each.get_attribute("href")) for each in page.locator("table a").all()]
    check_answer(page, 1)
    other = page.request.get(f"{it.site.address}{links[2]}/evidence.json").json()
    own = page.request.get(f"{it.site.address}{links[1]}/evidence.json").json()
    for changed, said in (
        ({**own, "transcript": other["transcript"]}, "the transcript is of another round"),
        ({**own, "answered": other["answered"]}, "another round than was published"),
        ({**own, "pins": dict.fromkeys(own["pins"], "0" * 64)}, "is not the one that was known"),
        ({**own, "coordinator": "A" * 43 + "="}, "Refused"),
        ({**own, "result": {"sum": "1"}}, "do not give the published result"),
        ({**own, "answered": None}, "do not give the published result"),
    ):
        page = it.go(links[1])
        page.route("**/evidence.json", fulfil(changed))
        page.get_by_role("button", name=CHECK).click()
        expect(page.locator(".verdict.bad")).to_contain_text(said)
        page.unroute("**/evidence.json")


def test_pictures_of_the_documentation(look: Any) -> None:
    """`make pictures` puts them into docs/pictures."""
    it = look(1100)
    SHOWN.mkdir(parents=True, exist_ok=True)

    def take(name: str, page: Page, height: int) -> None:
        page.set_viewport_size({"width": 1100, "height": height})
        page.screenshot(path=SHOWN / f"{name}.png")

    one = "/console/curators/meter-000"
    take("curators", it.go("/console"), 720)
    take("given", it.go(one), 900)
    page = it.go(one)
    check_answer(page, 2)
    expect(page.locator(".verdict.good")).to_be_visible()
    page.evaluate("document.querySelector('#ladder').scrollIntoView()")
    take("answer", page, 1500)
    page = it.go(f"{one}/policy")
    page.get_by_role("button", name="Try it on the last 30 days").click()
    take("policy", page, 1150)
    take("readings", it.go("/console/readings?span=24%20h&to=2025-10-29T00:00:00Z"), 1000)
