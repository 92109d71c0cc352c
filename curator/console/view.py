"""What every page of the curator's console gets: its visitor, and the parts that pages use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Request, Response

from common.principals import Principal, Scope
from common.runtime.clock import Clock
from common.store.transactions import Database, Transaction
from common.web.console.browser_sessions import Sessions, Visitor
from common.web.console.pages import NoSuchPage, Pages, own_form, person
from common.web.dependencies import part_of
from curator.errors import ForeignCurator, UnknownCurator
from curator.owner import statement
from curator.owner.policies import Policies
from curator.store.parties import CuratorRow, PartyRow

CHECK_S: Final = 10.0
"""Between two checks for what is new on a page that is open."""


@dataclass(frozen=True)
class View:
    """A request for a page by a visitor who may see it."""

    request: Request
    visitor: Visitor
    pages: Pages
    sessions: Sessions
    database: Database
    policies: Policies
    clock: Clock

    @property
    def caller(self) -> Principal:
        """The visitor, as the API's routes know it."""
        return self.visitor.principal

    def show(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """The page, or a part of it."""
        return self.pages.show(self.request, template, self.visitor, status=status, **values)

    async def live(
        self, template: str, values: Callable[[], Awaitable[dict[str, Any]]], wait_s: float
    ) -> Response:
        """A part of the page once it differs from what the browser has, or 304 after `wait_s`."""
        return await self.pages.live(self.request, template, self.visitor, values, wait_s, CHECK_S)

    async def form(self) -> Mapping[str, str]:
        """The fields of a form of this visitor's session. Raises AnotherOrigin."""
        return await own_form(self.request, self.visitor)

    async def note(self, action: str, on: str = "") -> None:
        """Record in the audit log what the visitor did, and on what."""
        await self.sessions.note(self.visitor, action, on, "done")

    def said(self, texts: Mapping[str, str]) -> str | None:
        """The message of a page after a form, by the key in its address; never the address text."""
        return texts.get(self.request.query_params.get("said", ""))

    async def find(self, transaction: Transaction, curator_id: str) -> tuple[CuratorRow, PartyRow]:
        """The curator and its party. Raises NoSuchPage, also for a curator of another owner."""
        try:
            return await statement.find(transaction, curator_id, self.caller)
        except (ForeignCurator, UnknownCurator):
            raise NoSuchPage from None

    async def name_of(self, curator_id: str) -> str:
        """The curator's name as a form wants it typed. Raises NoSuchPage."""
        async with self.database.reading() as transaction:
            return (await self.find(transaction, curator_id))[0].id


def _view(*scopes: Scope) -> Callable[[Request], Coroutine[Any, Any, View]]:
    find = person(*scopes)

    async def view(request: Request) -> View:
        visitor, app = await find(request), request.app
        return View(
            request,
            visitor,
            part_of(app, Pages),
            part_of(app, Sessions),
            part_of(app, Database),
            part_of(app, Policies),
            part_of(app, Clock),
        )

    return view


AnyView = Annotated[View, Depends(_view(Scope.OPERATOR, Scope.CURATOR))]
OperatorView = Annotated[View, Depends(_view(Scope.OPERATOR))]
OwnerView = Annotated[View, Depends(_view(Scope.CURATOR))]
"""Not for operators: no page shows them a value."""
