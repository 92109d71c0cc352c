"""Something changed: wakes those who look, find nothing new, and wait.

    ticket = notice.ticket()
    ... look ...
    await notice.wait(ticket, seconds)

The ticket is taken before looking, so no change falls between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar

Found = TypeVar("Found")


class Notice:
    """What long polls wait for, in one process."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ticket(self) -> asyncio.Event:
        """What to wait for after a look that begins now."""
        return self._event

    def notify(self) -> None:
        """Something changed."""
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def poll(
        self,
        look: Callable[[], Awaitable[tuple[Found, bool]]],
        seconds: float,
        every_s: float = inf,
    ) -> Found:
        """What a look finds, once it is worth telling or the time is over.

        `look` gives (what it finds, whether to go on waiting), and is repeated when something
        changed, after `every_s` at the latest.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            ticket = self.ticket()
            found, waits = await look()
            left = end - loop.time()
            if not waits or left <= 0:
                return found
            await self.wait(ticket, min(left, every_s))

    async def wait(self, ticket: asyncio.Event, seconds: float) -> None:
        """Until something changed since the ticket was taken, or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await ticket.wait()
        except TimeoutError:
            return
