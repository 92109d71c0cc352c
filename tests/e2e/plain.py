"""A deployment of real processes without proxies, with settings of a test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from cli.services.deployment import Deployment, Running, pair
from tests.e2e.world import FAST, World


@asynccontextmanager
async def plain(
    directory: Path,
    aggregators: int = 1,
    everywhere: Mapping[str, str] | None = None,
    by_kind: Mapping[str, Mapping[str, str]] | None = None,
) -> AsyncIterator[World]:
    """A running world; `everywhere` and `by_kind` are environment variables."""
    real = Deployment.plan(directory, aggregators)
    real.save()
    told = {
        kind: {**FAST[kind], **(everywhere or {}), **(by_kind or {}).get(kind, {})} for kind in FAST
    }
    running = Running(real, told)
    try:
        await asyncio.to_thread(running.start)
        await asyncio.to_thread(pair, real)
        yield World(real, running, {})
    finally:
        await asyncio.to_thread(running.stop)
