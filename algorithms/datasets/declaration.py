"""The declaration of a dataset when it is submitted. Spec: jobs, section "Datasets"."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator

from tacit.report.model import Unit
from tacit.wire import Exact, WireModel, require

INLINE_UNIVERSE = 10_000
"""Most entries of a list of items in a request; a longer one must be a dataset."""

Item = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
ColumnName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
DatasetId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f-]{36}$")]
Purpose = Literal["trial", "production"]


class ColumnRoles(WireModel):
    """Columns that are not values: a reference for evaluation, and the owner of the row."""

    label: ColumnName | None = None
    curator: ColumnName | None = None


class DatasetReference(WireModel):
    """A dataset of kind `universe` in place of an inline list."""

    dataset: DatasetId


class DatasetDeclaration(WireModel):
    """How the content of a dataset is to be read; it is stored with the content. `universe`: the
    public list of items, if the kind has items; an item outside it is refused."""

    kind: Annotated[str, Field(max_length=40, description="such as numeric-table")]
    format: Annotated[str, Field(max_length=40, description="such as csv")]
    roles: ColumnRoles = ColumnRoles()
    universe: tuple[Item, ...] | DatasetReference | None = None


class DatasetBudget(WireModel):
    """What all jobs on the data together may spend, by basic composition."""

    epsilon: Exact
    delta: Exact = Fraction(0)

    @field_validator("epsilon")
    @classmethod
    def _epsilon(cls, value: Fraction) -> Fraction:
        return require(0 <= value <= 10**6, value, "must be between 0 and 1000000")

    @field_validator("delta")
    @classmethod
    def _delta(cls, value: Fraction) -> Fraction:
        return require(0 <= value <= 1, value, "must be between 0 and 1")


class DatasetRequest(DatasetDeclaration):
    """A dataset to store. `privacy_unit`: by default the kind's own; `budget`: none by default,
    and then nothing can be charged to it; `revision_of`: the dataset whose ledger continues."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    privacy_unit: Unit | None = None
    budget: DatasetBudget | None = None
    purpose: Purpose = "trial"
    revision_of: DatasetId | None = None

    @field_validator("universe")
    @classmethod
    def _short(
        cls, value: tuple[Item, ...] | DatasetReference | None
    ) -> tuple[Item, ...] | DatasetReference | None:
        if isinstance(value, tuple):
            require(len(set(value)) == len(value), value, "names each item once")
            require(
                len(value) <= INLINE_UNIVERSE,
                value,
                f"has at most {INLINE_UNIVERSE} items; upload a longer one as a dataset",
            )
        return value

    def declaration(self) -> DatasetDeclaration:
        """The part of the declaration that is stored with the content."""
        return DatasetDeclaration(
            kind=self.kind, format=self.format, roles=self.roles, universe=self.universe
        )
