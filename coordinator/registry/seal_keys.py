"""The mirror of the aggregators' seal keys: for curators that cannot reach an aggregator now, and
for aggregators that seal to each other, which never call one another.

Only keys that an open round named are served, and only bytes whose hash is the one that the
aggregator signed; who fetches one compares it again. Spec: keys, section 2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, FastAPI, Response

from common.store.transactions import Database
from common.web.bodies import gives_octets
from common.web.parts import part
from common.web.problems import ProblemReceived
from coordinator.errors import AggregatorUnreachable, UnknownSealKey
from coordinator.registry.answers import gather
from coordinator.registry.peers import Peer, Peers
from coordinator.store import registry
from coordinator.store import seal_keys as store
from tacit.crypto.seal_keys import PUBLIC_KEY_BYTES, key_hash
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.wire import parse_binary

_CACHED_S: Final = 7 * 86_400


@dataclass(frozen=True)
class SealKeyMirror:
    """Public keys by their hash, each fetched from its aggregator once."""

    database: Database
    peers: Peers

    async def key(self, wanted: bytes) -> bytes:
        """1,216 bytes. Raises UnknownSealKey, or AggregatorUnreachable where the aggregator does
        not show what it signed."""
        async with self.database.reading() as transaction:
            row = await store.seal_key(transaction, wanted)
            known = await registry.list_aggregators(transaction, also_removed=True)
        if row is None:
            raise UnknownSealKey
        if row.content is not None:
            return row.content
        peers = [self.peers.of(each) for each in known if each.id == row.aggregator]
        if not peers:
            raise UnknownSealKey
        try:
            content = await peers[0].seal_key_content(wanted)
        except ProblemReceived as error:
            raise AggregatorUnreachable(f"{row.aggregator}: {error.name}") from None
        if len(content) != PUBLIC_KEY_BYTES or key_hash(content) != wanted:
            raise AggregatorUnreachable(f"{row.aggregator} shows another key than it signed")
        async with self.database.begin() as transaction:
            await store.keep_seal_key(transaction, wanted, content)
        return content

    async def hand_over(self, peers: Sequence[Peer], descriptor: RoundDescriptor) -> None:
        """Give the aggregators of a round each other's keys. What cannot be had or given now is
        left out: who lacks a key says so when the round is opened."""
        hashes = {entry.id: entry.seal.public_key_hash for entry in descriptor.aggregators}
        found = await gather(self.key(wanted) for wanted in hashes.values())
        contents = dict(zip(hashes, found, strict=True))
        await gather(
            peer.hand_seal_key(hashes[name], content)
            for peer in peers
            for name, content in contents.items()
            if name != peer.id and isinstance(content, bytes)
        )


def add_seal_keys(app: FastAPI) -> None:
    """Add the route of the mirror to the app."""

    @app.get(
        "/v1/seal-keys/{key_hash}",
        **gives_octets(),
        tags=["registry"],
        summary="A public key that pieces are sealed to, by its hash",
    )
    async def get_seal_key(
        key_hash: str, mirror: Annotated[SealKeyMirror, Depends(part(SealKeyMirror))]
    ) -> Response:
        try:
            wanted = parse_binary(key_hash)
        except ValueError:
            raise UnknownSealKey from None
        content = await mirror.key(wanted)
        headers = {"Cache-Control": f"public, max-age={_CACHED_S}, immutable"}
        return Response(content, media_type="application/octet-stream", headers=headers)
