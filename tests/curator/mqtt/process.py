"""A real curator process, beside a broker or without, to be killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.curator.conftest import OPERATOR
from tests.curator.mqtt.broker import free_port

ROOT = Path(__file__).parents[3]
READY_S = 60.0


class Process:
    """One curator service; `kill` is SIGKILL."""

    def __init__(
        self, folder: Path, database_url: str, broker_port: int | None, **settings: str
    ) -> None:
        self.port = free_port()
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TACIT_DATA_DIR": str(folder),
            "TACIT_DATABASE_URL": database_url,
            "TACIT_OPERATOR_TOKEN": OPERATOR,
            "TACIT_PORT": str(self.port),
            "TACIT_PARTICIPATE": "false",
            "TACIT_LOG_LEVEL": "error",
            **settings,
        }
        if broker_port is not None:
            self._environment["TACIT_MQTT_HOST"] = "127.0.0.1"
            self._environment["TACIT_MQTT_PORT"] = str(broker_port)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The number of the running process."""
        assert self._child is not None
        return self._child.pid

    def start(self) -> None:
        """Start, and wait until it is ready: with a broker, connected to it."""
        self._child = subprocess.Popen(
            [sys.executable, "-m", "curator"], env=self._environment, cwd=ROOT
        )
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            assert self._child.poll() is None, "the curator ended"
            try:
                if httpx.get(f"http://127.0.0.1:{self.port}/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError("the curator is not ready")

    def kill(self) -> None:
        """Nothing more is written."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """The end in order, if it still runs."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(how)
            self._child.wait(timeout=40)
