"""The ledger's head, sealed once a day for those who read it years later. Spec: keys, section 4."""

from __future__ import annotations

from typing import Final

from common.runtime.background import Repeating
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.database import exclusive
from common.store.own_identities import OwnIdentities
from common.store.transactions import Database
from coordinator.store import lasting_seals as store
from coordinator.store import ledger
from tacit.protocol.seals import LEDGER_SEAL_LABEL, LedgerSeal, ShownLedgerSeal

SWEEP_S: Final = 600.0
_LOCK: Final = "ledger seal"
_logger = get_logger("tacit.coordinator.ledger_seals")


class LedgerSeals(Repeating):
    """Seals the head on each day once, by the identity of now; by none that is a key alone."""

    def __init__(
        self, database: Database, own: OwnIdentities, deployment: str, clock: Clock
    ) -> None:
        super().__init__("ledger_seals", _logger, SWEEP_S)
        self._database, self._own, self._clock = database, own, clock
        self._deployment = deployment

    async def look(self) -> None:
        """Seal the head if this day has no seal yet."""
        await self._own.load()
        if self._own.revoked:
            return
        found = self._own.pair(self._own.current.public_key)
        if found is None:
            return
        pair, document = found
        now = self._clock.now()
        day = int(now.timestamp()) // 86_400
        async with self._database.begin() as transaction:
            await exclusive(transaction, _LOCK)
            if await store.has_ledger_seal(transaction, day):
                return
            rows, head = await ledger.head(transaction)
            statement = LedgerSeal(deployment=self._deployment, rows=rows, head=head, time=now)
            made = pair.sign(LEDGER_SEAL_LABEL, statement)
            seal = ShownLedgerSeal(document=document, seal=made)
            await store.add_ledger_seal(transaction, day, seal)
