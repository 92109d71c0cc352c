"""The keys that an aggregator showed last, so that not every round asks for them again."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, TypeVar

from tacit.crypto.signing import Signed
from tacit.protocol.sessions import SealKeyStatement
from tacit.wire import WireModel

KEY_KEPT: Final = timedelta(minutes=1)
"""How long a key that was shown serves for further rounds."""
HANDED: Final = 256
"""Keys of others that an aggregator is known to have."""

Statement = TypeVar("Statement", bound=WireModel)


@dataclass
class _ShownKey(Generic[Statement]):
    """The key that an aggregator showed last, verified, and when."""

    key: Signed[Statement] | None = None
    at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def current(
        self, now: datetime, ask: Callable[[], Awaitable[Signed[Statement]]]
    ) -> Signed[Statement]:
        """The one shown within the last minute, or what it shows now."""
        async with self.lock:
            if self.key is None or not timedelta() <= now - self.at < KEY_KEPT:
                self.key, self.at = await ask(), now
            return self.key


@dataclass(frozen=True)
class ShownKeys:
    """The keys that an aggregator showed last; `handed`: those of others that it was given."""

    seal: _ShownKey[SealKeyStatement] = field(default_factory=_ShownKey)
    handed: OrderedDict[bytes, None] = field(default_factory=OrderedDict)

    def hand(self, key_hash: bytes) -> None:
        """It has another one's key."""
        self.handed[key_hash] = None
        while len(self.handed) > HANDED:
            self.handed.popitem(last=False)

    def forget(self) -> None:
        """Show and ask for them again."""
        self.seal.key = None
        self.handed.clear()
