"""Sessions under one seal key: their keys in memory, in a bounded cache.

A session's key K is stored under the wrapping key of its seal key (`wrapped`), with the session and
with every piece that is sealed under it. So whatever is stored opens with the wrapping key alone,
and nothing of it opens once that is destroyed. Spec: keys, section 2.4.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tacit.crypto.sealing import NONCE_BYTES, SealBroken, length_prefixed, seal_octets

WRAPPED_BYTES: Final = 60
"""Nonce, key and tag of a wrapped key."""
_LABEL: Final = b"tacit wrapped key v1"


class Wrapping:
    """Seals the secrets of one seal key, each in its place, under its wrapping key."""

    def __init__(self, wrapping_key: bytes, party: str, number: int, key_hash: bytes) -> None:
        self._key = wrapping_key
        self._place = length_prefixed(_LABEL, party.encode(), str(number).encode(), key_hash)
        self._cipher = AESGCM(wrapping_key)

    def wrap(self, name: str, secret: bytes) -> bytes:
        """A secret of 32 bytes, sealed under this name."""
        nonce, sealed = seal_octets(self._key, secret, self._place + name.encode())
        return nonce + sealed

    def unwrap(self, name: str, wrapped: bytes) -> bytes:
        """The secret of this name. Raises SealBroken."""
        place = self._place + name.encode()
        try:
            return self._cipher.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], place)
        except (InvalidTag, ValueError):
            raise SealBroken("the wrapping key does not open it") from None


@dataclass(frozen=True, slots=True)
class HeldSession:
    """A session of a party: its key, and the same wrapped. `fresh`: not stored yet."""

    id: bytes
    key: bytes = field(repr=False)
    wrapped: bytes
    fresh: bool = False


class SessionCache:
    """The sessions of one seal key that were used last, by the party's key in the store."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._held: OrderedDict[tuple[int, bytes], HeldSession] = OrderedDict()

    def get(self, party: int, session: bytes) -> HeldSession | None:
        """A stored session, if it is in memory."""
        return self._held.get((party, session))

    def put(self, party: int, session: HeldSession) -> None:
        """Keep one that is stored."""
        self._held[party, session.id] = session
        while len(self._held) > self._capacity:
            self._held.popitem(last=False)
