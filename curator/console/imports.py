"""Importing a file of readings on a page: what its columns mean, how far it is, what was wrong.

Spec: console, section 6.4. The file goes through this process into the store and nowhere else; a
browser shows its first rows by itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, get_args

from fastapi import APIRouter, Depends, Request, Response
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from starlette.responses import PlainTextResponse

from common.web.console.origin import require_own_origin, require_secret
from common.web.console.pages import HEADERS, Pages, PagesPart, person
from common.web.console.sessions import Visitor
from common.web.console.sign_in import SessionsPart
from common.web.parts import part
from common.web.problems import invalid_from
from common.web.tokens import Scope
from curator.console.given import Person
from curator.files.importing import Importer
from curator.files.multipart import form_with_file
from curator.files.options import ImportOptions
from curator.files.progress import Imports
from curator.intake.intake import Intake
from curator.settings import CuratorSettings
from tacit.errors import DomainError
from tacit.units import UNITS

Operator = Annotated[Visitor, Depends(person(Scope.OPERATOR))]
Running = Annotated[Imports, Depends(part(Imports))]

FIRST: Final = (
    *("unit", "register", "kind", "curator", "curator_column", "device_column"),
    *("time_column", "value_column", "timezone"),
)
"""What most files need; all other parameters of an import are behind a fold."""
SHOWN: Final = 20
"""Places of an import that a page lists."""


@dataclass(frozen=True)
class Field:
    """A parameter of an import: `choices` where there are few, `default` where it has one."""

    name: str
    help: str
    choices: tuple[str, ...]
    default: str

    @property
    def of_columns(self) -> bool:
        """Whether it names a column of the file."""
        return self.name.endswith("_column")


def add_imports(router: APIRouter) -> None:
    """Add the form, what it does, and how far it is meanwhile."""

    @router.get("/readings/import")
    async def empty(request: Request, pages: PagesPart, visitor: Person) -> Response:
        return _form(request, pages, visitor, {"curator": visitor.principal.subject or ""})

    @router.post("/readings/import")
    async def take(
        request: Request,
        pages: PagesPart,
        intake: Annotated[Intake, Depends(part(Intake))],
        settings: Annotated[CuratorSettings, Depends(part(CuratorSettings))],
        imports: Running,
        sessions: SessionsPart,
        visitor: Person,
    ) -> Response:
        require_own_origin(request)  # before a byte of the body is read
        given: dict[str, str] = {}
        try:
            given, chunks = await form_with_file(request)
            require_secret(visitor.csrf, given.pop("csrf", None))
            options, caller = options_of(given), visitor.principal
            importer = Importer(intake, settings, imports)
            progress = await importer.take(chunks, options, caller, xml=False)
        except DomainError as error:
            return _form(request, pages, visitor, given, error)
        await sessions.note(visitor, "imported readings", "", "done")
        outcome = progress.document()
        return pages.show(request, "imported.html", visitor, outcome=outcome, most=SHOWN)

    @router.get("/readings/imports/{import_id}/progress")
    async def progress(import_id: str, imports: Running, _: Operator) -> Response:
        """A line for the page that sends the file; empty before it has begun."""
        try:
            outcome = imports.find(import_id).document()
        except DomainError:
            return PlainTextResponse("", headers=dict(HEADERS))
        line = "{lines:,} lines read; {accepted:,} readings accepted, {rejected:,} rejected"
        return PlainTextResponse(line.format(**outcome), headers=dict(HEADERS))


def _form(
    request: Request,
    pages: Pages,
    visitor: Visitor,
    given: Mapping[str, str],
    error: DomainError | None = None,
) -> Response:
    found = fields()
    return pages.show(
        request,
        "import-readings.html",
        visitor,
        status=200 if error is None else 422,
        first=[found[name] for name in FIRST],
        others=[field for name, field in found.items() if name not in FIRST],
        given=given,
        import_id=secrets.token_urlsafe(16),
        error=error,
    )


def fields() -> dict[str, Field]:
    """The fields of the form: every parameter of an import, by its name in the API."""
    found = {}
    for attribute, info in ImportOptions.model_fields.items():
        name = info.alias or attribute
        if name != "import_id":
            found[name] = Field(name, info.description or "", _choices(name, info), _default(info))
    return found


def options_of(given: Mapping[str, str]) -> ImportOptions:
    """What a form's fields ask for; empty ones are left out. Raises Invalid."""
    stated = {name: value.strip() for name, value in given.items() if value.strip()}
    known = {name: stated[name] for name in (*fields(), "import_id") if name in stated}
    try:
        return ImportOptions.model_validate(known)
    except ValidationError as error:
        raise invalid_from(error, known) from None


def _choices(name: str, info: FieldInfo) -> tuple[str, ...]:
    if name == "unit":
        return tuple(sorted(UNITS))
    inner = (
        each for part in (info.annotation, *get_args(info.annotation)) for each in get_args(part)
    )
    return tuple(dict.fromkeys(each for each in inner if isinstance(each, str)))


def _default(info: FieldInfo) -> str:
    return "" if info.default is None else str(info.default)
