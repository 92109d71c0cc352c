"""The first page: what is wrong, what came out last, and the first steps of a new deployment."""

from __future__ import annotations

from common.runtime.clock import ManualClock
from common.web.console import formatting
from coordinator.console.monitoring import begin
from tacit.protocol.round.state import RoundState
from tacit.report.statements import is_loopback
from tests.coordinator.budget.test_routes import limited
from tests.coordinator.conftest import Houses
from tests.coordinator.console.browser import Browser
from tests.coordinator.console.test_budget import SCHEDULE
from tests.coordinator.console.test_rounds import released, signed_in
from tests.coordinator.double import NOISY, query


async def test_a_new_deployment_is_led_through_its_first_steps(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        browser = await signed_in(it)
        page = await browser.get("/console")
        text = browser.words()
        assert "✓ Pair aggregators" in text
        assert "Enrol curators: a join token, pasted at the curator" in text
        assert '<a href="/console/queries/new">Ask a first query</a>' in page.text
        assert "Latest results None yet." in text
        assert 'href="/console" aria-current="page"' in page.text
        assert 'href="/console/rounds" aria-current' not in page.text


async def test_the_first_page_tells_the_last_result_and_what_needs_an_operator(
    house: Houses,
) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        opened = await released(it)
        browser = await signed_in(it)
        await browser.get("/console")
        text = browser.words()
        found = await it.result(opened)
        [part] = found["report"]["error"]["parts"]
        shown = formatting.with_error(found["result"]["sum"], part["interval"]["half_width"])
        assert f"{shown[0]} ± {shown[1]} kWh" in text
        assert "First steps" not in text
        assert "Nothing: aggregators answer, schedules open rounds, no limit of this" in text
        asked = {**query(**NOISY), "schedule": SCHEDULE, "name": "daily"}
        await it.ask("POST", "/v1/queries", asked)
        await limited(it, {"epsilon": "4"})
        outlook = await it.ask("POST", "/v1/budget/outlook", {"days": 30})
        [limit] = outlook.json()["limits"]
        page = await browser.get("/console")
        assert "Needs you (1)" in browser.words()
        assert limit["exhausted"].removesuffix("Z")[:16] in page.text
        assert "daily" in browser.words()


async def test_a_round_without_a_sum_is_told_until_the_next_one_ends(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        await it.host("gateway", 5)
        opened = await it.open(query(min_participants=4))
        await it.finish(opened, by="abort")
        browser = await signed_in(it, "analyst")
        page = await browser.get("/console")
        assert "The last round of test opened no sum" in browser.words()
        assert f"/console/rounds/{opened.id}" in page.text
        assert "First steps" not in browser.words()
        assert "gateway" not in page.text
        assert (await Browser(it.app).get("/console")).status_code == 303


def test_a_step_is_done_when_it_is() -> None:
    none = begin(0, 0, any_query=False, states=[])
    some = begin(3, 10, any_query=True, states=[RoundState.OPEN])
    every = begin(3, 10, any_query=True, states=[RoundState.RELEASED])
    assert [step.done for step in none] == [False] * 5
    assert [step.done for step in some] == [True, True, True, True, False]
    assert all(step.done for step in every)


async def test_the_address_of_a_service_leads_to_its_console(house: Houses) -> None:
    async with house(0, console=True) as it:
        answer = await it.client.get("/")
        assert (answer.status_code, answer.headers["location"]) == (303, "/console")


def test_a_price_is_told_by_the_day_of_a_curator() -> None:
    for epsilon, delta, said in (
        ("0.3", "0", "a curator allows epsilon 1 and delta 0.000001 a day: 3 such rounds"),
        ("1", "0", "one such round"),
        ("1.5", "0", "it refuses this"),
        ("0.3", "0.0000005", "2 such rounds"),
        ("0.3", "0.00001", "it refuses this"),
        ("inf", "1", "refuse queries without bounds"),
    ):
        assert said in formatting.of_a_day(epsilon, delta)
    assert formatting.of_a_day("0", "0") == ""


def test_an_address_of_this_machine_alone() -> None:
    for url in ("http://127.0.0.1:8300", "http://[::1]:1", "https://localhost/x"):
        assert is_loopback(url)
    for url in ("http://127.0.0.1.example.org", "https://localhost.example.org", "http://10.0.0.1"):
        assert not is_loopback(url)
    assert not is_loopback("nonsense")
