"""The default policy of a curator service, kept in its store."""

from __future__ import annotations

from typing import Final

from common.store.transactions import Database
from curator.policy import Policy, initial_policy
from curator.settings import CuratorSettings
from curator.store import parties as store

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


async def _stored(database: Database) -> Policy | None:
    async with database.reading() as transaction:
        text = await store.fact(transaction, POLICY)
    return None if text is None else Policy.model_validate_json(text)
