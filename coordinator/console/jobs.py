"""Pages of jobs: the form that starts one, the list, one job with its result, results compared.

The form is made from the algorithm's schema, keeps its state in its own fields, and shows the price
before the job starts. An analyst sees jobs that succeeded, without their times; only an operator
sees the comparison with the true data. Spec: console, section 5.
"""

from __future__ import annotations

import asyncio
import csv
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Annotated, Any, Final

from fastapi import Query as Parameter
from fastapi import Response
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from algorithms import catalogue
from algorithms.drawing import can_draw
from common.bodies import parse_json
from common.store.transactions import Database
from common.web.console import formatting
from common.web.console.pages import HEADERS, console_router, see
from common.web.limits import Wait
from coordinator.api import jobs as api
from coordinator.api.job_schedules import listed
from coordinator.api.jobs import submit
from coordinator.console.visits import Operator, Person, Visit
from coordinator.errors import UnknownSchedule, UnverifiedNotAcknowledged
from coordinator.jobs import results
from coordinator.jobs.pictures import KINDS
from coordinator.jobs.results import compared
from coordinator.models.job import FINISHED, JobRequest, JobState
from coordinator.services import CoordinatorServices, Services
from coordinator.store import datasets as dataset_store
from coordinator.store import jobs as job_schedules
from coordinator.store import jobs as store
from coordinator.store.jobs import Filter, JobRow
from tacit.errors import DomainError, FieldError, Invalid
from tacit.records.text_files import cell_value
from tacit.report.model import PrivacyReport
from tacit.report.text import forecast_of_a_job

router = console_router()


PARAM: Final = "p-"
"""What the names of a parameter's fields begin with."""
_MOST_DATASETS: Final = 500
_JSON: Final = {"array": list, "object": dict, "boolean": bool, "integer": int, "null": type(None)}


@dataclass(frozen=True)
class Field:
    """A parameter's field: the JSON `types` that it accepts, and its `choices` if they are few."""

    name: str
    help: str
    types: frozenset[str]
    choices: tuple[str, ...]
    required: bool
    default: str


@router.get("/jobs/new")
async def show_job_form(
    visit: Operator, services: Services, algorithm: str = "", dataset: str = "", like: str = ""
) -> Response:
    form_values = {"algorithm": algorithm, "dataset": dataset}
    if like:
        form_values = await _like(services.database, like)
    return await _form(visit, services, form_values)


@router.post("/jobs/new")
async def start_job(visit: Operator, services: Services) -> Response:
    form = await visit.form()
    try:
        request = await asyncio.to_thread(request_of, form)
        if form.get("go") == "start":
            key = visit.key(
                form.get("key", ""),
                request.canonical(),
            )
            answer, _ = await submit(services, request, key)
            job_id = json.loads(answer.body)["id"]
            await visit.note("started a job", job_id)
            return see(f"/console/jobs/{job_id}?said=asked")
        prepared = await services.jobs.submission.prepare(request)
    except DomainError as error:
        return await _form(visit, services, form, error)
    return visit.show(
        "job-confirm.html",
        asked=request,
        given={name: value for name, value in form.items() if name not in ("csrf", "go")},
        charge=results.price_shown(prepared.price),
        report=prepared.report,
        forecast=forecast_of_a_job(prepared.report.error),
        key=secrets.token_urlsafe(16),
        body=json.dumps(request.model_dump(mode="json", exclude_none=True), indent=2),
    )


async def _form(
    visit: Visit,
    services: CoordinatorServices,
    form_values: Mapping[str, str],
    error: DomainError | None = None,
) -> Response:
    name = form_values.get("algorithm", "")
    shown = None
    if name in catalogue.NAMES:
        shown = await asyncio.to_thread(catalogue.shown, name)
    async with services.database.reading() as transaction:
        kind = None if shown is None else shown["dataset_kind"]
        datasets = await dataset_store.page(transaction, None, _MOST_DATASETS, kind)
    return visit.show(
        "job-form.html",
        status=200 if error is None else 422,
        names=catalogue.NAMES,
        algorithm=shown,
        fields=[] if shown is None else fields(shown["parameters"]),
        datasets=datasets,
        given=form_values,
        param=PARAM,
        error=error,
        unverified=isinstance(error, UnverifiedNotAcknowledged) or "acknowledge" in form_values,
    )


async def _like(database: Database, job_id: str) -> dict[str, str]:
    """The fields of a job, to be changed."""
    row = await results.find(database, job_id, operator=True)
    params = json.loads(row.params)
    values = {
        "algorithm": row.algorithm,
        "dataset": row.dataset_id or "",
        "federation": row.federation or "",
        "stance": row.stance,
    }
    return values | {f"{PARAM}{name}": _written(value) for name, value in params.items()}


def fields(schema: Mapping[str, Any]) -> list[Field]:
    """The fields of an algorithm's parameters, the required ones first."""
    required = set(schema.get("required", ()))
    form_fields = [
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
    return sorted(form_fields, key=lambda field: not field.required)


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
    """The meaning of a text for a field: JSON of one of its types, else plain text if that is
    allowed."""
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


def _types(field_schema: Mapping[str, Any], schema: Mapping[str, Any]) -> set[str]:
    found = {field_schema["type"]} if isinstance(field_schema.get("type"), str) else set()
    for inner in (
        *field_schema.get("anyOf", ()),
        *field_schema.get("allOf", ()),
        *field_schema.get("oneOf", ()),
    ):
        found |= _types(inner, schema)
    if "$ref" in field_schema:
        found |= _types(_resolved(field_schema, schema), schema)
    if "const" in field_schema or "enum" in field_schema:
        found.add("string")
    return found


def _choices(field_schema: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """The accepted texts of a field that accepts only a few; empty for any other field."""
    if "$ref" in field_schema:
        return _choices(_resolved(field_schema, schema), schema)
    if "anyOf" in field_schema:
        parts = [part for part in field_schema["anyOf"] if part.get("type") != "null"]
        choices_of_parts = [_choices(part, schema) for part in parts]
        return [*chain.from_iterable(choices_of_parts)] if all(choices_of_parts) else []
    if field_schema.get("type") == "boolean":
        return ["true", "false"]
    found = field_schema.get("enum", [field_schema["const"]] if "const" in field_schema else [])
    return list(found) if all(isinstance(value, str) for value in found) else []


def _resolved(field_schema: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema["$defs"][field_schema["$ref"].rpartition("/")[2]]
    return found


Ids = Annotated[list[str] | None, Parameter(max_length=8)]

ROWS: Final = 50
_LOOK_S: Final = 1.0
_SHORT: Final = 400
ROWS_OF_TABLE: Final = 10
SAID: Final = {
    "asked": "The job was queued.",
    "cancelled": "The end of the job was requested.",
    "stopped": "No further period is asked for.",
}


@router.get("/jobs")
async def list_jobs(
    visit: Person,
    services: Services,
    state: str = "",
    search: str = "",
    before: str | None = None,
) -> Response:
    operator = visit.operator
    states = tuple(member for member in JobState if member.value == state)
    which = Filter(states if operator else (JobState.SUCCEEDED,), search=search)
    async with services.database.reading() as transaction:
        job_rows = await store.page(transaction, which, before, ROWS)
        schedules = await listed(transaction, None, ROWS) if operator else []
    now = services.clock.now()
    return visit.show(
        "jobs.html",
        rows=[results.timed(row, now) if operator else results.published(row) for row in job_rows],
        states=[member.value for member in JobState] if operator else [],
        state=state,
        search=search,
        older=job_rows[-1].id if len(job_rows) == ROWS else None,
        before=before,
        schedules=schedules,
        error=None,
        said=visit.said(SAID),
    )


@router.post("/job-schedules/{schedule_id}/stop")
async def stop_schedule(visit: Operator, schedule_id: str, services: Services) -> Response:
    await visit.form()
    async with services.database.begin() as transaction:
        if await job_schedules.find_schedule(transaction, schedule_id) is None:
            raise UnknownSchedule
        await job_schedules.stop_schedule(transaction, schedule_id, services.clock.now())
    await visit.note("stopped a job schedule", schedule_id)
    return see("/console/jobs?said=stopped")


@router.get("/jobs/compare")
async def compare_jobs(visit: Person, services: Services, ids: Ids = None) -> Response:
    chosen = [name for group in ids or () for name in group.split(",")]
    comparison = await compared(
        services.database, services.jobs.results, chosen, operator=visit.operator
    )
    return visit.show("compare-jobs.html", found=comparison, text=text)


@router.get("/jobs/{job_id}")
async def show_job(visit: Person, job_id: str, services: Services) -> Response:
    row = await results.find(services.database, job_id, operator=visit.operator)
    values = await _values(services, row, operator=visit.operator)
    return visit.show("job.html", said=visit.said(SAID), **values)


@router.get("/jobs/{job_id}/live")
async def follow_job(visit: Person, job_id: str, services: Services, wait_s: Wait = 0) -> Response:
    async def values() -> dict[str, Any]:
        row = await results.find(services.database, job_id, operator=visit.operator)
        return await _values(services, row, operator=visit.operator)

    return await visit.pages.live(
        visit.request,
        "job-live.html",
        visit.visitor,
        values,
        wait_s,
        _LOOK_S,
        services.jobs.changes,
    )


@router.post("/jobs/{job_id}/cancel")
async def cancel_job(visit: Operator, job_id: str, services: Services) -> Response:
    await visit.form()
    await api.cancel(services, job_id)
    await visit.note("cancelled a job", job_id)
    return see(f"/console/jobs/{job_id}?said=cancelled")


@router.get("/jobs/{job_id}/plots/{name}")
async def show_plot(visit: Person, job_id: str, name: str, services: Services) -> Response:
    await results.succeeded(services.database, job_id, operator=visit.operator)
    path = await services.jobs.pictures.path(job_id, name)
    return FileResponse(path, media_type=KINDS[path.suffix], headers=dict(HEADERS))


@router.get("/jobs/{job_id}/files/{name}")
async def show_file(visit: Person, job_id: str, name: str, services: Services) -> Response:
    await results.succeeded(services.database, job_id, operator=visit.operator)
    path = await asyncio.to_thread(services.jobs.results.path, job_id, f"files/{name}")
    return FileResponse(
        path, media_type="application/octet-stream", filename=name, headers=dict(HEADERS)
    )


@router.get("/jobs/{job_id}/archive.zip")
async def download_archive(visit: Person, job_id: str, services: Services) -> Response:
    await results.succeeded(services.database, job_id, operator=visit.operator)
    path = await asyncio.to_thread(services.jobs.results.archive, job_id)
    return FileResponse(
        path,
        media_type="application/zip",
        filename=f"{job_id}.zip",
        headers=dict(HEADERS),
        background=BackgroundTask(path.unlink, missing_ok=True),
    )


@router.get("/jobs/{job_id}/evaluation.json")
async def download_evaluation(visit: Operator, job_id: str, services: Services) -> Response:
    await results.succeeded(services.database, job_id, operator=visit.operator)
    body = await asyncio.to_thread(services.jobs.results.evaluation, job_id)
    headers = {
        **HEADERS,
        "Content-Disposition": f'attachment; filename="private-{job_id}.json"',
    }
    return Response(body, media_type="application/json", headers=headers)


async def _values(services: CoordinatorServices, row: JobRow, *, operator: bool) -> dict[str, Any]:
    """What a job's page shows."""
    stored = services.jobs.results
    values: dict[str, Any] = {
        "job": results.timed(row, services.clock.now()) if operator else results.published(row),
        "finished": row.state in FINISHED,
        "operator": operator,
        "failure": failure(row.error) if operator else None,
        "result": None,
        "table": None,
        "report": PrivacyReport.model_validate_json(row.preview) if operator else None,
        "text": text,
    }
    if row.state is JobState.SUCCEEDED:
        document = await asyncio.to_thread(stored.document, row.id)
        report_path = await asyncio.to_thread(stored.path, row.id, "report.json")
        content = await asyncio.to_thread(report_path.read_bytes)
        values |= {
            "result": document,
            "can_draw": can_draw(),
            "report": PrivacyReport.model_validate_json(content),
            "table": await asyncio.to_thread(table, stored, document),
        }
    report = values["report"]
    return values | {"forecast": [] if report is None else forecast_of_a_job(report.error)}


@dataclass(frozen=True)
class Table:
    """The first rows of a result's table, as shown; `more`: whether there are others."""

    file: str
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    more: bool


def table(stored: results.Results, result: Mapping[str, Any]) -> Table | None:
    """The first table of a result; None where it has none."""
    csv_files = (file["name"] for file in result["files"] if file["media_type"] == "text/csv")
    name = next(csv_files, None)
    if name is None:
        return None
    with stored.path(result["job"], f"files/{name}").open(encoding="utf-8", newline="") as lines:
        head, *rows = islice(csv.reader(lines), ROWS_OF_TABLE + 2)
    shown = [[cell_value(cell) for cell in row] for row in rows[:ROWS_OF_TABLE]]
    return Table(
        name,
        tuple(head),
        tuple(all(not isinstance(row[at], str) for row in shown) for at in range(len(head))),
        tuple(tuple(formatting.figure(cell) for cell in row) for row in shown),
        len(rows) > ROWS_OF_TABLE,
    )


@dataclass(frozen=True)
class Failure:
    """Why a job failed: a problem as its worker reported it; every member may be missing."""

    title: str
    detail: str
    faults: tuple[tuple[str, str], ...]
    retryable: bool


def failure(error: str | None) -> Failure | None:
    """The failure of a job's stored problem."""
    problem = None if error is None else json.loads(error)
    if not isinstance(problem, dict):
        return None
    title, detail, listed = (problem.get(name) for name in ("title", "detail", "errors"))
    found = (
        [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    )
    faults = [(str(entry.get("pointer", "")), str(entry.get("detail", ""))) for entry in found]
    return Failure(
        title=str(title or "It failed"),
        detail=str(detail) if detail and detail != title else "",
        faults=tuple(faults),
        retryable=problem.get("retryable") is True,
    )


def text(value: Any) -> str | None:
    """A value of a result as one line, numbers to four digits; None for a nested or long value,
    which is in the result's files."""
    if isinstance(value, list):
        nested = any(isinstance(item, Mapping | list) for item in value)
        return None if nested or not value else _short(", ".join(map(formatting.figure, value)))
    if isinstance(value, Mapping):
        parts = [(name, text(part)) for name, part in value.items() if part is not None]
        return _short("; ".join(f"{name.replace('_', ' ')} {part}" for name, part in parts if part))
    if value is None or isinstance(value, bool):
        return {None: None, True: "yes", False: "no"}[value]
    return _short(formatting.figure(value))


def _short(line: str) -> str | None:
    return line if 0 < len(line) <= _SHORT else None
