"""The default policy of a curator service, kept in its store, and which policies hold for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from common.store.transactions import Database, Transaction
from curator.ledger.ledger import Bits
from curator.policy import Policy, agreed, initial_policy
from curator.settings import CuratorSettings
from curator.store import parties as store
from curator.store.parties import PartyRow

POLICY: Final = "policy"
"""The fact of the store that holds it."""


class Policies:
    """The default policy; `load` it."""

    def __init__(self, database: Database, current: Policy) -> None:
        self._database, self._current = database, current

    @classmethod
    async def load(cls, database: Database, settings: CuratorSettings) -> Policies:
        """The policy that an operator set last, else that of the settings."""
        stored = await _stored(database)
        return cls(database, initial_policy(settings) if stored is None else stored)

    async def current(self) -> Policy:
        """The default policy. Where other processes may have replaced it, it is read again."""
        if self._database.dialect.name == "postgresql":
            self._current = await _stored(self._database) or self._current
        return self._current

    async def put(self, policy: Policy) -> None:
        """Replace it, durably."""
        async with self._database.begin() as transaction:
            await store.put_fact(transaction, POLICY, policy.model_dump_json())
        self._current = policy


async def holding(
    transaction: Transaction, row: PartyRow, default: Policy, offset: int, length: int
) -> Sequence[tuple[Policy, Bits]]:
    """The policies of a span, with the curators that each holds for: for those whose owner has one
    of its own two, and both must agree."""
    own = await store.own_policies(transaction, row.first_key + offset, length)
    rest = np.ones(length, np.bool_)
    groups: dict[tuple[str | None, str | None], Bits] = {}
    for key, *texts in own:
        index = key - row.first_key - offset
        rest[index] = False
        groups.setdefault((texts[0], texts[1]), np.zeros(length, np.bool_))[index] = True
    found = [
        (policy, members) for texts, members in groups.items() for policy in agreed(default, *texts)
    ]
    return [(default, rest), *found] if rest.any() else found


async def _stored(database: Database) -> Policy | None:
    async with database.reading() as transaction:
        text = await store.fact(transaction, POLICY)
    return None if text is None else Policy.model_validate_json(text)
