"""The service around the rounds: revisions, identity, documents, examples, silence of the logs."""

from __future__ import annotations

import re
import ssl
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from common.runtime.clock import ManualClock
from common.store.database import migrate
from common.store.migration import drift
from common.store.transactions import Database
from common.web.dependencies import part_of
from common.web.idempotency import RequestKey, StoredAnswer, recall, remember
from coordinator import examples
from coordinator.rounds.scheduling import Scheduler
from coordinator.services import MIGRATIONS
from coordinator.store.tables import idempotency_keys, metadata
from tests.coordinator.conftest import Houses
from tests.coordinator.double import NOISY, integers, query


async def test_revisions_make_the_tables(database: Database) -> None:
    await migrate(database, MIGRATIONS)
    assert await drift(database, metadata) == []


async def test_there_is_no_table_for_a_share_or_a_reading() -> None:
    names = {
        f"{table.name}.{column.name}" for table in metadata.tables.values() for column in table.c
    }
    for word in ("reading", "share", "piece", "value", "noise"):
        assert not [name for name in names if word in name and name != "secret.value"]


async def test_the_identity_survives_a_restart(house: Houses) -> None:
    async with house(0) as it:
        path = "/.well-known/tacit-coordinator"
        before = (await it.client.get(path)).json()
        await it.restart()
        assert (await it.client.get(path)).json() == before
        async with it.replica() as (_, other):
            assert (await other.get(path)).json() == before
        assert before["deployment"] == "tacit"
        ready = await it.client.get("/readyz")
        names = ("database", "ledger", "erasure", "aggregators")
        assert ready.json()["checks"] == dict.fromkeys(names, "ok")


@pytest.mark.parametrize(
    ("version", "stored", "warned"),
    [
        ((3, 0, 19, 0, 0), True, True),
        ((3, 0, 19, 0, 0), False, False),
        ((3, 5, 0, 0, 0), True, False),
    ],
)
async def test_stored_datasets_under_classical_tls_are_warned_of(
    house: Houses,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    version: tuple[int, ...],
    stored: bool,
    warned: bool,
) -> None:
    monkeypatch.setattr(ssl, "OPENSSL_VERSION_INFO", version)
    async with house(0, stored_datasets=stored) as it:
        said = (await it.client.get("/readyz")).json()["tls_pq"]
    assert said == ("offered" if version >= (3, 5) else "no")
    # Where an earlier test configured the log, it goes to its handlers, else to the screen.
    logged = capsys.readouterr().out + caplog.text
    assert ("datasets_travel_under_classical_tls" in logged) == warned


async def test_the_document_is_valid_and_every_example_is_accepted(house: Houses) -> None:
    async with house(3) as it:
        document = (await it.client.get("/openapi.json")).json()
        await it.host("gateway", 3)
        created = await it.ask("POST", "/v1/queries", examples.QUERY)
        assert created.status_code == 201, created.text
        sent: dict[str, Any] = {
            "/v1/queries": examples.QUERY,
            "/v1/queries/preview": examples.PREVIEW,
            "/v1/rounds": {**examples.ROUND, "query_id": created.json()["id"]},
            "/v1/rounds/states": examples.ROUND_IDS,
            "/v1/grants": examples.GRANT,
            "/v1/tokens": examples.TOKEN,
            "/v1/groups": {**examples.GROUP, "curators": ["gateway.0", "gateway.1"]},
            "/v1/budget/preview": {**examples.PLAN, "query_id": created.json()["id"]},
            "/v1/budget/forecast": {**examples.FORECAST, "query_id": created.json()["id"]},
            "/v1/budget/outlook": {
                "queries": [{"query_id": created.json()["id"], "period_s": 86400}],
            },
            "/v1/datasets": examples.DATASET,
            "/v1/budget/events": {**examples.UPDATE, "curators": ["gateway.0"]},
            "/v1/job-schedules/preview": examples.JOB_SCHEDULE,
            "/v1/job-schedules": examples.JOB_SCHEDULE,
        }
        for path, body in sent.items():
            answer = await it.ask("POST", path, body)
            assert answer.status_code in (200, 201), (path, answer.text)
            if path == "/v1/datasets":
                dataset = answer.json()["id"]
        job = {**examples.JOB, "dataset": dataset}
        answer = await it.ask("POST", "/v1/jobs/preview", job)  # it takes what /v1/jobs takes
        assert answer.status_code == 200, answer.text
        answer = await it.ask("POST", "/v1/aggregators", examples.AGGREGATOR)
        assert answer.json()["type"].endswith("aggregator_unreachable")
        confirmation = "/v1/aggregators/{aggregator}/confirmation"
        path = confirmation.format(aggregator="aggregator-1")
        answer = await it.ask("POST", path, examples.CONFIRMATION)
        assert answer.json()["type"].endswith("aggregator_unreachable")  # no document is shown
        shown = {
            path
            for path, operations in document["paths"].items()
            if "example"
            in operations.get("post", {})
            .get("requestBody", {})
            .get("content", {})
            .get("application/json", {})
        }
        reports = "/v1/jobs/{job_id}/reports"  # of a party; see test_federated_reports
        apart = {"/v1/aggregators", confirmation, "/v1/jobs", "/v1/jobs/preview", reports}
        assert shown == {*sent, *apart}


async def test_the_last_profile_is_in_the_metrics_where_a_setting_says_so(house: Houses) -> None:
    """Each slot with its band; a later round that is no profile leaves it, a shorter profile
    replaces all of it."""
    slots = {"function": "vector_sum", "coordinates": "slots", "max_readings": 4}

    def series(text: str) -> dict[tuple[str, str], float]:
        found = re.findall(
            r'last_profile_value\{bound="(\w+)",slot="(\d+)",unit="kWh"\} (\S+)', text
        )
        return {(slot, bound): float(value) for bound, slot, value in found}

    async with house(3, profile_metrics=True) as it:
        host = await it.host("gateway", 4)
        for dimension in (3, 2):
            name = f"profile-{dimension}"
            opened = await it.open(query(**slots, **NOISY, name=name, dimension=dimension))
            await opened.contribute(host, np.full((4, dimension), 1000))
            assert (await it.finish(opened))["state"] == "released"
            await it.released(host, query(**NOISY, name=f"total-{dimension}"))
            answer = await it.result(opened)
            width = float(answer["report"]["error"]["parts"][0]["interval"]["half_width"])
            shown = series((await it.client.get("/metrics")).text)
            assert len(shown) == 3 * dimension
            for slot, value in enumerate(map(float, answer["result"]["vector"])):
                assert shown[f"{slot:02}", "value"] == value
                assert shown[f"{slot:02}", "low"] == pytest.approx(value - width)
                assert shown[f"{slot:02}", "high"] == pytest.approx(value + width)


async def test_logs_and_metrics_hold_no_secret(
    house: Houses, capfd: pytest.CaptureFixture[str]
) -> None:
    async with house(3, log_format="json") as it:
        host = await it.host("gateway-of-somebody", 4)
        sender = it.federation.sender("somebody")
        secret = await it.grant(sender)
        token = (await it.send_enrolment(it.enrolment(sender, secret))).json()["token"]
        opened = await it.open(query())
        values = integers(4)
        await opened.contribute(host, values)
        await it.finish(opened, by="close")
        total = (await it.result(opened))["result"]["sum"]
        metrics = (await it.client.get("/metrics")).text
    written = capfd.readouterr()
    text = re.sub(r'"(time|ms)": [^,}]+', "", written.out + written.err) + metrics
    for private in (secret, token, str(total), "somebody"):
        assert private not in text


async def test_old_keys_and_grants_are_forgotten(house: Houses) -> None:
    clock = ManualClock()
    async with house(0, clock=clock) as it:
        database = part_of(it.app, Database)
        key = RequestKey("a" * 64, "b" * 64)
        async with database.begin() as transaction:
            await remember(transaction, idempotency_keys, key, StoredAnswer(200, b"x"), clock.now())
        clock.advance(timedelta(days=3))
        scheduler = part_of(it.app, Scheduler)
        scheduler._tidied = None  # it tidies at its start too, and then not for a while
        await scheduler._tidy()
        async with database.begin() as transaction:
            assert await recall(transaction, idempotency_keys, key) is None
