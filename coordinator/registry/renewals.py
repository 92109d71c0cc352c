"""An aggregator that ended all tokens is given another one for this coordinator, by its identity.

Spec: keys, section 5.2. It is noticed where the aggregator refuses a request (`token_expired`),
which is then sent again. A token that the aggregator's operator revoked is a matter for people.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import httpx

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.own_identities import OwnIdentities
from common.store.transactions import Database
from common.web.problems import ProblemReceived, raise_for_problem
from common.web.tokens import Scope, hash_token, new_token
from coordinator.store import registry as store
from coordinator.store.registry import AggregatorRow
from tacit.protocol.enrolment import RENEWAL_LABEL, TokenRenewal
from tacit.protocol.identities import CoordinatorRenewal

PATH: Final = "/v1/coordinator/token"
PAUSE: Final = timedelta(seconds=30)
"""After a refusal nothing is asked for so long."""
Send = Callable[[str], Awaitable[httpx.Response]]
"""Posts JSON to `PATH` of the aggregator. Raises AggregatorUnreachable."""
_logger = get_logger("tacit.coordinator.renewals")


@dataclass(frozen=True)
class Renewals:
    """Renews this coordinator's tokens at aggregators, one at a time at each."""

    database: Database
    own: OwnIdentities
    deployment: str
    clock: Clock
    _locks: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )
    _refused: dict[str, datetime] = field(default_factory=dict)

    async def renewed(self, row: AggregatorRow, send: Send) -> AggregatorRow | None:
        """The aggregator with the token of now; None where there is no other than it refused.
        Raises AggregatorUnreachable."""
        async with self._locks[row.id]:
            stored = await self._stored(row.id)
            if stored is None or stored.token != row.token:
                return stored  # by another request, or process
            now, refused = self.clock.now(), self._refused.get(row.id)
            if self.own.revoked or (refused is not None and timedelta() <= now - refused < PAUSE):
                return None
            token = new_token(Scope.COORDINATOR)
            try:
                raise_for_problem(await send(self._request(row, token).model_dump_json()))
            except ProblemReceived as error:
                self._refused[row.id] = now
                _logger.warning("token_not_renewed", aggregator=row.id, problem=error.name)
                return None
            async with self.database.begin() as transaction:
                await store.set_token(transaction, row.id, token)
        _logger.info("token_renewed", aggregator=row.id)
        return replace(stored, token=token)

    def _request(self, row: AggregatorRow, token: str) -> CoordinatorRenewal:
        statement = TokenRenewal(
            service=row.id,
            party=self.deployment,
            token_hash=hash_token(row.token),
            new_hash=hash_token(token),
            made=self.clock.now(),
        )
        signed = self.own.current.sign(RENEWAL_LABEL, statement)
        return CoordinatorRenewal(renewal=signed, chain=self.own.chain)

    async def _stored(self, aggregator: str) -> AggregatorRow | None:
        async with self.database.reading() as transaction:
            rows = await store.list_aggregators(transaction)
        return next((row for row in rows if row.id == aggregator), None)
