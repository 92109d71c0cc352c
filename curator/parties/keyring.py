"""What hosted parties seal with: one engine each."""

from __future__ import annotations

from common.runtime.logs import get_logger
from curator.engine import Engine
from curator.sealer import Sealer
from curator.store.parties import PartyRow
from tacit.crypto.signing import Identity
from tacit.randomness import SecureRandom

_logger = get_logger("tacit.curator.keyring")


class Keyring:
    """One engine per party."""

    def __init__(self) -> None:
        self._engines: dict[str, Engine] = {}
        self._source = SecureRandom()

    def engine_of(self, party: PartyRow) -> Engine:
        """The engine of a party."""
        held = self._engines.get(party.id)
        if held is None:
            sealer = Sealer(party.id, Identity.from_bytes(party.identity))
            held = self._engines[party.id] = Engine(sealer, self._source)
        return held

    def forget(self, party: str) -> None:
        """Seal nothing more under the identity that a party had, and make its engine again."""
        self._engines.pop(party, None)

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
