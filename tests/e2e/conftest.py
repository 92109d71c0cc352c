"""A deviating coordinator, and real curator services before it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from common.runtime.clock import ManualClock
from tests.e2e.hostile import Deviating, Home, Hostile, home, hostile


@pytest.fixture
def deviating(tmp_path: Path, clock: ManualClock) -> Deviating:
    return lambda aggregators: hostile(tmp_path, clock, aggregators)


@pytest.fixture
def homes(tmp_path: Path, clock: ManualClock) -> Any:
    """`async with homes(it, "a", "b") as (a, b)`: a curator service for each party."""

    @asynccontextmanager
    async def run(it: Hostile, *names: str) -> AsyncIterator[list[Home]]:
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(
                    home(name, tmp_path, clock, it.transports, await it.join_token(name))
                )
                for name in names
            ]

    return run
