"""How a round's time, CPU and memory grow with curators and aggregators; SecAgg+ beside it.

    python -m bench.scale [--largest 1000000] [--rounds 3] [--gateways 20] [--flower PYTHON]
        [--out DIR]

Real processes with durable storage on loopback, all curators hosted by one gateway process in hosts
of at most a million, one reading each; mechanism `two-layer` with both probabilities 1, no TLS.
Wall is from the request that opens the round to its release, CPU that of all processes in the same
time, memory the peak of a process in the rounds, with one host after all processes were started
again (enrolment and import leave up to 70 MB of a gateway's heap in pieces). Charts: n from
1,000 to `--largest` at c = 5, and c from 2 to 8 at n = 100,000; beside them other shapes: 10^4
curators with 96 values each, 100 hosts of 10^4 in one gateway process, gateways of 10^4 that
are processes of their own, and lone curators beside a host.

Flower's SecAgg+ runs in a process of its own (`--flower`: the interpreter of an environment with
Flower) with 100 clients, vectors of 1,000 and 25 shares; Tacit sums the same from 100 lone curators
through five aggregators. What differs: SecAgg+ needs no aggregators, adds no noise, keeps nothing,
and here its messages cross no network; its clients hold pairwise keys and come back three times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from algorithms.drawing import can_draw
from bench.shares import END, QUERY, SETTINGS, START, cpu_s
from cli.services.deployment import (
    Deployment,
    Running,
    ServiceAddress,
    free_ports,
    join_token,
    pair,
)
from simulation.plots import Line, Panel, Plot, draw
from tacit.protocol.enrolment import PartyKind

PATIENCE_S: Final = 3600.0
LARGEST_HOST: Final = 1_000_000
STARTED_TOGETHER: Final = 4
LONE: Final = 100
CLIENTS, LENGTH, KEY_SHARES = 100, 1000, 25


@dataclass(frozen=True)
class Load:
    """Who takes part: hosts of this many curators each, lone curators, values a curator. Every
    gateway is a process and has as many of the hosts as the others."""

    name: str
    hosts: int
    curators: int
    lone: int = 0
    values: int = 1
    aggregators: int = 5
    gateways: int = 1

    @property
    def everybody(self) -> int:
        """Curators in all."""
        return self.hosts * self.curators + self.lone


@dataclass(frozen=True)
class Figures:
    """Medians of some rounds. Seconds; megabytes by role."""

    wall_s: float
    cpu_s: float
    peak_mb: dict[str, int]


def hosted(count: int, aggregators: int = 5) -> Load:
    """So many curators in as few hosts as there can be."""
    hosts = -(-count // LARGEST_HOST)
    return Load(f"{count:,} hosted", hosts, count // hosts, aggregators=aggregators)


def query_of(load: Load) -> dict[str, Any]:
    """A sum, or a sum of vectors whose coordinates are the window's slots."""
    count = load.everybody
    common = {
        **QUERY,
        "sharing": "additive",
        "aggregators": load.aggregators,
        "n_max": count,
        "min_participants": count,
        "deadline_s": 3600,  # a slow machine is told by the figures, not by a round that fails
    }
    if load.values == 1:
        return {**common, "name": "scale"}
    vector = {
        "function": "vector_sum",
        "register": "vector",
        "unit": "1",
        "bounds": ["0", "1"],
        "resolution": "1",
        "dimension": load.values,
        "coordinates": "values",
        "l1_bound": str(load.values),
    }
    return {**common, **vector, "name": "scale"}


def more_gateways(deployment: Deployment, count: int) -> list[ServiceAddress]:
    """Addresses of gateways beside the deployment's own."""
    names = [f"gateway-{number:03d}" for number in range(1, count + 1)]
    return [
        ServiceAddress(
            "curator", name, f"http://127.0.0.1:{port}", str(deployment.directory / name)
        )
        for name, port in zip(names, free_ports(count), strict=True)
    ]


def start_gateways(running: Running, gateways: Sequence[ServiceAddress]) -> None:
    """Start processes, a few at a time: a start takes a core for two seconds."""
    for start in range(0, len(gateways), STARTED_TOGETHER):
        for gateway in gateways[start : start + STARTED_TOGETHER]:
            running.start_one(gateway)
        for gateway in gateways[start : start + STARTED_TOGETHER]:
            running.wait_for(gateway)


def prepare(deployment: Deployment, load: Load, more: Sequence[ServiceAddress] = ()) -> None:
    """Enrol everybody and give each a reading."""
    parties = [
        (f"host-{host:03d}", PartyKind.HOST, [f"h{host:03d}-{i:07d}" for i in range(load.curators)])
        for host in range(load.hosts)
    ]
    parties += [
        (name, PartyKind.CURATOR, [name]) for name in map("lone-{}".format, range(load.lone))
    ]
    gateways = (deployment.curator, *more)
    for number, gateway in enumerate(gateways):
        with gateway.client(timeout_s=PATIENCE_S) as client:
            for party, kind, ids in parties[number :: len(gateways)]:
                token = join_token(deployment, party, kind, len(ids), 3600)
                named = {"curators": ids} if kind is PartyKind.HOST else {}
                client.post("/v1/enrolments", {"token": token.to_text(), **named})
                if load.values == 1:
                    import_readings(client, ids)
                else:
                    send_vectors(client, ids, load.values)
            policy = client.get("/v1/policy")
            client.request("PUT", "/v1/policy", {**policy, "allow_repeats": True})


def import_readings(client: Any, ids: Sequence[str]) -> None:
    """One reading each, as a file."""
    lines = ["curator,time,value"]
    lines += [f"{name},{START},{index % 5000 / 1000}" for index, name in enumerate(ids)]
    parameters = {"unit": "kWh", "kind": "delta", "curator_column": "curator"}
    answer = client.request(
        "POST",
        "/v1/readings/import",
        content="\n".join(lines).encode(),
        media_type="text/csv",
        params=parameters,
    ).json()
    assert answer["accepted"] == len(ids), answer


def send_vectors(client: Any, ids: Sequence[str], length: int) -> None:
    """One vector each."""
    values = ["1"] * length
    fields = {"register": "vector", "time": START, "unit": "1", "kind": "delta", "values": values}
    for start in range(0, len(ids), 100):
        batch = [{"curator": name, **fields} for name in ids[start : start + 100]]
        answer = client.post("/v1/readings", batch)
        assert all(item["status"] == "accepted" for item in answer["items"]), answer


def peaks(
    running: Running, more: Sequence[ServiceAddress], *, forget: bool = False
) -> dict[str, int]:
    """Peak resident megabytes of the largest process of each role; or forget what they were."""
    found: dict[str, int] = {}
    for service in (*running.deployment.services, *more):
        folder = Path(f"/proc/{running.processes[service.id].pid}")
        if forget:
            (folder / "clear_refs").write_text("5")
            continue
        role = "gateway" if service.kind == "curator" else service.kind
        lines = (folder / "status").read_text().splitlines()
        peak = next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))
        found[role] = max(found.get(role, 0), peak)
    return found


def measure(load: Load, rounds: int) -> Figures:
    """Rounds of a load in a deployment of its own; the first warms and does not count."""
    with tempfile.TemporaryDirectory() as directory:
        deployment = Deployment.plan(Path(directory), load.aggregators)
        running = Running(deployment, SETTINGS)
        try:
            running.start()
            pair(deployment)
            more = more_gateways(deployment, load.gateways - 1)  # on ports that are still free
            start_gateways(running, more)
            prepare(deployment, load, more)
            if load.hosts == 1:  # many names take the gateway seconds to load
                running.stop()
                running.start()
            with deployment.coordinator.client(timeout_s=PATIENCE_S) as client:
                query = client.queries.create(query_of(load))["id"]
                walls, spent = [], []
                for number in range(rounds + 1):
                    if number == 1:
                        peaks(running, more, forget=True)
                    time.sleep(0.5)
                    before, started = cpu_s(running, more), time.perf_counter()
                    opened = client.rounds.open(query, window={"start": START, "end": END})
                    found = client.rounds.wait(opened["id"], PATIENCE_S)
                    walls.append(time.perf_counter() - started)
                    after = cpu_s(running, more)
                    spent.append(sum(after.values()) - sum(before.values()))
                    assert found["participants"] == load.everybody, found
            figures = Figures(
                statistics.median(walls[1:]), statistics.median(spent[1:]), peaks(running, more)
            )
        finally:
            running.stop()
    memory = ", ".join(f"{role} {mb}" for role, mb in figures.peak_mb.items())
    print(
        f"{load.name:32} c = {load.aggregators}: wall {figures.wall_s:6.2f} s, CPU "
        f"{figures.cpu_s:6.2f} s ({1e6 * figures.cpu_s / load.everybody:8.1f} us a curator), "
        f"peak MB: {memory}",
        flush=True,
    )
    return figures


def chart(name: str, label: str, measured: dict[int, Figures], directory: Path) -> None:
    """Time, CPU and memory over one size, as PNG, SVG and the numbers."""
    x = tuple(float(size) for size in measured)
    several = list(measured.values())
    seconds = (
        Line("wall", x, tuple(item.wall_s for item in several), kind="ours"),
        Line("CPU of all processes", x, tuple(item.cpu_s for item in several), kind="ours"),
    )
    memory = tuple(
        Line(role, x, tuple(float(item.peak_mb[role]) for item in several), kind="ours")
        for role in several[0].peak_mb
    )
    scale: Any = "log" if max(x) > 100 else "linear"
    panels = (
        Panel("One round", label, "seconds", seconds, x_scale=scale, y_scale=scale),
        Panel("Memory in the round", label, "peak MB of a process", memory, x_scale=scale),
    )
    draw(Plot(name, "A round of hosted curators, two cores", panels), directory)


def secagg(python: str, rounds: int) -> None:
    """Flower's SecAgg+ and Tacit on the same sum of 100 vectors."""
    environment = {
        **os.environ,
        "SECAGG_CLIENTS": str(CLIENTS),
        "SECAGG_LENGTH": str(LENGTH),
        "SECAGG_SHARES": str(KEY_SHARES),
    }
    party = Path(__file__).with_name("secagg_parties.py")
    done = subprocess.run(
        [python, str(party)], env=environment, capture_output=True, text=True, timeout=600
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        print("Flower does not run there: pip install flwr in an environment of its own")
        return
    flower = json.loads(lines[0].removeprefix("RESULT"))
    print(
        f"{'Flower SecAgg+, 100 x 1,000':32} wall {flower['wall_s']:6.2f} s, CPU "
        f"{flower['cpu_s']:6.2f} s ({1000 * flower['cpu_s'] / CLIENTS:.1f} ms a client)"
    )
    lone = Load("100 lone curators x 1,000", 0, 0, lone=CLIENTS, values=LENGTH)
    for load in (lone, replace(lone, name="100 hosted x 1,000", hosts=1, curators=CLIENTS, lone=0)):
        ours = measure(load, rounds)
        print(
            f"{'':32} {1000 * ours.cpu_s / CLIENTS:.1f} ms a curator, all servers counted: "
            f"SecAgg+ / Tacit = {flower['cpu_s'] / ours.cpu_s:.1f} in CPU"
        )


def main() -> None:
    """Print all, and draw the charts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gateways", type=int, default=20, help="processes, each with a host")
    parser.add_argument("--flower", default=os.environ.get("TACIT_BENCH_FLOWER"))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rounds = arguments.rounds
    sizes = [10**power for power in range(3, 8) if 10**power <= arguments.largest]
    by_size = {size: measure(hosted(size), rounds) for size in sizes}
    middle = min(100_000, arguments.largest)
    by_count = {c: measure(hosted(middle, c), rounds) for c in range(2, 9)}
    hundredth = max(1, min(10_000, arguments.largest // 100))
    measure(Load(f"{hundredth:,} x 96 values", 1, hundredth, values=96), rounds)
    measure(Load(f"100 hosts of {hundredth:,}", 100, hundredth), rounds)
    several = arguments.gateways
    name = f"{several} gateways of {hundredth:,}"
    measure(Load(name, several, hundredth, gateways=several), rounds)
    measure(Load(f"{middle:,} hosted, {LONE} lone", 1, middle, lone=LONE), rounds)
    if arguments.flower:
        secagg(arguments.flower, rounds)
    if arguments.out and can_draw():
        arguments.out.mkdir(parents=True, exist_ok=True)
        chart("scale-curators", "hosted curators", by_size, arguments.out)
        chart("scale-aggregators", "aggregators", by_count, arguments.out)


class _Raw(argparse.RawDescriptionHelpFormatter):
    pass


if __name__ == "__main__":
    main()
