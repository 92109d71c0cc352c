"""Seal keys by the hash that an aggregator signed, fetched once and kept in memory.

A key comes from the aggregator, at the address of the join token, or from the coordinator, which
mirrors it. Who serves it need not be trusted: the hash is compared before anything is parsed.
Spec: keys, section 2.1.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from common.store.transactions import Database
from common.web.problems import ProblemReceived
from curator.errors import LastingSignatureMissing, PeerUnavailable, SealKeyUnusable
from curator.parties.peers import Peers
from curator.store import parties as store
from curator.store.parties import PartyRow
from tacit.crypto.seal_keys import SealKeyMalformed, SealPublicKey, key_hash
from tacit.crypto.sealing import SealBroken
from tacit.protocol.round.descriptor import AggregatorEntry, RoundDescriptor
from tacit.protocol.seals import SealRefused, check_lasting

KEPT: Final = 256
"""Keys of 1,216 bytes: those of a day and more, of sixteen aggregators."""


class SealKeys:
    """The public keys that rounds seal to. `anchored`: where the documents of
    aggregators are, if ML-DSA has to have signed every key, too."""

    def __init__(self, peers: Peers, anchored: Database | None = None) -> None:
        self._peers, self._anchored = peers, anchored
        self._lasting: OrderedDict[tuple[bytes, bytes], None] = OrderedDict()
        self._keys: OrderedDict[bytes, SealPublicKey] = OrderedDict()
        self._alone = asyncio.Lock()

    async def of(self, descriptor: RoundDescriptor, party: PartyRow) -> tuple[SealPublicKey, ...]:
        """Of all aggregators of a round, in their order.

        Raises SealKeyUnusable for what an aggregator signed and is no key, LastingSignatureMissing
        where ML-DSA has to have signed it and has not, PeerUnavailable if nobody serves it.
        """
        async with self._alone:  # parties of one round ask for the same keys
            if self._anchored is not None:
                for entry in descriptor.aggregators:
                    await self._check_lasting(self._anchored, entry, party)
            return tuple([await self._key(entry, party) for entry in descriptor.aggregators])

    async def _check_lasting(
        self, database: Database, entry: AggregatorEntry, party: PartyRow
    ) -> None:
        checked = (entry.seal.public_key_hash, entry.identity_key)
        if checked in self._lasting:
            return
        async with database.reading() as transaction:  # what the round's check has followed
            row = (await store.parties_by_id(transaction, [party.id]))[party.id]
        anchor = next(each for each in row.anchors if each.aggregator == entry.id)
        anchored = anchor.pin.anchored
        try:
            signed = await self._peers.seal_signature(anchor.url, entry.seal.public_key_hash)
            check_lasting(signed, entry, () if anchored is None else anchored.documents)
        except ProblemReceived as error:
            if error.retryable or error.status >= 500:
                raise PeerUnavailable(f"{entry.id} does not show its signature") from None
            raise LastingSignatureMissing(f"{entry.id}: {error.name}") from None
        except SealRefused as error:
            raise LastingSignatureMissing(error.detail) from None
        self._lasting[checked] = None
        while len(self._lasting) > KEPT:
            self._lasting.popitem(last=False)

    async def _key(self, entry: AggregatorEntry, party: PartyRow) -> SealPublicKey:
        wanted = entry.seal.public_key_hash
        found = self._keys.get(wanted)
        if found is None:
            raw = await self._fetched(entry.id, wanted, party)
            try:
                found = SealPublicKey(raw)
                found.seal(b"", b"")  # an X25519 half of small order shows only here
            except (SealKeyMalformed, SealBroken) as error:
                raise SealKeyUnusable(f"{entry.id}: {error}") from None
            self._keys[wanted] = found
            while len(self._keys) > KEPT:
                self._keys.popitem(last=False)
        self._keys.move_to_end(wanted)
        return found

    async def _fetched(self, aggregator: str, wanted: bytes, party: PartyRow) -> bytes:
        anchored = [each.url for each in party.anchors if each.aggregator == aggregator]
        for url in (*anchored, party.coordinator_url):
            try:
                raw = await self._peers.seal_key(url, wanted)
            except (PeerUnavailable, ProblemReceived):
                continue
            if key_hash(raw) == wanted:
                return raw
        raise PeerUnavailable(f"nobody serves the seal key of {aggregator}")
