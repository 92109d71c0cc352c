"""Calls about datasets that the coordinator keeps for jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import httpx

from tacit.client.exchange import KEY, Json, Request, Steps, Stream, get, json_of, pages
from tacit.client.operation import operation, stream

UPLOAD_WAIT_S = 600.0


def _add_dataset(
    name: str,
    kind: str,
    format: str,  # noqa: A002, the name on the wire
    *,
    content: bytes | Mapping[str, bytes] | None = None,
    key: str | None = None,
    **fields: Any,
) -> Steps[Json]:
    """Hand in a dataset: `content` of its file (or of each part by name), or `rows` with `columns`,
    or a `url` that the deployment allows. Also `roles`, `privacy_unit`, `budget`, `purpose`,
    `revision_of`, `universe`."""
    said: Json = {"name": name, "kind": kind, "format": format, **fields}
    headers = {KEY: key or uuid4().hex}
    if content is None:
        body: dict[str, Any] = {"json": said}
    else:
        parts = {"file": content} if isinstance(content, bytes) else dict(content)
        form, form_headers = _form(said, parts)
        headers |= form_headers
        body = {"content": form}
    return json_of(
        Request(
            "POST",
            "/v1/datasets",
            headers=headers,
            repeatable=True,
            wait_s=UPLOAD_WAIT_S,
            **body,
        )
    )


def _form(said: Json, parts: Mapping[str, bytes]) -> tuple[bytes, dict[str, str]]:
    """A form with fields and files, and its headers."""
    fields = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in said.items()
        if value is not None
    }
    files = {name: (name, content) for name, content in parts.items()}
    built = httpx.Request("POST", "http://form", data=fields, files=files)
    return built.read(), {"Content-Type": built.headers["Content-Type"]}


def _datasets(*, kind: str | None = None) -> Stream[Json]:
    """The datasets that are kept."""
    return pages("/v1/datasets", "datasets", {"kind": kind})


def _dataset(dataset_id: str) -> Steps[Json]:
    """One dataset: its schema, row count and budget."""
    return json_of(get(f"/v1/datasets/{dataset_id}"))


def _dataset_ledger(dataset_id: str) -> Steps[Json]:
    """What jobs reserved and charged; also of a dataset that was deleted."""
    return json_of(get(f"/v1/datasets/{dataset_id}/ledger"))


def _delete_dataset(dataset_id: str) -> Steps[None]:
    """Delete a dataset; its ledger stays with the data."""
    yield Request("DELETE", f"/v1/datasets/{dataset_id}")


class Datasets:
    """Data for jobs."""

    add_dataset = operation(_add_dataset)
    datasets = stream(_datasets)
    dataset = operation(_dataset)
    dataset_ledger = operation(_dataset_ledger)
    delete_dataset = operation(_delete_dataset)
