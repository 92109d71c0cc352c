"""Starting a job on pages: an algorithm's schema makes the form, and the price comes before.

The state lies in the form alone. Spec: console, section 5.8.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from algorithms import catalogue
from common.bodies import parse_json
from common.store.transactions import Database
from common.web import idempotency
from common.web.console.browser_sessions import Visitor
from common.web.console.pages import Pages, PagesPart, own_form, see
from common.web.console.sign_in import SessionsPart
from coordinator.console.jobs import JobsPart
from coordinator.console.ledger import Operator
from coordinator.errors import UnverifiedNotAcknowledged
from coordinator.jobs import routes, views
from coordinator.models.job import JobRequest
from coordinator.store import datasets as dataset_store
from coordinator.web import ClockPart, DatabasePart
from tacit.errors import DomainError, FieldError, Invalid

PARAM: Final = "p-"
"""What the names of a parameter's fields begin with."""
_MOST_DATASETS: Final = 500
_JSON: Final = {"array": list, "object": dict, "boolean": bool, "integer": int, "null": type(None)}


@dataclass(frozen=True)
class Field:
    """A parameter's field: `types` of JSON that it may have, `choices` where they are few."""

    name: str
    help: str
    types: frozenset[str]
    choices: tuple[str, ...]
    required: bool
    default: str


def add_job_form(router: APIRouter) -> None:
    """Add the form and what it does."""

    @router.get("/jobs/new")
    async def empty(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        visitor: Operator,
        algorithm: str = "",
        dataset: str = "",
        like: str = "",
    ) -> Response:
        given = {"algorithm": algorithm, "dataset": dataset}
        if like:
            given = await _like(database, like)
        return await _form(request, pages, database, visitor, given)

    @router.post("/jobs/new")
    async def go(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        clock: ClockPart,
        jobs: JobsPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        try:
            asked = await asyncio.to_thread(request_of, form)
            if form.get("go") == "start":
                key = idempotency.form_key(
                    visitor.principal.token_id,
                    request.url.path,
                    form.get("key", ""),
                    asked.canonical(),
                )
                answer, _ = await routes.submit(database, jobs, clock.now(), asked, key)
                job_id = json.loads(answer.body)["id"]
                await sessions.note(visitor, "started a job", job_id, "done")
                return see(f"/console/jobs/{job_id}?said=asked")
            prepared = await jobs.submission.prepare(asked)
        except DomainError as error:
            return await _form(request, pages, database, visitor, form, error)
        return pages.show(
            request,
            "job-confirm.html",
            visitor,
            asked=asked,
            given={name: value for name, value in form.items() if name not in ("csrf", "go")},
            charge=views.price_shown(prepared.price),
            report=prepared.report,
            key=secrets.token_urlsafe(16),
            body=json.dumps(asked.model_dump(mode="json", exclude_none=True), indent=2),
        )


async def _form(
    request: Request,
    pages: Pages,
    database: Database,
    visitor: Visitor,
    given: Mapping[str, str],
    error: DomainError | None = None,
) -> Response:
    name = given.get("algorithm", "")
    shown = None
    if name in catalogue.NAMES:
        shown = await asyncio.to_thread(catalogue.shown, name)
    async with database.reading() as transaction:
        kind = None if shown is None else shown["dataset_kind"]
        datasets = await dataset_store.page(transaction, None, _MOST_DATASETS, kind)
    return pages.show(
        request,
        "job-form.html",
        visitor,
        status=200 if error is None else 422,
        names=catalogue.NAMES,
        algorithm=shown,
        fields=[] if shown is None else fields(shown["parameters"]),
        datasets=datasets,
        given=given,
        param=PARAM,
        error=error,
        unverified=isinstance(error, UnverifiedNotAcknowledged) or "acknowledge" in given,
    )


async def _like(database: Database, job_id: str) -> dict[str, str]:
    """The fields of a job, to be changed."""
    row = await views.find(database, job_id, operator=True)
    params = json.loads(row.params)
    found = {
        "algorithm": row.algorithm,
        "dataset": row.dataset_id or "",
        "federation": row.federation or "",
        "stance": row.stance,
    }
    return found | {f"{PARAM}{name}": _written(value) for name, value in params.items()}


def fields(schema: Mapping[str, Any]) -> list[Field]:
    """The fields of an algorithm's parameters, those that must be given first."""
    required = set(schema.get("required", ()))
    found = [
        Field(
            name=name,
            help=each.get("description", ""),
            types=frozenset(_types(each, schema)),
            choices=tuple(_choices(each, schema)),
            required=name in required,
            default=_written(each["default"]) if each.get("default") is not None else "",
        )
        for name, each in schema["properties"].items()
    ]
    return sorted(found, key=lambda field: not field.required)


def request_of(form: Mapping[str, str]) -> JobRequest:
    """The job that a form asks for. Raises Invalid with the field."""
    name = form.get("algorithm", "")
    schema = catalogue.shown(name)["parameters"] if name in catalogue.NAMES else {"properties": {}}
    params = {
        field.name: _read(field, text)
        for field in fields(schema)
        if (text := form.get(f"{PARAM}{field.name}", "").strip())
    }
    body: dict[str, Any] = {"algorithm": name, "params": params}
    for each in ("dataset", "stance"):
        if given := form.get(each, "").strip():
            body[each] = given
    if federation := form.get("federation", "").strip():
        body["federation"] = _json(federation, "/federation")
    if seed := form.get("seed", "").strip():
        body["seed"] = _json(seed, "/seed")
    if form.get("acknowledge"):
        body["acknowledge_unverified"] = True
    return parse_json(json.dumps(body).encode(), JobRequest)


def _read(field: Field, text: str) -> Any:
    """What a text means for a field: JSON of one of its types, else plain text if it may be."""
    if field.types <= {"string", "null"}:
        return text
    try:
        value = _json(text, f"/params/{field.name}")
    except Invalid:
        if "string" in field.types:
            return text
        raise
    if "string" in field.types and not _fits(value, field.types - {"string"}):
        return text
    return value


def _fits(value: Any, types: frozenset[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in types
    if isinstance(value, int | float):
        return "number" in types or (isinstance(value, int) and "integer" in types)
    return any(isinstance(value, kind) for name, kind in _JSON.items() if name in types)


def _json(text: str, pointer: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        problem = "is neither a number nor JSON that is read here"
        raise Invalid(problem, errors=(FieldError(pointer, problem),)) from None


def _written(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _types(each: Mapping[str, Any], schema: Mapping[str, Any]) -> set[str]:
    found = {each["type"]} if isinstance(each.get("type"), str) else set()
    for inner in (*each.get("anyOf", ()), *each.get("allOf", ()), *each.get("oneOf", ())):
        found |= _types(inner, schema)
    if "$ref" in each:
        found |= _types(_resolved(each, schema), schema)
    if "const" in each or "enum" in each:
        found.add("string")
    return found


def _choices(each: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """The texts of a field that has nothing but a few; none for any other field."""
    if "$ref" in each:
        return _choices(_resolved(each, schema), schema)
    if "anyOf" in each:
        parts = [part for part in each["anyOf"] if part.get("type") != "null"]
        return _choices(parts[0], schema) if len(parts) == 1 else []
    if each.get("type") == "boolean":
        return ["true", "false"]
    found = each.get("enum", [each["const"]] if "const" in each else [])
    return list(found) if all(isinstance(value, str) for value in found) else []


def _resolved(each: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema["$defs"][each["$ref"].rpartition("/")[2]]
    return found
