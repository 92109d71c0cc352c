"""Background tasks of a service: how they end, and how they wait for a change.

Background tasks end at one of their pauses, not in the middle of a transaction.

A task that is cancelled while SQLite begins a transaction leaves it open, and the database locked
for every other writer: so a task is asked to end, and cancelled only if it does not.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable
from math import inf
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from structlog.stdlib import BoundLogger

from common.runtime.logs import describe

Answer = TypeVar("Answer")

GRACE_S: Final = 3.0
REST_S: Final = 10.0
"""A task looks so often at least, whatever its last pass found."""


class Pauses:
    """The pauses of a task: an event ends a pause early, or ends the task."""

    def __init__(self) -> None:
        self.ending = False
        self._event = asyncio.Event()

    def end(self) -> None:
        """End the task at the next pause; a current pause ends now."""
        self.ending = True
        self._event.set()

    def wake(self) -> None:
        """End the current pause, or the next one."""
        self._event.set()

    def begin(self) -> None:
        """Forget earlier notifications: only later ones end the next pause."""
        if not self.ending:
            self._event.clear()

    async def pause(self, seconds: float) -> None:
        """Wait until notified."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return

    async def attend(self, work: Coroutine[Any, Any, Answer]) -> Answer | None:
        """The result of an awaitable; None, and it is cancelled, once notified."""
        working = asyncio.ensure_future(work)
        waking = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({working, waking}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            working.cancel()
            waking.cancel()
            await asyncio.gather(working, waking, return_exceptions=True)


class Repeating(ABC):
    """A background task that repeats `look`; a failed pass is logged and does not end the task.

    Logs `<name>_failed`. It pauses for `pause_s` between two passes, for `retry_s` (default: the
    same) after a failed one, and for `first_s` before the first; `wake` ends a pause. `version`
    changes with each commit to what `look` reads. After a pass that can only wait for a commit,
    the next one follows when there was one, when `wake` was called, or after `REST_S`.
    """

    def __init__(
        self,
        name: str,
        log: BoundLogger,
        pause_s: float,
        *,
        retry_s: float | None = None,
        first_s: float = 0.0,
        version: Callable[[], Awaitable[Hashable]] | None = None,
    ) -> None:
        self._name, self._log, self._pause_s, self._first_s = name, log, pause_s, first_s
        self._retry_s = pause_s if retry_s is None else retry_s
        self._version_of = version
        self._version: Hashable = None
        self._look_again, self._looked_at = True, 0.0
        self._pauses = Pauses()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def look(self) -> bool | None:
        """One pass of the task; true if only a commit can give the next pass something to do."""

    def start(self) -> None:
        """Start the task."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Stop; the next start continues from the stored state."""
        self._pauses.end()
        if self._task is not None:
            await finish([self._task])

    def wake(self) -> None:
        """Start the next pass immediately: there is something new."""
        self._look_again = True
        self._pauses.wake()

    async def _run(self) -> None:
        await self._pauses.pause(self._first_s)
        while not self._pauses.ending:
            self._pauses.begin()
            pause = self._pause_s
            try:
                if await self._due():
                    self._look_again = False  # who calls `wake` during the look sets it again
                    settled = await self.look()
                    self._look_again = self._look_again or not settled
            except Exception as error:
                self._log.error(f"{self._name}_failed", **describe(error))
                self._look_again, pause = True, self._retry_s
            await self._pauses.pause(pause)

    async def _due(self) -> bool:
        """Whether the next pass may find something."""
        now = asyncio.get_running_loop().time()
        if self._version_of is not None:
            version = await self._version_of()
            if version == self._version and not self._look_again and now < self._looked_at + REST_S:
                return False
            self._version = version
        self._looked_at = now
        return True


async def finish(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Wait for tasks that were told to end; cancel those that still wait for a response."""
    pending = set(tasks)
    if pending:
        _, late = await asyncio.wait(pending, timeout=GRACE_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


# Notifies tasks that found nothing new and wait for a change.
#
#     ticket = notice.ticket()
#     ... look ...
#     await notice.wait(ticket, seconds)
#
# The ticket is taken before looking, so no change falls between. Who waits for one thing takes a
# ticket with its key, and is not woken by a change that names other keys.

Found = TypeVar("Found")


class Notice:
    """The change notification that long polls of one process wait for."""

    def __init__(self) -> None:
        self._events: WeakValueDictionary[Hashable, asyncio.Event] = WeakValueDictionary()
        """Those that somebody waits for."""
        self._looks: dict[Hashable, asyncio.Future[Any]] = {}
        self.ended = False
        """The process is to end: nobody waits any more."""

    def end(self) -> None:
        """Let all polls answer with what they have, now and from now on."""
        self.ended = True
        self.notify()

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
        """A look to repeat in one poll.

        The first is made for this poll alone, as its caller may know of a change that was not
        notified yet; later ones are shared by all polls with this key until the next change.
        """
        first = True

        async def looked() -> Found:
            nonlocal first
            looks_itself, first = first, False
            return await (look() if looks_itself else self._together(key, look))

        return looked

    async def _together(self, key: Hashable, look: Callable[[], Awaitable[Found]]) -> Found:
        running = self._looks.get(key)
        if running is None or (running.done() and running.exception() is not None):
            running = self._looks[key] = asyncio.ensure_future(look())
        answer: Found = await asyncio.shield(running)
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
        """The result of a look, once it need not wait any longer or the time is over.

        `look` returns (result, whether to continue waiting). It is repeated when what `key`
        names has changed, after `every_s` at the latest; `gather_s` later, so that one look sees
        many changes.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            ticket = self.ticket(key)
            outcome, waits = await look()
            remaining_s = end - loop.time()
            if not waits or self.ended or remaining_s <= 0:
                return outcome
            await self.wait(ticket, min(remaining_s, every_s))
            if gather_s:
                await asyncio.sleep(gather_s)

    async def wait(self, ticket: asyncio.Event, seconds: float) -> None:
        """Wait until something has changed since the ticket was taken, or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await ticket.wait()
        except TimeoutError:
            return
