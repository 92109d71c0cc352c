"""`tacit job schedule` and `tacit query stop`: what is asked again and again, and its end."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import OPERATOR
from tests.cli.test_jobs import tacit
from tests.rules import energy_sum

PARAMS: dict[str, Any] = {
    "sensor": {"name": "day", "coordinates": [{"name": "kwh", "lower": 0, "upper": 30}]},
    "n": 100,
    "epsilon": "1/2",
}
FEDERATION: dict[str, Any] = {
    "collect": "reports",
    "columns": [{"register": "energy_import", "statistic": "sum"}],
    "schedule": {"period_s": 86400, "first_start": "2020-01-01T00:00:00Z"},
    "min_participants": 20,
    "deadline": 600,
}
QUERY = energy_sum(
    name="every-hour", mechanism="distributed", epsilon="1", n_max=100, deadline_s=60
)


@pytest.fixture
def asked(tmp_path: Path) -> tuple[str, ...]:
    """Arguments that name a task and its federation, as files."""
    params, federation = tmp_path / "params.json", tmp_path / "federation.json"
    params.write_text(json.dumps(PARAMS), "utf-8")
    federation.write_text(json.dumps(FEDERATION), "utf-8")
    return ("crowd-tasking", "--params", str(params), "--federation", str(federation))


def test_a_schedule_from_preview_to_end(coordinator: str, asked: tuple[str, ...]) -> None:
    place = ("--url", coordinator, "--token", OPERATOR)
    schedule = ("job", "schedule")
    text = tacit(*schedule, "preview", *asked, *place)
    rows = [line.split("│")[1:5] for line in text.splitlines() if line.startswith("│ a ")]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["a day", "1", "0.5, 0", "0.5, 0"],
        ["a month", "30", "0.5, 0", "15, 0"],
        ["a year", "365", "0.5, 0", "182.5, 0"],
    ]
    made = json.loads(tacit(*schedule, "create", *asked, *place, "--json"))
    end = time.monotonic() + 120
    while (shown := json.loads(tacit(*schedule, "show", made["id"], *place, "--json")))["runs"] < 8:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert (shown["state"], shown["waits_for"]) == ("running", None)
    assert shown["next_window"]["start"] == "2020-01-09T00:00:00Z"  # eight at a time
    assert f"{shown['runs']} runs; next 2020-01-09" in tacit(*schedule, "show", made["id"], *place)
    listed = json.loads(tacit(*schedule, "list", *place, "--json"))
    assert [item["id"] for item in listed] == [made["id"]]
    jobs = json.loads(tacit("job", "list", "--schedule", made["id"], *place, "--json"))
    assert len(jobs) == 8
    assert json.loads(tacit("job", "list", "--schedule", "nobody", *place, "--json")) == []
    for _ in range(2):
        assert "is stopped" in tacit(*schedule, "stop", made["id"], *place)
    for job in jobs:
        tacit("job", "cancel", job["id"], *place)
    assert json.loads(tacit(*schedule, "show", made["id"], *place, "--json"))["runs"] == 8


def test_what_is_refused_is_one_line(coordinator: str, asked: tuple[str, ...]) -> None:
    place = ("--url", coordinator, "--token", OPERATOR)
    text = tacit("job", "run", *asked, *place, code=2)
    assert text.count("\n") == 1
    assert "/v1/job-schedules" in text
    for command in ("show", "stop"):
        text = tacit("job", "schedule", command, "nobody", *place, code=2)
        assert (text.count("\n"), "unknown_schedule" in text) == (1, True)
    once = json.dumps({**FEDERATION, "schedule": None})
    text = tacit("job", "schedule", "create", *asked[:3], "--federation", once, *place, code=2)
    assert (text.count("\n"), "/federation" in text) == (1, True)


def test_a_scheduled_query_is_stopped(coordinator: str) -> None:
    place = ("--url", coordinator, "--token", OPERATOR)
    later = {"period_s": 3600, "first_start": "2199-01-01T00:00:00Z"}
    made = tacit("query", "create", json.dumps({**QUERY, "schedule": later}), *place).strip()
    found = json.loads(tacit("query", "stop", made, *place, "--json"))
    assert found["stopped"] is not None
    assert found["stopped"] in tacit("query", "stop", made, *place)
    once = tacit("query", "create", json.dumps({**QUERY, "name": "once"}), *place).strip()
    text = tacit("query", "stop", once, *place, code=2)
    assert (text.count("\n"), "no schedule" in text) == (1, True)
