"""The ratchet of suites: whoever took part with a newer one never goes back to an older.

Once a round of format 2 passed all checks, rounds of format 1 of that deployment are refused for
good, by every party here. It is stored before anything is sealed for the round, so neither a
restart nor a coordinator can undo it; join tokens and `TACIT_MINIMUM_SUITE` set the least suite
from outside. Spec: keys, section 3.
"""

from __future__ import annotations

from common.runtime.logs import get_logger
from common.store.transactions import Database
from curator.errors import SuiteDowngraded
from curator.store import suites as store
from curator.store.parties import PartyRow
from tacit.protocol.round.descriptor import RoundDescriptor

_logger = get_logger("tacit.curator.suites")


def suite_of(descriptor: RoundDescriptor) -> int:
    """The suite that a round seals with."""
    return 2 if descriptor.sessions else 1


class Ratchet:
    """`least`: by this service's settings."""

    def __init__(self, database: Database, least: int) -> None:
        self._database, self._least = database, least
        self._turned: dict[tuple[bytes, str], int] = {}

    def check(self, descriptor: RoundDescriptor, party: PartyRow) -> None:
        """Raise SuiteDowngraded for a round below what its deployment has used."""
        turned = self._turned.get(_deployment(party), store.FIRST)
        if suite_of(descriptor) < max(party.minimum_suite, turned, self._least):
            raise SuiteDowngraded(extra={"suite": suite_of(descriptor)})

    async def turn(self, descriptor: RoundDescriptor, party: PartyRow) -> None:
        """A round that passed all checks of this party: nothing below its suite from now on."""
        suite = suite_of(descriptor)
        if suite <= party.minimum_suite:
            return
        key, deployment = _deployment(party)
        async with self._database.begin() as transaction:
            new = await store.raise_suite(transaction, key, deployment, suite)
        self._turned[key, deployment] = suite
        if new:
            _logger.info("minimum_suite_raised", deployment=deployment, suite=suite)


def _deployment(party: PartyRow) -> tuple[bytes, str]:
    assert party.coordinator_key is not None
    return party.coordinator_key, party.deployment
