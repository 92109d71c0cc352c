"""Messages a second from a real broker into a real curator process, beside the same by HTTP.

    python -m bench.mqtt [--messages 10000] [--devices 100]

One reading a message. "backlog": the messages wait in the broker's queue while the curator is away,
so its own pace is seen. "live": senders publish while it listens, each message acknowledged by the
broker at QoS 1; the senders, the broker and the curator share the machine. "http": one request for
each reading over 4 kept connections, which is the naive way; "batches": 500 readings a request,
which is the fast one. CPU time is the curator process's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sqlite3
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
from pydantic import SecretStr

from curator.app import create_app
from curator.settings import CuratorSettings
from tests.curator.conftest import OPERATOR
from tests.curator.double import FakeWorld
from tests.curator.mqtt.broker import EXECUTABLE, WHY, Broker, send
from tests.curator.mqtt.process import Process

START = datetime(2025, 1, 1, tzinfo=UTC)
CONNECTIONS = 4


def cpu_seconds(pid: int) -> float:
    """Time on a processor of all threads of a process."""
    nanoseconds = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            nanoseconds += int((thread / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def peak_mebibytes(pid: int) -> float:
    """The largest resident size of a process so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


async def enrol(folder: Path, url: str, devices: int) -> None:
    """A store that hosts a curator for each device, without a coordinator to ask."""
    world = FakeWorld()
    settings = CuratorSettings(
        data_dir=folder,
        database_url=SecretStr(url),
        operator_token=SecretStr(OPERATOR),
        participate=False,
    )
    app = create_app(settings, transports=world.transports)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url="http://curator",
            headers={"Authorization": f"Bearer {OPERATOR}"},
        ) as client,
    ):
        names = [f"m-{i}" for i in range(devices)]
        body = {"token": world.join_token("gw", devices), "curators": names}
        (await client.post("/v1/enrolments", json=body)).raise_for_status()


def readings(first: int, count: int, devices: int) -> list[tuple[str, dict[str, str]]]:
    """Device and reading of each message."""
    return [
        (
            f"m-{n % devices}",
            {
                "time": (START + timedelta(minutes=15 * (n // devices))).isoformat(),
                "value": "0.317",
                "unit": "kWh",
            },
        )
        for n in range(first, first + count)
    ]


async def publish(broker: Broker, lot: list[tuple[str, dict[str, str]]]) -> None:
    """All at QoS 1."""
    async with broker.client() as client:
        for begin in range(0, len(lot), 1000):
            part = lot[begin : begin + 1000]
            await send(client, ((f"tacit/v1/site/{who}/readings", what) for who, what in part))


async def stored(path: Path, count: int) -> None:
    """Wait for this many readings."""
    while True:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as store:
            if store.execute("SELECT COUNT(*) FROM reading").fetchone()[0] >= count:
                return
        await asyncio.sleep(0.01)


async def by_http(port: int, lot: list[tuple[str, dict[str, str]]], together: int = 1) -> None:
    """So many readings a request."""
    waiting = (lot[begin : begin + together] for begin in range(0, len(lot), together))
    headers = {"Authorization": f"Bearer {OPERATOR}", "Content-Type": "application/json"}

    async def one(client: httpx.AsyncClient) -> None:
        for part in waiting:
            body = json.dumps([{**what, "curator": who, "device": who} for who, what in part])
            (await client.post("/v1/readings", content=body)).raise_for_status()

    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60
    ) as client:
        await asyncio.gather(*(one(client) for _ in range(CONNECTIONS)))


def line(name: str, count: int, seconds: float, cpu: float, naive: float | None = None) -> float:
    """Print a figure; messages a second."""
    rate = count / seconds
    ratio = "" if naive is None else f"  {rate / naive:5.1f} x http"
    print(
        f"  {name:<8} {rate:7.0f} messages/s  wall {seconds:6.2f} s  "
        f"curator CPU {cpu:5.2f} s ({cpu / count * 1e6:4.0f} us each){ratio}",
        flush=True,
    )
    return rate


async def run(messages: int, devices: int, folder: Path) -> None:
    """All figures."""
    path = folder / "curator.db"
    url = f"sqlite:///{path}"
    await enrol(folder / "curator", url, devices)
    broker = Broker(folder / "broker")
    broker.start()
    process = Process(folder / "curator", url, broker.port)
    print(f"{messages} messages of one reading, {devices} devices, SQLite, synchronous=FULL")
    try:
        process.start()
        cpu, begin = cpu_seconds(process.pid), time.perf_counter()
        few = readings(0, max(messages // 5, 1), devices)
        await by_http(process.port, few)
        seconds, used = time.perf_counter() - begin, cpu_seconds(process.pid) - cpu
        naive = line("http", len(few), seconds, used)
        done = len(few)
        cpu, begin = cpu_seconds(process.pid), time.perf_counter()
        await by_http(process.port, readings(done, messages, devices), 500)
        seconds, used = time.perf_counter() - begin, cpu_seconds(process.pid) - cpu
        line("batches", messages, seconds, used, naive)
        done += messages

        process.stop()
        await publish(broker, readings(done, messages, devices))
        begin = time.perf_counter()
        process.start()
        start = time.perf_counter() - begin
        await stored(path, done + messages)
        seconds = time.perf_counter() - begin
        line("backlog", messages, seconds, cpu_seconds(process.pid), naive)
        print(f"           (wall and CPU with the start of the process, {start:.2f} s)")
        done += messages

        cpu, begin = cpu_seconds(process.pid), time.perf_counter()
        await publish(broker, readings(done, messages, devices))
        await stored(path, done + messages)
        seconds, used = time.perf_counter() - begin, cpu_seconds(process.pid) - cpu
        line("live", messages, seconds, used, naive)
        print(f"  peak memory of the curator {peak_mebibytes(process.pid):.0f} MiB")
    finally:
        process.stop()
        broker.stop()
    own = resource.getrusage(resource.RUSAGE_SELF)
    print(f"  senders' CPU {own.ru_utime + own.ru_stime:.1f} s")


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--devices", type=int, default=100)
    arguments = parser.parse_args()
    if EXECUTABLE is None:
        print(WHY)
        return
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(arguments.messages, arguments.devices, Path(folder)))


if __name__ == "__main__":
    main()
