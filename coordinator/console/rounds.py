"""Pages of rounds: what was asked, how far it is, what came out, and who could learn what.

Spec: console, sections 5.2 and 5.3.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Request, Response
from markupsafe import Markup

from common.principals import Scope
from common.store.transactions import Database
from common.web.console import charts, formatting
from common.web.console.browser_sessions import Visitor
from common.web.console.charts import Rung, ladder, promise
from common.web.console.pages import HEADERS, PagesPart, person
from common.web.dependencies import part
from common.web.limits import Wait
from common.web.paging import Page, decode_cursor, encode_cursor
from common.web.wire import etag_response
from coordinator.budget.ledger import Ledger
from coordinator.console.budget import LedgerPart
from coordinator.registry.members import Registry
from coordinator.rounds import views
from coordinator.rounds.notifications import Changes
from coordinator.rounds.progress import Received, ReceivingLooks
from coordinator.store.rounds import Filter
from coordinator.web import DatabasePart, encode
from tacit.crypto.signing import signer_of
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL, RoundState
from tacit.protocol.round.messages import Transcript
from tacit.query.functions import PRESENCE
from tacit.report.model import PrivacyReport
from tacit.report.statements import one_machine
from tacit.report.text import plain_words
from tacit.wire import encode_binary

Person = Annotated[Visitor, Depends(person(Scope.OPERATOR, Scope.ANALYST))]
ReceivingPart = Annotated[ReceivingLooks, Depends(part(ReceivingLooks))]
ChangesPart = Annotated[Changes, Depends(part(Changes))]

ROWS: Final = 50
_LOOK_S: Final = 1.0
SAID: Final = {
    "opened": "The round is open.",
    "closing": "The round freezes now.",
    "aborted": "The round was ended without a sum.",
}
"""What a page says after a form, by a key: never words from an address."""


@dataclass(frozen=True)
class Figure:
    """One number of a result: exact, and as it is shown with its error and unit."""

    name: str
    exact: str | None
    value: str
    half_width: str | None
    unit: str


@dataclass(frozen=True)
class Step:
    """A step of the timeline: `at` None where it is ahead, or its time was not kept."""

    number: int
    title: str
    at: str | None
    state: str
    detail: str


def add_rounds(router: APIRouter) -> None:
    """Add the pages that look at rounds."""

    @router.get("/rounds")
    async def listing(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        ledger: LedgerPart,
        visitor: Person,
        state: RoundState | Literal[""] = "",
        query_id: str = "",
        cursor: str | None = None,
    ) -> Response:
        which = Filter(state or None, query_id or None, newest_first=True, heads=True)
        after = None if cursor is None else decode_cursor(cursor)
        ids, shown, _ = await views.page(database, which, Page(ROWS, after))
        rows = [json.loads(each) for each in shown]
        async with database.reading() as transaction:
            charges = (await ledger.current(transaction)).spending.rounds
        older = encode_cursor(ids[-1]) if len(ids) == ROWS else None
        return pages.show(
            request,
            "rounds.html",
            visitor,
            rows=rows,
            credited={each for each in ids if (held := charges.get(each)) and held.credited},
            states=list(RoundState),
            state=state,
            query_id=query_id,
            older=older,
            newer=cursor is not None,
            said=SAID.get(request.query_params.get("said", "")),
        )

    @router.get("/rounds/{round_id}")
    async def one(
        request: Request,
        round_id: str,
        pages: PagesPart,
        database: DatabasePart,
        ledger: LedgerPart,
        receiving: ReceivingPart,
        visitor: Person,
    ) -> Response:
        held = await receiving.look(round_id) if visitor.has(Scope.OPERATOR) else None
        values = await _values(database, ledger, round_id, held)
        said = SAID.get(request.query_params.get("said", ""))
        return pages.show(request, "round.html", visitor, said=said, **values)

    @router.get("/rounds/{round_id}/live")
    async def live(
        request: Request,
        round_id: str,
        pages: PagesPart,
        database: DatabasePart,
        ledger: LedgerPart,
        changes: ChangesPart,
        receiving: ReceivingPart,
        visitor: Person,
        wait_s: Wait = 0,
    ) -> Response:
        known: tuple[Received, Response] | None = None

        async def look() -> tuple[Response, bool]:
            nonlocal known
            held = await receiving.look(round_id) if visitor.has(Scope.OPERATOR) else None
            if held is not None and known is not None and known[0] == held:
                return known[1], True  # nothing to read for the others that wait
            values = await _values(database, ledger, round_id, held)
            shown = pages.show(request, "round-live.html", visitor, **values)
            answer = etag_response(
                request,
                bytes(shown.body),
                media_type="text/html; charset=utf-8",
                headers=dict(HEADERS),
            )
            waits = answer.status_code == 304
            known = (held, answer) if waits and held is not None else None
            return answer, waits

        return await changes.poll(look, wait_s, _LOOK_S, key=round_id)

    @router.get("/rounds/{round_id}/evidence.json")
    async def evidence(
        request: Request,
        round_id: str,
        database: DatabasePart,
        registry: Annotated[Registry, Depends(part(Registry))],
        _: Person,
    ) -> Response:
        """What a browser needs to check the round; the page's script has no token for the API."""
        found = await views.result(database, round_id)
        transcript = await views.document(database, round_id, "transcript")
        signed = Transcript.model_validate_json(transcript).descriptor
        key = signer_of(DESCRIPTOR_LABEL, signed, registry.own.public_keys)
        head = {
            "round": round_id,
            "coordinator": encode_binary(key),
            "result": found["result"],
        }
        body = encode(head)[:-1] + b', "transcript": ' + transcript + b"}"
        return etag_response(request, body, headers=dict(HEADERS))

    @router.get("/rounds/{round_id}/archive.zip")
    async def archive(round_id: str, database: DatabasePart, _: Person) -> Response:
        found = await views.result(database, round_id)
        report = await views.document(database, round_id, "report")
        contents = {
            "result.json": json.dumps(found, indent=2).encode(),
            "report.json": report,
            "report.txt": plain_words(PrivacyReport.model_validate_json(report)).encode(),
            "transcript.json": await views.document(database, round_id, "transcript"),
        }
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as made:
            for name, content in contents.items():
                made.writestr(name, content)
        headers = {**HEADERS, "Content-Disposition": f'attachment; filename="round-{round_id}.zip"'}
        return Response(held.getvalue(), media_type="application/zip", headers=headers)


async def _values(
    database: Database, ledger: Ledger, round_id: str, received: Received | None = None
) -> dict[str, Any]:
    """What a round's page tells; `received`: to operators."""
    head = views.head(await views.find(database, round_id))
    descriptor = json.loads(await views.document(database, round_id, "descriptor"))["statement"]
    values: dict[str, Any] = {
        "round": head,
        "query": descriptor["query"],
        "operators": len({each["operator"] for each in descriptor["aggregators"]}),
        "one_machine": one_machine([each["url"] for each in descriptor["aggregators"]]),
        "timeline": timeline(head),
        "received": received,
        "found": None,
        "report": None,
        "rungs": (),
        "promise": promise,
    }
    if head["state"] == RoundState.ABORTED.value:
        async with database.reading() as transaction:
            held = (await ledger.current(transaction)).spending.rounds.get(round_id)
        values["credited"] = held is not None and held.credited
    if head["state"] == RoundState.RELEASED.value:
        found = await views.result(database, round_id)
        report = PrivacyReport.model_validate_json(json.dumps(found["report"]))
        rungs: tuple[Rung, ...] = ladder(report.verified, found["participants"])
        values |= {
            "found": found,
            "report": report,
            "rungs": rungs,
            "figures": figures(found),
            "picture": picture(found),
        }
    return values


def figures(found: Mapping[str, Any]) -> list[Figure]:
    """The single numbers of a result; each with the error of its own part, if it is one."""
    error = found["report"]["error"] or {}
    known = (*error.get("averages", ()), *error.get("parts", ()))
    parts = {each["part"]: each for each in known}
    shown = []
    for name, exact in found["result"].items():
        if not isinstance(exact, str) or name == "reason":
            continue
        part_of_it = parts.get(name)
        unit = found["unit"] if part_of_it is None else part_of_it["unit"]
        if name in ("count", PRESENCE):
            unit = "curators" if name == PRESENCE else "readings"
        interval = None if part_of_it is None else part_of_it["interval"]["half_width"]
        value, half_width = formatting.with_error(exact, interval)
        shown.append(Figure(name.replace("_", " "), exact, value, half_width, unit))
    return shown


def picture(found: Mapping[str, Any]) -> Markup | None:
    """Dots for a single sum or count, bars for a histogram or vector, None for the rest."""
    parts = (found["report"]["error"] or {}).get("parts", ())
    if not parts:
        return None
    first, unit = parts[0], found["unit"]
    half_width = first["interval"]["half_width"]
    exact = found["result"].get(first["part"])
    if isinstance(exact, str):
        value, error = formatting.with_error(exact, half_width)
        upper = [float(each) for each in first["quantiles"].values()]
        inside = sum(dot.inside for dot in charts.places(0.0, upper, float(half_width)))
        sentence = (
            f"{value} {unit} were released. {inside} of 40 equally likely places of the value "
            f"before noise lie within {error} {unit} of it."
        )
        return charts.dots(float(exact), upper, float(half_width), unit=unit, sentence=sentence)
    values = next((each for each in found["result"].values() if isinstance(each, list)), None)
    if values is None or not all(isinstance(each, str) for each in values):
        return None
    sentence = (
        f"{len(values)} values; noise moves each by at most {half_width} {first['unit']} in 95 of "
        "100 cases."
    )
    labels = [str(place + 1) for place in range(len(values))]
    widths = [float(half_width)] * len(values)
    return charts.bars([float(each) for each in values], widths, labels=labels, sentence=sentence)


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


def timeline(head: Mapping[str, Any]) -> list[Step]:
    """The eight steps of a round: done, ahead, or the one at which it ended."""
    at = {step["step"]: step["at"] for step in head["steps"]}
    done = set(at)
    if "verified" in done or ("frozen" in done and not head.get("refused")):
        done.add("agreed")
        at["agreed"] = at.get("verified", at.get("frozen"))
    details = _details(head)
    shown, ended = [], head["state"] == RoundState.ABORTED.value
    for number, (step, title) in enumerate(_EIGHT, 1):
        if step in done:
            shown.append(Step(number, title, at[step], "done", details.get(title, "")))
        elif ended:
            shown.append(Step(number, title, head["finished"], "ended", "not reached"))
            ended = False
        else:
            shown.append(Step(number, title, None, "ahead", ""))
    return shown


def _details(head: Mapping[str, Any]) -> dict[str, str]:
    aggregators = len(head["aggregators"])
    details = {
        "Announced": f"to {aggregators} aggregator{'s' if aggregators != 1 else ''}",
        "Frozen": "signed lists",
        "Committed": "signed hashes",
        "Revealed": "partial sums",
    }
    if head["participants"] is not None:
        details["Agreed"] = f"{head['participants']} curators in all lists"
    return details
