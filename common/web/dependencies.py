"""Parts of a running service, passed to routes by their type.

`provide` is called once, when a service has started; a route names the part that it uses:

    async def verify(ledger: Annotated[Ledger, Depends(part(Ledger))]) -> ...

So a route declares what it depends on, and no object knows every domain.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import FastAPI, Request

Part = TypeVar("Part")


def provide(app: FastAPI, *parts: object) -> None:
    """Make these parts available to the routes, in place of those before."""
    app.state.parts, app.state.parts_found = parts, {}


def part_of(app: FastAPI, kind: type[Part]) -> Part:
    """The one part of this type, or of a derived type, of an app that has started.

    Raises LookupError unless there is exactly one.
    """
    part_of_kind: dict[type[Part], Part] = getattr(app.state, "parts_found", {})
    if kind not in part_of_kind:
        matching = [part for part in getattr(app.state, "parts", ()) if isinstance(part, kind)]
        if len(matching) != 1:
            raise LookupError(f"{len(matching)} parts of type {kind.__name__}")
        part_of_kind[kind] = matching[0]
    return part_of_kind[kind]


def part(kind: type[Part]) -> Callable[[Request], Awaitable[Part]]:
    """A dependency of a route: see `part_of`."""

    async def find(request: Request) -> Part:
        return part_of(request.app, kind)

    return find
