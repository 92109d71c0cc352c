"""How one definition of a call becomes a method of the blocking and of the asynchronous client.

    class Queries:
        query = operation(query)          # Client.query(...) -> AskedQuery, AsyncClient: awaitable
        queries = stream(queries)         # Client: iterator, AsyncClient: asynchronous iterator

A descriptor makes the method for the class that it is accessed through, with a real signature:
`help(tacit.Client)` and `inspect.signature(tacit.AsyncClient.query)` tell what they take and give.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import MethodType
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    get_args,
    get_type_hints,
    overload,
)

from tacit.client.exchange import Steps, Stream

P = ParamSpec("P")
T = TypeVar("T")


class Runs(Protocol):
    """What a descriptor needs of a client that blocks."""

    def run(self, call: Steps[T]) -> T: ...
    def iterate(self, call: Stream[T]) -> Iterator[T]: ...


class RunsAsync(Protocol):
    """What a descriptor needs of a client on an event loop."""

    async def run_async(self, call: Steps[T]) -> T: ...
    def iterate_async(self, call: Stream[T]) -> AsyncIterator[T]: ...


class operation(Generic[P, T]):  # noqa: N801, used like a decorator
    """A call with one answer."""

    def __init__(self, call: Callable[P, Steps[T]]) -> None:
        self.call, self.__doc__ = call, call.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, client: Runs, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: RunsAsync, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        made = _answering(self.call, self.name, hasattr(owner, "run_async"))
        return made if client is None else MethodType(made, client)


class stream(Generic[P, T]):  # noqa: N801, used like a decorator
    """A call that yields items."""

    def __init__(self, call: Callable[P, Stream[T]]) -> None:
        self.call, self.__doc__ = call, call.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, client: Runs, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: RunsAsync, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        made = _yielding(self.call, self.name, hasattr(owner, "iterate_async"))
        return made if client is None else MethodType(made, client)


@functools.cache
def _answering(call: Callable[..., Steps[Any]], name: str, awaited: bool) -> Callable[..., Any]:
    """A method that runs a call to its answer: `Steps[T]` gives T."""

    def method(client: Any, /, *arguments: Any, **named: Any) -> Any:
        return client.run(call(*arguments, **named))

    async def method_async(client: Any, /, *arguments: Any, **named: Any) -> Any:
        return await client.run_async(call(*arguments, **named))

    hints = get_type_hints(call)
    answer = get_args(hints["return"])[2]
    return _declared(method_async if awaited else method, name, call, hints | {"return": answer})


@functools.cache
def _yielding(call: Callable[..., Stream[Any]], name: str, awaited: bool) -> Callable[..., Any]:
    """A method that runs a call item by item: `Stream[T]` gives an iterator of T."""

    def method(client: Any, /, *arguments: Any, **named: Any) -> Any:
        return (client.iterate_async if awaited else client.iterate)(call(*arguments, **named))

    hints = get_type_hints(call)
    yielded = next(each for each in get_args(get_args(hints["return"])[0]) if get_args(each))
    (kind,) = get_args(yielded)
    items = AsyncIterator[kind] if awaited else Iterator[kind]  # type: ignore[valid-type]
    return _declared(method, name, call, hints | {"return": items})


def _declared(
    method: Callable[..., Any], name: str, call: Callable[..., Any], hints: dict[str, Any]
) -> Callable[..., Any]:
    """`method` with this name, the help and the parameters of `call`, behind the client itself."""
    functools.update_wrapper(method, call)
    method.__name__ = method.__qualname__ = name
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [
        each.replace(annotation=hints.get(parameter, each.annotation))
        for parameter, each in inspect.signature(call).parameters.items()
    ]
    shown = inspect.Signature([own, *taken], return_annotation=hints["return"])
    vars(method)["__signature__"] = shown
    return method
