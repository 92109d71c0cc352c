"""Something changed: wakes those who look, find nothing new, and wait.

    ticket = notice.ticket()
    ... look ...
    await notice.wait(ticket, seconds)

The ticket is taken before looking, so no change falls between.
"""

from __future__ import annotations

import asyncio


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

    async def wait(self, ticket: asyncio.Event, seconds: float) -> None:
        """Until something changed since the ticket was taken, or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await ticket.wait()
        except TimeoutError:
            return
