"""Answers about datasets that a coordinator keeps: schema, sizes and budget, never a row."""

from __future__ import annotations

from pydantic import Field, JsonValue

from tacit.answers.base import Answer, Figure, Time


class Amount(Answer):
    """An amount of a budget."""

    epsilon: Figure
    delta: Figure


class Roles(Answer):
    """Names of columns: with reference labels, and with the owners of the rows."""

    label: str | None
    curator: str | None


class DatasetAccount(Answer):
    """What a dataset's ledger says. `budget`: null where nothing can be charged, and then `left`
    is, too; `lifetime`: charged ever; `ledger`: null for public lists, which have none."""

    ledger: str | None
    budget: Amount | None
    reserved: Amount | None
    charged: Amount | None
    left: Amount | None
    lifetime: Amount | None
    released_outside_budget: int


class Dataset(DatasetAccount):
    """A dataset. `schema`: what its kind tells an operator: rows, columns, items, vertices."""

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


class ListOfDatasets(Answer):
    """A page of datasets, the oldest first."""

    datasets: list[Dataset]


class DatasetEvent(Answer):
    """A row of a dataset's ledger; `hash` covers it and the row before. `reserved`:
    whether the amount was reserved before; `reason`: why no figure covers a release."""

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


class DatasetLedger(DatasetAccount):
    """A dataset's ledger. `verified`: whether its chain of hashes is whole."""

    dataset: str
    privacy_unit: str | None
    verified: bool
    events: list[DatasetEvent]
