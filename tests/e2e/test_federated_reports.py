"""dpbv-clustering by reports through real services (spec: jobs, "Federated jobs").

One site for all: a host of 47 curators and 3 lone ones, each with its own rows. No aggregator takes
part.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any, Final

import httpx
import numpy as np
import pytest
import pytest_asyncio
from sqlalchemy import select

from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.services import Jobs
from curator.store.tables import noisy_reports
from tests.e2e.federation import COLLECTING_S, Following, Site, site
from tests.e2e.test_federated_jobs import BOX, CENTRES, HOSTED, LONE, blobs

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

ROWS = 10
FEDERATION: dict[str, Any] = {
    "collect": "reports",
    "columns": ["a", "b"],
    "min_participants": 40,
    "n_max": 100,
    "deadline": COLLECTING_S,
}
PARTIES: Final = (*LONE, HOSTED[0])
AGREED: dict[str, Any] = {"record": {"period": {"epsilon": "40"}}}


def asked(stance: str = "sound", **params: Any) -> dict[str, Any]:
    """A job over all curators."""
    return {
        "algorithm": "dpbv-clustering",
        "stance": stance,
        "params": {"k": 2, "bounds": BOX, "epsilon": "6", **params},
        "federation": FEDERATION,
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Everybody, with rows, and agreed."""
    async with site(tmp_path_factory.mktemp("reports")) as running:
        await running.enrol("host", HOSTED)
        for name in LONE:
            await running.enrol(name)
        for number, name in enumerate((*LONE, *HOSTED)):
            await running.give(name, ["b", "a"], blobs(ROWS, number))
        await running.agree("dpbv-clustering", "graph-random-matrix", **AGREED)
        yield running


async def result(it: Site, job: str) -> dict[str, Any]:
    """The result of a job that must succeed, once everyone has reported."""
    await it.collected(PARTIES, job)
    return await it.result(job)


async def labels(it: Site, job: str) -> list[list[str]]:
    """Lines of the published file of labels."""
    answer = await it.house.ask("GET", f"/v1/jobs/{job}/files/labels.csv")
    assert answer.status_code == 200, answer.text
    return [line.split(",") for line in answer.text.splitlines()]


async def test_cells(it: Site) -> None:
    before = await spent(it)
    job = await it.ask(asked(method="grid-ldp", cells_per_axis=4))
    found = await result(it, job["id"])
    summary = found["summary"]
    assert (summary["method"], summary["columns"]) == ("grid-ldp", ["a", "b"])
    centres = np.array(sorted(summary["centres"]))
    assert np.abs(centres - CENTRES).max() < 2
    assert found["dataset"] is None
    assert found["plots"]
    report = await it.report(job["id"])
    (line,) = report["verified"]
    assert line["scenario"] == "coordinator and all other curators"
    assert (line["epsilon"], line["delta"]) == ("6", "0")
    assert (report["charged"]["ledger"], report["charged"]["epsilon"]) == ("curators", "6")
    assert job["preview"]["verified"] == report["verified"]
    assert [after - was for was, after in zip(before, await spent(it), strict=True)] == [6, 6]
    (told,) = (await it.own("GET", f"/v1/curators/{LONE[0]}/reports")).json()["reports"]
    assert (told["job"], told["algorithm"]) == (job["id"], "dpbv-clustering")
    assert (told["columns"], told["reports"], told["state"]) == (["a", "b"], ROWS, "delivered")
    assert told["refused_because"] is None


async def test_points_are_sent_once_also_where_the_answer_is_lost(
    it: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes again are welcome, and no noise is drawn a second time."""
    sent: list[bytes] = []
    reach = Following.handle_async_request

    async def lose_first(self: Following, request: httpx.Request) -> httpx.Response:
        response = await reach(self, request)
        if request.method == "POST" and request.url.path.endswith("/reports"):
            sent.append(await request.aread())
            if len(sent) <= 4:
                raise httpx.ReadError("lost", request=request)
        return response

    monkeypatch.setattr(Following, "handle_async_request", lose_first)
    before = await spent(it)
    job = await it.ask(asked(method="laplace-points", epsilon="8"))
    found = await result(it, job["id"])
    assert sum(found["summary"]["sizes"]) == 50 * ROWS
    assert len(sent) > 4
    assert len(set(sent)) == 4  # four parties
    lines = await labels(it, job["id"])
    assert lines[0] == ["curator", "record", "label"]
    assert lines[1][:2] == [min(LONE + HOSTED), "00001"]
    assert len(lines) == 1 + 50 * ROWS
    assert [after - was for was, after in zip(before, await spent(it), strict=True)] == [8, 8]
    async with part_of(it.app, Database).reading() as transaction:
        query = select(noisy_reports.c.status).where(noisy_reports.c.job == job["id"])
        statuses = (await transaction.execute(query)).scalars().all()
    assert set(statuses) == {200}
    assert len(statuses) == 50 * ROWS


async def test_a_job_that_ended_before_the_answer_came_is_over_and_not_refused(
    it: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its reports were taken is unknown; that they were made is what the curator shows."""
    posted, ended, reach = asyncio.Event(), asyncio.Event(), Following.handle_async_request

    async def lose(self: Following, request: httpx.Request) -> httpx.Response:
        response = await reach(self, request)
        if request.url.path.endswith("/reports") and not ended.is_set():
            posted.set()
            raise httpx.ReadError("lost", request=request)
        return response

    async def shown(curator: str) -> dict[str, Any]:
        answer = await it.own("GET", f"/v1/curators/{curator}/reports")
        newest: dict[str, Any] = answer.json()["reports"][0]
        return newest

    monkeypatch.setattr(Following, "handle_async_request", lose)
    job = await it.ask(asked(method="grid-ldp", cells_per_axis=4, epsilon="1"))
    async with asyncio.timeout(60):
        await posted.wait()
    assert (await it.house.ask("DELETE", f"/v1/jobs/{job['id']}")).status_code == 202
    assert (await it.finished(job["id"]))["state"] == "cancelled"
    ended.set()
    async with asyncio.timeout(60):
        for name in PARTIES:
            while (collection := await shown(name))["state"] != "over":
                await asyncio.sleep(0.05)
            assert (collection["job"], collection["reports"]) == (job["id"], ROWS)
            assert collection["refused_because"] is None


async def test_a_graph_that_nobody_keeps(it: Site) -> None:
    """Every curator is a vertex and sends its own noisy row; two have no set, and one has none of
    the other vertices in it."""
    names = [*LONE, *HOSTED]
    for place, name in enumerate(names[:-2]):
        camp = names[:25] if place < 25 else names[25:]
        friends = [each for each in camp if each != name]
        if place == 3:
            friends = ["elsewhere"]
        answer = await it.own(
            "POST",
            "/v1/transactions",
            content=("\n".join(friends) + "\n").encode(),  # one line for each: all are its set
            params={"curator": name, "name": "friends"},
            headers={"Content-Type": "text/plain"},
        )
        assert answer.status_code == 200, answer.text
    before = await it.ledger(LONE[0])
    params = {"vertices": names[:-1], "mode": "spectral", "m": 16, "k": 2, "epsilon": "10"}
    job = {
        "algorithm": "graph-random-matrix",
        "params": params,
        "federation": {**FEDERATION, "columns": [{"transactions": "friends"}]},
    }
    made = await it.ask(job)
    assert await it.ledger(LONE[0]) == before, "a preview spends nothing"
    found = await result(it, made["id"])
    assert found["summary"]["vertices"] == 48
    path = f"/v1/jobs/{made['id']}/files/"
    answer = await it.house.ask("GET", path + "vertices.csv")
    camps = [line.split(",")[:2] for line in answer.text.splitlines()[1:]]
    right = sum((name in names[:25]) == (camp == "0") for name, camp in camps)
    assert max(right, 48 - right) >= 43
    answer = await it.house.ask("GET", path + "matrix.npy")
    assert np.load(io.BytesIO(answer.content)).shape == (48, 16)
    report = await it.report(made["id"])
    assert (report["charged"]["ledger"], report["charged"]["epsilon"]) == ("curators", "10")
    last = (await it.ledger(LONE[0]))["record"]["debits"][-1]
    assert (last["epsilon"], last["delta"]) == ("10", "0.000001")
    # Without the vertices, or with numbers in the place of sets, nothing is asked.
    for changed, pointer in (
        ({**job, "params": {**params, "vertices": None}}, "/params/vertices"),
        ({**job, "federation": {**FEDERATION, "columns": ["a"]}}, "/federation/columns"),
        ({**job, "federation": {**job["federation"], "collect": "rounds"}}, "/federation/collect"),
    ):
        answer = await it.house.ask("POST", "/v1/jobs", changed)
        assert answer.status_code == 422, answer.text
        assert pointer in [
            answer.json().get("pointer"),
            *(e["pointer"] for e in answer.json()["errors"]),
        ]


async def test_bits_with_an_exact_account(it: Site) -> None:
    job = await it.ask(asked(method="dpbv-exact", s=64, epsilon="12"))
    found = await result(it, job["id"])
    assert found["summary"]["method"] == "dpbv-exact"
    assert sum(found["summary"]["sizes"]) == 50 * ROWS
    report = await it.report(job["id"])
    assert report["charged"]["delta"] == "0.000001"
    assert report["verified"][0]["model"] == "approximate-dp"
    last = (await it.ledger(LONE[0]))["record"]["debits"][-1]
    rounded = Fraction(last["epsilon"]) - Fraction(report["charged"]["epsilon"])
    assert 0 <= rounded < Fraction(1, 10**6)  # the ledger counts in micro-epsilon
    assert last["delta"] == "0.000001"


async def test_the_stance_paper_needs_a_policy_that_allows_it(it: Site) -> None:
    bits = asked("paper", s=200, epsilon_bit="2")
    before = await it.ledger(LONE[0])
    job = await it.ask(bits)
    await it.collected(PARTIES, job["id"])
    ended = await it.finished(job["id"])
    assert ended["error"]["type"] == "urn:tacit:problem:too_few_reports"
    assert await it.ledger(LONE[0]) == before
    await it.agree("dpbv-clustering", **AGREED, allow_unverified=True, stances=["sound"])
    job = await it.ask(bits)
    await it.collected(PARTIES, job["id"])
    assert (await it.finished(job["id"]))["state"] == "failed"
    assert await it.ledger(LONE[0]) == before
    await it.agree("dpbv-clustering", **AGREED, allow_unverified=True)
    job = await it.ask(bits)
    found = await result(it, job["id"])
    assert found["summary"]["method"] == "dpbv"
    lines = await labels(it, job["id"])
    order = {name: number for number, name in enumerate((*LONE, *HOSTED))}
    # Rows of a curator take turns between two groups; 200 bits of 2 each tell them apart.
    own = [(int(line[1]) % 2, line[2]) for line in lines[1:] if line[0] in order]
    agreeing = sum((label == own[0][1]) == (turn == own[0][0]) for turn, label in own)
    assert agreeing > 0.95 * len(own)
    report = await it.report(job["id"])
    assert report["charged"]["outside_budget"]
    assert report["claimed"]["theorem"] == "Theorem 4"
    unit = (await it.ledger(LONE[0]))["record"]
    assert unit["debits"][-1]["epsilon"] == "inf"
    await it.agree("dpbv-clustering", **AGREED)


async def spent(it: Site) -> list[int]:
    """Epsilon of the debits of a lone curator and a hosted one."""
    found = []
    for name in (LONE[0], HOSTED[-1]):
        unit = (await it.ledger(name)).get("record", {"debits": []})
        found.append(sum(int(debit["epsilon"]) for debit in unit["debits"]))
    return found


async def test_an_aggregation_is_cancelled_within_two_seconds(it: Site) -> None:
    """500 records, 4096 bits each, a hundred starts: minutes, unless it is stopped."""
    await it.agree("dpbv-clustering", **AGREED, allow_unverified=True)
    job = await it.ask(asked("paper", s=4096, k=100, n_init=100, max_iter=1000, epsilon_bit="0.01"))
    await it.collected(PARTIES, job["id"])
    async with asyncio.timeout(60):
        while (await it.shown(job["id"]))["stage"] != "aggregating":
            await asyncio.sleep(0.05)
    assert (await it.house.ask("DELETE", f"/v1/jobs/{job['id']}")).status_code == 202
    ended = await it.finished(job["id"], 60)
    assert ended["state"] == "cancelled"
    computing = part_of(it.house.app, Jobs).federated.computing
    async with asyncio.timeout(60):
        while job["id"] in computing:
            await asyncio.sleep(0.05)


async def test_what_no_curator_could_answer_is_refused_at_once(it: Site) -> None:
    bad = [
        (asked(method="grid-core"), "/params/method"),
        (asked(bounds=None), "/params/bounds"),
        (asked(evaluate=True), "/params/evaluate"),
        ({**asked(), "federation": {**FEDERATION, "columns": ["a"]}}, "/federation/columns"),
    ]
    for body, pointer in bad:
        answer = await it.house.ask("POST", "/v1/jobs", body)
        assert answer.status_code == 422, answer.text
        assert {item["pointer"] for item in answer.json()["errors"]} == {pointer}, answer.text
