"""Routes of datasets. None of them returns a row of one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

import httpx
from fastapi import Depends, FastAPI, Request, Response
from fastapi import Query as Parameter
from starlette.types import Message

from algorithms.datasets.declaration import DatasetRequest
from common.web import idempotency
from common.web.bodies import body, described, gives
from common.web.idempotency import RequestKey
from common.web.paging import PageQuery, page_response
from common.web.parts import part
from common.web.wire import JSON
from coordinator import examples
from coordinator.datasets import ledger
from coordinator.datasets.content import Checked
from coordinator.datasets.handing_in import HandIn, shown
from coordinator.datasets.holding import Datasets
from coordinator.datasets.upload import FORM, InlineDataset
from coordinator.settings import CoordinatorSettings
from coordinator.store import datasets as store
from coordinator.web import ClockPart, DatabasePart, Operator
from tacit.answers.datasets import Dataset, DatasetLedger, ListOfDatasets

DatasetsPart = Annotated[Datasets, Depends(part(Datasets))]
Kind = Annotated[str | None, Parameter(max_length=40, description="Only datasets of this kind.")]


def add_datasets(
    app: FastAPI,
    settings: CoordinatorSettings,
    transports: Mapping[str, httpx.AsyncBaseTransport] | None = None,
) -> None:
    """Add them to the app. `transports` replaces the network to given addresses."""

    @app.post(
        "/v1/datasets",
        **gives(Dataset, 201),
        tags=["datasets"],
        status_code=201,
        summary="Hand in a dataset for jobs: a form with a file, inline rows, or an address",
        openapi_extra=_document(),
    )
    async def create_dataset(
        request: Request, clock: ClockPart, datasets: DatasetsPart, caller: Operator
    ) -> Response:
        async def key_of(declared: DatasetRequest, checked: Checked) -> RequestKey | None:
            short = _short(request, declared, checked)
            return await idempotency.request_key(short, caller.token_id)

        hand_in = HandIn(datasets, settings, transports)
        answer, replayed = await hand_in.take(request, clock.now(), key_of)
        return answer.response(replayed=replayed)

    @app.get(
        "/v1/datasets",
        **gives(ListOfDatasets),
        tags=["datasets"],
        summary="The datasets that are kept",
    )
    async def list_datasets(
        request: Request, page: PageQuery, database: DatabasePart, _: Operator, kind: Kind = None
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


def _short(request: Request, said: DatasetRequest, checked: Checked) -> Request:
    """A short request in place of the large one, for looking up its key."""
    digest = hashlib.sha256(said.canonical() + checked.digest).digest()

    async def body() -> Message:
        return {"type": "http.request", "body": digest, "more_body": False}

    wanted = idempotency.HEADER.lower().encode()
    headers = [item for item in request.scope["headers"] if item[0] == wanted]
    return Request({**request.scope, "headers": headers}, body)
