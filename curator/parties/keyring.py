"""What hosted parties seal with: one engine each, and in format 1 their X25519 keys by epoch.

A sealing key is stored before it is announced, used once every aggregator knows it, and replaced
after an epoch. Parties whose deployment has left format 1 have none: theirs are destroyed.
Spec: aggregation, section 8; keys, section 3.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.transactions import Database, Transaction
from curator.engine import Engine
from curator.parties.peers import Peers
from curator.sealer import Sealer, SealingKey
from curator.store import parties as store
from curator.store import suites
from curator.store.parties import EpochRow, PartyRow
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.enrolment import EPOCH_KEY_LABEL, EpochKey
from tacit.randomness import SecureRandom

_logger = get_logger("tacit.curator.keyring")


def new_key(party: str, epoch: int, now: datetime, *, active: bool) -> EpochRow:
    """A fresh sealing key."""
    return EpochRow(party, epoch, os.urandom(32), active, now)


def sign_epoch_key(identity: Identity, key: EpochRow) -> Signed[EpochKey]:
    """The public half of a sealing key, signed by its party."""
    private = X25519PrivateKey.from_private_bytes(key.secret)
    statement = EpochKey(
        party=key.party, epoch=key.epoch, public_key=private.public_key().public_bytes_raw()
    )
    return identity.sign(EPOCH_KEY_LABEL, statement)


class Keyring:
    """One engine per party; rotates sealing keys by age."""

    def __init__(self, database: Database, peers: Peers, clock: Clock, epoch_s: int) -> None:
        self._store, self._peers, self._clock = database, peers, clock
        self._age = timedelta(seconds=epoch_s)
        self._engines: dict[str, Engine] = {}
        self._source = SecureRandom()

    async def engine_of(self, transaction: Transaction, party: PartyRow) -> Engine:
        """The engine of a party, with its newest active key if it has one."""
        held = self._engines.get(party.id)
        if held is None:
            key = await _active_key(transaction, party.id)
            sealer = Sealer(party.id, Identity.from_bytes(party.identity), key)
            held = self._engines[party.id] = Engine(sealer, self._source)
        return held

    def forget(self, party: str) -> None:
        """Seal nothing more under the identity that a party had, and make its engine again."""
        self._engines.pop(party, None)

    # --- sessions --------------------------------------------------------------------------------

    def is_answered(self, party: str, session: bytes) -> bool:
        """Whether the aggregator of a session is known to know it."""
        held = self._engines.get(party)
        return held is not None and held.sealer.is_answered(session)

    def answered(self, party: str, session: bytes) -> None:
        """The aggregator of a session has answered under it."""
        if party in self._engines:
            self._engines[party].sealer.answered(session)

    def unknown(self, party: str, session: bytes) -> None:
        """The aggregator of a session does not know it: nothing more is sealed under it."""
        if party in self._engines:
            self._engines[party].sealer.forget(session)

    # --- keys of an epoch ------------------------------------------------------------------------

    async def rotate(self, row: PartyRow) -> None:
        """Replace a key that is older than an epoch, or destroy it where no round needs one. A new
        one is used once every aggregator knows it."""
        if row.minimum_suite > suites.FIRST:
            async with self._store.begin() as transaction:
                await store.destroy_epoch_keys(transaction, row.id)
            self._renew(row.id, None)
            return
        async with self._store.begin() as transaction:
            keys = await store.list_epoch_keys(transaction, row.id)
            newest = keys[-1]
            if newest.active:
                if self._clock.now() - newest.created < self._age:
                    return
                newest = new_key(row.id, newest.epoch + 1, self._clock.now(), active=False)
                await store.add_epoch_key(transaction, newest)
        await self.announce(row, newest)
        async with self._store.begin() as transaction:
            await store.activate_epoch_key(transaction, row.id, newest.epoch)
        self._renew(row.id, SealingKey.from_bytes(row.id, newest.epoch, newest.secret))
        _logger.info("key_rotated", party=row.logged, epoch=newest.epoch)

    def _renew(self, party: str, key: SealingKey | None) -> None:
        if party in self._engines:
            self._engines[party].sealer.renew(key)

    async def announce(self, row: PartyRow, key: EpochRow) -> None:
        """Announce a key to every aggregator of the party; harmless to repeat."""
        signed = sign_epoch_key(Identity.from_bytes(row.identity), key)
        for anchor in row.anchors:
            await self._peers.announce_key(anchor, row.id, signed)

    async def announce_current(self, row: PartyRow) -> None:
        """Announce the key in use again, after an aggregator reported it as unknown."""
        async with self._store.reading() as transaction:
            keys = [key for key in await store.list_epoch_keys(transaction, row.id) if key.active]
        if keys:
            await self.announce(row, keys[-1])


async def _active_key(transaction: Transaction, party: str) -> SealingKey | None:
    keys = [key for key in await store.list_epoch_keys(transaction, party) if key.active]
    return SealingKey.from_bytes(party, keys[-1].epoch, keys[-1].secret) if keys else None
