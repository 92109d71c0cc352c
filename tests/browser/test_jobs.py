"""From a file to a result in a real browser, by keyboard; and the pictures of the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SHOWN
from tests.browser.test_console import places, violations

pytestmark = pytest.mark.slow

ROWS = "evening,night\n" + "".join(
    f"{2 + 5 * (row % 2) + row % 7 / 10:.1f},{2 + 5 * (row % 2) + row % 5 / 10:.1f}\n"
    for row in range(300)
)


def look(page: Any, name: str) -> None:
    """A picture of the part of a page that a reader sees first."""
    SHOWN.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOWN / f"{name}.png")


def await_the_end(page: Any) -> None:
    """Ask, beside the page, until its job has finished."""
    headers: dict[str, str] = {}
    for _ in range(120):
        live = f"{page.url.partition('?')[0]}/live?wait_s=1"
        answer = page.context.request.get(live, headers=headers)
        if "data-finished" in answer.text():
            return
        headers = {"If-None-Match": answer.headers["etag"]} if answer.status == 200 else headers
    raise AssertionError("the job did not end")


def test_a_file_becomes_a_result(window: Any, tmp_path: Path) -> None:
    """Hand in, look at the price, start, see it finish by itself, put two side by side."""
    it = window(1100)
    page = it.go("/console/datasets")
    file = tmp_path / "evenings.csv"
    file.write_text(ROWS)
    page.get_by_label("Name", exact=True).fill("evenings")
    page.get_by_label("Budget: epsilon").fill("10")
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("button", name="Upload").press("Enter")
    expect(page.get_by_text("It is kept.")).to_be_visible()
    assert violations(page) == []
    dataset = page.url
    links = []
    held: list[Any] = []
    for epsilon in ("1", "2"):
        page.goto(dataset)
        page.get_by_role("link", name="Start a job").press("Enter")
        page.get_by_label("Algorithm").select_option("kmeans")
        page.get_by_role("button", name="Next").press("Enter")
        page.get_by_label("k", exact=True).fill("2")
        page.get_by_label("epsilon").first.fill(epsilon)
        page.get_by_label("bounds", exact=True).fill("[[0, 10], [0, 10]]")
        page.get_by_text("All fields").click()
        page.get_by_label("n_hint", exact=True).fill("300")
        page.get_by_role("button", name="Look at the price").press("Enter")
        expect(page.get_by_text(f"epsilon {epsilon}", exact=True)).to_be_visible()
        assert violations(page) == []
        if epsilon == "2":  # the job ends after its page was made, before what it shows is followed
            page.route("**/live?wait_s=0", lambda route: held.append(route))
        page.get_by_role("button", name="Start it").press("Enter")
        page.wait_for_url("**/console/jobs/*-*")
        if epsilon == "2":
            await_the_end(page)
            result = page.get_by_role("heading", name="Result")
            while not held and not result.is_visible():  # there at once if it ended before the page
                page.wait_for_timeout(50)
            for route in held:
                route.continue_()
            page.unroute("**/live?wait_s=0")
        expect(page.get_by_role("heading", name="Result")).to_be_visible()
        picture = page.locator("figure img").first
        expect(picture).to_be_visible()
        assert picture.evaluate("each => each.decode().then(() => each.naturalWidth > 0)")
        assert violations(page) == []
        links.append(page.url.partition("?")[0])
    page.goto(links[0])
    page.wait_for_load_state("networkidle")
    look(page, "job")
    page.goto(dataset)
    look(page, "dataset")
    expect(page.get_by_text("After 2 charges, epsilon 7 of 10 is not charged")).to_be_visible()
    page.goto(page.url.partition("/console")[0] + "/console/jobs")
    for box in page.get_by_role("checkbox").all()[:2]:
        box.press("Space")
    page.get_by_role("button", name="Compare the chosen").press("Enter")
    expect(page.get_by_role("heading", name="Side by side")).to_be_visible()
    expect(page.get_by_text("params.epsilon")).to_be_visible()
    expect(page.locator("td img").first).to_be_visible()
    assert page.locator("b", has_text="differs").count() > 0
    assert violations(page) == []
    narrow = window(360, "dark")
    for address in (links[0], dataset, page.url):
        small = narrow.page
        small.goto(address)
        assert small.evaluate("document.documentElement.scrollWidth") <= 360
        assert violations(small) == []


def test_pictures_of_the_documentation(window: Any) -> None:
    it = window(1100)
    *_, noisy = places(it)  # the demo's first one
    for name, path in {
        "overview": "/console",
        "round": noisy,
        "budget": "/console/budget",
        "wizard": "/console/queries/new",
        "flow": "/console/flow",
        "parties": "/console/parties",
    }.items():
        page = it.go(path)
        page.wait_for_load_state("networkidle")
        look(page, name)
        assert (SHOWN / f"{name}.png").stat().st_size > 10_000
