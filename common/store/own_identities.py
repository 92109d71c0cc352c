"""A service's signing identities in memory, and the highest serial number in use, in a file.

The highest serial number of an identity that was in use here, in a file next to the database.

It only rises, and no backup holds it. So a database that was put back from before a replacement is
recognised: others refuse its identity, and a second replacement from there would be a fork. Spec:
keys, section 5.2.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final

from sqlalchemy import Table

from common.store.identities import OwnIdentity, chain_of, first_identity, identities
from common.store.transactions import Database, Transaction
from tacit.crypto.signing import HybridIdentity, Identity
from tacit.errors import StartRefused
from tacit.protocol.identities import IdentityChain, IdentitySuperseded, SignedDocument


class IdentityPutBack(StartRefused):
    """The database holds an identity from before a replacement."""


@dataclass(frozen=True)
class SerialFile:
    """One number in a file of mode 0600."""

    path: Path

    def check(self, serial: int) -> None:
        """Raise IdentityPutBack if a later identity than this one was in use."""
        newest = self.read()
        if serial < newest:
            raise IdentityPutBack(
                f"identity_superseded: the database holds identity {serial}, and {newest} was in "
                f"use ({self.path}): restore a backup of after the replacement"
            )

    def read(self) -> int:
        """The highest number; 0 before the first replacement."""
        try:
            return int(self.path.read_text("ascii"))
        except FileNotFoundError:
            return 0

    def keep(self, serial: int) -> None:
        """On the disk when this returns. It only rises."""
        if serial <= self.read():
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.draft")
        draft.unlink(missing_ok=True)
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w", encoding="ascii") as stream:
            stream.write(str(serial))
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


# A service's signing identities in memory: that of now, and replaced ones that are still named.
#
# Spec: keys, section 5.2.

GRACE: Final = timedelta(minutes=2)
"""How long descriptors under way, and keys that a coordinator keeps, may name the one before."""


class OwnIdentities:
    """The current identity, and earlier ones. Another process of the service may replace it:
    `load` reads them again."""

    def __init__(
        self,
        database: Database,
        table: Table,
        identities_held: tuple[OwnIdentity, ...],
        newest: SerialFile,
    ) -> None:
        self.database, self.table = database, table
        self._held, self._newest = identities_held, newest

    @classmethod
    async def of(cls, database: Database, table: Table, newest: SerialFile) -> OwnIdentities:
        """The identities of a store; the first is made at the first start. Raises
        IdentityPutBack if a later one was in use."""
        async with database.begin() as transaction:
            identities_held = await first_identity(transaction, table)
        newest.check(identities_held[-1].serial)
        newest.keep(identities_held[-1].serial)
        return cls(database, table, identities_held, newest)

    @property
    def revoked(self) -> bool:
        """Whether the last identity was revoked: nothing is signed any more."""
        return self._held[-1].revokes

    @property
    def current(self) -> Identity:
        """The signing identity of now. Raises IdentitySuperseded once it is revoked."""
        if self.revoked:
            raise IdentitySuperseded("this service has revoked its identity")
        return self._held[-1].signer

    @property
    def serial(self) -> int:
        """Of the identity of now."""
        return self._held[-1].serial

    @property
    def chain(self) -> IdentityChain | None:
        """What others are shown; None before the first commitment."""
        return chain_of(self._held)

    @property
    def public_keys(self) -> tuple[bytes, ...]:
        """All public keys, also of those whose private half is destroyed; that of now first."""
        return tuple(
            identity.public_key for identity in reversed(self._held) if not identity.revokes
        )

    def signer(self, public_key: bytes) -> Identity | None:
        """The identity with this public key; None if it is not here, or destroyed."""
        for identity in self._held:
            if identity.secret is not None and identity.public_key == public_key:
                return identity.signer
        return None

    def pair(self, public_key: bytes) -> tuple[HybridIdentity, SignedDocument] | None:
        """The pair with this Ed25519 key, and its document; None if it is not here, destroyed,
        or has no document yet."""
        for identity in self._held:
            if identity.secret is None or identity.document is None:
                continue
            if identity.public_key == public_key:
                return HybridIdentity(identity.secret), identity.document
        return None

    def may_open(self, public_key: bytes, now: datetime) -> bool:
        """Whether a new round may name the identity with this key: the current one, and the one
        before for `GRACE`, unless it was compromised."""
        if not self.revoked and self._held[-1].public_key == public_key:
            return True
        return any(identity.public_key == public_key for identity in self.in_grace(now))

    def in_grace(self, now: datetime) -> tuple[OwnIdentity, ...]:
        """Those that were replaced a moment ago."""
        return tuple(
            old
            for old, new in pairwise(self._held)
            if old.until is not None
            and new.link is not None
            and now < min(old.until, new.link.statement.effective + GRACE)
        )

    def replaced(self) -> tuple[OwnIdentity, ...]:
        """Those that were replaced and whose private half is not destroyed yet."""
        return tuple(identity for identity in self._held[:-1] if identity.secret is not None)

    async def load(self) -> None:
        """What is stored now."""
        await self.database.read(self.load_in)
        self._newest.keep(self.serial)

    async def load_in(self, transaction: Transaction) -> None:
        """The same inside a transaction."""
        identities_held = await identities(transaction, self.table)
        if identities_held != self._held:  # else their keys are made already
            self._held = identities_held
