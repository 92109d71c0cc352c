"""Identities of parties are replaced by command, while rounds run. Spec: keys, section 5.2.

    made and stored -> shown to coordinator and aggregators -> in use, the old key destroyed

What follows is stored before anybody is shown it. Until every service has it the party signs with
the identity before, which the services accept until the overlap is over; from then on it signs with
the new one in any case. A sweep does what is left, also after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.transactions import Database, Transaction
from common.web.problems import ProblemReceived
from curator.errors import PeerUnavailable, UnknownParty
from curator.parties.keyring import Keyring
from curator.parties.peers import Peers
from curator.store import parties as party_store
from curator.store import party_identities as store
from curator.store.parties import ACTIVE, PartyRow
from curator.store.party_identities import NextIdentity
from tacit.crypto.signing import Identity, fingerprint
from tacit.protocol.party_identities import PartyChain, PartySuccession, succeed_party

SWEEP_S: Final = 5.0
_TOGETHER: Final = 8
_logger = get_logger("tacit.curator.successions")


@dataclass(frozen=True)
class Waiting:
    """A party whose next identity is not known to all its services: the problem of each that was
    asked and has not taken it. `used`: the party signs with it already."""

    party: str
    fingerprint: bytes
    used: bool
    problems: dict[str, str]


@dataclass
class Successions:
    """Replaces identities of the parties here. One process sweeps: the leader."""

    database: Database
    peers: Peers
    keyring: Keyring
    clock: Clock
    _problems: dict[str, dict[str, str]] = field(default_factory=dict)

    async def begin(self, named: Sequence[str] | None, overlap: timedelta) -> int:
        """Make the next identity of some enrolled parties, or of all; how many. One that waits
        already goes on. Raises UnknownParty."""
        async with self.database.begin(large=True) as transaction:
            rows = await self._chosen(transaction, named)
            held = {each.party for each in await store.waiting(transaction)}
            chosen = [row for row in rows if row.id not in held]
            for row in chosen:
                await store.add_next(transaction, await self._next(transaction, row, overlap))
        return len(chosen)

    async def waiting(self) -> tuple[Waiting, ...]:
        """Parties whose next identity is not known to all their services."""
        async with self.database.reading(large=True) as transaction:
            found = await store.waiting(transaction)
        return tuple(
            Waiting(
                each.party,
                fingerprint(each.link.statement.identity_key),
                each.secret is None,
                self._problems.get(each.party, {}),
            )
            for each in found
        )

    async def sweep(self) -> int:
        """Show what waits to all services; how many identities all of them know now."""
        async with self.database.reading(large=True) as transaction:
            found = await store.waiting(transaction)
        done = 0
        for start in range(0, len(found), _TOGETHER):
            some = found[start : start + _TOGETHER]
            done += sum(await asyncio.gather(*(self._finish(each) for each in some)))
        return done

    async def _chosen(
        self, transaction: Transaction, named: Sequence[str] | None
    ) -> list[PartyRow]:
        rows = await party_store.list_parties(transaction, state=ACTIVE)
        if named is None:
            return rows
        known = {row.id: row for row in rows}
        for place, name in enumerate(named):
            if name not in known:
                raise UnknownParty(pointer=f"/parties/{place}")
        return [known[name] for name in dict.fromkeys(named)]

    async def _next(
        self, transaction: Transaction, row: PartyRow, overlap: timedelta
    ) -> NextIdentity:
        old, new, now = Identity.from_bytes(row.identity), Identity.generate(), self.clock.now()
        statement = PartySuccession(
            deployment=row.deployment,
            party=row.id,
            replaced=old.fingerprint,
            identity_key=new.public_key,
            effective=now,
            overlap_until=now + overlap,
        )
        serial = await store.last_serial(transaction, row.id) + 1
        return NextIdentity(row.id, serial, succeed_party(statement, new, old), new.to_bytes())

    async def _finish(self, found: NextIdentity) -> bool:
        """Whether all services know it now."""
        async with self.database.reading() as transaction:
            row = await party_store.party(transaction, found.party)
            chain = await store.chain(transaction, found.party)
        assert row is not None
        problems = await self._shown(row, chain)
        over = self.clock.now() >= found.link.statement.overlap_until
        async with self.database.begin() as transaction:
            if not problems:
                await store.mark_shown(transaction, found)
            if found.secret is not None and (over or not problems):
                await store.put_in_use(transaction, found)
        self.keyring.forget(row.id)
        if problems:
            self._problems[row.id] = problems
            _logger.warning("identity_not_taken", party=row.logged, services=len(problems))
            return False
        self._problems.pop(row.id, None)
        _logger.info("identity_replaced", party=row.logged)
        return True

    async def _shown(self, row: PartyRow, chain: PartyChain) -> dict[str, str]:
        """Show a party's links to all its services; the problems of those that did not take it."""
        assert row.coordinator_token is not None
        services = [(row.deployment, row.coordinator_url, row.coordinator_token)]
        services += [(each.aggregator, each.url, each.token or "") for each in row.anchors]
        problems = {}
        for name, url, token in services:
            try:
                await self.peers.show_party(url, token, row.id, chain)
            except (PeerUnavailable, ProblemReceived) as error:
                problems[name] = error.name
        return problems
