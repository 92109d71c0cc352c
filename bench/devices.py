"""A soak: devices that post readings by REST to a whole deployment, while rounds run on them.

    python -m bench.devices [--devices 2000] [--minutes 30] [--interval-s 10] [--out soak.json]

Each device is a curator with a token and a connection of its own. It posts one reading every
`--interval-s` on a clock of its own, repeats a post whose answer it did not see, sends one in
twenty a second time although it was answered, and reconnects now and then. A round over the minute
that ended is opened every minute with mechanism `exact`, so that its sum tells whether a reading
was lost or counted twice. At the end: posts a second, latencies, statuses, memory of each service
over time with its slope, rounds and their sums.

Readings are synthetic; `exact` adds no noise and is refused but for such rehearsals.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from cli.services.deployment import Deployment, Running, join_token, pair
from tacit.protocol.enrolment import PartyKind
from tacit.wire import format_instant

AGAIN: Final = 0.05
RECONNECT: Final = 0.01
_STORED: Final = re.compile(rb'"status": *"(accepted|duplicate)"')
MINUTE: Final = timedelta(minutes=1)
GATEWAY: Final = "gateway"
RULE: Final[dict[str, Any]] = {"min_participants": 2}
QUERY: Final[dict[str, Any]] = {
    "name": "soak",
    "function": "sum",
    "unit": "kWh",
    "bounds": ["0", "10"],
    "max_readings": 1000,
    "resolution": "0.001",
    "privacy_unit": "curator",
    "mechanism": "exact",
    "rule": RULE,
    "sharing": "additive",
    "aggregators": 2,
    "min_participants": 2,
    "n_max": 100_000,
    "deadline_s": 25,
}
SETTINGS: Final[dict[str, dict[str, str]]] = {
    "coordinator": {"TACIT_EXACT_RULE": json.dumps(RULE)},
    "aggregator": {"TACIT_EXACT_RULE": json.dumps(RULE)},
    "curator": {"TACIT_SEND_WINDOW_SHARE": "0.3", "TACIT_PREPARE_LEAD_S": "1"},
}


@dataclass
class Seen:
    """What the devices saw. `sent[minute]`: acknowledged watt-hours with a time in that minute."""

    latencies_s: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    sent: Counter[int] = field(default_factory=Counter)
    repeated: int = 0


class Device:
    """One device on a connection of its own."""

    def __init__(self, name: str, token: str, port: int, seen: Seen, seed: int) -> None:
        self._name, self._port, self._seen = name, port, seen
        self._choose = random.Random(seed)
        self._head = (
            "POST /v1/readings HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {token}\r\nContent-Length: "
        )
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, interval_s: float, end: float) -> None:
        """Post until the end."""
        await asyncio.sleep(self._choose.random() * interval_s)
        while time.time() < end:
            began = time.time()
            await self._post(self._choose.randrange(1, 1000))
            await asyncio.sleep(max(0.0, began + interval_s - time.time()))
        self._drop()

    async def _post(self, watt_hours: int) -> None:
        now = datetime.now(UTC)
        body = json.dumps(
            {
                "curator": self._name,
                "device": self._name,
                "time": format_instant(now),
                "value": f"{watt_hours / 1000:.3f}",
                "unit": "kWh",
                "kind": "delta",
            }
        ).encode()
        request = f"{self._head}{len(body)}\r\n\r\n".encode() + body
        if not await self._deliver(request):
            return
        self._seen.sent[int(now.timestamp()) // 60] += watt_hours
        if self._choose.random() < AGAIN:
            self._seen.repeated += 1
            await self._deliver(request)
        if self._choose.random() < RECONNECT:
            self._drop()

    async def _deliver(self, request: bytes) -> bool:
        """Send until there is an answer; whether it is stored."""
        for attempt in range(20):
            began = time.perf_counter()
            try:
                status, content = await self._exchange(request)
            except (OSError, asyncio.IncompleteReadError):
                self._drop()
                self._seen.statuses["no answer"] += 1
                await asyncio.sleep(0.2 * (attempt + 1))
                continue
            self._seen.latencies_s.append(time.perf_counter() - began)
            self._seen.statuses[str(status)] += 1
            if status in (429, 503):
                await asyncio.sleep(1)
                continue
            return status == 200 and _STORED.search(content) is not None
        self._seen.statuses["given up"] += 1
        return False

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        async with asyncio.timeout(30):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            at = head.index(b"content-length:") + 15
            length = int(head[at : head.index(b"\r\n", at)])
            content = await reader.readexactly(length)
        if b"connection: close" in head:
            self._drop()
        return int(head[9:12]), content

    def _drop(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@dataclass
class Watch:
    """Memory and CPU of the services over time."""

    processes: dict[str, int]
    rows: list[dict[str, float]] = field(default_factory=list)

    async def run(self, end: float) -> None:
        """Look every ten seconds."""
        began = time.time()
        while time.time() < end:
            row = {"at_s": time.time() - began}
            for name, pid in self.processes.items():
                row[name] = _resident_mb(pid)
            self.rows.append(row)
            await asyncio.sleep(10)

    def slope_mb_per_hour(self, name: str) -> float:
        """By least squares over the last two thirds."""
        rows = self.rows[len(self.rows) // 3 :]
        if len(rows) < 3:
            return float("nan")
        times = np.array([row["at_s"] for row in rows]) / 3600
        return float(np.polyfit(times, [row[name] for row in rows], 1)[0])


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def rounds(deployment: Deployment, end: float) -> list[dict[str, Any]]:
    """A round over each minute that ended, and its outcome."""
    found: list[dict[str, Any]] = []
    pending: list[asyncio.Task[dict[str, Any]]] = []

    def one(query: str, minute: int) -> dict[str, Any]:
        start = datetime.fromtimestamp(minute * 60, UTC)
        window = {"start": format_instant(start), "end": format_instant(start + MINUTE)}
        with deployment.coordinator.client() as client:
            opened = client.rounds.open(query, window=window)
            try:
                done = client.rounds.wait(opened["id"], 120)
            except Exception as error:
                return {"minute": minute, "state": type(error).__name__}
            return {
                "minute": minute,
                "state": "released",
                "participants": done["participants"],
                "watt_hours": round(float(done["result"]["sum"]) * 1000),
            }

    with deployment.coordinator.client() as client:
        query = client.queries.create(QUERY)["id"]
    minute = int(time.time()) // 60 + 1
    while (minute + 1) * 60 + 5 < end:
        # A little later: what a device was told to send again arrives with its first time.
        await asyncio.sleep(max(0.0, (minute + 1) * 60 + 5 - time.time()))
        pending.append(asyncio.create_task(asyncio.to_thread(one, query, minute)))
        minute += 1
    for task in pending:
        found.append(await task)
    return found


def prepare(deployment: Deployment, devices: int) -> list[str]:
    """Enrol the devices as curators of a gateway; their tokens."""
    names = [f"device-{index}" for index in range(devices)]
    token = join_token(deployment, GATEWAY, PartyKind.HOST, devices, 3600)
    with deployment.curator.client() as client:
        client.post("/v1/enrolments", {"token": token.to_text(), "curators": names})
        policy = client.get("/v1/policy")
        client.request("PUT", "/v1/policy", {**policy, "min_participants": 2, "exact": RULE})
        return [
            client.post("/v1/tokens", {"scope": "device", "subject": name})["token"]
            for name in names
        ]


async def soak(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """All of it; the report."""
    deployment = Deployment.plan(directory, 2)
    deployment.save()
    running = Running(deployment, SETTINGS)
    try:
        await asyncio.to_thread(running.start)
        await asyncio.to_thread(pair, deployment)
        tokens = await asyncio.to_thread(prepare, deployment, options.devices)
        port = int(deployment.curator.url.rpartition(":")[2])
        seen, began = Seen(), time.time()
        end = began + options.minutes * 60
        watch = Watch({name: process.pid for name, process in running.processes.items()})
        devices = [
            Device(f"device-{index}", token, port, seen, index)
            for index, token in enumerate(tokens)
        ]
        rounded, _, *_ = await asyncio.gather(
            rounds(deployment, end),
            watch.run(end),
            *(device.run(options.interval_s, end) for device in devices),
        )
        return _report(options, seen, watch, rounded, time.time() - began)
    finally:
        await asyncio.to_thread(running.stop)


def _report(
    options: argparse.Namespace,
    seen: Seen,
    watch: Watch,
    rounded: list[dict[str, Any]],
    seconds: float,
) -> dict[str, Any]:
    p50, p99, worst = np.percentile(np.array(seen.latencies_s) * 1000, (50, 99, 100))
    released = [each for each in rounded if each["state"] == "released"]
    wrong = [each for each in released if each["watt_hours"] != seen.sent[each["minute"]]]
    return {
        "devices": options.devices,
        "minutes": options.minutes,
        "posts": len(seen.latencies_s),
        "posts_per_s": round(len(seen.latencies_s) / seconds, 1),
        "sent_twice_on_purpose": seen.repeated,
        "latency_ms": {"p50": round(p50, 1), "p99": round(p99, 1), "worst": round(worst, 1)},
        "statuses": dict(seen.statuses),
        "rounds": {
            "opened": len(rounded),
            "released": len(released),
            "sum_differs": wrong,
            "other": [each for each in rounded if each["state"] != "released"],
        },
        "memory_mb": {
            name: {
                "first": round(watch.rows[0][name], 1),
                "last": round(watch.rows[-1][name], 1),
                "most": round(max(row[name] for row in watch.rows), 1),
                "slope_per_hour": round(watch.slope_mb_per_hour(name), 2),
            }
            for name in watch.processes
        },
    }


def main() -> None:
    """Parse the command line, run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--devices", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--interval-s", type=float, default=10)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with suppress(ImportError):
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    with tempfile.TemporaryDirectory() as name:
        report = asyncio.run(soak(options, Path(name)))
    text = json.dumps(report, indent=2)
    if options.out is not None:
        options.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
