"""The aggregator's keys: one Ed25519 identity, X25519 epoch keys, and derived seal keys.

Epoch e covers the Unix times [e * epoch_s, (e + 1) * epoch_s). Its private key opens every piece
of the rounds whose descriptor names it. A verification secret is drawn, kept and destroyed with it
(spec: validity, section 7). Both are destroyed once the key can open no new round and
the last of those rounds is closed: there is no forward secrecy inside an epoch (spec: aggregation,
section 8). Derived seal keys live in memory only. No key ever enters a log or an answer.

Once the aggregator has opened a round of format 2 it signs no epoch key any more, so that no new
descriptor of format 1 can name one: this protects every curator behind it (spec: keys, section 3).
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass, replace

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from aggregator.errors import EpochKeysEnded
from aggregator.store import keys as store
from aggregator.store.keys import KeyPair
from common.runtime.clock import Clock
from common.store.database import exclusive
from common.store.own_identities import OwnIdentities
from common.store.transactions import Database, Transaction
from tacit.crypto.sealing import Direction, Ends, agree_key
from tacit.crypto.signing import Identity, SignatureBroken, Signed, verify
from tacit.protocol.enrolment import EPOCH_KEY_LABEL, EpochKey
from tacit.protocol.verifier_shares import SECRET_BYTES

_ENDED = "epoch keys ended"
"""Stored with the first round of format 2, in its transaction."""
_SignedKey = Signed[EpochKey]


@dataclass(frozen=True)
class EpochSecret:
    """The key pair of one epoch. `verification_secret`: None of a key of an earlier version."""

    epoch: int
    private_key: X25519PrivateKey
    public_key: bytes
    signed: Signed[EpochKey]
    verification_secret: bytes | None


async def end_epoch_keys(transaction: Transaction) -> None:
    """From now on no epoch key is signed, and no round of format 1 is opened. The caller's
    transaction opens a round of format 2, and holds the rounds' lock."""
    if await store.secret(transaction, _ENDED) is None:
        await store.add_secret(transaction, _ENDED, b"")


def is_signed(text: str, public_key: bytes) -> bool:
    """Whether an identity signed this epoch key."""
    try:
        verify(EPOCH_KEY_LABEL, _SignedKey.model_validate_json(text), public_key)
    except SignatureBroken:
        return False
    return True


class EpochKeyGone(LookupError):
    """The private key of an epoch was destroyed, or never was here."""


class Keyring:
    """The keys in use, and a bounded cache of derived ones (32 bytes each)."""

    def __init__(
        self,
        database: Database,
        identities: OwnIdentities,
        party: str,
        clock: Clock,
        *,
        epoch_s: int,
        grace_s: int,
        capacity: int,
        minimum_suite: int = 1,
    ) -> None:
        self.identities = identities
        self.party = party
        self._database = database
        self._clock = clock
        self._epoch_s = epoch_s
        self._grace_s = grace_s
        self._capacity = capacity
        self._ended = minimum_suite > 1
        self._epochs: dict[int, EpochSecret] = {}
        self._signed_by: dict[int, bytes] = {}
        """Epochs whose key is known to be signed by this identity."""
        self._derived: OrderedDict[tuple[int, Direction, str, bytes], bytes] = OrderedDict()

    @property
    def identity(self) -> Identity:
        """The signing identity of now."""
        return self.identities.current

    def epoch_now(self) -> int:
        """The current epoch."""
        return int(self._clock.now().timestamp()) // self._epoch_s

    async def ended(self) -> bool:
        """Whether this aggregator is past epoch keys, and takes part in format 2 only."""
        if not self._ended:
            async with self._database.reading() as transaction:
                self._ended = await store.secret(transaction, _ENDED) is not None
        return self._ended

    async def current(self) -> EpochSecret:
        """The key of the current epoch, made at its first use. Raises EpochKeysEnded."""
        if await self.ended():
            raise EpochKeysEnded
        epoch = self.epoch_now()
        if self._signed_by.get(epoch) != self.identity.public_key:
            async with self._database.begin() as transaction:
                await exclusive(transaction, "epoch key")
                await self.identities.load_in(transaction)
                stored = await store.epoch_key(transaction, epoch)
                if stored is None:
                    stored = self._new_key(epoch)
                    await store.add_epoch_key(transaction, epoch, stored)
                elif not is_signed(stored.signed, self.identity.public_key):
                    stored = replace(stored, signed=self._signed_anew(stored.signed))
                    await store.sign_epoch_key(transaction, epoch, stored.signed)
            self._remember(epoch, stored)
            self._signed_by = {epoch: self.identity.public_key}
        return self._epochs[epoch]

    async def of(self, epoch: int) -> EpochSecret:
        """The key of an epoch that is not destroyed. Raises EpochKeyGone."""
        if epoch not in self._epochs:
            async with self._database.reading() as transaction:
                stored = await store.epoch_key(transaction, epoch)
            if stored is None:
                raise EpochKeyGone(epoch)
            self._remember(epoch, stored)
        return self._epochs[epoch]

    def seal_key(
        self, own: EpochSecret, sender: str, sender_key: bytes, direction: Direction
    ) -> bytes:
        """The key with which `sender` seals to this aggregator in an epoch; derived once.

        Raises SealBroken for a public key that gives the all-zero secret.
        """
        place = (own.epoch, direction, sender, sender_key)
        known = self._derived.get(place)
        if known is None:
            ends = Ends(sender, self.party, sender_key, own.public_key, own.epoch, direction)
            known = agree_key(own.private_key, ends)
            self._derived[place] = known
            while len(self._derived) > self._capacity:
                self._derived.popitem(last=False)
        return known

    async def destroy_idle(self) -> int:
        """Destroy the private keys that are no longer needed; how many there were."""
        now = self._clock.now()
        first_usable = (int(now.timestamp()) - self._grace_s) // self._epoch_s
        async with self._database.begin() as transaction:
            await exclusive(transaction, "aggregator rounds")
            idle = await store.idle_epochs(transaction, first_usable)
            for epoch in idle:
                await store.destroy_epoch_key(transaction, epoch, now)
        for epoch in [epoch for epoch in self._epochs if epoch < first_usable]:
            del self._epochs[epoch]  # a live round loads its own again
        for place in [place for place in list(self._derived) if place[0] < first_usable]:
            self._derived.pop(place, None)
        return len(idle)

    async def renew(self) -> None:
        """Destroy every private key with its verification secret, and make a new one for the
        current epoch.

        What was sealed for the old keys can no longer be opened, and a descriptor that names one
        of them is refused: no earlier round can be summed a second time.
        """
        epoch, now, ended = self.epoch_now(), self._clock.now(), await self.ended()
        async with self._database.begin() as transaction:
            await exclusive(transaction, "epoch key")
            for held in await store.held_epochs(transaction):
                await store.destroy_epoch_key(transaction, held, now)
            stored = None if ended else self._new_key(epoch)
            if stored is not None:
                await store.replace_epoch_key(transaction, epoch, stored)
        self._epochs.clear()
        self._derived.clear()
        self._signed_by.clear()
        if stored is not None:
            self._remember(epoch, stored)

    def _new_key(self, epoch: int) -> KeyPair:
        private_key = X25519PrivateKey.generate()
        public_key = private_key.public_key().public_bytes_raw()
        statement = EpochKey(party=self.party, epoch=epoch, public_key=public_key)
        signed = self.identity.sign(EPOCH_KEY_LABEL, statement)
        secret = os.urandom(SECRET_BYTES)
        return KeyPair(private_key.private_bytes_raw(), secret, signed.model_dump_json())

    def _signed_anew(self, text: str) -> str:
        """An epoch's key outlives the identity that signed it."""
        statement = _SignedKey.model_validate_json(text).statement
        return self.identity.sign(EPOCH_KEY_LABEL, statement).model_dump_json()

    def _remember(self, epoch: int, pair: KeyPair) -> None:
        if pair.private_key is None:
            raise EpochKeyGone(epoch)
        private_key = X25519PrivateKey.from_private_bytes(pair.private_key)
        signed = _SignedKey.model_validate_json(pair.signed)
        self._epochs[epoch] = EpochSecret(
            epoch,
            private_key,
            private_key.public_key().public_bytes_raw(),
            signed,
            pair.verification_secret,
        )
