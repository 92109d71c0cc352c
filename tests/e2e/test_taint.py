"""Readings, shares, partial sums, seal keys and tokens never reach a log, a metric, a trace, an
error, a command line or an environment; and a crash would write no memory (issue: observability).

Real processes, all at log level debug, with traces on. What the services hold is read from their
books while they hold it. A control plants values in every form and channel, and they are found.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import stat
import struct
import zipfile
from collections.abc import AsyncIterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from cli.services.deployment import ServiceAddress
from tacit.wire import format_instant
from tests.cli.test_pairing import tacit
from tests.e2e.listening import Collector, Heard, Listener
from tests.e2e.plain import plain
from tests.e2e.taint import COLUMNS, Taint
from tests.e2e.world import HOUR, World
from tests.rules import ruled

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="needs /proc"),
]

HOSTED = ["h0", "h1", "h2"]
LONE = ["lone-0", "lone-1"]
READINGS = {
    "h0": "86753.0917",
    "h1": "47119.3826",
    "h2": "90217.7153",
    "lone-0": "73451.2389",
    "lone-1": "62831.8537",
}
REFUSED = "5739.81642"
WEBHOOK_KEY = "a-key-that-only-the-receiver-has-0123456789"
RECORDS = {name: [f"3.{place}7182818", f"6.{place}4142135"] for place, name in enumerate(READINGS)}
ROUND: dict[str, Any] = {
    "function": "sum",
    "unit": "kWh",
    "bounds": ["0", "100000"],
    "max_readings": 1,
    "resolution": "0.001",
    "sharing": "additive",
    "aggregators": 3,
    "min_participants": 2,
    "n_max": 10,
    "deadline_s": 120,
}
MECHANISMS: dict[str, dict[str, Any]] = {
    "exact": {"mechanism": "exact"},
    "shamir": {"mechanism": "exact", "sharing": "shamir", "threshold": 2},
    "distributed": {
        "mechanism": "distributed",
        "epsilon": "10",
        "collusion": {"curators": 0, "aggregators": 2},
    },
    "two-layer": {
        "mechanism": "two-layer",
        "epsilon_u": "10",
        "epsilon_s": "10",
        "pr_u": "1",
        "pr_s": "1",
    },
    "local": {"mechanism": "local", "epsilon_i": "10", "sharing": "none", "aggregators": 1},
}
GRID: dict[str, Any] = {
    "algorithm": "dpbv-clustering",
    "params": {"k": 2, "epsilon": "2", "bounds": [[0, 10], [0, 10]], "cells_per_axis": 8},
    "federation": {
        "collect": "rounds",
        "columns": ["a", "b"],
        "min_participants": 2,
        "n_max": 10,
        "deadline": 30,
        "collusion": {"curators": 0, "aggregators": 2},
    },
}
ATTRIBUTES = {"http.request.method", "http.route", "http.response.status_code"}


class Run:
    """One run, and what was heard of it."""

    def __init__(
        self,
        taint: Taint,
        heard: Heard,
        states: dict[str, str],
        services: tuple[ServiceAddress, ...],
    ) -> None:
        self.taint, self.heard, self.states, self.services = taint, heard, states, services


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Run]:
    """Rounds of every mechanism, a federated job, refused uploads, an error inside."""
    taint, states = Taint(), {}
    for name, value in READINGS.items():
        taint.number(f"reading of {name}", value)
        taint.number(
            f"reading of {name}", str(Decimal(value).quantize(Decimal(ROUND["resolution"])))
        )
    taint.number("refused reading", REFUSED)
    for name, row in RECORDS.items():
        for value in row:
            taint.number(f"record of {name}", value)
    with Collector().running() as collector:
        told = {"TACIT_LOG_LEVEL": "debug", "TACIT_OTLP_ENDPOINT": collector.url}
        home = tmp_path_factory.mktemp("taint")
        (home / "webhook.key").write_text(WEBHOOK_KEY)
        notify = {
            "TACIT_NOTIFY_WEBHOOK_URL": "https://hook.invalid/a-private-path",
            "TACIT_NOTIFY_WEBHOOK_KEY_FILE": str(home / "webhook.key"),
        }
        taint.text("webhook key", WEBHOOK_KEY)
        async with plain(home, 3, told, {"coordinator": notify}) as it:
            for service in it.real.services:
                token = (Path(service.directory) / "operator.token").read_text().strip()
                taint.text(f"{service.id} operator token", token)
            listener = Listener(it, taint)
            listener.start()
            try:
                await it.enrol("house", HOSTED)
                for name in LONE:
                    await it.enrol(name, None)
                await it.allow_everything()
                await agree(it)
                await it.give(READINGS)
                for name, more in MECHANISMS.items():
                    round_id = await it.open(ruled({**ROUND, **more, "name": name}))
                    ended = await it.finish(round_id)
                    states[name] = ended["state"] + (ended.get("reason") or "")
                states["job"] = await federated(it)
                listener.heard.errors += await it.call(misbehave, it)
                listener.heard.errors += await it.call(break_inside, it)
                listener.heard.bundle = await it.call(bundled, it)
            finally:
                await listener.stop()
        heard = listener.heard
        heard.logs = {
            service.id: (Path(service.directory) / "service.log").read_bytes()
            for service in it.real.services
        }
        heard.traces = [*collector.bodies, *(text.encode() for text in collector.headers)]
        heard.spans = collector.spans()
    yield Run(taint, heard, states, it.real.services)


async def agree(it: World) -> None:
    """A policy that stands in no round's way."""
    policy = await it.call(it._curator, "GET", "/v1/policy")
    much = {"period": {"epsilon": "1000", "delta": "1"}}
    # 65,536 records may count of each curator: what one costs is as many times as much together.
    policy |= {"record": much, "curator": {}, "allow_repeats": True}
    policy["algorithms"] = ["dpbv-clustering"]
    await it.call(it._curator, "PUT", "/v1/policy", policy)


async def federated(it: World) -> str:
    """A federated job over everybody's records; how it ended."""
    for curator, row in RECORDS.items():
        body = {"curator": curator, "columns": ["a", "b"], "rows": [[float(x) for x in row]]}
        await it.call(it._curator, "POST", "/v1/records", body)

    def work(job_id: str | None = None) -> dict[str, Any]:
        with it.real.coordinator.client() as client:
            if job_id is None:
                found: dict[str, Any] = client.request("POST", "/v1/jobs", GRID).json()
            else:
                found = client.request("GET", f"/v1/jobs/{job_id}").json()
            return found

    job = await it.call(work)
    async with asyncio.timeout(120):
        while job["state"] in ("queued", "running"):
            await asyncio.sleep(0.2)
            job = await it.call(work, job["id"])
    state: str = job["state"]
    return state


def said(answer: httpx.Response) -> bytes:
    """All of an answer."""
    return f"{answer.status_code} {dict(answer.headers)} ".encode() + answer.content


def speaker(it: World) -> httpx.Client:
    """The operator of the curators."""
    curator = it.real.curator
    token = (Path(curator.directory) / "operator.token").read_text().strip()
    return httpx.Client(
        base_url=curator.url, headers={"Authorization": f"Bearer {token}"}, timeout=None
    )


def item(it: World, **changes: Any) -> dict[str, Any]:
    """A reading that would be refused, with changes."""
    return {
        "curator": "h0",
        "device": "meter-h0",
        "time": format_instant(it.window_end - HOUR / 3),
        "value": REFUSED,
        "unit": "kWh",
        **changes,
    }


def misbehave(it: World) -> list[bytes]:
    """Private values in every place of a request where they do not belong."""
    answers: list[httpx.Response] = []
    word = struct.pack("<q", int(REFUSED.replace(".", "")))
    with speaker(it) as client:
        for body in (
            [item(it, unit="furlong")],
            [item(it, value=f"{REFUSED}x")],
            [item(it, value=float(REFUSED), time=REFUSED)],
            [item(it, curator=REFUSED)],
            [item(it, curator="nobody-here")],
            [item(it, kind=REFUSED, **{REFUSED: REFUSED})],
            {"value": REFUSED},
            REFUSED,
        ):
            answers.append(client.post("/v1/readings", json=body))
        json_type = {"Content-Type": "application/json"}
        for raw in (f'[{{"value": {REFUSED}', f"\x00{REFUSED}", f'["{REFUSED}"]]'):
            answers.append(client.post("/v1/readings", content=raw, headers=json_type))
        for kind in ("application/cbor", "application/x-ndjson", "text/csv", f"a/{REFUSED}"):
            for raw_bytes in (word, REFUSED.encode(), b"\x9f" + word):
                answers.append(
                    client.post("/v1/readings", content=raw_bytes, headers={"Content-Type": kind})
                )
        table = f"curator,device,time,value\nh0,m,{REFUSED},{REFUSED}\nh0,m,x,{REFUSED}\n"
        answers.append(
            client.post(
                "/v1/readings/import?unit=kWh",
                content=table,
                headers={"Content-Type": "text/csv"},
            )
        )
        answers.append(
            client.post(
                "/v1/records", json={"curator": "h0", "columns": ["a"], "rows": [[REFUSED], [1]]}
            )
        )
        for path in (f"/v1/curators/{REFUSED}/budget", f"/v1/{REFUSED}", f"/v1/tokens?x={REFUSED}"):
            answers.append(client.get(path, headers={"If-None-Match": REFUSED}))
        answers.append(client.get("/v1/policy", headers={"Authorization": f"Bearer {REFUSED}"}))
    for service in it.real.services[:-1]:
        for path in ("/v1/rounds/x/contributions", "/v1/queries", "/v1/enrolments"):
            answers.append(
                httpx.post(service.url + path, content=REFUSED, headers={"Authorization": REFUSED})
            )
    assert {answer.status_code for answer in answers} > {401, 404, 422}
    assert all(answer.status_code < 500 for answer in answers)
    return [said(answer) for answer in answers if not is_echo(answer)]


def is_echo(answer: httpx.Response) -> bool:
    """An answer per item names the item's curator, whoever that is: not an error's text."""
    return answer.status_code == 200 and REFUSED in answer.request.content.decode("latin-1")


def break_inside(it: World) -> list[bytes]:
    """An error that nobody foresaw, in the middle of storing a reading."""
    with closing(sqlite3.connect(Path(it.real.curator.directory) / "curator.db")) as books:
        books.execute('ALTER TABLE "reading" RENAME TO "gone"')
        books.commit()
    with speaker(it) as client:
        answer = client.post("/v1/readings", json=[item(it)])
    assert answer.status_code >= 500, answer.text
    return [said(answer)]


def bundled(it: World) -> dict[str, bytes]:
    """The files of a support bundle of these services, one of which has lost a table."""
    out = it.real.directory / "support.zip"
    done = tacit("support-bundle", "--home", it.real.directory, "--out", out)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    with zipfile.ZipFile(out) as bundle:
        return {name: bundle.read(name) for name in bundle.namelist()}


async def test_a_support_bundle_helps_and_names_no_one(run: Run) -> None:
    bundle, names = run.heard.bundle, ("coordinator", "aggregator-1", "curator")
    for name in names:
        support = json.loads(bundle[f"{name}.json"])
        assert support["revision"] == "0001", name
        assert {"pydantic", "sqlalchemy"} <= {each.lower() for each in support["libraries"]}
        assert support["settings"]["operator_token"] in (None, "[set]")
        assert support["settings"]["log_level"] == "debug"
        assert any('"event": "request"' in line for line in support["log"]), name
        assert b'"event": "request"' in bundle[f"{name}.log"], name
    coordinator = json.loads(bundle["coordinator.json"])
    assert coordinator["settings"]["notify_webhook_key"] == "[set]"
    assert coordinator["settings"]["notify_webhook_url"] == "[set]"
    assert coordinator["rows"]["curator"] == len(HOSTED) + len(LONE)
    status = json.loads(bundle["status.json"])
    assert [each["id"] for each in status["services"]] == [each.id for each in run.services]
    whole = b"\n".join(bundle.values())
    for private in (*LONE, "meter-h0", "hook.invalid"):
        assert private.encode() not in whole, private


async def test_everything_ran_and_every_channel_spoke(run: Run) -> None:
    assert run.states == {**dict.fromkeys(MECHANISMS, "released"), "job": "succeeded"}
    for name, text in run.heard.channels().items():
        assert len(text) > 1000, name
    for name, log in run.heard.logs.items():
        assert b'"event": "request"' in log, name
        assert b'"level": "debug"' in log, name
    assert b"internal_error" in run.heard.logs["curator"]
    assert len(run.heard.processes) >= 5
    for kind in ("batch.body", "piece.bodies", "round.partial", "seal_key.seed"):
        assert run.taint.labels.get(f"aggregator {kind}", 0) > 2, kind
    for kind in ("outbox.body", "party.identity", "record_table.content"):
        assert run.taint.labels.get(f"curator {kind}", 0) > 2, kind


async def test_nothing_private_is_said(run: Run) -> None:
    found = {name: run.taint.found(text) for name, text in run.heard.channels().items()}
    assert found == {name: set() for name in found}


async def test_what_is_planted_is_found_in_every_channel(run: Run) -> None:
    units = 867530917
    plants = [
        b"value=86753.0917",
        b"0.0867530917",
        b'{"x": 867530917}',
        units.to_bytes(8, "little").hex().encode(),
        units.to_bytes(8, "big").hex().upper().encode(),
        struct.pack("<d", 86753.0917).hex().encode(),
        repr(units.to_bytes(8, "little")).encode(),
        units.to_bytes(8, "little"),
    ]
    for name, text in run.heard.channels().items():
        middle = len(text) // 2
        for plant in plants:
            planted = text[:middle] + b" " + plant + b" " + text[middle:]
            assert run.taint.found(planted) == {"reading of h0"}, name


async def test_no_process_would_leave_a_core(run: Run) -> None:
    assert set(run.heard.core_limits.values()) == {"0 0"}


async def test_spans_tell_templates_and_one_trace_spans_services(run: Run) -> None:
    by_trace: dict[bytes, set[str]] = {}
    for span in run.heard.spans:
        by_trace.setdefault(span.trace, set()).add(span.service)
        assert set(span.attributes) <= ATTRIBUTES
        assert span.extras == 0
        if span.attributes:
            route = span.attributes["http.route"]
            assert route == "unmatched" or route.startswith(("/v1/", "/.well-known/", "/docs"))
            assert not any(letter.isdigit() for letter in route.removeprefix("/v1"))
            assert span.name == f"{span.attributes['http.request.method']} {route}"
        else:
            assert span.name.isascii()
            assert not any(letter.isdigit() for letter in span.name)
    assert any(
        {"tacit-coordinator", "tacit-aggregator"} <= services for services in by_trace.values()
    )
    assert {span.service for span in run.heard.spans} == {f"tacit-{kind}" for kind in COLUMNS}
