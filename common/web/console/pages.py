"""What all pages of a console share: the frame, the policy of the browser, errors as pages.

Spec: console, sections 3 and 4.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket, FileSystemBytecodeCache
from pydantic import ValidationError
from starlette.responses import HTMLResponse, RedirectResponse

from common.bodies import refuse_unstorable_fields
from common.principals import Scope
from common.runtime.settings import ConsoleSettings
from common.runtime.tasks import Notice
from common.web.console import charts, formatting
from common.web.console.browser_sessions import (
    Sessions,
    Visitor,
    require_own_origin,
    require_secret,
)
from common.web.dependencies import part_of
from common.web.problems import invalid_request, status_of
from common.web.wire import etag_response
from tacit.errors import DomainError, NotFound, TooMany, Unauthenticated

PREFIX: Final = "/console"
LOGIN: Final = f"{PREFIX}/login"
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
}
_MEDIA: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "verify.js": "text/javascript; charset=utf-8",
}
_STATIC: Final = {
    name: resources.files(__package__).joinpath("static", name).read_bytes() for name in _MEDIA
}
STATIC_HASH: Final = hashlib.sha256(b"".join(_STATIC.values())).hexdigest()[:12]
_ADDRESS: Final = re.compile(rf'(?<= )(href|src|(?:form)?action|data-[a-z]+)="{PREFIX}')
_NEVER_CHANGES: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


class NotSignedIn(Unauthenticated):
    """The page needs a session."""

    name = "not_signed_in"
    title = "Sign in to see this page"


class NoSuchPage(NotFound):
    """This page does not exist, or this token may not see it."""

    name = "no_such_page"
    title = "This page does not exist, or this token may not see it"


@dataclass(frozen=True)
class Entry:
    """A line of the navigation, for the scopes that may see its page."""

    title: str
    path: str
    scopes: frozenset[Scope]


@dataclass(frozen=True)
class About:
    """Which service a console belongs to; `fingerprint` of the service's identity, in hex. A
    service without a deployment of its own has an empty `deployment`, and any name of its own in
    hex instead."""

    service: str
    deployment: str
    fingerprint: str
    version: str


COMPILED: Final = Path(__file__).with_name("__pycache__")


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates, stored beside the modules as Python stores those; if nothing can be
    written there, each process that shows them compiles them."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


class Pages:
    """Renders the pages of one service. `package` has its templates."""

    def __init__(
        self, about: About, package: str, entries: Sequence[Entry], settings: ConsoleSettings
    ) -> None:
        self.about, self.https = about, settings.https
        self.root, self._public_url = settings.path_prefix, settings.public_url
        self.cookie = f"tacit_{about.service}_{about.fingerprint[:8]}"
        self._entries = entries
        self._compiled = _Compiled(str(COMPILED))
        self._templates = Environment(
            loader=ChoiceLoader([PackageLoader(package), PackageLoader("common.web.console")]),
            bytecode_cache=self._compiled,
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals.update(
            about=about,
            words=formatting,
            charts=charts,
            root=self.root,
            single_sign_on=settings.oidc_issuer is not None,
            static=f"{PREFIX}/static/{STATIC_HASH}",
        )
        self._templates.filters.update(utc=_utc)

    def compile_between_requests(self) -> None:
        """Begin to compile the templates, one at a time, so that few visitors wait for it.

        In the thread of the event loop: Python 3.11 sometimes fails while two threads parse or
        import (gh-106905).
        """
        loop, steps = asyncio.get_running_loop(), self.compiling()

        def step() -> None:
            if next(steps, None) is not None:
                loop.call_soon(step)

        loop.call_soon(step)

    def compiling(self) -> Iterator[str]:
        """Compile the templates that changed since the last time; yields the name of each
        template after checking it."""
        for name in self._templates.list_templates(["html"]):
            assert self._templates.loader is not None
            source, file, _ = self._templates.loader.get_source(self._templates, name)
            bucket = self._compiled.get_bucket(self._templates, name, file, source)
            if bucket.code is None:
                bucket.code = self._templates.compile(source, name, file)
                self._compiled.set_bucket(bucket)
            yield name

    def address(self, request: Request) -> str:
        """The address of this service, as a command on a page has it."""
        return (self._public_url or str(request.base_url)).rstrip("/")

    def show(
        self,
        request: Request,
        template: str,
        visitor: Visitor | None = None,
        *,
        status: int = 200,
        **values: Any,
    ) -> Response:
        """A page, or a part of one for a live region."""
        entries = [
            entry for entry in self._entries if visitor is not None and visitor.has(*entry.scopes)
        ]
        text = self._templates.get_template(template).render(
            visitor=visitor,
            csrf="" if visitor is None else visitor.csrf,
            entries=entries,
            path=request.url.path,
            now=datetime.now(UTC),
            **values,
        )
        if self.root:  # values are escaped: only attributes of our own have this quotation mark
            text = _ADDRESS.sub(rf'\1="{self.root}{PREFIX}', text)
        return HTMLResponse(text, status, headers=dict(HEADERS))

    async def live(
        self,
        request: Request,
        template: str,
        visitor: Visitor,
        values: Callable[[], Awaitable[dict[str, Any]]],
        wait_s: float,
        look_s: float,
        changes: Notice | None = None,
    ) -> Response:
        """A part of a page once it differs from what the browser has, or 304 after `wait_s`;
        `values` are read at each notified change, and every `look_s`."""

        async def look() -> tuple[Response, bool]:
            body = bytes(self.show(request, template, visitor, **await values()).body)
            kind = "text/html; charset=utf-8"
            answer = etag_response(request, body, media_type=kind, headers=dict(HEADERS))
            return answer, answer.status_code == 304

        return await (changes or request.app.state.polls[0]).poll(look, wait_s, look_s)

    def problem(
        self, request: Request, error: DomainError, visitor: Visitor | None = None
    ) -> Response:
        """An error as a page, with its fields and what may help."""
        answer = self.show(request, "problem.html", visitor, status=status_of(error), error=error)
        if isinstance(error, TooMany) and error.retry_after_s is not None:
            answer.headers["Retry-After"] = str(error.retry_after_s)
        return answer


def _utc(at: datetime | str, seconds: bool = False) -> str:
    """An instant in UTC as people write it; the browser converts it to its own zone."""
    instant = datetime.fromisoformat(at) if isinstance(at, str) else at
    return f"{instant.day} {instant:%b %Y, %H:%M}{f':{instant:%S}' if seconds else ''}"


class ConsoleRoute(APIRoute):
    """A route whose errors are pages; a visitor who is not signed in is redirected to the
    sign-in."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except NotSignedIn:
                target = request.url.path if request.method == "GET" else PREFIX
                return see(f"{LOGIN}?next={quote(target)}")
            except (RequestValidationError, ValidationError) as invalid:
                error: DomainError = invalid_request(invalid)
            except DomainError as domain:
                error = domain
            pages = part_of(request.app, Pages)
            return pages.problem(request, error, getattr(request.state, "visitor", None))

        return handle


def add_front_door(app: FastAPI) -> None:
    """Lead who opens a service's address in a browser to its console."""

    async def lead(_: Request) -> Response:
        return see(PREFIX)

    app.add_route("/", lead, include_in_schema=False)


def console_router() -> APIRouter:
    """A router for pages: none of them is in the API's document."""
    return APIRouter(prefix=PREFIX, include_in_schema=False, route_class=ConsoleRoute)


async def pages_part(request: Request) -> Pages:
    return part_of(request.app, Pages)


PagesPart = Annotated[Pages, Depends(pages_part)]


async def current_visitor(request: Request) -> Visitor | None:
    """Who looks, or None."""
    pages, sessions = part_of(request.app, Pages), part_of(request.app, Sessions)
    session = request.cookies.get(pages.cookie)
    visitor = None if session is None else await sessions.visitor(session)
    request.state.visitor = visitor
    return visitor


def person(*scopes: Scope) -> Callable[[Request], Coroutine[Any, Any, Visitor]]:
    """A dependency: a visitor with one of the scopes; for anyone else the page does not exist."""

    async def find(request: Request) -> Visitor:
        visitor = await current_visitor(request)
        if visitor is None:
            raise NotSignedIn
        if not visitor.has(*scopes):
            raise NoSuchPage
        return visitor

    return find


async def own_form(request: Request, visitor: Visitor) -> Mapping[str, str]:
    """The fields of a form of this session. Raises AnotherOrigin."""
    require_own_origin(request)
    async with request.form() as form:
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
    require_secret(visitor.csrf, fields.get("csrf"))
    refuse_unstorable_fields(fields)
    return fields


_FORMULA: Final = ("=", "+", "@", "\t", "\r")


def csv_file(name: str, rows: Sequence[Mapping[str, Any]]) -> Response:
    """A download of records as CSV (RFC 4180): a column for every field that any of them has, a
    nested field as `window.start`, a list as JSON. A text that a spreadsheet would run as a
    formula is preceded by an apostrophe."""
    flat = [dict(_flat(row)) for row in rows]
    text = io.StringIO()
    table = csv.DictWriter(text, list(dict.fromkeys(name for row in flat for name in row)))
    table.writeheader()
    table.writerows(flat)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}.csv"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def _flat(record: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{within}{name}.")
        elif isinstance(value, list | tuple):
            yield f"{within}{name}", json.dumps(value)
        else:
            formula = isinstance(value, str) and value.startswith(_FORMULA)
            yield f"{within}{name}", f"'{value}" if formula else value


def own_path(target: str | None) -> str:
    """The page that was asked for, if it is one of ours, else the first one."""
    if target is None or not target.startswith(f"{PREFIX}/") or "\\" in target or ".." in target:
        return PREFIX
    return target if target.isprintable() and len(target) <= 512 else PREFIX


def see(path: str) -> Response:
    """After a form: look at another page."""
    return RedirectResponse(path, 303, headers=dict(HEADERS))


def add_static(router: APIRouter) -> None:
    """The files of all pages, under an address that changes with them."""

    @router.get("/static/{digest}/{name}")
    async def static(digest: str, name: str) -> Response:
        if digest != STATIC_HASH or name not in _MEDIA:
            raise NoSuchPage
        return Response(_STATIC[name], media_type=_MEDIA[name], headers=dict(_NEVER_CHANGES))
