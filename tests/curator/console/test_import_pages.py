"""A file of readings comes in on a page: with its columns and faults, and from nobody else."""

from __future__ import annotations

from typing import Any

import httpx

from curator.console.readings import fields
from tests.coordinator.console.browser import OWN, Browser
from tests.curator.conftest import OPERATOR, Site
from tests.curator.console.test_pages import owner

PATH = "/console/readings/import"
CSV = b"meter;when;kwh\n" + b"".join(b"g-1;2025-12-31T0%d:00:00Z;0,5\n" % hour for hour in range(9))
MAP = {
    "unit": "kWh",
    "curator_column": "meter",
    "time_column": "when",
    "value_column": "kwh",
    "delimiter": ";",
    "decimal": ",",
}


async def send(
    browser: Browser,
    content: bytes,
    given: dict[str, str],
    *,
    headers: dict[str, str] | None = None,
    name: str = "meters.csv",
) -> httpx.Response:
    """Send the form as a browser does: its fields in their order, the file last."""
    parts: list[Any] = [(key, (None, value)) for key, value in given.items()]
    sent = OWN if headers is None else headers
    files = [*parts, ("file", (name, content, "text/csv"))]
    browser.page = await browser.client.post(PATH, files=files, headers=sent)
    return browser.page


async def hosted(s: Site) -> Browser:
    await s.enrol("gateway", ["g-1", "g-2"])
    browser = Browser(s.app)
    await browser.sign_in(OPERATOR)
    await browser.get(PATH)
    return browser


async def test_a_file_is_imported_with_its_faults_by_line(s: Site) -> None:
    browser = await hosted(s)
    for name in fields():
        assert f'name="{name}"' in browser.page.text
    hidden = {name: browser.field(name) for name in ("csrf", "import_id")}
    wrong = CSV + b"g-1;yesterday;0,5\nnobody;2025-12-31T00:00:00Z;0,5\n"
    page = await send(browser, wrong, {**hidden, **MAP})
    assert page.status_code == 200
    words = browser.words()
    assert "accepted 9" in words
    assert "rejected 2" in words
    told = await s.get(f"/v1/readings/imports/{hidden['import_id']}")
    assert (told["accepted"], told["rejected"]) == (9, 2)
    for each in told["errors"]:
        assert each["detail"] in words
    assert "nobody" in words
    assert (await s.get("/v1/curators/g-1/readings"))["accepted"] == 9
    meanwhile = await browser.get(f"/console/readings/imports/{hidden['import_id']}/progress")
    assert meanwhile.text.endswith("9 readings accepted, 2 rejected")
    assert (await browser.get("/console/readings/imports/none/progress")).text == ""
    assert (await browser.get(PATH)).status_code == 200
    await send(browser, wrong, {"csrf": browser.field("csrf"), **MAP})
    assert "sent again 9" in browser.words()


async def test_what_cannot_be_read_is_said_and_the_form_is_kept(s: Site) -> None:
    wrong: tuple[tuple[dict[str, str], bytes, str], ...] = (
        ({"unit": ""}, CSV, "is needed"),
        ({"timezone": "Mars/Base"}, CSV, "timezone"),
        ({"header_line": "first"}, CSV, "must be a whole number"),
        ({"form": "papyrus"}, CSV, "csv"),
        ({"time_column": "hour"}, CSV, "hour"),
        ({"x" * 100: "1"}, b"", "header"),
    )
    browser = await hosted(s)
    for changes, content, said in wrong:
        page = await send(browser, content, {"csrf": browser.field("csrf"), **MAP, **changes})
        assert page.status_code == 422
        assert said in browser.words()
        assert 'value="meter"' in page.text
    assert (await s.get("/v1/curators/g-1/readings"))["accepted"] == 0


async def test_a_form_of_nobody_or_of_another_page_stores_nothing(s: Site) -> None:
    browser = await hosted(s)
    secret = browser.field("csrf")
    foreign = {"Sec-Fetch-Site": "cross-site", "Origin": "http://elsewhere.test"}
    for given, headers in (
        (MAP, OWN),
        ({"csrf": "x" * 43, **MAP}, OWN),
        ({"csrf": secret, **MAP}, foreign),
    ):
        assert (await send(browser, CSV, given, headers=headers)).status_code in (403, 422)
    behind = [("file", ("meters.csv", CSV, "text/csv")), ("csrf", (None, secret))]
    late = await browser.client.post(PATH, files=behind, headers=OWN)
    assert late.status_code in (403, 422)
    many = {"csrf": secret, **{f"f{number}": "" for number in range(2000)}}
    assert "too large" in (await send(browser, CSV, many)).text
    for body in (b"", b"--x\r\n", b"--x--\r\n", b"--x\r\nContent-Disposition: form-data\r\n\r\n"):
        headers = {**OWN, "Content-Type": "multipart/form-data; boundary=x"}
        answer = await browser.client.post(PATH, content=body, headers=headers)
        assert answer.status_code == 422
    assert (await s.get("/v1/curators/g-1/readings"))["accepted"] == 0
    stranger = Browser(s.app)
    assert (await send(stranger, CSV, MAP)).headers["location"].startswith("/console/login")


async def test_an_owner_imports_its_own_readings_alone(s: Site, browser: Browser) -> None:
    await hosted(s)
    await browser.sign_in(await owner(s, "g-2"))
    await browser.get(PATH)
    assert 'name="curator" value="g-2"' in browser.page.text
    page = await send(browser, CSV, {"csrf": browser.field("csrf"), **MAP})
    assert "accepted 0" in browser.words()
    assert page.status_code == 200
    assert (await s.get("/v1/curators/g-1/readings"))["accepted"] == 0
    assert (await browser.get("/console/readings/imports/x/progress")).status_code == 404


async def test_a_dry_run_shows_what_would_be_stored_and_the_format(s: Site) -> None:
    browser = await hosted(s)
    hidden = {name: browser.field(name) for name in ("csrf", "import_id")}
    page = await send(browser, CSV, {**hidden, "dry_run": "true", **MAP})
    assert page.status_code == 200
    words = browser.words()
    assert "Nothing is stored: this is a dry run" in words
    assert "The file is taken for CSV, a reading a row" in words
    assert "2025-12-31T00:00:00+00:00" in words
    assert "4.5 kWh" in words
    assert (await s.get("/v1/curators/g-1/readings"))["accepted"] == 0
    await browser.get(PATH)
    hidden = {name: browser.field(name) for name in ("csrf", "import_id")}
    await send(browser, CSV, {**hidden, **MAP})
    assert "The file is taken for CSV" in browser.words()
    assert (await s.get("/v1/curators/g-1/readings"))["accepted"] == 9
