"""Parties' tokens at a service that ended all of them are renewed by the parties' identities.

Spec: keys, section 5.2. A service that refuses a token because it was ended is noticed where it is
called; the sweep then asks for another one for every party there.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.transactions import Database
from common.web.problems import ProblemReceived
from common.web.tokens import Scope, hash_token, new_token
from curator.errors import PeerUnavailable
from curator.parties.peers import Peers
from curator.store import parties as store
from curator.store.parties import ACTIVE, PartyRow
from tacit.crypto.signing import Identity
from tacit.protocol.enrolment import RENEWAL_LABEL, TokenRenewal

_TOGETHER: Final = 8
_logger = get_logger("tacit.curator.renewals")


@dataclass(frozen=True)
class Renewals:
    """Asks services that ended their tokens for others."""

    database: Database
    peers: Peers
    clock: Clock

    async def sweep(self) -> int:
        """Renew what services ended since the last sweep; how many tokens."""
        ended, renewed = set(self.peers.expired), 0
        self.peers.expired -= ended
        if not ended:
            return 0
        async with self.database.reading(large=True) as transaction:
            rows = await store.list_parties(transaction, state=ACTIVE)
        for start in range(0, len(rows), _TOGETHER):
            some = rows[start : start + _TOGETHER]
            renewed += sum(await asyncio.gather(*(self._renewed(row, ended) for row in some)))
        if renewed:
            _logger.info("tokens_renewed", tokens=renewed)
        return renewed

    async def _renewed(self, row: PartyRow, ended: set[str]) -> int:
        count = 0
        if row.coordinator_url in ended and row.coordinator_token is not None:
            token = await self._asked(
                row, row.coordinator_url, row.deployment, row.coordinator_token
            )
            if token is not None:
                async with self.database.begin() as transaction:
                    await store.change_party(transaction, row.id, coordinator_token=token)
                count += 1
        for anchor in row.anchors:
            if anchor.url in ended and anchor.token is not None:
                token = await self._asked(row, anchor.url, anchor.aggregator, anchor.token)
                if token is not None:
                    async with self.database.begin() as transaction:
                        await store.set_anchor_token(transaction, row.id, anchor.aggregator, token)
                    count += 1
        return count

    async def _asked(self, row: PartyRow, url: str, service: str, token: str) -> str | None:
        """Another token; None where the one there is good, or the service takes none."""
        made = new_token(Scope.CURATOR)
        statement = TokenRenewal(
            service=service,
            party=row.id,
            token_hash=hash_token(token),
            new_hash=hash_token(made),
            made=self.clock.now(),
        )
        signed = Identity.from_bytes(row.identity).sign(RENEWAL_LABEL, statement)
        try:
            await self.peers.renew_token(url, signed)
            return made
        except PeerUnavailable:
            self.peers.expired.add(url)  # once more
        except ProblemReceived as error:
            _logger.info("token_not_renewed", party=row.logged, problem=error.name)
        return None
