"""The server ends when it is asked to, without waiting for a tick, and renews the date."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from common.web import server
from tests.common.web.serving import serving

PROGRAM = """
import sys
from pathlib import Path
from common.runtime.settings import ServiceSettings
from common.web.app import build_app
from common.web.server import make_server
from tests.common.web.serving import nothing
settings = ServiceSettings(data_dir=Path(sys.argv[1]), port=0)
server = make_server(build_app("probe", settings, nothing, version="1"), settings)
startup = server.startup
async def told(sockets=None):
    await startup(sockets)
    print("started", flush=True)
server.startup = told
server.run()
"""


def test_a_signal_ends_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGTERM)
        process.wait(60)


async def test_a_poll_does_not_delay_its_end(tmp_path: Path) -> None:
    async with asyncio.timeout(60), serving(tmp_path) as it:
        (notice,) = it.app.state.polls
        looked = asyncio.Event()

        async def look() -> tuple[str, bool]:
            looked.set()
            return "as before", True

        polling = asyncio.create_task(notice.poll(look, 3600.0))
        await looked.wait()
        it.server.should_exit = True
        assert await polling == "as before"
        assert await notice.poll(look, 3600.0) == "as before"


@pytest.mark.slow
async def test_another_thread_ends_it_before_the_next_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "DATE_S", 3600.0)
    async with asyncio.timeout(60), serving(tmp_path) as it:
        ending = threading.Thread(target=setattr, args=(it.server, "should_exit", True))
        ending.start()
        await asyncio.to_thread(ending.join)
        while it.server.started and it.server.servers[0].is_serving():
            await asyncio.sleep(0.01)
