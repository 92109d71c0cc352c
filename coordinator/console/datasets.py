"""Pages of datasets: what is kept, of what is left of its budget, handing one in, deleting one.

No page shows a row. Spec: console, section 5.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from fastapi import Response
from markupsafe import Markup

from algorithms.datasets.declaration import DatasetRequest
from algorithms.datasets.kinds import KINDS
from common.web.console import charts
from common.web.console.browser_sessions import require_own_origin, require_secret
from common.web.console.pages import console_router, see
from common.web.idempotency import RequestKey
from common.web.problems import status_of
from coordinator.api.datasets import HandIn, shown
from coordinator.console.visits import NotTyped, Operator, Visit
from coordinator.datasets import ledger
from coordinator.datasets.upload import Checked
from coordinator.jobs import results
from coordinator.services import CoordinatorServices, Services
from coordinator.store import datasets as store
from coordinator.store import jobs as job_store
from coordinator.store.jobs import Filter
from tacit.answers.datasets import Amount, Dataset, DatasetEvent
from tacit.errors import DomainError

router = console_router()


ROWS: Final = 50
UNITS: Final = sorted(
    {unit for kind in KINDS.values() for unit in (kind.default_privacy_unit, *kind.units) if unit}
)
"""Those of all kinds; which a kind has is checked when a dataset of it comes."""
SAID: Final = {"kept": "It is kept.", "deleted": "It is deleted; its ledger stays."}
_DATASET_ID: Final = re.compile(r"[0-9a-f-]{36}")
_TEXTS: Final = ("name", "kind", "format", "privacy_unit", "purpose", "revision_of")


@router.get("/datasets/{dataset_id}")
async def show_dataset(visit: Operator, dataset_id: str, services: Services) -> Response:
    values = await _values(services, dataset_id)
    spent = values["ledger"]
    return visit.show(
        "dataset.html",
        picture=burn_down(spent.budget, spent.events, services.clock.now()),
        said=visit.said(SAID),
        **values,
    )


@router.get("/datasets/{dataset_id}/delete")
async def confirm_deletion(visit: Operator, dataset_id: str, services: Services) -> Response:
    values = await _values(services, dataset_id)
    return visit.show("delete-dataset.html", error=None, **values)


@router.post("/datasets/{dataset_id}/delete")
async def delete_dataset(visit: Operator, dataset_id: str, services: Services) -> Response:
    form = await visit.form()
    values = await _values(services, dataset_id)
    error: DomainError | None = None
    if form.get("typed", "").strip() != values["dataset"].name.strip():
        error = NotTyped(pointer="/typed")
    else:
        try:
            await services.datasets.delete(dataset_id)
        except DomainError as refused:
            error = refused
    if error is not None:
        return visit.show("delete-dataset.html", status=422, error=error, **values)
    await visit.note("deleted a dataset", dataset_id)
    return see("/console/datasets?said=deleted")


@router.get("/datasets")
async def list_datasets(visit: Operator, services: Services, after: str | None = None) -> Response:
    return await _list(visit, services, after)


@router.post("/datasets")
async def upload_dataset(visit: Operator, services: Services) -> Response:
    require_own_origin(visit.request)  # before a byte of the body is read
    form_values: dict[str, Any] = {}

    def read(fields: dict[str, Any]) -> dict[str, Any]:
        require_secret(visit.visitor.csrf, fields.pop("csrf", None))
        form_values.update(fields)
        return declared(fields)

    async def key_of(dataset_request: DatasetRequest, checked: Checked) -> RequestKey | None:
        digest = hashlib.sha256(dataset_request.canonical() + checked.digest).digest()
        return visit.key(str(form_values.get("key", "")), digest)

    try:
        answer, _ = await HandIn(services.datasets, services.settings).take(
            visit.request, services.clock.now(), key_of, read
        )
    except DomainError as error:
        return await _list(
            visit,
            services,
            None,
            error=error,
            given=form_values,
        )
    dataset_id = json.loads(answer.body)["id"]
    await visit.note("uploaded a dataset", dataset_id)
    return see(f"/console/datasets/{dataset_id}?said=kept")


async def _list(
    visit: Visit,
    services: CoordinatorServices,
    after: str | None,
    *,
    error: DomainError | None = None,
    given: Mapping[str, Any] | None = None,
) -> Response:
    async with services.database.reading() as transaction:
        dataset_rows = await store.page(transaction, after, ROWS)
        rows = [await shown(transaction, row) for row in dataset_rows]
        jobs = await job_store.count_by_dataset(transaction, [row.id for row in dataset_rows])
    return visit.show(
        "datasets.html",
        status=200 if error is None else status_of(error),
        rows=rows,
        jobs=jobs,
        after=after,
        more=dataset_rows[-1].id if len(dataset_rows) == ROWS else None,
        kinds=KINDS,
        units=UNITS,
        accepted=services.settings.stored_datasets,
        share=share,
        given=given or {},
        key=secrets.token_urlsafe(16),
        error=error,
        said=visit.said(SAID),
    )


def declared(fields: Mapping[str, str]) -> dict[str, Any]:
    """What the fields of the page's form declare; empty ones are omitted."""
    texts = {name: value.strip() for name, value in fields.items() if value.strip()}
    declaration: dict[str, Any] = {name: texts[name] for name in _TEXTS if name in texts}
    roles = {name: texts[name] for name in ("label", "curator") if name in texts}
    if roles:
        declaration["roles"] = roles
    if "items" in texts:  # one a line, where the API's form has JSON
        items = texts["items"].replace("\r\n", "\n").split("\n")
        reference = len(items) == 1 and _DATASET_ID.fullmatch(items[0])
        declaration["universe"] = {"dataset": items[0]} if reference else items
    if "budget_epsilon" in texts:
        declaration["budget"] = {
            "epsilon": texts["budget_epsilon"],
            "delta": texts.get("budget_delta", "0"),
        }
    return declaration


async def _values(services: CoordinatorServices, dataset_id: str) -> dict[str, Any]:
    """What a dataset's page shows. Raises UnknownDataset."""
    now = services.clock.now()
    async with services.database.reading() as transaction:
        row = await services.datasets.find(transaction, dataset_id)
        dataset = await shown(transaction, row)
        spent = await ledger.statement(transaction, dataset_id)
        jobs = await job_store.page(transaction, Filter(dataset_id=dataset_id), None, ROWS)
    return {
        "dataset": dataset,
        "ledger": spent,
        "jobs": [results.timed(job, now) for job in jobs],
        "share": share,
    }


def share(dataset: Dataset) -> int | None:
    """How much of 100 of its epsilon is spent, rounded up; None without a budget."""
    budget, remaining = dataset.budget, dataset.left
    if budget is None or remaining is None or not Fraction(budget.epsilon):
        return None
    return 100 - int(100 * Fraction(remaining.epsilon) / Fraction(budget.epsilon))


def burn_down(
    budget: Amount | None, events: Sequence[DatasetEvent], now: datetime
) -> Markup | None:
    """What was left of a dataset's epsilon after each charge; None if there was no charge."""
    charges = [event for event in events if event.kind == "charged"]
    if budget is None or not charges or not Fraction(budget.epsilon):
        return None
    most = remaining = Fraction(budget.epsilon)
    points = [(datetime.fromisoformat(events[0].time), float(remaining))]
    for event in charges:
        remaining -= Fraction(event.epsilon or 0)
        points.append((datetime.fromisoformat(event.time), float(max(remaining, Fraction(0)))))
    points.append((max(now, points[-1][0]), points[-1][1]))
    count = "1 charge" if len(charges) == 1 else f"{len(charges)} charges"
    sentence = (
        f"After {count}, epsilon {float(remaining):.6g} of {budget.epsilon} is not charged; what "
        "jobs have reserved is not taken off here."
    )
    ends = points[-1][0] + timedelta(minutes=1)
    return charts.burn_down(
        points, [], most=float(most), ends=ends, used_up=False, sentence=sentence
    )
