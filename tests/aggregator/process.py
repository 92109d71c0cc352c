"""Real aggregator processes on loopback, to be started, killed and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from tests.aggregator.double import OPERATOR_TOKEN

ROOT = Path(__file__).parents[2]


class Process:
    """One aggregator; `kill` is SIGKILL, and the next `start` finds what was durable."""

    def __init__(
        self,
        folder: Path,
        url: str | None = None,
        variant: str = "sound",
        hold_ms: float = 0,
        log_level: str = "warning",
        number: int = 0,
        sweep_s: float = 30,
    ) -> None:
        self.variant, self.hold_ms = variant, hold_ms
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TACIT_DATA_DIR": str(folder / "aggregator"),
            "TACIT_AGGREGATOR_ID": f"aggregator-{number}",
            "TACIT_OPERATOR": f"operator-{number}",
            "TACIT_OPERATOR_TOKEN": OPERATOR_TOKEN,
            "TACIT_EXACT_RULE": '{"min_participants": 2}',
            "TACIT_PORT": "0",
            "TACIT_LOG_LEVEL": log_level,
            "TACIT_SWEEP_S": str(sweep_s),
        }
        if url is not None:
            self._environment["TACIT_DATABASE_URL"] = url
        self._child: subprocess.Popen[str] | None = None
        self.port = 0

    async def start(self) -> httpx.AsyncClient:
        """Start; a client of the ready service."""
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.aggregator.served", self.variant, str(self.hold_ms)],
            env=self._environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._child.stdout is not None
        line = await asyncio.to_thread(self._child.stdout.readline)
        assert line.strip(), "the aggregator did not start"
        self.port = int(line)
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=120)

    @property
    def pid(self) -> int:
        """The number of the running process."""
        assert self._child is not None
        return self._child.pid

    async def died(self) -> None:
        """Wait until it has killed itself."""
        assert self._child is not None
        assert await asyncio.to_thread(self._child.wait, 40) == -signal.SIGKILL

    def kill(self) -> None:
        """SIGKILL: nothing more is written."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """The end, if it still runs."""
        if self._child is not None and self._child.poll() is None:
            self.kill()

    def _end(self, how: signal.Signals) -> None:
        assert self._child is not None
        self._child.send_signal(how)
        self._child.wait(timeout=40)
        assert self._child.stdout is not None
        self._child.stdout.close()
