"""Pages of rounds: open one, follow it, close it early, abort it; its result and its evidence.

What cannot be undone asks on a page of its own, which states the cost. Spec: console, section 5.
"""

from __future__ import annotations

import csv
import io
import json
import secrets
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any, Final, Literal

from fastapi import Request, Response
from markupsafe import Markup

from common.bodies import parse_json
from common.store.transactions import Database
from common.web.console import charts, formatting
from common.web.console.charts import Rung, ladder, promise
from common.web.console.pages import HEADERS, console_router, see
from common.web.limits import Wait
from common.web.paging import Page, decode_cursor, encode_cursor
from common.web.wire import etag_response
from coordinator import queries
from coordinator.api import rounds as api
from coordinator.api.plans import preview_of
from coordinator.budget.ledger import Ledger
from coordinator.budget.plans import Plan
from coordinator.console.visits import NotTyped, Operator, Person
from coordinator.errors import UnknownQuery
from coordinator.rounds import progress
from coordinator.rounds.opening import OpenRequest
from coordinator.rounds.progress import Received
from coordinator.services import Services
from coordinator.store import queries as query_store
from coordinator.store.rounds import Filter
from coordinator.web import encode
from tacit.accounting.scenarios import Scenario
from tacit.answers.budget import BudgetPreview, ScenarioAmount
from tacit.answers.queries import RoundResult
from tacit.answers.rounds import RoundHead
from tacit.crypto.signing import signer_of
from tacit.errors import DomainError, FieldError, Invalid
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL
from tacit.protocol.round.messages import Transcript
from tacit.protocol.round.state import RoundState
from tacit.query.tables import TableColumn
from tacit.query.terms import PRESENCE, Coordinates, Function, PrivacyUnit
from tacit.report.figures import short
from tacit.report.model import PrivacyReport
from tacit.report.statements import one_machine
from tacit.report.tables import CellFigure, cell_figures, grid, records
from tacit.report.text import plain_words
from tacit.wire import encode_binary, format_exact, format_instant

router = console_router()


_MOST_QUERIES: Final = 500


@router.get("/rounds/new")
async def choose_query(
    visit: Operator, services: Services, query_id: str | None = None
) -> Response:
    async with services.database.reading() as transaction:
        query_rows = await query_store.page(transaction, None, _MOST_QUERIES)
    return visit.show(
        "open-round.html",
        queries=query_rows,
        chosen=query_id,
        error=None,
        given={},
    )


@router.post("/rounds/new")
async def open_round(visit: Operator, services: Services) -> Response:
    form = await visit.form()
    try:
        request = _asked(form)
        if form.get("step") == "open":
            key = visit.key(form.get("key", ""), request.canonical())
            done = await api.open_requested(services, request, key)
            round_id = json.loads(done.answer.body)["id"]
            await visit.note("opened a round", round_id)
            return see(f"/console/rounds/{round_id}?said=opened")
        async with services.database.reading() as transaction:
            row = await queries.find(transaction, request.query_id)
        plan = Plan(query_id=request.query_id, window=request.window)
        cost = await preview_of(services, plan, named=False)
    except DomainError as error:
        if isinstance(error, UnknownQuery):
            raise
        async with services.database.reading() as transaction:
            query_rows = await query_store.page(transaction, None, _MOST_QUERIES)
        return visit.show(
            "open-round.html",
            status=422,
            queries=query_rows,
            chosen=form.get("query_id"),
            error=error,
            given=form,
        )
    return visit.show(
        "open-round-confirm.html",
        row=row,
        window=request.window or row.query.window,
        given=form,
        cost=cost,
        each=cost_of_each(cost, row.query.privacy_unit),
        key=secrets.token_urlsafe(16),
    )


@router.post("/rounds/{round_id}/close")
async def close_round(visit: Operator, round_id: str, services: Services) -> Response:
    await visit.form()
    await api.close(services, round_id)
    await visit.note("closed a round early", round_id)
    return see(f"/console/rounds/{round_id}?said=closing")


@router.get("/rounds/{round_id}/abort")
async def confirm_abort(visit: Operator, round_id: str, services: Services) -> Response:
    head = progress.head(await progress.find(services.database, round_id))
    return visit.show("abort-round.html", round=head, error=None)


@router.post("/rounds/{round_id}/abort")
async def abort_round(visit: Operator, round_id: str, services: Services) -> Response:
    form = await visit.form()
    head = progress.head(await progress.find(services.database, round_id))
    if form.get("typed", "").strip() != head.query:
        wrong = NotTyped(pointer="/typed")
        return visit.show("abort-round.html", status=422, round=head, error=wrong)
    await api.abort(services, round_id)
    await visit.note("ended a round without a sum", round_id)
    return see(f"/console/rounds/{round_id}?said=aborted")


def _asked(form: Mapping[str, str]) -> OpenRequest:
    """What the form asks for. Raises Invalid with the field."""
    content: dict[str, Any] = {"query_id": form.get("query_id", "")}
    start, end = form.get("start", "").strip(), form.get("end", "").strip()
    if start or end:
        content["window"] = {"start": _utc(start), "end": _utc(end)}
    if deadline := form.get("deadline_s", "").strip():
        if not deadline.isdecimal():
            raise Invalid(errors=[FieldError("/deadline_s", "must be whole seconds")])
        content["deadline_s"] = int(deadline)
    return parse_json(json.dumps(content).encode(), OpenRequest)


def _utc(text: str) -> str:
    """A field `datetime-local`, whose label says UTC."""
    return f"{text}Z" if text and not text.endswith("Z") else text


def cost_of_each(cost: BudgetPreview, unit: PrivacyUnit) -> ScenarioAmount:
    """What each unit pays where the query's own assumption holds."""
    rows = cost.costs.record if unit is PrivacyUnit.RECORD else cost.costs.curator
    return next(row for row in rows if row.key == Scenario.ASSUMED.value)


ROWS: Final = 50
MOST_SHOWN: Final = 2_000
"""Values of a vector on a page, as a picture and as rows; the files have up to a million."""
_LOOK_S: Final = 1.0
SAID: Final = {
    "opened": "The round was opened.",
    "closing": "The freeze of the round was requested.",
    "aborted": "The round was ended without a sum.",
}
"""What a page says after a form, by the key in its address: what was done, which stays true while
the page follows the round."""


@dataclass(frozen=True)
class Figure:
    """One number of a result: exact, and as shown with its error and unit. `between`: the
    interval of a percentile in 95 of 100 cases."""

    name: str
    exact: str | None
    value: str
    half_width: str | None
    unit: str
    between: tuple[str, str] | None = None


@dataclass(frozen=True)
class Step:
    """A step of the timeline: `at` None if it is still to come, or if its time was not stored."""

    number: int
    title: str
    at: str | None
    state: str
    detail: str


@router.get("/rounds")
async def list_rounds(
    visit: Person,
    services: Services,
    state: RoundState | Literal[""] = "",
    query_id: str = "",
    search: str = "",
    cursor: str | None = None,
) -> Response:
    which = Filter(state or None, query_id or None, newest_first=True, heads=True, search=search)
    after = None if cursor is None else decode_cursor(cursor)
    rows, _ = await progress.heads(services.database, which, Page(ROWS, after))
    async with services.database.reading() as transaction:
        charges = (await services.ledger.current(transaction)).spending.rounds
    older = encode_cursor(rows[-1].id) if len(rows) == ROWS else None
    return visit.show(
        "rounds.html",
        rows=rows,
        credited={row.id for row in rows if (charge := charges.get(row.id)) and charge.credited},
        states=list(RoundState),
        state=state,
        query_id=query_id,
        search=search,
        older=older,
        newer=cursor is not None,
        said=visit.said(SAID),
    )


@router.get("/rounds/{round_id}")
async def show_round(visit: Person, round_id: str, services: Services) -> Response:
    receiving = await services.receiving_looks.look(round_id) if visit.operator else None
    values = await _values(services.database, services.ledger, round_id, receiving)
    sentence = visit.said(SAID)
    return visit.show("round.html", said=sentence, **values)


@router.get("/rounds/{round_id}/live")
async def follow_round(
    visit: Person, round_id: str, services: Services, wait_s: Wait = 0
) -> Response:
    last_answer: tuple[Received, Response] | None = None

    async def look() -> tuple[Response, bool]:
        nonlocal last_answer
        receiving = await services.receiving_looks.look(round_id) if visit.operator else None
        if receiving is not None and last_answer is not None and last_answer[0] == receiving:
            return last_answer[1], True  # nothing to read for the others that wait
        values = await _values(services.database, services.ledger, round_id, receiving)
        shown = visit.show("round-live.html", **values)
        answer = etag_response(
            visit.request,
            bytes(shown.body),
            media_type="text/html; charset=utf-8",
            headers=dict(HEADERS),
        )
        waits = answer.status_code == 304
        last_answer = (receiving, answer) if waits and receiving is not None else None
        return answer, waits

    return await services.changes.poll(look, wait_s, _LOOK_S, key=round_id)


@router.get("/rounds/{round_id}/evidence.json")
async def download_evidence(
    request: Request, round_id: str, services: Services, _: Person
) -> Response:
    """What a browser needs to check the round; the page's script has no token for the API."""
    round_result = await progress.result(services.database, round_id)
    transcript = await progress.document(services.database, round_id, "transcript")
    signed = Transcript.model_validate_json(transcript).descriptor
    key = signer_of(DESCRIPTOR_LABEL, signed, services.registry.own.public_keys)
    head = {
        "round": round_id,
        "coordinator": encode_binary(key),
        "result": round_result.result,
    }
    body = encode(head)[:-1] + b', "transcript": ' + transcript + b"}"
    return etag_response(request, body, headers=dict(HEADERS))


@router.get("/rounds/{round_id}/archive.zip")
async def download_archive(round_id: str, services: Services, _: Person) -> Response:
    round_result = await progress.result(services.database, round_id)
    report = await progress.document(services.database, round_id, "report")
    contents = {
        "result.json": json.dumps(json.loads(encode(round_result)), indent=2).encode(),
        "report.json": report,
        "report.txt": plain_words(PrivacyReport.model_validate_json(report)).encode(),
        "transcript.json": await progress.document(services.database, round_id, "transcript"),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="round-{round_id}.zip"'}
    return Response(buffer.getvalue(), media_type="application/zip", headers=headers)


@router.get("/rounds/{round_id}/result.csv")
async def download_result(round_id: str, services: Services, _: Person) -> Response:
    """Every released figure with the limits that contain it without noise in 95 of 100 cases;
    the values of slots with their times."""
    round_result = await progress.result(services.database, round_id)
    descriptor = json.loads(await progress.document(services.database, round_id, "descriptor"))
    slots = in_slots(descriptor["statement"]["query"])
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="round-{round_id}.csv"'}
    return Response(csv_text(round_result, slots=slots), media_type="text/csv", headers=headers)


def csv_text(round_result: RoundResult, *, slots: bool) -> str:
    """The rows of `download_result`."""
    error = round_result.report.error or {}
    widths = {
        part["part"]: (Fraction(part["interval"]["half_width"]), part["unit"])
        for part in (*error.get("parts", ()), *error.get("averages", ()))
    }
    start = datetime.fromisoformat(round_result.window.start)
    length = datetime.fromisoformat(round_result.window.end) - start
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    if round_result.columns is not None:
        unit = error["parts"][0]["unit"] if error else round_result.unit
        rows = records(round_result.columns, _cells(round_result, round_result.columns), unit)
        table.writerow(rows[0])
        for row in rows:
            table.writerow(
                format_exact(cell) if isinstance(cell, Fraction) else cell for cell in row.values()
            )
        return text.getvalue()
    table.writerow(["part", "index", "start", "value", "low", "high", "unit"])
    for name, listed in round_result.result.items():
        if listed is None or name == "reason":
            continue
        values = listed if isinstance(listed, list) else [listed]
        width, unit = widths.get(name, (None, round_result.unit))
        for index, value in enumerate(values):
            begins = format_instant(start + length * index / len(values)) if slots else ""
            limits = ("", "")
            if width is not None and value is not None:
                exact = Fraction(value)
                limits = format_exact(exact - width), format_exact(exact + width)
            place = str(index) if isinstance(listed, list) else ""
            table.writerow([name, place, begins, value, *limits, unit])
    return text.getvalue()


def _cells(round_result: RoundResult, columns: Sequence[TableColumn]) -> list[CellFigure]:
    cells = round_result.result["table"]
    assert isinstance(cells, list)
    return cell_figures(columns, cells, round_result.report.error)


async def _values(
    database: Database, ledger: Ledger, round_id: str, received: Received | None = None
) -> dict[str, Any]:
    """What a round's page shows; `received`: to operators."""
    head = progress.head(await progress.find(database, round_id))
    descriptor = json.loads(await progress.document(database, round_id, "descriptor"))["statement"]
    values: dict[str, Any] = {
        "round": head,
        "query": descriptor["query"],
        "operators": len({aggregator["operator"] for aggregator in descriptor["aggregators"]}),
        "one_machine": one_machine([aggregator["url"] for aggregator in descriptor["aggregators"]]),
        "timeline": timeline(head),
        "received": received,
        "found": None,
        "report": None,
        "rungs": (),
        "promise": promise,
        "exact": format_exact,
        "short": short,
        "grid": None,
    }
    if head.state is RoundState.ABORTED:
        async with database.reading() as transaction:
            charge = (await ledger.current(transaction)).spending.rounds.get(round_id)
        values["credited"] = charge is not None and charge.credited
    if head.state is RoundState.RELEASED:
        round_result = await progress.result(database, round_id)
        rungs: tuple[Rung, ...] = ladder(round_result.report.verified, round_result.participants)
        values |= {
            "found": round_result,
            "report": round_result.report,
            "rungs": rungs,
            "figures": figures(round_result),
            "grid": grid(round_result.columns, _cells(round_result, round_result.columns))
            if round_result.columns
            else None,
            "noisy": is_noisy(round_result),
            "picture": picture(round_result, descriptor["query"]),
            "most_shown": MOST_SHOWN,
        }
    return values


def figures(round_result: RoundResult) -> list[Figure]:
    """The single numbers of a result, each with the error of its own part, if it is one."""
    error = round_result.report.error or {}
    stated_errors = (*error.get("averages", ()), *error.get("parts", ()))
    parts = {stated["part"]: stated for stated in stated_errors}
    intervals = {
        stated["part"]: (stated["low"], stated["high"]) for stated in error.get("percentiles", ())
    }
    shown = []
    for name, exact in round_result.result.items():
        if not isinstance(exact, str) or name == "reason":
            continue
        if name in intervals:
            shown.append(_percentile(name, exact, intervals[name], round_result.unit))
            continue
        part_of_it = parts.get(name)
        unit = round_result.unit if part_of_it is None else part_of_it["unit"]
        if name in ("count", PRESENCE):
            unit = "curators" if name == PRESENCE else "readings"
        interval = None if part_of_it is None else part_of_it["interval"]["half_width"]
        value, half_width = formatting.with_error(exact, interval)
        shown.append(Figure(name.replace("_", " "), exact, value, half_width, unit))
    return shown


def _percentile(name: str, exact: str, interval: tuple[str, str], unit: str) -> Figure:
    low, high = map(Fraction, interval)
    value, _ = formatting.with_error(exact, format_exact((high - low) / 2))
    return Figure(name, exact, value, None, unit, interval)


def is_noisy(round_result: RoundResult) -> bool:
    """Whether the result has noise; an exact sum under a rule has none."""
    parts = (round_result.report.error or {}).get("parts", ())
    return any(Fraction(part["interval"]["half_width"]) for part in parts)


def in_slots(query: Mapping[str, Any]) -> bool:
    """Whether the values of a query's vector are those of the slots of its window."""
    if query["function"] != Function.VECTOR_SUM:
        return False
    return bool(query.get("coordinates", Coordinates.SLOTS) == Coordinates.SLOTS)


def picture(round_result: RoundResult, query: Mapping[str, Any]) -> Markup | None:
    """Dots for a single noisy sum or count, a line in a band for the slots of a window, bars for a
    histogram or another vector, None for the rest."""
    parts = (round_result.report.error or {}).get("parts", ())
    if not parts or round_result.columns is not None:
        return None
    first, unit = parts[0], round_result.unit
    half_width = first["interval"]["half_width"]
    exact = round_result.result.get(first["part"])
    if isinstance(exact, str):
        value, error = formatting.with_error(exact, half_width)
        if error is None:
            return None
        upper = [float(quantile) for quantile in first["quantiles"].values()]
        sentence = (
            f"{value} {unit} were released. The value before noise is within {error} {unit} of it "
            "in 95 of 100 cases."
        )
        return charts.dots(float(exact), upper, float(half_width), unit=unit, sentence=sentence)
    values = next(
        (figure for figure in round_result.result.values() if isinstance(figure, list)), None
    )
    if values is None or not all(isinstance(value, str) for value in values):
        return None
    if len(values) > MOST_SHOWN:
        return None
    amount = half_width if first["unit"] == "1" else f"{half_width} {first['unit']}"
    sentence = f"{len(values)} values; noise moves each by at most {amount} in 95 of 100 cases."
    if not is_noisy(round_result):
        sentence = f"{len(values)} values, without noise."
    if in_slots(query):
        return charts.band(
            [float(value) for value in values],
            float(half_width),
            start=datetime.fromisoformat(round_result.window.start),
            end=datetime.fromisoformat(round_result.window.end),
            unit=first["unit"],
            sentence=sentence,
        )
    edges = query.get("edges") or range(1, len(values) + 1)
    labels = [str(edge) for edge in edges[: len(values)]]
    widths = [float(half_width)] * len(values)
    return charts.bars([float(value) for value in values], widths, labels=labels, sentence=sentence)


_EIGHT: Final = (
    ("opened", "Opened"),
    ("announced", "Announced"),
    ("frozen", "Collected"),
    ("frozen", "Frozen"),
    ("agreed", "Agreed"),
    ("committed", "Committed"),
    ("released", "Revealed"),
    ("released", "Released"),
)


def timeline(head: RoundHead) -> list[Step]:
    """The eight steps of a round: done, not yet reached, or the one at which it ended."""
    at = {step.step: step.at for step in head.steps}
    done = set(at)
    if "verified" in done or ("frozen" in done and not head.refused):
        done.add("agreed")
        at["agreed"] = at.get("verified", at.get("frozen"))
    details = _details(head)
    shown, ended = [], head.state is RoundState.ABORTED
    for number, (step, title) in enumerate(_EIGHT, 1):
        if step in done:
            shown.append(Step(number, title, at[step], "done", details.get(title, "")))
        elif ended:
            shown.append(Step(number, title, head.finished, "ended", "not reached"))
            ended = False
        else:
            shown.append(Step(number, title, None, "ahead", ""))
    return shown


def _details(head: RoundHead) -> dict[str, str]:
    aggregators = len(head.aggregators)
    details = {
        "Announced": f"to {aggregators} aggregator{'s' if aggregators != 1 else ''}",
        "Frozen": "signed lists",
        "Committed": "signed hashes",
        "Revealed": "partial sums",
    }
    if head.participants is not None:
        details["Agreed"] = f"{head.participants} curators in all lists"
    return details
