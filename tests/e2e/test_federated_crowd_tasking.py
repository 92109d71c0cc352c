"""Crowd tasking by reports through real services: classifiers with public labels, and `paper`.

One site for all: a host of 30 curators, each with its own table. No aggregator takes part.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import select

from common.store.transactions import Database
from common.web.dependencies import part_of
from curator.store.tables import noisy_reports
from tests.e2e.federation import COLLECTING_S, Site, site

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOSTED = [f"phone-{number}" for number in range(30)]
CLASSES = [10, 20, 30]
CENTRES = {10: [1, 1], 20: [9, 1], 30: [5, 9]}
FEDERATION: dict[str, Any] = {
    "collect": "reports",
    "columns": ["x", "y"],
    "min_participants": 20,
    "n_max": 100,
    "deadline": COLLECTING_S,
}
TASK: dict[str, Any] = {
    "algorithm": "crowd-tasking",
    "params": {
        "aggregate": "CLS",
        "classes": CLASSES,
        "labels_are_public": True,
        "sensor": {
            "name": "motion",
            "coordinates": [{"name": name, "lower": 0, "upper": 10} for name in "xy"],
        },
        "n": 30,
        "epsilon": "40",
        "T": 6,
    },
    "federation": {**FEDERATION, "label": "activity"},
}
AGREED: dict[str, Any] = {
    "record": {"period": {"epsilon": "100"}},
    "public_columns": ["activity", "mood"],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Everybody, with rows. The last curator's rows have no class that is asked for."""
    async with site(tmp_path_factory.mktemp("tasks"), aggregators=1) as running:
        await running.enrol("host", HOSTED)
        for number, name in enumerate(HOSTED):
            label = 99 if name == HOSTED[-1] else CLASSES[number % 3]
            centre = CENTRES.get(label, [0, 0])
            rows = [[label, *centre]] * 5 + [[40, *centre]]  # the last row has no class either
            await running.give(name, ["activity", "x", "y"], rows)
        await running.agree("crowd-tasking", **AGREED)
        yield running


async def spent(it: Site, name: str = HOSTED[0]) -> list[dict[str, Any]]:
    """A curator's debits for single readings."""
    found: list[dict[str, Any]] = (await it.ledger(name)).get("record", {"debits": []})["debits"]
    return found


@pytest.mark.slow
async def test_a_classifier_of_labels_that_are_sent_as_they_are(it: Site) -> None:
    job = await it.ask(TASK)
    await it.collected(HOSTED[:1], job["id"])
    found = await it.result(job["id"])
    assert found["summary"]["users"] == {"offered": 30, "joined": 30}
    assert found["summary"]["reports"] == 30 * 6
    assert found["summary"]["classifier"]["classes"] == CLASSES
    # About 20 of the 180 rows have no class, and are sent as the first one; guessing gives 1/3.
    assert found["summary"]["classifier"]["accuracy_on_noisy_reports"] > 0.8
    report = await it.report(job["id"])
    assert "Class labels are sent as they are." in report["not_protected"]
    assert report["charged"]["epsilon"] == "40"
    words = await it.house.ask(
        "GET", f"/v1/jobs/{job['id']}/report", headers={"Accept": "text/plain"}
    )
    assert "Class labels are sent as they are" in words.text
    assert job["preview"]["verified"] == report["verified"]
    # Rows of no class are sent like the others: who has some sends as much, and pays as much.
    for name in (HOSTED[0], HOSTED[-1]):
        assert [debit["epsilon"] for debit in await spent(it, name)] == ["40"]
    async with part_of(it.app, Database).reading() as transaction:
        query = select(noisy_reports.c.body).where(noisy_reports.c.job == job["id"])
        bodies = [json.loads(body) for body in (await transaction.execute(query)).scalars()]
    assert len(bodies) == 30 * 6
    assert {body["label"] for body in bodies} == {0, 1, 2}


async def test_a_table_without_the_column_stays_out(it: Site) -> None:
    asked = {**TASK, "federation": {**FEDERATION, "label": "mood"}}
    job = await it.ask(asked)
    await it.collected(HOSTED[:1], job["id"])
    ended = await it.finished(job["id"])
    assert ended["error"]["type"] == "urn:tacit:problem:too_few_reports"
