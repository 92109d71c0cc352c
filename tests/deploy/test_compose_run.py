"""What compose would run, run: every service's command with its environment, volumes, secrets,
networks, user and dependencies, and private rounds through them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.deploy.conftest import Compose
from tests.deploy.engine import ask, run_job

METERS = 400
pytestmark = pytest.mark.slow


def test_the_default_services_and_the_demo(compose: Compose) -> None:
    it = compose("demo")
    said = " ".join(it.wait_until_done("demo").split())
    assert "1,000 meters" in said
    assert "they add up to the answer" in said
    paired = ask(it, "/v1/aggregators")["aggregators"]
    assert [item["id"] for item in paired] == ["aggregator-a", "aggregator-b", "aggregator-c"]

    # As hardened as the file says: no root, no write beside the volume, no capability, no core.
    for name in ("coordinator", "aggregator-a", "curator"):
        assert it.run_in(name, "id", "-u").stdout == "10001\n"
        assert it.run_in(name, "touch", "/opt/tacit/app/file").returncode != 0
        assert it.run_in(name, "touch", "/var/lib/tacit/file").returncode == 0
        process = it.containers[name].process
        assert process is not None
        status = it.outside_run("cat", f"/proc/{process.pid}/status").stdout
        assert "CapEff:\t0000000000000000" in status
        assert "CapBnd:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        limits = it.outside_run("cat", f"/proc/{process.pid}/limits").stdout
        assert "Max core file size        0                    0" in limits
    # Nobody stands where he has no business: the aggregators' network has no meters, and so on.
    hosts = it.run_in("aggregator-a", "cat", "/etc/hosts").stdout
    assert "coordinator" in hosts
    log = it.containers["aggregator-a"].said()
    assert '"route": "/v1/rounds"' in log or '"route":"/v1/rounds"' in log


def test_postgres_meters_on_mqtt_and_workers_elsewhere(compose: Compose, tmp_path: Path) -> None:
    it = compose(
        *("postgres", "mqtt", "scale", "demo"),
        TACIT_DATABASE_URL_FILE="/run/secrets/database_url",
        TACIT_MQTT_HOST="mosquitto",
        TACIT_DASK_SCHEDULER="tcp://scheduler:8786",
        meters=("meter-007",),
    )
    said = " ".join(it.wait_until_done("demo").split())
    assert "they add up to the answer" in said
    # Nothing lies in SQLite, everything in each service's own database.
    for name in ("coordinator", "aggregator-b", "curator"):
        assert ".db" not in it.run_in(name, "ls", "/var/lib/tacit").stdout
    password = it.run_in("postgres", "cat", "/run/secrets/postgres_password").stdout
    query = ["psql", "-h", "127.0.0.1", "-U", "tacit", "-d", "tacit_curator", "-Atc"]
    # The demo's readings are imported, and so stored in blocks.
    count = "select coalesce(sum(readings), 0) from reading_block"
    stored = it.run_in("postgres", "env", f"PGPASSWORD={password}", *query, count)
    assert int(stored.stdout) >= METERS, stored.stderr

    # A job runs on the workers that the compose file starts: the coordinator started none.
    run_job(it, tmp_path)
    # A meter speaks with the broker, over TLS and as itself, and its reading is stored.
    reading = {"time": "2026-01-05T10:00:00Z", "value": "1.5", "unit": "kWh", "kind": "delta"}
    host = it.address("mosquitto", "meters")
    authority = it.project / "deploy" / "secrets" / "mqtt" / "authority.pem"
    publish = ["mosquitto_pub", "-V", "5", "-h", host, "-p", "8883", "--cafile", str(authority)]
    publish += ["--insecure", "-u", "meter-007", "-P", "meter-007", "-q", "1"]
    topic = "tacit/v1/site/meter-007/readings"
    sent = it.outside_run(*publish, "-t", topic, "-m", json.dumps(reading))
    assert sent.returncode == 0, sent.stderr
    foreign = it.outside_run(*publish, "-t", topic.replace("007", "008"), "-m", "{}")
    assert "not authorized" in (foreign.stdout + foreign.stderr).lower()
    metrics = ["curl", "-sS", f"http://{it.address('curator')}:8400/metrics"]
    accepted = 'tacit_curator_mqtt_messages_total{outcome="accepted",reason=""} 1.0'
    for _ in range(100):
        seen = it.outside_run(*metrics).stdout
        if accepted in seen:
            break
        it.outside_run("sleep", "0.2")
    assert accepted in seen
    assert "tacit_curator_mqtt_connected 1.0" in seen
