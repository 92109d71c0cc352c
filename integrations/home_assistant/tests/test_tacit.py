"""The integration in Home Assistant's own test harness, against answers recorded from a curator."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from custom_components.tacit.const import DOMAIN, MOST_WAITING, SEND_EVERY
from custom_components.tacit.readings import Readings, reading_of
from homeassistant.config_entries import SOURCE_REAUTH, SOURCE_USER, ConfigEntryState
from homeassistant.core import HomeAssistant, State
from homeassistant.data_entry_flow import FlowResultType
from homeassistant.util import dt as dt_util
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    async_fire_time_changed,
)
from pytest_homeassistant_custom_component.test_util.aiohttp import AiohttpClientMocker

URL = "http://curator.example:8400"
METER = "sensor.meter_total"
DATA = {"url": URL, "curator": "house", "token": "secret", "meters": [METER]}
ENERGY = {
    "unit_of_measurement": "kWh",
    "state_class": "total_increasing",
    "device_class": "energy",
}


def recorded(name: str) -> Any:
    return json.loads((Path(__file__).parent / "recorded" / f"{name}.json").read_text())


def accepted(count: int) -> dict[str, Any]:
    return {"items": [{"index": number, "status": "accepted"} for number in range(count)]}


@pytest.fixture
def curator(aioclient_mock: AiohttpClientMocker) -> AiohttpClientMocker:
    aioclient_mock.get(f"{URL}/v1/curators/house/budget", json=recorded("budget"))
    aioclient_mock.get(
        f"{URL}/v1/curators/house/contributions?limit=20", json=recorded("contributions")
    )
    return aioclient_mock


async def begin(hass: HomeAssistant) -> MockConfigEntry:
    entry = MockConfigEntry(domain=DOMAIN, data=DATA, title="house")
    entry.add_to_hass(hass)
    await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()
    return entry


async def pass_time(hass: HomeAssistant) -> None:
    async_fire_time_changed(hass, dt_util.utcnow() + SEND_EVERY + timedelta(seconds=5))
    await hass.async_block_till_done()


def readings_of(hass: HomeAssistant) -> Readings:
    [house] = hass.data[DOMAIN].values()
    return house.readings


@pytest.fixture(autouse=True)
async def _unloaded(hass: HomeAssistant) -> AsyncIterator[None]:
    yield
    for entry in hass.config_entries.async_entries(DOMAIN):
        if entry.state is ConfigEntryState.LOADED:
            assert await hass.config_entries.async_unload(entry.entry_id)
    await hass.async_block_till_done()


def sent(mock: AiohttpClientMocker) -> list[list[dict[str, Any]]]:
    return [body for method, url, body, _ in mock.mock_calls if method.lower() == "post"]


async def test_what_was_given_away_is_shown(
    hass: HomeAssistant, curator: AiohttpClientMocker
) -> None:
    await begin(hass)
    spent = hass.states.get("sensor.tacit_house_privacy_spent_in_this_period")
    answers = hass.states.get("sensor.tacit_house_questions_answered")
    last = hass.states.get("sensor.tacit_house_last_answer")
    budget = recorded("budget")["units"]["curator"]
    assert spent is not None
    assert spent.state == budget["period"]["epsilon"]
    assert answers is not None
    assert answers.state == str(budget["rounds"])
    [question] = answers.attributes["questions"]
    assert question["question"] == "evening-peak"
    assert question["answered"] is True
    assert last is not None
    assert dt_util.parse_datetime(last.state) is not None


@pytest.mark.parametrize("word", ["inf", "infinite"])
async def test_what_is_left_and_what_has_no_bound(
    hass: HomeAssistant, aioclient_mock: AiohttpClientMocker, word: str
) -> None:
    budget = recorded("budget")
    budget["units"]["curator"]["lifetime"]["epsilon"] = word
    budget["units"]["curator"]["period"]["epsilon"] = "2.5"
    budget["units"]["curator"]["limits"] = {"period": {"epsilon": "4"}}
    aioclient_mock.get(f"{URL}/v1/curators/house/budget", json=budget)
    aioclient_mock.get(
        f"{URL}/v1/curators/house/contributions?limit=20", json={"contributions": []}
    )
    await begin(hass)
    state = hass.states.get
    assert state("sensor.tacit_house_privacy_spent_in_this_period").state == "2.5"
    assert state("sensor.tacit_house_privacy_left_in_this_period").state == "1.5"
    assert state("sensor.tacit_house_privacy_spent_in_all").state == "infinite"
    assert state("sensor.tacit_house_last_answer").state == "unknown"


async def test_readings_go_to_the_curator_and_nowhere_else(
    hass: HomeAssistant, curator: AiohttpClientMocker
) -> None:
    curator.post(f"{URL}/v1/readings", json=accepted(3))
    hass.states.async_set(METER, "100.0", ENERGY)
    await begin(hass)
    hass.states.async_set(METER, "unavailable", ENERGY)
    for value in ("100.5", "101.25"):
        hass.states.async_set(METER, value, ENERGY)
    await pass_time(hass)
    [readings] = sent(curator)
    assert [item["value"] for item in readings] == ["100.0", "100.5", "101.25"]
    assert all(item["curator"] == "house" and item["device"] == METER for item in readings)
    assert all(item["kind"] == "total_increasing" for item in readings)
    assert {str(url.origin()) for _, url, _, _ in curator.mock_calls} == {URL}
    waiting = readings_of(hass)
    assert (waiting.waiting, waiting.accepted, waiting.refused) == (0, 3, 0)


async def test_what_is_not_answered_waits_over_a_restart(
    hass: HomeAssistant, curator: AiohttpClientMocker
) -> None:
    curator.post(f"{URL}/v1/readings", status=503)
    hass.states.async_set(METER, "100.0", ENERGY)
    entry = await begin(hass)
    await pass_time(hass)
    assert await hass.config_entries.async_unload(entry.entry_id)
    hass.states.async_remove(METER)
    curator.clear_requests()
    curator.get(f"{URL}/v1/curators/house/budget", json=recorded("budget"))
    curator.get(f"{URL}/v1/curators/house/contributions?limit=20", json=recorded("contributions"))
    curator.post(f"{URL}/v1/readings", json=accepted(1))
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()
    await pass_time(hass)
    [readings] = sent(curator)
    assert [item["value"] for item in readings] == ["100.0"]


async def test_refused_readings_are_counted_and_not_sent_again(
    hass: HomeAssistant, curator: AiohttpClientMocker
) -> None:
    items = recorded("readings")["items"]
    curator.post(f"{URL}/v1/readings", json={"items": items})
    hass.states.async_set(METER, "1", ENERGY)
    await begin(hass)
    for value in ("2", "3"):
        hass.states.async_set(METER, value, ENERGY)
    await pass_time(hass)
    await pass_time(hass)
    assert len(sent(curator)) == 1
    readings = readings_of(hass)
    assert (readings.waiting, readings.accepted, readings.refused) == (0, 2, 1)


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refused_token_says_so(
    hass: HomeAssistant, aioclient_mock: AiohttpClientMocker, status: int
) -> None:
    aioclient_mock.get(f"{URL}/v1/curators/house/budget", status=status)
    entry = await begin(hass)
    assert entry.state is ConfigEntryState.SETUP_ERROR
    flow = await hass.config_entries.flow.async_init(DOMAIN, context={"source": SOURCE_USER})
    other = {**DATA, "url": f"{URL}/"}
    result = await hass.config_entries.flow.async_configure(flow["flow_id"], other)
    assert result["type"] is FlowResultType.FORM
    assert result["errors"] == {"token": "token_refused"}


async def test_a_new_token_is_asked_for(
    hass: HomeAssistant, aioclient_mock: AiohttpClientMocker
) -> None:
    aioclient_mock.get(f"{URL}/v1/curators/house/budget", status=401)
    entry = await begin(hass)
    [flow] = hass.config_entries.flow.async_progress()
    assert flow["context"]["source"] == SOURCE_REAUTH
    aioclient_mock.clear_requests()
    aioclient_mock.get(f"{URL}/v1/curators/house/budget", json=recorded("budget"))
    aioclient_mock.get(
        f"{URL}/v1/curators/house/contributions?limit=20", json=recorded("contributions")
    )
    done = await hass.config_entries.flow.async_configure(flow["flow_id"], {"token": "newer"})
    await hass.async_block_till_done()
    assert done["type"] is FlowResultType.ABORT
    assert done["reason"] == "reauth_successful"
    assert entry.data["token"] == "newer"
    assert entry.state is ConfigEntryState.LOADED


async def test_a_silent_curator_is_tried_again(
    hass: HomeAssistant, aioclient_mock: AiohttpClientMocker
) -> None:
    aioclient_mock.get(f"{URL}/v1/curators/house/budget", exc=TimeoutError)
    entry = await begin(hass)
    assert entry.state is ConfigEntryState.SETUP_RETRY


async def test_a_house_is_set_up_once(hass: HomeAssistant, curator: AiohttpClientMocker) -> None:
    flow = await hass.config_entries.flow.async_init(DOMAIN, context={"source": SOURCE_USER})
    result = await hass.config_entries.flow.async_configure(flow["flow_id"], DATA)
    assert result["type"] is FlowResultType.CREATE_ENTRY
    assert result["title"] == "house"
    again = await hass.config_entries.flow.async_init(DOMAIN, context={"source": SOURCE_USER})
    ended = await hass.config_entries.flow.async_configure(again["flow_id"], DATA)
    assert ended["type"] is FlowResultType.ABORT


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        ("unknown", {}),
        ("unavailable", {}),
        ("much", {}),
        ("5", {"unit_of_measurement": "W"}),
        ("5", {"state_class": "measurement"}),
    ],
)
def test_other_states_are_no_readings(value: str, changes: dict[str, str]) -> None:
    assert reading_of(State(METER, value, {**ENERGY, **changes})) is None


async def test_no_more_wait_than_fit(hass: HomeAssistant, curator: AiohttpClientMocker) -> None:
    curator.post(f"{URL}/v1/readings", status=503)
    await begin(hass)
    readings = readings_of(hass)
    for number in range(MOST_WAITING + 10):
        readings._take(State(METER, str(number), ENERGY))
    assert readings.waiting == MOST_WAITING
    assert readings._waiting[-1]["value"] == str(MOST_WAITING + 9)


def test_every_text_is_there() -> None:
    folder = Path(__file__).parents[1] / "custom_components" / "tacit"
    strings = json.loads((folder / "strings.json").read_text())
    assert strings == json.loads((folder / "translations" / "en.json").read_text())
    assert json.loads((folder / "manifest.json").read_text())["domain"] == DOMAIN
