"""Lone uploads per second and their latency against one real aggregator process, and the cost of
a hosted round.

    python -m bench.uploads [--curators 15000] [--clients 128] [--rounds 3] [--hosted 100000]

Lone: raw keep-alive connections (an httpx load generator measures httpx), one token and one seal
key per curator, pieces sealed beforehand, every acknowledgement after its commit. Tokens are
looked up in every round (more than the cache's few seconds pass between two); seal keys were
derived in the background while the load generator sealed its pieces. Beside the figures stands the
server's CPU time per piece. Hosted: one gateway's batches, then freeze, commit
and reveal; CPU of the aggregator process.

The server runs with TLS off on core 0 and the load generator on core 1, where there are two.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from tests.aggregator.direct import enrol_directly
from tests.aggregator.double import Federation, Round, Sender, query
from tests.aggregator.process import Process


@dataclass
class Load:
    """The outcome of one closed loop."""

    seconds: float
    latencies: list[float]
    statuses: dict[int, int]
    cpu_s: float

    def __str__(self) -> str:
        count = len(self.latencies)
        p50, p99 = np.percentile(np.array(self.latencies) * 1000, (50, 99))
        return (
            f"{count / self.seconds:6.0f} acks/s  p50 {p50:5.1f} ms  p99 {p99:5.1f} ms  "
            f"server {self.cpu_s / count * 1e6:4.0f} us CPU a piece  {self.statuses}"
        )


def cpu_seconds(pid: int) -> float:
    """Time on a processor of all threads of a process (finer than the ticks of `stat`)."""
    nanoseconds = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it ended meanwhile
            nanoseconds += int((thread / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


async def closed_loop(port: int, requests: list[bytes], clients: int, pid: int) -> Load:
    """Send every request once over `clients` keep-alive connections that wait for each answer."""
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(clients)]
    waiting = iter(requests)
    latencies: list[float] = []
    statuses: dict[int, int] = {}

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for request in waiting:
            start = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            lower = head.lower()
            at = lower.index(b"content-length:") + 15
            await reader.readexactly(int(lower[at : lower.index(b"\r\n", at)]))
            latencies.append(time.perf_counter() - start)
            status = int(head[9:12])
            statuses[status] = statuses.get(status, 0) + 1

    cpu, start = cpu_seconds(pid), time.perf_counter()
    await asyncio.gather(*(client(*connection) for connection in connections))
    seconds = time.perf_counter() - start
    load = Load(seconds, latencies, statuses, cpu_seconds(pid) - cpu)
    for _, writer in connections:
        writer.close()
    return load


def raw_request(current: Round, sender: Sender, body: bytes, form: str, step: str) -> bytes:
    """One HTTP request as it goes over the wire."""
    head = (
        f"POST {current.path(step)} HTTP/1.1\r\nHost: bench\r\n"
        f"Authorization: Bearer {sender.tokens[0]}\r\nContent-Type: {form}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def lone(
    folder: Path, process: Process, federation: Federation, options: argparse.Namespace
) -> None:
    """Rounds of lone curators."""
    senders = enrol_directly([folder], federation, options.curators)
    for number in range(options.rounds):
        now = datetime.now(UTC).replace(microsecond=0)
        current = await federation.open(query(), opened=now, deadline=now + timedelta(seconds=300))
        words = current.split(np.ones((len(senders), 1), np.int64))[0]
        order = np.random.default_rng(number).permutation(len(senders))
        requests = [
            raw_request(
                current,
                senders[i],
                current.piece(senders[i], 0, words[i]).model_dump_json().encode(),
                "application/json",
                "pieces",
            )
            for i in order
        ]
        load = await closed_loop(process.port, requests, options.clients, process.pid)
        print(f"lone, {options.clients} clients, round {number + 1}: {load}", flush=True)
        cpu, start = cpu_seconds(process.pid), time.perf_counter()
        total, manifest = await current.release()
        assert manifest.count == len(senders)
        assert int(total[0]) == len(senders)
        print(
            f"  freeze to reveal: {time.perf_counter() - start:.2f} s wall, "
            f"{cpu_seconds(process.pid) - cpu:.2f} s CPU",
            flush=True,
        )


async def hosted(process: Process, federation: Federation, count: int) -> None:
    """Rounds of one gateway."""
    start = time.perf_counter()
    cpu = cpu_seconds(process.pid)
    host = await federation.host("gateway", count)
    print(
        f"enrolment of {count}: {time.perf_counter() - start:.2f} s wall (with its signing), "
        f"{cpu_seconds(process.pid) - cpu:.2f} s CPU"
    )
    for number in range(3):
        now = datetime.now(UTC).replace(microsecond=0)
        current = await federation.open(query(), opened=now, deadline=now + timedelta(seconds=300))
        bodies = current.batches(host, 0, current.split(np.ones((count, 1), np.int64))[0])
        requests = [
            raw_request(current, host, body, "application/octet-stream", "batches")
            for body in bodies
        ]
        load = await closed_loop(process.port, requests, 2, process.pid)
        marks = [(time.perf_counter(), cpu_seconds(process.pid))]
        accepted = await current.freeze()
        marks.append((time.perf_counter(), cpu_seconds(process.pid)))
        manifest, commitments = await current.commit(accepted)
        marks.append((time.perf_counter(), cpu_seconds(process.pid)))
        await current.reveal(manifest, commitments)
        marks.append((time.perf_counter(), cpu_seconds(process.pid)))
        assert manifest.count == count
        steps = " ".join(
            f"{name} {after[0] - before[0]:.3f}/{after[1] - before[1]:.3f}"
            for name, before, after in zip(
                ("freeze", "commit", "reveal"), marks, marks[1:], strict=False
            )
        )
        print(
            f"hosted {count}, round {number + 1} (wall/CPU s): accept "
            f"{load.seconds:.3f}/{load.cpu_s:.3f} ({len(bodies)} batches) {steps}",
            flush=True,
        )


async def run(options: argparse.Namespace) -> None:
    """All of it, against one process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = Process(folder, log_level=options.log_level)
        client = await process.start()
        if (os.cpu_count() or 1) > 1:
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {0})
            os.sched_setaffinity(0, {1})
        try:
            federation = await Federation(client).pair()
            if options.curators:
                await lone(folder, process, federation, options)
            if options.hosted:
                await hosted(process, federation, options.hosted)
            memory = Path(f"/proc/{process.pid}/status").read_text()
            print(next(line for line in memory.splitlines() if line.startswith("VmHWM")))
            await client.aclose()
        finally:
            process.stop()


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--curators", type=int, default=15_000)
    parser.add_argument("--clients", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hosted", type=int, default=100_000)
    parser.add_argument("--log-level", default="warning")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
