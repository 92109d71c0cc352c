"""Tells each party's coordinator which suites this software can do. Spec: keys, section 3.

Once for each party and version of the software: with its enrolment, or at the first start after an
upgrade. A coordinator that knows nothing of suites is asked again now and then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from common.runtime.logs import get_logger
from common.store.transactions import Database
from common.web.problems import ProblemReceived
from curator.errors import PeerUnavailable
from curator.parties.peers import Peers
from curator.store import parties as store
from curator.store import suites
from curator.store.parties import PartyRow
from tacit.crypto.signing import Identity
from tacit.protocol.suites import SUITES_LABEL, Suites

SUITES: Final = (1, 2)
_logger = get_logger("tacit.curator.capabilities")


@dataclass(frozen=True)
class Capabilities:
    """What this software can do. `software`: its name and version."""

    database: Database
    peers: Peers
    software: str

    async def tell_all(self) -> None:
        """Tell what was not told yet."""
        async with self.database.reading() as transaction:
            ids = await suites.untold(transaction, self.software)
            parties = await store.parties_by_id(transaction, ids)
        for row in parties.values():
            if not await self.tell(row):
                return  # the rest would not be heard either

    async def tell(self, row: PartyRow) -> bool:
        """Tell a party's coordinator; whether it has heard."""
        assert row.coordinator_token is not None
        statement = Suites(party=row.id, suites=SUITES, software=self.software)
        signed = Identity.from_bytes(row.identity).sign(SUITES_LABEL, statement)
        try:
            await self.peers.announce_suites(row.coordinator_url, row.coordinator_token, signed)
        except (PeerUnavailable, ProblemReceived) as error:
            _logger.info("suites_not_told", party=row.logged, problem=error.name)
            return False
        async with self.database.begin() as transaction:
            await store.change_party(transaction, row.id, software_told=self.software)
        return True
