"""Federated jobs through real services: rounds and reports (spec: jobs, "Federated jobs").

One site for all: a host of 47 curators and 3 lone ones, each with its own rows; 3 aggregators.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from tacit.randomness import SeededRandom
from tests.coordinator.double import problem
from tests.e2e.federation import COLLECTING_S, Site, site

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONE = [f"meter-{number}" for number in range(3)]
HOSTED = [f"hosted-{number}" for number in range(47)]
BOX = [[0, 10], [0, 10]]
CENTRES = np.array([[2.0, 2.0], [7.0, 7.0]])
FEDERATION: dict[str, Any] = {
    "collect": "rounds",
    "columns": ["a", "b"],
    "min_participants": 40,
    "n_max": 100,
    "deadline": 60,
    "collusion": {"curators": 0, "aggregators": 2},
}
KMEANS: dict[str, Any] = {
    "algorithm": "kmeans",
    "params": {
        "k": 2,
        "epsilon": "2",
        "bounds": BOX,
        "n_hint": 1000,
        "max_cells": 256,
        "mode": "synopsis+zone",
    },
    "federation": FEDERATION,
}
GRID: dict[str, Any] = {
    "algorithm": "dpbv-clustering",
    "params": {"k": 2, "epsilon": "2", "bounds": BOX, "cells_per_axis": 8},
    "federation": FEDERATION,
}
GRAPH: dict[str, Any] = {
    "algorithm": "graph-der",
    "params": {"epsilon": "1", "vertices": 50},
    "federation": {**FEDERATION, "columns": ["u", "v"]},
}
TASK: dict[str, Any] = {
    "algorithm": "crowd-tasking",
    "params": {
        "sensor": {"name": "a", "coordinates": [{"name": "a", "lower": 0, "upper": 10}]},
        "n": 50,
        "epsilon": "3",
        "T": 4,
    },
    "federation": {
        "collect": "reports",
        "columns": ["a"],
        "min_participants": 40,
        "n_max": 100,
        "deadline": COLLECTING_S,
    },
}


def blobs(count: int, number: int) -> list[list[float]]:
    """Rows around (2, 2) and (7, 7)."""
    generator = SeededRandom(number).generator
    centres = CENTRES[np.arange(count) % 2]
    rows: list[list[float]] = (centres + generator.normal(0, 0.5, (count, 2))).tolist()
    return rows


def edges(number: int) -> list[list[float]]:
    """Twenty edges of a curator, each of which no other one has: 1,000 of 1,225 pairs in all."""
    return [[float(number), float((number + step) % 50)] for step in range(1, 21)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Everybody, with rows, and agreed to all three algorithms."""
    async with site(tmp_path_factory.mktemp("federated")) as running:
        await running.enrol("host", HOSTED)
        for name in LONE:
            await running.enrol(name)
        for number, name in enumerate((*LONE, *HOSTED)):
            rows = [
                [*blob, *edge] for blob, edge in zip(blobs(20, number), edges(number), strict=True)
            ]
            await running.give(name, ["a", "b", "u", "v"], rows)
        limits = {"period": {"epsilon": "9"}}
        algorithms = ["kmeans", "dpbv-clustering", "crowd-tasking", "graph-der"]
        await running.agree(*algorithms, record=limits)
        yield running


async def test_kmeans_by_rounds_also_over_a_restart_of_the_coordinator(it: Site) -> None:
    asked = await it.ask(KMEANS)
    async with asyncio.timeout(120):  # one sum is opened, and the next round is under way
        while (await it.shown(asked["id"]))["progress"] <= 0.5:
            await asyncio.sleep(0.02)
    await it.house.restart()
    assert (await it.shown(asked["id"]))["state"] == "running"
    found = await it.result(asked["id"])
    centres = np.array(sorted(found["summary"]["centres"]))
    assert np.abs(centres - CENTRES).max() < 0.5
    assert found["dataset"] is None
    assert found["federation"]["collect"] == "rounds"
    assert found["summary"]["truncated"] is False
    report = await it.report(asked["id"])
    lines = {line["key"]: line for line in report["verified"]}
    assert (lines["e"]["epsilon"], lines["e"]["delta"]) == ("2", "0")
    assert lines["d"]["model"] == "none"
    assert report["charged"]["ledger"] == "curators"
    assert report["charged"]["epsilon"] == "2"
    preview = {line["key"]: line for line in asked["preview"]["verified"]}
    assert preview["e"]["epsilon"] == "2"


async def test_the_grid_of_dpbv_clustering_by_one_round(it: Site) -> None:
    asked = await it.ask(GRID)
    found = await it.result(asked["id"])
    centres = np.array(sorted(found["summary"]["centres"]))
    assert np.abs(centres - CENTRES).max() < 1
    report = await it.report(asked["id"])
    assert {line["key"]: line["epsilon"] for line in report["verified"]}["e"] == "2"


async def test_a_graph_by_three_rounds(it: Site) -> None:
    asked = await it.ask(GRAPH)
    found = await it.result(asked["id"])
    assert found["summary"]["method"] == "blocks"
    assert found["summary"]["vertices"] == 50
    assert 800 < found["summary"]["edges"] <= 1_225
    report = await it.report(asked["id"])
    assert {line["key"]: line["epsilon"] for line in report["verified"]}["e"] == "1"
    assert report["charged"]["ledger"] == "curators"


async def test_crowd_tasking_by_reports(it: Site) -> None:
    """An average by windows and a histogram by subsets, at the same time."""
    buckets = {"aggregate": "HIST", "buckets": {"width": 1}, "epsilon": "1", "report": "subset"}
    asked = await it.ask(TASK)
    histogram = await it.ask({**TASK, "params": {**TASK["params"], **buckets}})
    await it.collected((*LONE, HOSTED[0]), asked["id"], histogram["id"])
    found = await it.result(histogram["id"])
    assert found["summary"]["task"]["report"] == "subset"
    assert found["summary"]["reports"] == 200
    assert sum(found["summary"]["histogram"]["shares"]) == pytest.approx(1)
    found = await it.result(asked["id"])
    assert found["summary"]["task"]["report"] == "window"
    assert found["summary"]["users"] == {"offered": 50, "joined": 50}
    assert found["summary"]["reports"] == 200
    estimate = found["summary"]["average"]["a"]
    assert abs(estimate["estimate"] - 4.5) < 6 * estimate["standard_error"] + 0.5
    report = await it.report(asked["id"])
    assert report["charged"]["ledger"] == "curators"
    assert report["charged"]["epsilon"] == "3"
    assert report["verified"][0]["scenario"] == "coordinator and all other curators"
    assert asked["preview"]["verified"] == report["verified"]


async def test_every_curators_own_ledger_has_paid(it: Site) -> None:
    for name in (LONE[0], HOSTED[-1]):
        found = (await it.ledger(name))["record"]
        amounts = sorted(debit["epsilon"] for debit in found["debits"])
        assert amounts == ["0", "0", "0", "0", "1", "1", "2", "2", "3"]
        assert found["worst_instant"]["epsilon"] == "9"


async def test_who_cannot_afford_a_job_stays_out_and_the_job_fails(it: Site) -> None:
    before = await it.ledger(LONE[0])
    params = {**GRID["params"], "epsilon": "3"}
    federation = {**FEDERATION, "deadline": 2}
    asked = await it.ask({**GRID, "params": params, "federation": federation})
    ended = await it.finished(asked["id"])
    assert ended["state"] == "failed"
    assert ended["error"]["type"] == "urn:tacit:problem:round_aborted"
    assert await it.ledger(LONE[0]) == before


async def test_a_job_is_cancelled_and_its_round_with_it(it: Site) -> None:
    await it.agree()  # nobody takes part
    asked = await it.ask(GRID)
    answer = await it.house.ask("DELETE", f"/v1/jobs/{asked['id']}")
    assert answer.status_code == 202
    ended = await it.finished(asked["id"])
    assert ended["state"] == "cancelled"


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"federation": {**FEDERATION, "columns": ["a"]}}, "data_shape", "/params/bounds"),
    (
        {"federation": {**FEDERATION, "collect": "reports"}},
        "federation_unsupported",
        "/federation/collect",
    ),
    ({"stance": "paper"}, "bad_parameter", "/stance"),
    ({"seed": 1}, "seed_not_allowed", "/seed"),
    ({"federation": {**FEDERATION, "deadline": 0}}, "bad_parameter", "/federation/deadline"),
    (
        {"federation": {**FEDERATION, "collusion": {"curators": 0, "aggregators": 3}}},
        "bad_parameter",
        "/federation/collusion",
    ),
    ({"params": {"k": 2, "n_hint": 9}}, "bounds_missing", "/params/bounds"),
]


@pytest.mark.parametrize(("change", "name", "pointer"), BAD)
async def test_what_no_round_could_answer_is_refused_at_once(
    it: Site, change: dict[str, Any], name: str, pointer: str
) -> None:
    before = len((await it.house.ask("GET", "/v1/jobs")).json()["jobs"])
    answer = await it.house.ask("POST", "/v1/jobs", {**KMEANS, **change})
    assert problem(answer) == (422, name), answer.text
    assert pointer in {item["pointer"] for item in answer.json()["errors"]}, answer.text
    assert len((await it.house.ask("GET", "/v1/jobs")).json()["jobs"]) == before
