"""One round of many hosted curators through five aggregators, over loopback HTTP; MPyC beside it.

    python -m bench.shares [--curators 10000,100000] [--rounds 3] [--no-mpyc]

Real processes with durable storage: a coordinator, five aggregators, one gateway that hosts all
curators with one reading each; mechanism `two-layer` with both probabilities 1, d = 1, no TLS. Wall
is from the request that opens the round to its release; CPU is that of all seven processes in the
same time. A second job has five curators with a vector of 65,536 each. Beside each, MPyC's five
parties (Shamir, threshold 2) do the same sum: of values that the parties hold, and of five vectors.

What differs: MPyC is general and interactive, keeps nothing on disk and ran without encryption;
Tacit seals, stores before it acknowledges, adds noise, checks budgets, and only sums.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.services.deployment import Deployment, Running, ServiceAddress, join_token, pair
from tacit.protocol.enrolment import PartyKind

AGGREGATORS = 5
SETTINGS = {
    "coordinator": {"TACIT_POLL_S": "0.1"},
    "aggregator": {},
    "curator": {
        "TACIT_SEND_WINDOW_SHARE": "0",
        "TACIT_PREPARE_LEAD_S": "0",
        "TACIT_POLICY_EPSILON": "1000000",
        "TACIT_PEER_TIMEOUT_S": "60",
    },
}
START = "2026-01-05T18:00:00Z"
END = "2026-01-05T19:00:00Z"
QUERY: dict[str, Any] = {
    "function": "sum",
    "unit": "kWh",
    "bounds": ["0", "10"],
    "max_readings": 1,
    "resolution": "0.001",
    "mechanism": "two-layer",
    "epsilon_u": "1",
    "epsilon_s": "1",
    "pr_u": "1",
    "pr_s": "1",
    "aggregators": AGGREGATORS,
    "deadline_s": 60,
}
PATIENCE_S = 900.0
VECTOR_LENGTH = 65_536
VECTORS: dict[str, Any] = {
    **QUERY,
    "function": "vector_sum",
    "register": "vector",
    "unit": "1",
    "bounds": ["0", "1"],
    "resolution": "1",
    "dimension": VECTOR_LENGTH,
    "coordinates": "values",
    "l1_bound": str(VECTOR_LENGTH),
    "n_max": 5,
    "min_participants": 5,
}
FORMS = ("arrays", "lists")
SHARINGS: dict[str, dict[str, Any]] = {
    "additive": {"sharing": "additive"},
    "shamir 3 of 5": {"sharing": "shamir", "threshold": 3},
}


def cpu_s(running: Running, more: Sequence[ServiceAddress] = ()) -> dict[str, float]:
    """CPU seconds so far, of the coordinator, all gateways and all aggregators together. `more`:
    services beside those of the deployment."""
    spent = {"coordinator": 0.0, "gateway": 0.0, "aggregators": 0.0}
    for service in (*running.deployment.services, *more):
        role = {"aggregator": "aggregators", "curator": "gateway"}.get(service.kind, service.kind)
        spent[role] += running.cpu_s(service)
    return spent


def peak_mb(running: Running) -> int:
    """The largest resident size that any service has had."""
    peaks = []
    for process in running.processes.values():
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        peaks += [int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")]
    return max(peaks)


def prepare(deployment: Deployment, count: int) -> None:
    """Enrol a gateway of `count` curators, and give each a reading."""
    ids = [f"meter-{index:07d}" for index in range(count)]
    token = join_token(deployment, "gateway", PartyKind.HOST, count, 3600)
    with deployment.curator.client(timeout_s=PATIENCE_S) as client:
        client.post("/v1/enrolments", {"token": token.to_text(), "curators": ids})
        lines = ["curator,device,time,value"]
        lines += [f"{name},{name},{START},{index % 5000 / 1000}" for index, name in enumerate(ids)]
        answer = client.request(
            "POST",
            "/v1/readings/import",
            content="\n".join(lines).encode(),
            media_type="text/csv",
            params={
                "unit": "kWh",
                "kind": "delta",
                "curator_column": "curator",
                "device_column": "device",
            },
        ).json()
        assert answer["accepted"] == count, answer
        # The rounds repeat one query over one window, as a schedule would over many.
        policy = client.get("/v1/policy")
        client.request("PUT", "/v1/policy", {**policy, "allow_repeats": True})


def prepare_vectors(deployment: Deployment) -> None:
    """Enrol a gateway of five curators, each with one vector."""
    ids = [f"holder-{index}" for index in range(5)]
    token = join_token(deployment, "gateway", PartyKind.HOST, 5, 3600)
    with deployment.curator.client() as client:
        client.post("/v1/enrolments", {"token": token.to_text(), "curators": ids})
        for name in ids:
            vector = {"curator": name, "register": "vector", "time": START, "unit": "1"}
            body = {**vector, "kind": "delta", "values": ["1"] * VECTOR_LENGTH}
            answer = client.post("/v1/readings", body)
            assert answer["items"][0]["status"] == "accepted", answer
        policy = client.get("/v1/policy")
        client.request("PUT", "/v1/policy", {**policy, "allow_repeats": True})


def measure(
    job: str, size: int, query: dict[str, Any], participants: int, repetitions: int
) -> None:
    """Measure rounds of one query under both sharings, in a deployment of their own."""
    with tempfile.TemporaryDirectory() as directory:
        deployment = Deployment.plan(Path(directory), AGGREGATORS)
        running = Running(deployment, SETTINGS)
        try:
            running.start()
            pair(deployment)
            if job == "values":
                prepare(deployment, participants)
            else:
                prepare_vectors(deployment)
            for name, sharing in SHARINGS.items():
                with deployment.coordinator.client() as client:
                    created = client.queries.create({**query, **sharing, "name": f"bench-{job}"})
                measured = [
                    one_round(deployment, running, created["id"], participants)
                    for _ in range(repetitions + 1)
                ][1:]  # the first warms keys and tables
                print_rounds(job, name, size, measured, peak_mb(running))
        finally:
            running.stop()


RESULTS: dict[tuple[str, str, int], float] = {}


def one_round(
    deployment: Deployment, running: Running, query_id: str, count: int
) -> tuple[float, dict[str, float]]:
    """Wall seconds and CPU seconds by role of one round."""
    with deployment.coordinator.client() as client:
        time.sleep(0.5)
        before, started = cpu_s(running), time.perf_counter()
        opened = client.rounds.open(query_id, window={"start": START, "end": END})
        found = client.rounds.wait(opened["id"], 120)
        wall, after = time.perf_counter() - started, cpu_s(running)
    assert found["participants"] == count, found
    return wall, {role: after[role] - before[role] for role in after}


def print_rounds(
    job: str, name: str, count: int, measured: list[tuple[float, dict[str, float]]], peak: int
) -> None:
    """The medians of some rounds."""
    wall = statistics.median(item[0] for item in measured)
    total = statistics.median(sum(item[1].values()) for item in measured)
    roles = ", ".join(
        f"{role} {statistics.median(item[1][role] for item in measured):.2f}"
        for role in measured[0][1]
    )
    RESULTS[job, name, count] = total
    print(
        f"tacit  {job:8} {name:14} {count:>8,}: wall {wall:5.2f} s, CPU {total:5.2f} s ({roles}), "
        f"peak {peak} MB a process",
        flush=True,
    )


def mpyc(job: str, count: int, form: str) -> dict[str, Any] | None:
    """The same job with MPyC, in processes of its own; None where it is not installed."""
    party = Path(__file__).with_name("mpyc_party.py")
    environment = {**os.environ, "MPYC_JOB": job, "MPYC_COUNT": str(count), "MPYC_FORM": form}
    done = subprocess.run(
        [sys.executable, str(party), f"-M{AGGREGATORS}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT"):
            found: dict[str, Any] = json.loads(line.removeprefix("RESULT"))
            return found
    return None


def print_mpyc(job: str, size: int, form: str) -> None:
    """MPyC's figures for a job, and the ratios."""
    found = mpyc(job, size, form)
    if found is None:
        print("MPyC is not installed: pip install mpyc")
        return
    assert found["correct"], found
    print(
        f"mpyc   {job:8} {form:14} {size:>8,}: wall {found['wall_s']:5.2f} s, "
        f"CPU {found['cpu_s']:5.2f} s of five parties",
        flush=True,
    )
    for name in SHARINGS:
        ratio = found["cpu_s"] / RESULTS[job, name, size]
        print(f"       equal job: MPyC / Tacit {name} = {ratio:.1f} in CPU")


def main() -> None:
    """Print both sides and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    parser.add_argument("--curators", default="10000,100000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-mpyc", action="store_true")
    arguments = parser.parse_args()
    jobs = [("values", count) for count in map(int, arguments.curators.split(","))]
    for job, size in [*jobs, ("vectors", VECTOR_LENGTH)]:
        if job == "values":
            query = {**QUERY, "n_max": size, "min_participants": size}
            measure(job, size, query, size, arguments.rounds)
        else:
            measure(job, size, VECTORS, 5, arguments.rounds)
        if arguments.no_mpyc:
            continue
        for form in FORMS:
            print_mpyc(job, size, form)


class _Raw(argparse.RawDescriptionHelpFormatter):
    pass


if __name__ == "__main__":
    main()
