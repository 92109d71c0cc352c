"""Handing a dataset in, by the API or on a page: received, checked and kept, or nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import httpx
from starlette.requests import Request

from algorithms.datasets.declaration import DatasetRequest
from common.store.transactions import Transaction
from common.web import idempotency
from common.web.idempotency import RequestKey, StoredAnswer
from coordinator.datasets import ledger
from coordinator.datasets.content import Checked
from coordinator.datasets.holding import Datasets
from coordinator.datasets.upload import Fields, as_it_is, receive
from coordinator.errors import DatasetsRefused
from coordinator.settings import CoordinatorSettings
from coordinator.store.datasets import DatasetRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import encode, time_text

KeyOf: TypeAlias = Callable[[DatasetRequest, Checked], Awaitable[RequestKey | None]]


@dataclass(frozen=True)
class HandIn:
    """How datasets come in; `transports` replaces the network to given addresses."""

    datasets: Datasets
    settings: CoordinatorSettings
    transports: Mapping[str, httpx.AsyncBaseTransport] | None = None

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
            received = await receive(
                request, datasets.vault, dataset_id, self.settings, self.transports, read
            )
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
