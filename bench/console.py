"""The console of a large deployment: the server's time and the size of each page.

    python -m bench.console [--looks 20] [--tabs 50]

Fills a coordinator with 10,000 curators, 1,000 rounds, 5,000 rows of the ledger and 200 jobs, and
looks at every page over ASGI, in this process: p95 of the time after the first look (which folds
what is new in the ledger), CPU of one look, bytes. Then the CPU of a list of rounds, asked by the
API, without and with tabs that wait for a round, in turns.
Times hold for a machine that does nothing else; CPU less so.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import structlog

from tests.coordinator.conftest import houses
from tests.coordinator.console import large
from tests.coordinator.console.test_rounds import signed_in
from tests.coordinator.double import House, query

_ASKED = 200
_TURNS = 5


async def pages(it: House, looks: int) -> None:
    """Every page, the slowest first."""
    round_id = await large.fill(it)
    browser = await signed_in(it)
    rows = []
    for path in await large.paths(it, round_id):
        times, cpu = [], time.process_time()
        for _ in range(looks + 1):
            began = time.perf_counter()
            page = await browser.get(path)
            times.append((time.perf_counter() - began) * 1000)
            assert page.status_code == 200, path
        cpu_ms = (time.process_time() - cpu) / len(times) * 1000
        first_ms, *others = times
        p95_ms, size = statistics.quantiles(others, n=20)[-1], len(page.content) / 1000
        rows.append((p95_ms, first_ms, cpu_ms, size, path.replace(round_id, "ROUND")))
    print(f"{'p95 ms':>8} {'first':>8} {'CPU ms':>8} {'kB':>6}  page ({looks} looks and the first)")
    for p95_ms, first_ms, cpu_ms, size, path in sorted(rows, reverse=True):
        print(f"{p95_ms:8.1f} {first_ms:8.1f} {cpu_ms:8.1f} {size:6.1f}  {path}")


async def waiting(it: House, tabs: int) -> None:
    """What tabs that wait cost a request of the API."""
    opened = await it.open(query(deadline_s=600))
    browser = await signed_in(it)
    live = f"/console/rounds/{opened.id}/live"
    tag = {"If-None-Match": (await browser.get(live)).headers["etag"]}

    async def asked() -> float:
        began = time.process_time()
        for _ in range(_ASKED):
            assert (await it.ask("GET", "/v1/rounds?limit=50")).status_code == 200
        return (time.process_time() - began) / _ASKED * 1000

    async def tab() -> None:
        while True:
            await browser.client.get(f"{live}?wait_s=25", headers=tag)

    without, beside = [], []
    for _ in range(_TURNS):
        without.append(await asked())
        held = [asyncio.create_task(tab()) for _ in range(tabs)]
        await asyncio.sleep(0.5)
        beside.append(await asked())
        for each in held:
            each.cancel()
        await asyncio.gather(*held, return_exceptions=True)
    one, other = statistics.median(without), statistics.median(beside)
    print(f"a list of 50 rounds by the API: {one:.2f} ms CPU; beside {tabs} tabs: {other:.2f}")
    print(f"ratio {other / one:.3f} (medians of {_TURNS} turns of {_ASKED} requests)")


async def run(looks: int, tabs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        house = houses(Path(folder))
        async with house(3, console=True, max_body_bytes=8_000_000) as it:
            await pages(it, looks)
            await waiting(it, tabs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--looks", type=int, default=20)
    parser.add_argument("--tabs", type=int, default=50)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    asyncio.run(run(given.looks, given.tabs))


if __name__ == "__main__":
    main()
