"""Routes of datasets: uploading, listing, the ledger of each, deleting.

`HandIn` takes a dataset from the API or a page: received, checked and kept, or nothing is left.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, FastAPI, Response
from fastapi import Query as Parameter
from fastapi import Request as fastapi_Request
from starlette.requests import Request
from starlette.types import Message

from algorithms.datasets.declaration import DatasetRequest
from common.bodies import JSON
from common.store.transactions import Transaction
from common.web import idempotency
from common.web.dependencies import part
from common.web.idempotency import RequestKey, StoredAnswer
from common.web.openapi import body, described, gives
from common.web.paging import PageQuery, page_response
from coordinator import examples
from coordinator.datasets import ledger
from coordinator.datasets.datasets import Datasets
from coordinator.datasets.upload import FORM, Checked, Fields, InlineDataset, as_it_is, receive
from coordinator.errors import DatasetsRefused
from coordinator.settings import CoordinatorSettings
from coordinator.store import datasets as store
from coordinator.store.datasets import DatasetRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import ClockPart, DatabasePart, Operator, encode, time_text
from tacit.answers.jobs import Dataset, DatasetLedger, ListOfDatasets

KeyOf: TypeAlias = Callable[[DatasetRequest, Checked], Awaitable[RequestKey | None]]


@dataclass(frozen=True)
class HandIn:
    """How datasets come in."""

    datasets: Datasets
    settings: CoordinatorSettings

    async def take(
        self,
        request: Request,
        now: datetime,
        key_of: KeyOf,
        read: Callable[[Fields], Fields] = as_it_is,
    ) -> tuple[StoredAnswer, bool]:
        """Keep the content of a request, once for a key; the answer, and whether it is of before.
        `read`: see `upload.receive`. Raises DatasetsRefused, and what the checks raise."""
        if not self.settings.stored_datasets:
            raise DatasetsRefused
        datasets, kept = self.datasets, False
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
            kept = True
            return answer, False
        finally:
            if not kept:
                await asyncio.to_thread(datasets.vault.remove, dataset_id)


async def shown(transaction: Transaction, row: DatasetRow) -> dict[str, Any]:
    """A dataset as the API shows it: schema, row count and budget, none of its rows."""
    spent = await ledger.statement(transaction, row.id)
    return {
        "id": row.id,
        "name": row.name,
        "kind": row.kind,
        "format": row.declaration.format,
        "roles": row.declaration.roles.model_dump(),
        "privacy_unit": row.privacy_unit,
        "purpose": row.purpose,
        "revision_of": row.revision_of,
        "bytes": row.bytes,
        "schema": row.outline,
        "created": time_text(row.created),
        **{
            name: spent[name]
            for name in ("ledger", "budget", "reserved", "charged", "left", "lifetime")
        },
        "released_outside_budget": spent["released_outside_budget"],
    }


# Routes of datasets. None of them returns a row of one.

DatasetsPart = Annotated[Datasets, Depends(part(Datasets))]
Kind = Annotated[str | None, Parameter(max_length=40, description="Only datasets of this kind.")]


def add_datasets(app: FastAPI, settings: CoordinatorSettings) -> None:
    """Add them to the app."""

    @app.post(
        "/v1/datasets",
        **gives(Dataset, 201),
        tags=["datasets"],
        status_code=201,
        summary="Hand in a dataset for jobs: a form with a file, inline rows, or an address",
        openapi_extra=_document(),
    )
    async def create_dataset(
        request: fastapi_Request, clock: ClockPart, datasets: DatasetsPart, caller: Operator
    ) -> Response:
        async def key_of(declared: DatasetRequest, checked: Checked) -> RequestKey | None:
            short = _short(request, declared, checked)
            return await idempotency.request_key(short, caller.token_id)

        hand_in = HandIn(datasets, settings)
        answer, replayed = await hand_in.take(request, clock.now(), key_of)
        return answer.response(replayed=replayed)

    @app.get(
        "/v1/datasets",
        **gives(ListOfDatasets),
        tags=["datasets"],
        summary="The datasets that are kept",
    )
    async def list_datasets(
        request: fastapi_Request,
        page: PageQuery,
        database: DatabasePart,
        _: Operator,
        kind: Kind = None,
    ) -> Response:
        async with database.reading() as transaction:
            found = await store.page(transaction, page.after_text(), page.limit, kind)
            items = [await shown(transaction, row) for row in found]
        return page_response(request, "datasets", items, page.limit, "id")

    @app.get(
        "/v1/datasets/{dataset_id}",
        **gives(Dataset),
        tags=["datasets"],
        summary="One dataset: its schema, row count and budget, none of its rows",
    )
    async def get_dataset(
        dataset_id: str, database: DatabasePart, datasets: DatasetsPart, _: Operator
    ) -> dict[str, Any]:
        async with database.reading() as transaction:
            row = await datasets.find(transaction, dataset_id)
            return await shown(transaction, row)

    @app.get(
        "/v1/datasets/{dataset_id}/ledger",
        **gives(DatasetLedger),
        tags=["datasets"],
        summary="What jobs reserved and charged; also of a dataset that was deleted",
    )
    async def get_dataset_ledger(
        dataset_id: str, database: DatabasePart, datasets: DatasetsPart, _: Operator
    ) -> dict[str, Any]:
        async with database.reading() as transaction:
            await datasets.ever(transaction, dataset_id)
            return await ledger.statement(transaction, dataset_id)

    @app.delete(
        "/v1/datasets/{dataset_id}",
        tags=["datasets"],
        status_code=204,
        summary="Delete a dataset; its ledger stays with the data",
    )
    async def delete_dataset(dataset_id: str, datasets: DatasetsPart, _: Operator) -> Response:
        await datasets.delete(dataset_id)
        return Response(status_code=204)


def _document() -> dict[str, Any]:
    """The document of the body."""
    return body(
        {JSON: {"schema": described(InlineDataset), "example": examples.DATASET}},
        f"Or a form (`{FORM}`): the fields of the JSON, `roles`, `budget` and `universe` as JSON "
        "text, and the file as `file`.",
    )


def _short(request: fastapi_Request, said: DatasetRequest, checked: Checked) -> fastapi_Request:
    """A short request in place of the large one, for looking up its key."""
    digest = hashlib.sha256(said.canonical() + checked.digest).digest()

    async def body() -> Message:
        return {"type": "http.request", "body": digest, "more_body": False}

    wanted = idempotency.HEADER.lower().encode()
    headers = [item for item in request.scope["headers"] if item[0] == wanted]
    return fastapi_Request({**request.scope, "headers": headers}, body)
