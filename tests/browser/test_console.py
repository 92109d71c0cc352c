"""The console in a real browser: nothing is refused by its own policy, everybody can use it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import PICTURES, Site

pytestmark = pytest.mark.slow

PAGES = (
    "/console",
    "/console/rounds",
    "/console/rounds/new",
    "ROUND",
    "/console/login",
    "/console/budget",
    "/console/budget/limits",
    "/console/budget/ledger",
    "/console/budget/events",
    "/console/queries",
    "/console/queries/new",
    "/console/jobs",
    "/console/jobs/new",
    "/console/jobs/new?algorithm=kmeans",
    "/console/datasets",
    "/console/flow",
    "/console/parties",
    "/console/tokens",
    "/console/audit",
)
LOOKS = [(width, scheme) for width in (360, 768, 1440) for scheme in ("light", "dark")]


def places(found: Any) -> list[str]:
    """The addresses of the demo's four rounds, the newest first; a test may have opened more."""
    page = found.go("/console/rounds")
    links = [each.get_attribute("href") for each in page.locator("table a").all()]
    assert len(links) >= 4
    return [link for link in links[-4:] if link is not None]


def violations(page: Any) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {[node['html'][:120] for node in each['nodes']]}" for each in found]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_fits_and_is_accessible(window: Any, width: int, scheme: str) -> None:
    it = window(width, scheme)
    rounds = places(it)
    PICTURES.mkdir(parents=True, exist_ok=True)
    for path in (*PAGES, rounds[0]):
        page = it.go(rounds[2] if path == "ROUND" else path)
        name = re.sub(r"[^A-Za-z]+", "-", path.strip("/")) if path != rounds[0] else "round-paper"
        page.screenshot(path=PICTURES / f"{name}-{width}-{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == []


def test_axe_finds_what_is_planted(window: Any) -> None:
    page = window().go("/console/rounds")
    page.evaluate(
        """() => {
          const main = document.querySelector("main");
          main.append(document.createElement("button"), document.createElement("img"));
          document.documentElement.lang = "";
        }"""
    )
    found = {each.partition(":")[0] for each in violations(page)}
    assert found >= {"button-name", "image-alt", "html-has-lang"}


def test_pages_without_script(window: Any) -> None:
    it = window(script=False)
    [paper, *_] = places(it)
    page = it.go(paper)
    expect(page.get_by_text("no bound is verified")).to_be_visible()
    page.get_by_text("The same as a table").first.click()
    expect(page.get_by_role("cell").first).to_be_visible()


def test_text_of_twice_the_size(window: Any) -> None:
    it = window(720)
    rounds = places(it)
    for path in ("/console/rounds", rounds[1]):
        page = it.go(path)
        page.evaluate("document.documentElement.style.setProperty('font-size', '200%')")
        assert page.evaluate("document.documentElement.scrollWidth") <= 720


def test_a_person_with_a_keyboard_asks_and_sees_the_round_come_about(
    window: Any, site: Site
) -> None:
    """Open a round of the demo's query, see it live until it is released."""
    it = window()
    page = it.go("/console/rounds")
    before = page.locator("tbody tr").count()
    page.get_by_role("link", name="Open a round").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/rounds/new")
    options = page.get_by_label("Query", exact=True).locator("option").all_text_contents()
    chosen = next(each for each in options if each.startswith("demo-distributed"))
    page.get_by_label("Query", exact=True).select_option(label=chosen)
    page.get_by_label("From").fill("2025-10-28T17:00:00")
    page.get_by_label("Until (a reading of exactly this time is not in it)").fill(
        "2025-10-28T18:00:00"
    )
    page.get_by_role("button", name="Look at the cost").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Each curator pays epsilon")).to_be_visible()
    page.get_by_role("button", name="Open the round").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="How it came about")).to_be_visible()
    expect(page.get_by_role("heading", name="Result")).to_be_visible()
    expect(page.get_by_text("This query promises protection down to here")).to_be_visible()
    expect(page.get_by_text("The round was opened.")).to_be_visible()
    assert it.go("/console/rounds").locator("tbody tr").count() == before + 1
    assert "released" in site.command("round", "list")


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_a_question_is_asked_by_the_keyboard(
    window: Any, site: Site, width: int, scheme: str
) -> None:
    """Five steps; Enter goes on; the last page says the price, and the command line has it then."""
    page = window(width, scheme).go("/console/queries/new")
    page.get_by_label("Name of the query").fill(f"asked-at-{width}")
    page.get_by_label("Largest plausible reading").fill("5")
    for number, title in enumerate(("What", "Participants", "How exact", "Whom do you trust"), 1):
        expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == []
        page.screenshot(path=PICTURES / f"wizard-{number}-{width}-{scheme}.png", full_page=True)
        if title == "How exact":
            page.get_by_label("Epsilon of each round:").press("ArrowRight")
            assert page.get_by_label("Epsilon of each round", exact=True).input_value() == "1.5"
        page.locator("main input:visible").first.press("Enter")
    expect(page.get_by_text("Making the query spends nothing")).to_be_visible()
    expect(page.get_by_text("epsilon 1.5")).not_to_have_count(0)
    assert violations(page) == []
    page.screenshot(path=PICTURES / f"wizard-5-{width}-{scheme}.png", full_page=True)
    page.get_by_role("button", name="Keep this question").press("Enter")
    expect(page.get_by_text("The query is made")).to_be_visible()
    assert violations(page) == []
    assert f"asked-at-{width}" in site.command("query", "list", "--json")


def test_a_slider_shows_the_rows_of_its_table(window: Any) -> None:
    """What is beside the slider is a row of the table; without a script the table is there."""
    page = window().go("/console/budget")
    slider = page.get_by_label("Epsilon of each round")
    slider.focus()
    page.keyboard.press("Home")
    tiles = page.locator(".tiles .big")
    first = page.locator("#what-if ~ div tbody tr").first
    cells = [first.locator("td").nth(place).text_content() for place in (1, 2, 3)]
    assert tiles.all_text_contents() == cells
    page.keyboard.press("ArrowRight")
    assert tiles.all_text_contents() != cells
    assert slider.get_attribute("aria-valuetext") == "epsilon 0.02"
    plain = window(script=False).go("/console/budget")
    expect(plain.get_by_role("cell", name="0.02", exact=True)).to_be_visible()
    expect(plain.get_by_label("Epsilon of each round")).to_be_hidden()


def test_signing_out_ends_it(window: Any) -> None:
    it = window()
    page = it.go("/console/login")
    page.goto(it.site.sign_in_address())
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/console/login")
    page.goto(f"{it.site.address}/console/rounds")
    assert "/console/login" in page.url
