"""What a round of a federated job takes from its curators' own records.

Spec: jobs, "Federated jobs"; federated-counting, sections 2 and 5. One vector leaves, the sum over
the records, with the part of each one bounded. Rows of numbers (`RowQuestion`) or sequences
(`SequenceQuestion`): who prepares a contribution does not see which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from common.store.transactions import Transaction
from curator.records.records import Floats, load_rows
from curator.store import item_tables as item_store
from tacit.encoders.count_sums import CountSum
from tacit.encoders.counts import Lists
from tacit.encoders.sums import RowSum, encoded
from tacit.protocol.federation import FederatedColumn
from tacit.query.fields import Window
from tacit.query.functions import Encoded
from tacit.query.query import Query
from tacit.randomness import SecureRandom

SEQUENCES: Final = "sequences"


class Question(Protocol):
    """The checked question of a federated job's round."""

    async def load(
        self, transaction: Transaction, query: Query, window: Window, keys: tuple[int, int]
    ) -> Mapping[int, Any]:
        """The records that count of the curators with keys in a half-open range, by key."""
        ...

    def encoded(self, query: Query, records: Any | None) -> Encoded:
        """What the records of one curator add, each bounded as the query requires; None: zeros."""
        ...


@dataclass(frozen=True, eq=False)
class RowQuestion:
    """A question about rows of numbers; `seed` chooses records if not all count."""

    columns: tuple[FederatedColumn, ...]
    asked: RowSum
    seed: bytes

    def chosen(self, key: int, rows: Floats, most: int) -> Floats:
        """At most this many rows of a curator, the same in every round of the job."""
        if len(rows) <= most:
            return rows
        words = SecureRandom.from_secret_seed(self.seed, f"records of {key}").words(len(rows))
        return rows[np.sort(np.argsort(words, kind="stable")[:most])]

    async def load(
        self, transaction: Transaction, query: Query, window: Window, keys: tuple[int, int]
    ) -> dict[int, Floats]:
        """Rows (n, columns) by key."""
        most = query.max_readings
        rows = await load_rows(transaction, self.columns, window, keys)
        if query.every_record:
            # A table from before tables had a limit: to leave some rows out is not what is asked.
            rows = {key: found for key, found in rows.items() if len(found) <= most}
        return {key: self.chosen(key, found, most) for key, found in rows.items()}

    def encoded(self, query: Query, records: Floats | None) -> Encoded:
        """f(x) of one curator."""
        nothing = np.zeros((0, self.asked.columns))
        return encoded(query, self.asked, nothing if records is None else records)


@dataclass(frozen=True, eq=False)
class SequenceQuestion:
    """A question about sequences: all of a table count. `universe`: the items that places in the
    question are of; `seen`: when this job was first heard of. A table that is younger answers as
    one that was deleted, by zeros: a job counts in the tables that were there when it began."""

    table: str
    asked: CountSum
    universe: tuple[str, ...]
    seen: datetime

    async def load(
        self,
        transaction: Transaction,
        query: Query,
        window: Window,  # noqa: ARG002
        keys: tuple[int, int],
    ) -> dict[int, Lists]:
        """Sequences by key, over the question's universe; an item that it lacks is place -1."""
        places = {item: place for place, item in enumerate(self.universe)}
        found = {}
        for each in await item_store.tables(transaction, SEQUENCES, self.table, keys, self.seen):
            if each.lists.count <= query.max_readings:
                known = np.array([places.get(item, -1) for item in each.universe], np.int32)
                items = known[each.lists.items] if known.size else each.lists.items
                found[each.curator] = Lists(items, each.lists.starts)
        return found

    def encoded(self, query: Query, records: Lists | None) -> Encoded:  # noqa: ARG002
        """The counts of one curator. `asked` bounds what each record adds."""
        none = Lists(np.zeros(0, np.int32), np.zeros(1, np.int64))
        lists = none if records is None else records
        values = self.asked.total(lists)[None, :].astype(np.int64)
        return Encoded(values, np.array([lists.count], np.int64), np.zeros(1, np.int64))


@dataclass(frozen=True, eq=False)
class RecordRows:
    """The records of some curators, in order; None: a vector of zeros."""

    question: Question
    records: tuple[Any | None, ...]

    @property
    def count(self) -> int:
        """Curators."""
        return len(self.records)

    def encoded(self, query: Query) -> Encoded:
        """f(x) of each."""
        parts = [self.question.encoded(query, records) for records in self.records]
        return Encoded(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.used for part in parts]),
            np.concatenate([part.clamped for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class RecordWindow:
    """The records that count of many curators, by key."""

    question: Question
    records: Mapping[int, Any]

    def of(self, first_key: int, present: NDArray[np.bool_]) -> RecordRows:
        """The records of the present curators of a run that starts at `first_key`."""
        keys = (first_key + np.flatnonzero(present)).tolist()
        return RecordRows(self.question, tuple(self.records.get(key) for key in keys))


@dataclass(frozen=True, eq=False)
class RecordSource:
    """The curators' records for a round that asks a question; `reach` curators at a time."""

    question: Question
    query: Query
    window: Window
    reach: int

    async def load(self, transaction: Transaction, keys: tuple[int, int]) -> RecordWindow:
        """That of the curators with keys in a half-open range."""
        found = await self.question.load(transaction, self.query, self.window, keys)
        return RecordWindow(self.question, found)
