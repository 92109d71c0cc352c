"""What owners see of their own: readings with what became of them, who adds noise, to whom."""

from __future__ import annotations

import csv
import re
from datetime import timedelta

import pytest

from tacit.wire import format_instant
from tests.coordinator.console.browser import Browser
from tests.curator.conftest import NOISY, OPEN, OPERATOR, START, OpenSite, Site, query
from tests.curator.console.conftest import filled
from tests.curator.console.test_pages import owner
from tests.curator.double import FakeWorld


@pytest.mark.usefixtures("given")
async def test_owners_see_their_own_readings_and_what_used_them(s: Site, browser: Browser) -> None:
    await s.reading("g-1", "2.5", 90)  # after the window of both rounds
    await s.reading("g-2", "4.75", 0)
    await browser.sign_in(await owner(s, "g-1"))
    await browser.get("/console/curators/g-1")
    assert "/console/curators/g-1/readings" in browser.page.text
    assert (await browser.get("/console/curators/g-1/readings")).status_code == 200
    text = re.sub(r" ([:;,.])", r"\1", browser.words())
    assert "2500 Wh accepted 31 Dec" in text  # used in nothing
    assert "1000 Wh accepted; used in feeder-7" in text
    assert "9000 Wh accepted; clamped and used in feeder-7" in text  # bounds 0 to 5 kWh
    assert text.index("2500 Wh") < text.index("9000 Wh") < text.index("1000 Wh")
    assert "4750" not in text
    assert "rejected: not stored 0" in text
    assert "the sum of each day; the highest is 12,500 Wh, on 31 Dec." in text
    assert 'aria-label="2025-12-31: partial, 3 readings, ' in browser.page.text
    table = await browser.get("/console/curators/g-1/readings.csv?register=energy_import")
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    assert list(csv.reader(table.text.splitlines())) == [
        ["time", "device", "register", "value", "unit"],
        *(
            [format_instant(START + timedelta(minutes=minute)), "g-1", "energy_import", wh, "Wh"]
            for minute, wh in ((90, "2500"), (5, "9000"), (0, "1000"))
        ),
    ]
    for path in ("readings", "readings.csv?register=energy_import"):
        assert (await browser.get(f"/console/curators/g-2/{path}")).status_code == 404
    assert (await browser.get("/console/curators/g-1/readings?timezone=x")).status_code == 422
    for register in ("gas", ""):
        path = f"/console/curators/g-1/readings.csv?register={register}"
        assert (await browser.get(path)).status_code == 404
    await browser.sign_in(OPERATOR)
    for path in ("readings", "readings.csv?register=energy_import"):
        assert (await browser.get(f"/console/curators/g-1/{path}")).status_code == 404


async def test_many_readings_come_in_pages_also_those_in_blocks(s: Site, browser: Browser) -> None:
    """A host of 200 whose readings of an instant are kept in one block."""
    names = [f"h-{number}" for number in range(200)]
    await s.enrol("gateway", names)
    for minute in range(0, 300, 5):
        at = (START + timedelta(minutes=minute)).isoformat()
        await s.send(
            [
                {"curator": name, "time": at, "value": str(minute), "unit": "Wh"}
                for name in (names if minute < 10 else names[:2])
            ]
        )
    await browser.sign_in(await owner(s, "h-1"))
    await browser.get("/console/curators/h-1/readings")
    found, pages = [], 0
    while True:
        pages += 1
        found += [
            line.split('data-label="Value" class="number">')[1].split("<")[0]
            for line in browser.page.text.splitlines()
            if 'data-label="Value"' in line
        ]
        if 'rel="next"' not in browser.page.text:
            break
        after = browser.page.text.split('rel="next" href="')[1].split('"')[0]
        await browser.get(after.replace("&amp;", "&"))
    assert found == [str(minute) for minute in range(295, -1, -5)]
    assert pages == 3


async def test_an_answer_tells_who_added_noise_and_to_whom_it_went(
    s: Site, browser: Browser
) -> None:
    exact = {key: NOISY[key] for key in NOISY if key not in ("epsilon", "layer", "collusion")}
    await s.policy(**OPEN)
    await s.enrol("house-1")
    await s.reading("house-1", "1")
    await browser.sign_in(await owner(s, "house-1"))
    for asked, said in (
        (NOISY, "This curator added no noise: the aggregators add it to their sums"),
        ({**NOISY, "layer": "both"}, "Noise is added twice, in whole numbers: by this curator"),
        (
            {**exact, "mechanism": "exact", "purpose": "where <b>cables</b> are short"},
            "No noise was added anywhere.",
        ),
    ):
        s.open(query(asked))
        await s.take_part()
        s.clock.advance(timedelta(seconds=1))
        answer = (await s.history("house-1"))[0]
        await browser.get(f"/console/curators/house-1/answers/{answer['round']}")
        text = re.sub(r" ([:;,.])", r"\1", browser.words())
        assert said in text
        assert "All 3 aggregators run on one machine" not in text
        whole = await s.get(f"/v1/curators/house-1/contributions/{answer['round']}")
        for each in whole["aggregators"]:
            assert f"{each['id']} (operator {each['operator']})" in text
        why = "“where <b>cables</b> are short”, as whoever asked wrote it; nobody checks that."
        said = why if "purpose" in asked else "Whoever asked gave no purpose."
        assert f"For what {said} Query feeder-7: sum of" in text
    await browser.get("/console/curators/house-1")
    text = browser.words()
    assert "“where <b>cables</b> are short”" in text
    places = [
        text.index(words)
        for words in (
            "What was sent, when, to whom",
            "To whom",
            "How sure someone can be",
            "How much more can leave",
            "How to stop",
        )
    ]
    assert places == sorted(places)
    for operator in {each["operator"] for each in whole["aggregators"]}:
        assert operator in text[places[0] : places[3]]


async def test_an_owner_reads_that_aggregators_run_on_one_machine(
    site: OpenSite, world: FakeWorld
) -> None:
    for place, each in enumerate(world.aggregators):
        each.url = f"http://127.0.0.1:{8_300 + place}"
    async with site(console=True) as s:
        await filled(s)
        browser = Browser(s.app)
        await browser.sign_in(await owner(s, "g-1"))
        [answer, *_] = await s.history("g-1")
        for page in ("", f"/answers/{answer['round']}"):
            assert (await browser.get(f"/console/curators/g-1{page}")).status_code == 200
            assert "All 3 aggregators run on one machine" in browser.words()
