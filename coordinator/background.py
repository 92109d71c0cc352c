"""Background tasks end at a pause of their own, not in the middle of a transaction.

A task that is cancelled while SQLite begins a transaction leaves it open, and the database locked
for every other writer: so a task is asked to end, and cancelled only if it does not.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable
from typing import Any, Final, TypeVar

from structlog.stdlib import BoundLogger

from common.service.logs import describe

Answer = TypeVar("Answer")

GRACE_S: Final = 3.0


class Pauses:
    """The pauses of a task: something may wake it, or wish that it ends."""

    def __init__(self) -> None:
        self.ending = False
        self._event = asyncio.Event()

    def end(self) -> None:
        """End at the next pause; one that is under way ends now."""
        self.ending = True
        self._event.set()

    def wake(self) -> None:
        """End the pause that is under way, or the next one."""
        self._event.set()

    def begin(self) -> None:
        """Forget what woke so far: what happens from now on ends the next pause."""
        if not self.ending:
            self._event.clear()

    async def pause(self, seconds: float) -> None:
        """Wait, until woken."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return

    async def attend(self, work: Coroutine[Any, Any, Answer]) -> Answer | None:
        """The result of some waiting; nothing, and it is given up, once something wakes."""
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
    """A background task that makes one `look` after the other; one that fails is logged.

    Logs `<name>_failed`. `wake` ends the pause between two looks.
    """

    def __init__(self, name: str, log: BoundLogger, pause_s: float) -> None:
        self._name, self._log, self._pause_s = name, log, pause_s
        self._pauses = Pauses()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def look(self) -> None:
        """What is done again and again."""

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Stop; the next start goes on with what is stored."""
        self._pauses.end()
        if self._task is not None:
            await finish([self._task])

    def wake(self) -> None:
        """Look at once: there is something new."""
        self._pauses.wake()

    async def _run(self) -> None:
        while not self._pauses.ending:
            self._pauses.begin()
            try:
                await self.look()
            except Exception as error:
                self._log.error(f"{self._name}_failed", **describe(error))
            await self._pauses.pause(self._pause_s)


async def finish(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Wait for tasks that were asked to end; cancel those that hang on somebody's answer."""
    pending = set(tasks)
    if pending:
        _, late = await asyncio.wait(pending, timeout=GRACE_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
