"""Routes of datasets: uploading, listing, the ledger of each, deleting.

`HandIn` takes a dataset from the API or a page: it is received, checked and kept, or nothing is.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypeAlias

from fastapi import Query as Parameter
from fastapi import Response
from starlette.requests import Request
from starlette.types import Message

from algorithms.datasets.declaration import DatasetRequest
from common.bodies import JSON
from common.store.transactions import Transaction
from common.web import idempotency
from common.web.idempotency import RequestKey, StoredAnswer
from common.web.openapi import api_router, body, described, gives
from common.web.paging import PageQuery
from coordinator import examples
from coordinator.datasets import ledger
from coordinator.datasets.datasets import Datasets
from coordinator.datasets.upload import FORM, Checked, Fields, InlineDataset, as_it_is, receive
from coordinator.errors import DatasetsRefused
from coordinator.services import Services
from coordinator.settings import CoordinatorSettings
from coordinator.store import datasets as store
from coordinator.store.datasets import DatasetRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import Operator, encode, link_next
from tacit.answers.datasets import Dataset, DatasetLedger, ListOfDatasets
from tacit.wire import format_instant

router = api_router()

KeyOf: TypeAlias = Callable[[DatasetRequest, Checked], Awaitable[RequestKey | None]]


@dataclass(frozen=True)
class HandIn:
    """Takes uploaded datasets."""

    datasets: Datasets
    settings: CoordinatorSettings

    async def take(
        self,
        request: Request,
        now: datetime,
        key_of: KeyOf,
        read: Callable[[Fields], Fields] = as_it_is,
    ) -> tuple[StoredAnswer, bool]:
        """Store the content of a request, once for each idempotency key; the answer, and whether
        it was stored before. `read`: see `upload.receive`. Raises DatasetsRefused, and what the
        checks raise."""
        if not self.settings.stored_datasets:
            raise DatasetsRefused
        datasets, is_kept = self.datasets, False
        dataset_id = datasets.new_id()
        try:
            await datasets.renew_key()
            received = await receive(request, datasets.vault, dataset_id, self.settings, read)
            checked = await datasets.check(dataset_id, received.request, set(received.sent))
            key = await key_of(received.request, checked)
            async with datasets.database.begin() as transaction:
                if stored := await idempotency.recall(transaction, idempotency_keys, key):
                    return stored, True
                row = await datasets.add(transaction, dataset_id, received.request, checked)
                answer = StoredAnswer(
                    201,
                    encode(await shown(transaction, row)),
                    location=f"/v1/datasets/{row.id}",
                )
                await idempotency.remember(transaction, idempotency_keys, key, answer, now)
            is_kept = True
            return answer, False
        finally:
            if not is_kept:
                await asyncio.to_thread(datasets.vault.remove, dataset_id)


async def shown(transaction: Transaction, row: DatasetRow) -> Dataset:
    """A dataset as the API shows it: schema, row count and budget, none of its rows."""
    spent = await ledger.statement(transaction, row.id)
    return Dataset(
        id=row.id,
        name=row.name,
        kind=row.kind,
        format=row.declaration.format,
        roles=row.declaration.roles.model_dump(),
        privacy_unit=row.privacy_unit,
        purpose=row.purpose,
        revision_of=row.revision_of,
        bytes=row.bytes,
        schema=row.outline,
        created=format_instant(row.created),
        ledger=spent.ledger,
        budget=spent.budget,
        reserved=spent.reserved,
        charged=spent.charged,
        left=spent.left,
        lifetime=spent.lifetime,
        released_outside_budget=spent.released_outside_budget,
    )


Kind = Annotated[str | None, Parameter(max_length=40, description="Only datasets of this kind.")]


@router.post(
    "/v1/datasets",
    **gives(Dataset, 201),
    tags=["datasets"],
    status_code=201,
    summary="Hand in a dataset for jobs: a form with a file, inline rows, or an address",
    openapi_extra=body(
        {JSON: {"schema": described(InlineDataset), "example": examples.DATASET}},
        f"Or a form (`{FORM}`): the fields of the JSON, `roles`, `budget` and `universe` as JSON "
        "text, and the file as `file`.",
    ),
)
async def create_dataset(request: Request, services: Services, caller: Operator) -> Response:
    async def key_of(declared: DatasetRequest, checked: Checked) -> RequestKey | None:
        short = _short(request, declared, checked)
        return await idempotency.request_key(short, caller.token_id)

    await services.jobs.dispatcher.warm()
    hand_in = HandIn(services.datasets, services.settings)
    answer, replayed = await hand_in.take(request, services.clock.now(), key_of)
    return answer.response(replayed=replayed)


@router.get(
    "/v1/datasets",
    tags=["datasets"],
    summary="The datasets that are kept",
)
async def list_datasets(
    request: Request,
    response: Response,
    page: PageQuery,
    services: Services,
    _: Operator,
    kind: Kind = None,
) -> ListOfDatasets:
    async with services.database.reading() as transaction:
        rows = await store.page(transaction, page.after_text(), page.limit, kind)
        datasets = [await shown(transaction, row) for row in rows]
    link_next(request, response, page, rows, "id")
    return ListOfDatasets(datasets=datasets)


@router.get(
    "/v1/datasets/{dataset_id}",
    tags=["datasets"],
    summary="One dataset: its schema, row count and budget, none of its rows",
)
async def get_dataset(dataset_id: str, services: Services, _: Operator) -> Dataset:
    async with services.database.reading() as transaction:
        row = await services.datasets.find(transaction, dataset_id)
        return await shown(transaction, row)


@router.get(
    "/v1/datasets/{dataset_id}/ledger",
    response_model_exclude_unset=True,
    tags=["datasets"],
    summary="What jobs reserved and charged; also of a dataset that was deleted",
)
async def get_dataset_ledger(dataset_id: str, services: Services, _: Operator) -> DatasetLedger:
    async with services.database.reading() as transaction:
        await services.datasets.ever(transaction, dataset_id)
        return await ledger.statement(transaction, dataset_id)


@router.delete(
    "/v1/datasets/{dataset_id}",
    tags=["datasets"],
    status_code=204,
    summary="Delete a dataset; its ledger stays with the data",
)
async def delete_dataset(dataset_id: str, services: Services, _: Operator) -> None:
    await services.datasets.delete(dataset_id)


def _short(request: Request, dataset_request: DatasetRequest, checked: Checked) -> Request:
    """A short request in place of the large one, for looking up its key."""
    digest = hashlib.sha256(dataset_request.canonical() + checked.digest).digest()

    async def body() -> Message:
        return {"type": "http.request", "body": digest, "more_body": False}

    key_header = idempotency.HEADER.lower().encode()
    headers = [item for item in request.scope["headers"] if item[0] == key_header]
    return Request({**request.scope, "headers": headers}, body)
