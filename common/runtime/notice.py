"""Notifies tasks that found nothing new and wait for a change.

    ticket = notice.ticket()
    ... look ...
    await notice.wait(ticket, seconds)

The ticket is taken before looking, so no change falls between. Who waits for one thing takes a
ticket with its key, and is not woken by a change that names other keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from math import inf
from typing import Any, TypeVar
from weakref import WeakValueDictionary

Found = TypeVar("Found")


class Notice:
    """The change notification that long polls of one process wait for."""

    def __init__(self) -> None:
        self._events: WeakValueDictionary[Hashable, asyncio.Event] = WeakValueDictionary()
        """Those that somebody waits for."""
        self._looks: dict[Hashable, asyncio.Future[Any]] = {}

    def ticket(self, key: Hashable = None) -> asyncio.Event:
        """The ticket for a look that begins now; pass it to `wait`."""
        event = self._events.get(key)
        if event is None:
            event = self._events[key] = asyncio.Event()
        return event

    def notify(self, *keys: Hashable) -> None:
        """What these keys name changed; without any, anything may have."""
        for key in (None, *keys) if keys else tuple(self._events):
            event = self._events.pop(key, None)
            if event is not None:
                event.set()
        self._looks.clear()

    def shared(
        self, key: Hashable, look: Callable[[], Awaitable[Found]]
    ) -> Callable[[], Awaitable[Found]]:
        """A look to repeat in one poll. The first is made for this poll alone, as its caller may
        know of a change not notified yet; later ones are shared by all polls with this key until
        the next change."""
        first = True

        async def looked() -> Found:
            nonlocal first
            own, first = first, False
            return await (look() if own else self._together(key, look))

        return looked

    async def _together(self, key: Hashable, look: Callable[[], Awaitable[Found]]) -> Found:
        found = self._looks.get(key)
        if found is None or (found.done() and found.exception() is not None):
            found = self._looks[key] = asyncio.ensure_future(look())
        answer: Found = await asyncio.shield(found)
        return answer

    async def poll(
        self,
        look: Callable[[], Awaitable[tuple[Found, bool]]],
        seconds: float,
        every_s: float = inf,
        *,
        key: Hashable = None,
        gather_s: float = 0.0,
    ) -> Found:
        """What a look finds, once it need not wait any longer or the time is over.

        `look` returns (what it finds, whether to continue waiting), and is repeated when what `key`
        names changed, after `every_s` at the latest; `gather_s` later, so that one look finds many
        changes.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            ticket = self.ticket(key)
            found, waits = await look()
            left = end - loop.time()
            if not waits or left <= 0:
                return found
            await self.wait(ticket, min(left, every_s))
            if gather_s:
                await asyncio.sleep(gather_s)

    async def wait(self, ticket: asyncio.Event, seconds: float) -> None:
        """Wait until something changed since the ticket was taken, or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await ticket.wait()
        except TimeoutError:
            return
