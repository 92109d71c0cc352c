"""Pages of queries and the wizard: the price before the question, the query that the API makes."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime, timedelta

from common.runtime.clock import ManualClock
from common.web.console import formatting
from coordinator.console import query_wizard
from coordinator.console.queries import course
from tacit.answers.rounds import Figures, Interval, RoundHead, Span
from tacit.protocol.round.state import RoundState
from tacit.query.query import Query
from tests.coordinator.budget.test_routes import limited
from tests.coordinator.conftest import Houses
from tests.coordinator.console.browser import Browser
from tests.coordinator.console.test_budget import SCHEDULE
from tests.coordinator.console.test_rounds import EVIL, signed_in
from tests.coordinator.double import NOISY, query

WIZARD = "/console/queries/new"
FIRST = {"name": "evening", "upper": "5", "max_readings": "4", "min_participants": "10"}


def fields_of(browser: Browser) -> dict[str, str]:
    """Every field of the wizard's form, hidden or not, as a browser would send it."""
    found = {}
    for tag in re.findall(r"<input[^>]*>", browser.page.text):
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if "name" in attributes:
            found[attributes["name"]] = html.unescape(attributes["value"])
    for name, options in re.findall(
        r'<select[^>]*name="(\w+)"[^>]*>(.*?)</select>', browser.page.text, re.DOTALL
    ):
        chosen = re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)', options)
        first = re.search(r'<option(?: value="([^"]*)")?>([^<]*)', options)
        picked = chosen or first
        assert picked is not None
        found[name] = html.unescape(picked[2] if picked[1] is None else picked[1])
    return found


async def go(browser: Browser, where: str = "next", **changes: str) -> None:
    await browser.post(WIZARD, {**fields_of(browser), "go": where, **changes})


async def test_five_steps_to_a_query_and_its_price_on_the_way(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        await it.host("gateway", 20)
        browser = await signed_in(it)
        await browser.get(WIZARD)
        for step in ("2", "3", "4", "5"):
            await go(browser, step, **FIRST)
            assert not re.search(r"\sstyle=|\son\w+=|javascript:", browser.page.text)
        await browser.get(WIZARD)
        assert "Figures come with the first complete step" in browser.words()
        await go(browser, **FIRST)
        assert browser.field("step") == "2"
        await go(browser, min_participants="10")
        await go(browser, epsilon="0.5")
        assert browser.field("step") == "4"
        await go(browser)
        assert browser.field("step") == "5"
        text = browser.words()
        expected = query(
            name="evening",
            mechanism="distributed",
            epsilon="0.5",
            max_readings=4,
            min_participants=10,
            collusion={"aggregators": 2},
            deadline_s=60,
        )
        preview = (await it.ask("POST", "/v1/queries/preview", expected)).json()
        for part in preview["error"]["parts"]:
            half_width = part["interval"]["half_width"]
            assert (
                f"± {formatting.with_error('0', half_width)[1]} kWh of noise in 95 of 100" in text
            )
        for line in preview["verified"]:
            if line["guess"] != "1" and line["key"] != "e":
                assert f"at most {formatting.hundred(line['guess'])} of 100 times" in text
        assert "each curator that is in it pays epsilon 0.5" in text
        told = re.search(r"<pre><code>(\{.*?\})</code>", browser.page.text, re.DOTALL)
        assert told is not None
        told_query = Query.model_validate_json(html.unescape(told[1]))
        assert told_query == Query.model_validate_json(json.dumps(expected))
        assert (await it.ask("GET", "/v1/queries")).json()["queries"] == []
        last = {**fields_of(browser), "go": "make"}
        made = [await browser.post(WIZARD, last) for _ in "ab"]
        assert {answer.headers["location"] for answer in made} == {made[0].headers["location"]}
        [stored] = (await it.ask("GET", "/v1/queries")).json()["queries"]
        assert (stored["rounds"], stored["last"]) == (0, None)
        assert Query.model_validate_json(json.dumps(stored["query"])) == told_query
        await browser.get(made[0].headers["location"])
        assert "The query is made" in browser.words()
        await browser.get(f"{WIZARD}?like={stored['id']}")
        assert query_wizard.query(query_wizard.read(fields_of(browser), {})) == told_query


FAULTS = (
    ({"name": "no name!"}, "without blanks"),
    ({"upper": "0"}, "lower bound must be below upper bound"),
    ({"upper": EVIL}, "must"),
)


async def test_a_step_with_a_fault_is_shown_again_as_it_was_typed(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        browser = await signed_in(it)
        for changes, said in FAULTS:
            await browser.get(WIZARD)
            await go(browser, **{**FIRST, **changes})
            assert browser.page.status_code == 422
            assert browser.field("step") == "1"
            assert said in browser.words()
            assert "<img" not in browser.page.text
            for name, value in changes.items():
                assert fields_of(browser)[name] == value
            # One step back is always possible, and nothing is lost.
            await go(browser, "4", **{**FIRST, **changes})
            assert browser.field("step") == "1"
        # What the deployment refuses is said before it is asked.
        await browser.get(WIZARD)
        await go(browser, "5", **FIRST, aggregators="7", collusion_aggregators="6")
        for told in ("asks for 7 aggregators, and 3 are paired", "to step 4"):
            assert told in browser.words()
        assert "Make the query" not in browser.words()
        # An analyst hands the query on.
        browser = await signed_in(it, "analyst")
        await browser.get(WIZARD)
        await go(browser, "5", **FIRST)
        assert "Only an operator may create it" in browser.words()
        assert "tacit query create query.json" in browser.words()
        await go(browser, "make")
        assert browser.page.status_code == 200
        assert (await browser.post(WIZARD, {**FIRST, "go": "make", "csrf": "x"})).status_code == 403
        assert (await Browser(it.app).post(WIZARD, {"go": "make", **FIRST})).status_code == 303
        assert (await it.ask("GET", "/v1/queries")).json()["queries"] == []


async def test_a_schedule_says_how_long_the_limits_last(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        await it.host("gateway", 20)
        await limited(it, {"epsilon": "5"})
        browser = await signed_in(it)
        await browser.get(WIZARD)
        first = SCHEDULE["first_start"]
        assert isinstance(first, str)
        when = {"when": "schedule", "first_start": first[:16], "period_s": "86400"}
        await go(browser, "3", **FIRST, **when)
        asked = {**query(**{**NOISY, "min_participants": 10}), "schedule": SCHEDULE}
        asked |= {"name": "evening", "deadline_s": 60}
        outlook = await it.ask(
            "POST", "/v1/budget/outlook", {"queries": [{"query": asked, "period_s": 86_400}]}
        )
        [limit] = outlook.json()["limits"]
        assert limit["exhausted"][:10] in browser.page.text
        assert "All stops as a table" in browser.words()
        await go(browser, "5")
        assert "From" in browser.words()
        assert "on a round is opened by itself for each 1 day" in browser.words()


async def test_the_list_and_the_page_of_a_query(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        host = await it.host("gateway", 20)
        opened = await it.released(host, query(**NOISY))
        browser = await signed_in(it, "analyst")
        await browser.get("/console/queries")
        [stored] = (await it.ask("GET", "/v1/queries")).json()["queries"]
        assert (stored["rounds"], stored["last"]) == (1, opened.id)
        promised = next(line for line in stored["preview"]["verified"] if line["key"] == "e")
        assert f"{formatting.hundred(promised['guess'])} of 100" in browser.words()
        page = await browser.get(f"/console/queries/{stored['id']}")
        assert not re.search(r"\sstyle=|\son\w+=|javascript:", page.text)
        found = await it.result(opened)
        [part] = found["report"]["error"]["parts"]
        shown = formatting.with_error(found["result"]["sum"], part["interval"]["half_width"])
        assert f"{shown[0]} ± {shown[1]} kWh" in browser.words()
        assert 'class="chart dots"' in page.text
        assert 'class="chart bars"' not in page.text
        assert "Open a round" not in browser.words()
        assert (await browser.get("/console/queries/nothing")).status_code == 404
        again = await it.released(host, query(**NOISY))
        page = await browser.get(f"/console/queries/{stored['id']}")
        assert "2 rounds; the last gave" in browser.words()
        assert 'class="chart bars"' in page.text
        for each in (opened, again):
            value = (await it.result(each))["result"]["sum"]
            assert (
                f"{formatting.with_error(value, part['interval']['half_width'])[0]} ±"
                in (browser.words().partition("The newest first")[2])
            )


async def test_a_schedule_is_ended_by_an_operator_alone(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        asked = {**query(**NOISY), "schedule": SCHEDULE}
        created = (await it.ask("POST", "/v1/queries", asked)).json()
        path = f"/console/queries/{created['id']}"
        analyst = await signed_in(it, "analyst")
        await analyst.get(path)
        assert (await analyst.submit(f"{path}/stop")).status_code == 404
        browser = await signed_in(it)
        await browser.get(path)
        assert "End its schedule" in browser.words()
        assert (await browser.submit(f"{path}/stop")).status_code == 303
        assert (await it.ask("GET", f"/v1/queries/{created['id']}")).json()["stopped"] is not None
        await browser.get(path)
        assert "End its schedule" not in browser.words()
        await browser.get("/console/queries")
        assert "stopped" in browser.words()


def heads(count: int, gap_h: int = 0) -> list[RoundHead]:
    """Released rounds of an hour each, the newest first, with gaps between their windows."""
    start = datetime(2026, 1, 5, tzinfo=UTC)
    starts = [start + timedelta(hours=(1 + gap_h) * number) for number in range(count)]
    return [
        RoundHead.model_construct(
            state=RoundState.RELEASED,
            unit="kWh",
            window=Span(start=at.isoformat(), end=(at + timedelta(hours=1)).isoformat()),
            figures=Figures(
                result={"sum": str(100 + number)},
                interval=Interval(level="0.95", half_width="5"),
                guess="0.7",
            ),
        )
        for number, at in enumerate(starts)
    ][::-1]


def test_answers_over_time_are_bars_or_a_line_in_its_band() -> None:
    few, many, apart = (str(course(found)) for found in (heads(3), heads(30), heads(30, gap_h=1)))
    assert few.count('class="shade"') == apart.count('class="shade"') == 0
    assert many.count('class="shade"') == 2 * 30  # a wide and a narrow picture
    assert "30 rounds; the last gave 129.0 ± 5.0 kWh. The band" in many
    assert "3 rounds; the last gave 102.0 ± 5.0 kWh. Each line" in few
    assert course(heads(1)) is None
