"""Counting jobs over windows: sequences with a time, one job for each period of a schedule.

Spec: federated-counting, section 5; jobs, "Federated jobs". Noise is 0 in every cell, as in
`test_counting`.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from algorithms import sequential_ngram
from algorithms.contract import SequentialContext
from coordinator.jobs.privacy_statements import TIMED_ONLY
from tacit.records.items import Sequences
from tacit.wire import format_instant
from tests.e2e.federation import Site
from tests.e2e.test_counting import HOSTED, ITEMS, LONE, NGRAMS, job, visits, without
from tests.e2e.test_counting import it as it

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR = timedelta(hours=1)
COLUMNS = [{"sequences": "timed"}]


def of_hour(number: int, hour: int) -> list[list[str]]:
    """A clinic's sequences of an hour: in the second one backwards, and the last one missing."""
    found = visits(number)
    return found if hour == 0 else [each[::-1] for each in found[:-1]]


def expected(hour: int) -> dict[str, Any]:
    """What one keeper of all sequences of an hour has."""
    own = sequential_ngram.Parameters(**NGRAMS, epsilon="100")
    every = [each for number in range(len(HOSTED)) for each in of_hour(number, hour)]
    kept = sequential_ngram.run(Sequences.of(ITEMS, every), own, "sound", SequentialContext())
    return without(dict(kept.result), "truncated")


async def give(it: Site, first: datetime) -> None:
    for number, name in enumerate((LONE, *HOSTED)):
        lines = [
            json.dumps({"items": each, "time": format_instant(first + hour * HOUR + HOUR / 3)})
            for hour in range(2)
            for each in of_hour(number, hour)
        ]
        answer = await it.own(
            "POST",
            "/v1/sequences",
            content="\n".join(lines).encode(),
            params={"curator": name, "name": "timed", "format": "ndjson"},
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert answer.status_code == 200, answer.text


@pytest.mark.slow
async def test_a_schedule_counts_each_period_for_itself(it: Site) -> None:
    """Each run has what lies in its hour, and a record pays in that hour alone."""
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 2 * HOUR
    await give(it, first)
    schedule = {"period_s": 3600, "first_start": format_instant(first)}
    asked = job("sequential-ngram", NGRAMS, "100", columns=COLUMNS, schedule=schedule)
    answer = await it.house.ask("POST", "/v1/job-schedules", json=asked)
    assert answer.status_code == 201, answer.text
    name = answer.json()["id"]
    async with asyncio.timeout(300):
        found: list[Any] = []
        while sum(each["state"] in ("succeeded", "failed") for each in found) < 2:
            await asyncio.sleep(0.2)
            found = (await it.house.ask("GET", f"/v1/jobs?schedule={name}")).json()["jobs"]
    await it.house.ask("DELETE", f"/v1/job-schedules/{name}")
    found.sort(key=lambda each: str(each["federation"]["window"]["start"]))
    for hour, each in enumerate(found[:2]):
        assert each["federation"]["window"]["start"] == format_instant(first + hour * HOUR)
        result = await it.result(each["id"])
        assert without(result["summary"], "truncated") == expected(hour)
        assert TIMED_ONLY in (await it.report(each["id"]))["caveats"]
    budget = (await it.ledger(LONE))["record"]
    end = format_instant(first + 2 * HOUR)  # another hour may have ended meanwhile
    paid = [debit["epsilon"] for debit in budget["debits"] if debit["window"]["end"] <= end]
    assert sorted(paid) == ["0", "0", "100", "100"]
    assert budget["worst_instant"]["epsilon"] == "100"


async def test_a_preview_says_which_records_a_window_counts(it: Site) -> None:
    window = {"start": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z"}
    said = []
    for more in ({}, {"window": window}):
        asked = job("sequential-ngram", NGRAMS, "1", columns=COLUMNS, **more)
        answer = await it.house.ask("POST", "/v1/jobs/preview", json=asked)
        assert answer.status_code == 200, answer.text
        said.append(TIMED_ONLY in answer.text)
    assert said == [False, True]


async def test_a_window_over_what_has_no_time_is_refused_by_name(it: Site) -> None:
    window = {"start": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z"}
    asked = job("kmeans", {"universe": []}, "1", columns=["kwh"], window=window)
    asked["params"] = {"k": 2, "epsilon": "1", "bounds": [[0, 15]], "n_hint": 100}
    answer = await it.house.ask("POST", "/v1/jobs/preview", json=asked)
    assert answer.status_code == 422
    assert "rows of a table have no time" in answer.text
    asked = job("graph-random-matrix", {"universe": []}, "1", columns=[{"transactions": "edges"}])
    asked["federation"] |= {"collect": "reports", "window": window}
    answer = await it.house.ask("POST", "/v1/jobs/preview", json=asked)
    assert answer.status_code == 422
    assert "reports are of a whole table" in answer.text
