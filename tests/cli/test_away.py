"""An aggregator that hangs, and one that is killed, as an operator at the command line meets them.

Real processes: a stopped one still has its port, and takes connections that it never answers."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import pytest

from cli.services.deployment import Deployment, Running
from tacit.version import VERSION
from tests.cli.test_pairing import tacit

pytestmark = pytest.mark.slow
QUERY = {"name": "away", "function": "count", "mechanism": "distributed", "epsilon": "1",
         "aggregators": 2, "sharing": "additive", "unit": "kWh", "bounds": ["0", "5"],
         "max_readings": 1, "resolution": "0.001", "deadline_s": 60, "min_participants": 2,
         "n_max": 10, "collusion": {"curators": 0, "aggregators": 1}}  # fmt: skip
WINDOW = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T01:00:00Z")


@pytest.fixture
def running(two_aggregators: Running) -> Iterator[Running]:
    try:
        yield two_aggregators
    finally:
        for process in two_aggregators.processes.values():
            process.send_signal(signal.SIGCONT)


def state(plan: Deployment) -> str:
    """What the coordinator's readiness says of its aggregators."""
    with plan.coordinator.client() as client:
        return str(client.get("/readyz")["checks"]["aggregators"])


def wait_for(plan: Deployment, wanted: str) -> None:
    for _ in range(600):
        if wanted in state(plan):
            return
        time.sleep(0.2)
    raise AssertionError(state(plan))


def test_who_opens_a_round_is_told_which_aggregator_is_away(running: Running) -> None:
    plan = running.deployment
    home = ("--home", plan.directory)
    with plan.coordinator.client() as client:
        query = client.queries.create(QUERY)["id"]
    hung = plan.aggregators[1]
    for how in (signal.SIGSTOP, signal.SIGKILL):
        running.processes[hung.id].send_signal(how)
        wait_for(plan, f"{hung.id} has not answered for")
        refused = tacit("round", "open", query, *WINDOW, *home)
        assert refused.returncode == 3
        assert f"aggregator_unreachable: {hung.id} has not answered for" in refused.stderr
        screen = tacit("status", *home)
        assert screen.returncode == 1
        assert f"- coordinator: {hung.id} has not answered for" in " ".join(screen.stdout.split())
        if how is signal.SIGSTOP:
            running.processes[hung.id].send_signal(signal.SIGCONT)
            wait_for(plan, "ok")
    running.processes[hung.id].wait()
    running.start_one(hung)
    running.wait_for(hung)
    opened = tacit("round", "open", query, *WINDOW, *home, "--json")
    assert opened.returncode == 0, opened.stderr
    shown = json.loads(tacit("status", *home, "--json").stdout)
    assert shown["last"]["id"] == json.loads(opened.stdout)["id"]
    assert [item["version"] for item in shown["services"]] == [VERSION] * 4
    assert (shown["wrong"], shown["next"]) == ([], None)
