"""A real Mosquitto on loopback, to be stopped, killed and started again; and senders for it."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiomqtt

EXECUTABLE = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin") or shutil.which(
    "mosquitto"
)
WHY = "there is no mosquitto on PATH or in /usr/sbin"
READY_S = 20.0
QUEUES = "max_queued_messages 0\nmax_inflight_messages 1000\n"


def free_port() -> int:
    """A port of the loopback address that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker:
    """One broker, whose store survives `stop`; `text` is its configuration without the listener."""

    def __init__(self, folder: Path, text: str = "allow_anonymous true\n" + QUEUES) -> None:
        self.folder, self.port = folder, free_port()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "data").mkdir(exist_ok=True)
        own = (
            f"listener {self.port} 127.0.0.1\nuser root\npersistence true\n"
            f"persistence_location {folder}/data/\n"
        )
        (folder / "mosquitto.conf").write_text(own + text)
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it listens."""
        assert EXECUTABLE is not None
        with (self.folder / "log").open("ab") as log:
            self._child = subprocess.Popen(
                [EXECUTABLE, "-c", str(self.folder / "mosquitto.conf")], stdout=log, stderr=log
            )
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            assert self._child.poll() is None, (self.folder / "log").read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError("the broker does not listen")

    def stop(self) -> None:
        """End it in order: it writes its store."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            self._child.wait(timeout=20)

    @asynccontextmanager
    async def client(self, name: str = "sender", **arguments: Any) -> AsyncIterator[aiomqtt.Client]:
        """A client that is connected."""
        async with aiomqtt.Client(
            "127.0.0.1",
            self.port,
            identifier=name,
            protocol=aiomqtt.ProtocolVersion.V5,
            max_concurrent_outgoing_calls=10,
            **arguments,
        ) as client:
            yield client

    async def publish(self, topic: str, *payloads: Any, **arguments: Any) -> None:
        """Send payloads at QoS 1, each acknowledged by the broker."""
        async with self.client() as client:
            await send(client, ((topic, payload) for payload in payloads), **arguments)


async def send(
    client: aiomqtt.Client, messages: Iterable[tuple[str, Any]], **arguments: Any
) -> None:
    """Send messages at QoS 1; anything but text and bytes as JSON."""

    async def one(topic: str, payload: Any) -> None:
        text = payload if isinstance(payload, str | bytes) else json.dumps(payload)
        await client.publish(topic, text, qos=1, **arguments)

    await asyncio.gather(*(one(topic, payload) for topic, payload in messages))


async def letters(client: aiomqtt.Client, count: int, within_s: float = 20.0) -> list[Any]:
    """The next dead letters of a client that is subscribed to them, in any order."""
    found: list[Any] = []
    async with asyncio.timeout(within_s):
        while len(found) < count:
            message = await anext(client.messages)
            assert isinstance(message.payload, bytes)
            found.append(json.loads(message.payload))
    return found
