"""The console of a large deployment: the server's time and the size of each page.

    python -m bench.console [--looks 20] [--tabs 50]

Fills a coordinator with 10,000 curators, 1,000 rounds, 5,000 rows of the ledger and 200 jobs, and
looks at every page over ASGI, in this process: p95 of the time after the first look (which folds
what is new in the ledger), CPU of one look, bytes. Then the CPU of a list of rounds, asked by the
API, without and with tabs that wait for a round, in turns. Where there is a Chromium (on the path,
or TACIT_TEST_CHROMIUM), the first paint of each page, with the server's time but no network.
Times hold for a machine that does nothing else; CPU less so.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import structlog
from playwright.async_api import Route, async_playwright

from tests.coordinator.conftest import houses
from tests.coordinator.console import large
from tests.coordinator.console.browser import ORIGIN, OWN
from tests.coordinator.console.test_rounds import signed_in
from tests.coordinator.double import House, query

PAINT = """() => new Promise((done) => new PerformanceObserver((list) => {
  for (const each of list.getEntriesByName("first-contentful-paint")) done(each.startTime);
}).observe({ type: "paint", buffered: true }))"""
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


async def painted(it: House) -> None:
    """The first paint of every page, the slowest first; requests are answered in this process."""
    chromium = os.environ.get("TACIT_TEST_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        print("first paint: there is no Chromium here")
        return
    visitor = await signed_in(it)

    async def answer(route: Route) -> None:
        headers = {**await route.request.all_headers(), **OWN}
        found = await visitor.client.get(route.request.url, headers=headers)
        plain = {name: value for name, value in found.headers.items() if name != "content-length"}
        await route.fulfill(status=found.status_code, headers=plain, body=found.content)

    rounds = (await it.ask("GET", "/v1/rounds?limit=1")).json()["rounds"]
    rows = []
    async with async_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = await browser.new_page()
        await page.route("**/*", answer)
        for path in await large.paths(it, rounds[0]["id"]):
            if path.endswith("/live"):
                continue
            await page.goto(f"{ORIGIN}{path}")
            rows.append((float(await page.evaluate(PAINT)), path))
        await browser.close()
    print(f"{'ms':>8}  first paint in Chromium")
    for at_ms, path in sorted(rows, reverse=True):
        print(f"{at_ms:8.0f}  {path.replace(rounds[0]['id'], 'ROUND')}")


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
            await painted(it)
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
