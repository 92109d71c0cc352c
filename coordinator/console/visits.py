"""What each page gets from its request: the caller, what it shows, and the audit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from common.principals import Scope
from common.web import idempotency
from common.web.console.browser_sessions import Sessions, Visitor
from common.web.console.pages import Pages, PagesPart, own_form, person
from common.web.console.sign_in import SessionsPart
from common.web.idempotency import RequestKey
from tacit.errors import Invalid


class NotTyped(Invalid):
    """Before something irreversible its name has to be typed."""

    name = "not_typed"
    title = "Type the name as it is shown"


@dataclass(frozen=True)
class Visit:
    """A request for a page, by someone who is signed in."""

    request: Request
    pages: Pages
    sessions: Sessions
    visitor: Visitor

    @property
    def operator(self) -> bool:
        """Whether an operator asks."""
        return self.visitor.has(Scope.OPERATOR)

    def show(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page, or a part of one for a live region."""
        return self.pages.show(self.request, template, self.visitor, status=status, **values)

    def said(self, sentences: Mapping[str, str]) -> str | None:
        """The message after a form, by a key: a page never shows words from its address."""
        return sentences.get(self.request.query_params.get("said", ""))

    async def form(self) -> Mapping[str, str]:
        """The fields of a form of this session. Raises AnotherOrigin."""
        return await own_form(self.request, self.visitor)

    def key(self, key: str, content: bytes) -> RequestKey | None:
        """The key of a form that is sent once: see `idempotency.form_key`."""
        token_id = self.visitor.principal.token_id
        return idempotency.form_key(token_id, self.request.url.path, key, content)

    async def note(self, action: str, name: str, outcome: str = "done") -> None:
        """Record in the audit what was done to the thing of this name."""
        await self.sessions.note(self.visitor, action, name, outcome)


def _visit(*scopes: Scope) -> Callable[..., Awaitable[Visit]]:
    """A dependency: a visit of someone with one of the scopes; for anyone else the page does not
    exist."""
    visitor_of = person(*scopes)

    async def find(request: Request, pages: PagesPart, sessions: SessionsPart) -> Visit:
        return Visit(request, pages, sessions, await visitor_of(request))

    return find


Operator = Annotated[Visit, Depends(_visit(Scope.OPERATOR))]
Person = Annotated[Visit, Depends(_visit(Scope.OPERATOR, Scope.ANALYST))]
