"""Computations of requests in processes apart: the loop's process continues to answer meanwhile.

A request of a few hundred bytes may ask for minutes of arithmetic, in steps that keep Python's
interpreter to themselves, and a thread cannot be stopped. A process can: it ends when its request
is cancelled, when it has used its share of processor time, and with its parent. What is computed is
a function of a module with arguments that can be pickled; it has no secrets and no settings of the
environment.

One request of a caller is computed at a time: others of the same caller wait for it.
"""

from __future__ import annotations

import asyncio
import atexit
import math
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import IO, Any, Final, TypeVar, cast

from common.runtime.process import end_with_parent, leave_no_core
from tacit.errors import Invalid, TooMany, Unavailable

Result = TypeVar("Result")
Work = Callable[..., Any]

SECONDS: Final = 60.0
"""Of processor time for one request: several times what the most expensive useful one takes."""
PROCESSES: Final = 2
MOST_WAITING: Final = 8
MOST_BYTES: Final = 1 << 30
IDLE_S: Final = 120.0
_NICE: Final = 10
_LENGTH: Final = 8
_PROGRAM: Final = "from common.runtime.compute_processes import compute; compute()"


class TooMuchArithmetic(Invalid):
    """The computation needs more processor time or memory than it may take."""

    name = "too_much_arithmetic"
    title = "The computation takes more processor time or memory than it may"


class StillComputing(TooMany):
    """More requests of one caller wait for figures than may wait."""

    name = "still_computing"
    title = "Earlier requests of this caller are still being computed"


class CallerLeft(Unavailable):
    """Nobody reads this answer."""

    name = "caller_left"
    title = "The client has left before the answer"


@dataclass
class Asker:
    """The client whose request this task computes: `gone` returns when it has disconnected."""

    gone: Callable[[], Awaitable[None]]
    caller: str | None = None


ASKER: Final[ContextVar[Asker | None]] = ContextVar("asker", default=None)


class _Ended(Exception):
    """The process ended before it answered."""


class _Child:
    """One process, which computes one thing after another."""

    def __init__(self) -> None:
        environment = {
            name: text for name, text in os.environ.items() if not name.startswith("TACIT_")
        }
        environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, sys.path))
        environment["OPENBLAS_NUM_THREADS"] = "1"
        self._process = subprocess.Popen(  # -P: what lies in the working folder is not ours
            [sys.executable, "-P", "-c", _PROGRAM, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def ask(self, question: bytes) -> bytes:
        """The answer to a question. Raises _Ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _send(self._process.stdin, question)
            return _receive(self._process.stdout)
        except (OSError, EOFError):
            raise _Ended from None

    def end(self) -> int:
        """Kill the process, if it still runs; how it ended."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                cast(IO[bytes], stream).close()
        return self._process.wait()

    def kill(self) -> None:
        """Kill the process, which ends the wait for its answer. Safe to call from any thread."""
        self._process.kill()


@dataclass
class _Call:
    """One computation, made by a thread that waits for its process."""

    question: tuple[Any, ...]
    idle: list[_Child]
    child: _Child | None = None
    cancelled: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> Any:
        """The answer, or its exception. Raises TooMuchArithmetic if the process reached its
        limit."""
        question = pickle.dumps(self.question)
        while True:
            reused = self._take()
            assert self.child is not None
            try:
                answer = self.child.ask(question)
            except _Ended:
                # One that had been idle may have been about to end, for which a slow machine takes
                # long: only its limit of processor time says something about the question.
                if self.child.end() != -signal.SIGXCPU and reused:
                    continue
                raise TooMuchArithmetic from None
            with self.lock:
                self.idle.append(self.child)
                self.child = None  # no longer ours to kill
            good, value = pickle.loads(answer)  # noqa: S301 - of our own process
            if not good:
                raise value
            return value

    def _take(self) -> bool:
        """Have a process; whether it was used before."""
        with self.lock:
            if self.cancelled:
                raise TooMuchArithmetic
            try:
                self.child = self.idle.pop()
            except IndexError:
                self.child = _Child()
                return False
            return True

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        with self.lock:
            self.cancelled = True
            if self.child is not None:
                self.child.kill()


class Apart:
    """A few processes, started at the first question and ended when they have been idle for a
    while."""

    def __init__(
        self,
        processes: int = PROCESSES,
        seconds: float = SECONDS,
        memory_bytes: int = MOST_BYTES,
    ) -> None:
        """`seconds`: of processor time for one computation; `memory_bytes`: of a process."""
        self._limits = (seconds, memory_bytes)
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="apart")
        self._idle: list[_Child] = []
        self._callers: dict[str, tuple[asyncio.Lock, list[None]]] = {}

    def close(self) -> None:
        """End the processes that compute nothing."""
        while self._idle:
            self._idle.pop().end()

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """The result of `work`, or its exception.

        Raises TooMuchArithmetic beyond the limits, StillComputing if too many requests of the
        caller wait, CallerLeft when the client disconnects, which ends the computation.
        """
        asker = ASKER.get()
        question = (*self._limits, work, arguments)
        if asker is None:
            return cast(Result, await self._answer(question))
        if asker.caller is None:
            return cast(Result, await _while_there(asker, self._answer(question)))
        with self._turn(asker.caller) as turn:
            async with turn:
                return cast(Result, await _while_there(asker, self._answer(question)))

    @contextmanager
    def _turn(self, caller: str) -> Iterator[asyncio.Lock]:
        """The caller's lock, kept while any request of the caller uses it."""
        turn, waiting = self._callers.setdefault(caller, (asyncio.Lock(), []))
        if len(waiting) >= MOST_WAITING:
            raise StillComputing(retry_after_s=1, extra={"quota": MOST_WAITING})
        waiting.append(None)
        try:
            yield turn
        finally:
            waiting.pop()
            if not waiting:
                del self._callers[caller]

    async def _answer(self, question: tuple[Any, ...]) -> Any:
        call = _Call(question, self._idle)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except asyncio.CancelledError:
            call.cancel()
            raise


async def _while_there(asker: Asker, work: Awaitable[Result]) -> Result:
    """The result of `work`; it is cancelled, and CallerLeft raised, if the client disconnects."""
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(asker.gone())
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CallerLeft
        return working.result()
    finally:
        for task in (working, gone):
            task.cancel()


_apart = Apart()
atexit.register(lambda: _apart.close())


async def apart(work: Callable[..., Result], *arguments: Any) -> Result:
    """`Apart.run` in the processes that all services of this process share."""
    return await _apart.run(work, *arguments)


# --- in the process apart ------------------------------------------------------------------------


def _send(stream: IO[bytes], content: bytes) -> None:
    stream.write(len(content).to_bytes(_LENGTH, "big") + content)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    head = stream.read(_LENGTH)
    if len(head) < _LENGTH:
        raise EOFError
    size = int.from_bytes(head, "big")
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return content


def _answered(question: bytes) -> bytes:
    seconds, memory_bytes, work, arguments = pickle.loads(question)  # noqa: S301 - of our parent
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most_bytes = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, hard))
    used = sum(os.times()[:2])
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + seconds), hard))
    try:
        return pickle.dumps((True, work(*arguments)))
    except MemoryError:
        return pickle.dumps((False, TooMuchArithmetic()))
    except Exception as error:
        try:
            return pickle.dumps((False, error))
        except Exception:
            return pickle.dumps((False, RuntimeError(type(error).__name__)))


def compute() -> None:
    """The whole life of a process apart: answer one question after another."""
    end_with_parent(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    leave_no_core()
    os.nice(_NICE)
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that is printed becomes an answer
    while select.select([questions], [], [], IDLE_S)[0]:
        try:
            question = _receive(questions)
        except EOFError:
            return
        _send(answers, _answered(question))
