"""How one definition of a call becomes a method of the blocking and of the asynchronous client.

    class Queries:
        query = operation(query)          # Client.query(...) -> Json, AsyncClient: awaitable
        queries = stream(queries)         # Client: iterator, AsyncClient: asynchronous iterator

A descriptor runs the call in the mode (blocking or asynchronous) of the client it is accessed
through.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload, runtime_checkable

from tacit.client.exchange import Steps, Stream

P = ParamSpec("P")
T = TypeVar("T")


class Runs(Protocol):
    """What a descriptor needs of a client that blocks."""

    def run(self, call: Steps[T]) -> T: ...
    def iterate(self, call: Stream[T]) -> Iterator[T]: ...


@runtime_checkable
class RunsAsync(Protocol):
    """What a descriptor needs of a client on an event loop."""

    async def run_async(self, call: Steps[T]) -> T: ...
    def iterate_async(self, call: Stream[T]) -> AsyncIterator[T]: ...


class operation(Generic[P, T]):  # noqa: N801, used like a decorator
    """A call with one answer."""

    def __init__(self, call: Callable[P, Steps[T]]) -> None:
        self.call = call
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> operation[P, T]: ...
    @overload
    def __get__(self, client: Runs, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: RunsAsync, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self
        run = client.run_async if isinstance(client, RunsAsync) else client.run
        return _method(self.call, run)


class stream(Generic[P, T]):  # noqa: N801, used like a decorator
    """A call that yields items."""

    def __init__(self, call: Callable[P, Stream[T]]) -> None:
        self.call = call
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> stream[P, T]: ...
    @overload
    def __get__(self, client: Runs, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: RunsAsync, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self
        run = client.iterate_async if isinstance(client, RunsAsync) else client.iterate
        return _method(self.call, run)


def _method(
    call: Callable[..., Generator[Any, Any, Any]], run: Callable[[Any], Any]
) -> Callable[..., Any]:
    @functools.wraps(call)
    def method(*arguments: Any, **named: Any) -> Any:
        return run(call(*arguments, **named))

    return method
