"""Answers about datasets and their ledgers (spec: jobs)."""

from __future__ import annotations

from pydantic import Field, JsonValue

from tacit.answers.base import Answer, Figure, Time


class Amount(Answer):
    """An amount of a budget."""

    epsilon: Figure
    delta: Figure


class Roles(Answer):
    """Names of columns: those with reference labels, and those with the owners of the rows."""

    label: str | None
    curator: str | None


class Dataset(Answer):
    """A dataset. `schema`: what operators see for its kind: rows, columns, items, vertices."""

    # `budget`: null where nothing can be charged, and then `left` is, too; `lifetime`: charged
    # ever; `ledger`: null for public lists, which have none.

    id: str
    name: str
    kind: str
    format: str
    roles: Roles
    privacy_unit: str | None
    purpose: str
    revision_of: str | None
    bytes: int
    outline: dict[str, JsonValue] = Field(alias="schema")
    created: Time
    ledger: str | None
    budget: Amount | None
    reserved: Amount | None
    charged: Amount | None
    left: Amount | None
    lifetime: Amount | None
    released_outside_budget: int


class ListOfDatasets(Answer):
    """A page of datasets, the oldest first."""

    datasets: list[Dataset]


class DatasetEvent(Answer):
    """A row of a dataset's ledger; `hash` covers it and the row before. `reserved`: whether the
    amount had been reserved; `reason`: why no figure covers a release."""

    seq: int
    time: Time
    kind: str
    dataset: str
    job: str | None
    hash: str
    purpose: str | None = None
    revision_of: str | None = None
    epsilon: Figure | None = None
    delta: Figure | None = None
    reserved: bool | None = None
    reason: str | None = None


class DatasetLedger(Answer):
    """A dataset's ledger. `verified`: whether its chain of hashes is whole."""

    dataset: str
    ledger: str | None
    privacy_unit: str | None
    budget: Amount | None
    reserved: Amount | None
    charged: Amount | None
    left: Amount | None
    lifetime: Amount | None
    released_outside_budget: int
    verified: bool
    events: list[DatasetEvent]
