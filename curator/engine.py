"""The curator engine: readings of a window in, sealed bytes out. It knows no HTTP and no store.

    quantise -> clamp -> f(x) -> noise -> split -> seal        (spec: aggregation, sections 2 to 5)

One engine serves one party, a lone curator or a host of many; a simulation uses the same object as
the service. A curator without readings gets f = 0 plus noise in a piece of the same size.
The noisy values and the shares exist inside `prepare` only: its results are sealed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from common.web.wire import CBOR
from common.web.wire import encode as encode_body
from tacit import sets
from tacit.crypto.sealing import (
    BatchHeader,
    Direction,
    Ends,
    Span,
    agree_key,
    piece_context,
    seal_batch,
    seal_words,
)
from tacit.protocol.round import AggregatorEntry, Piece, RoundDescriptor
from tacit.query.functions import (
    Encoded,
    Readings,
    encode,
    local_sensitivities,
    parts,
    reading_dimension,
    reads_vectors,
)
from tacit.query.mechanisms import curator_plan, draw, draw_by_local_sensitivity, scheme
from tacit.query.query import Query
from tacit.query.words import Function, Stance
from tacit.randomness import NoiseSource
from tacit.units import NANO, UNITS

Ints = NDArray[np.int64]

OCTETS: Final = "application/octet-stream"
_KEYS: Final = 256


@dataclass(frozen=True)
class SealingKey:
    """A party's X25519 key of one epoch."""

    party: str
    epoch: int
    private: X25519PrivateKey

    @classmethod
    def from_bytes(cls, party: str, epoch: int, secret: bytes) -> SealingKey:
        """The key of 32 stored bytes."""
        return cls(party, epoch, X25519PrivateKey.from_private_bytes(secret))

    @property
    def public(self) -> bytes:
        """The raw public key."""
        return self.private.public_key().public_bytes_raw()


@dataclass(frozen=True)
class Body:
    """Sealed bytes for one aggregator, ready to be stored and sent."""

    aggregator: str
    media_type: str
    content: bytes


@dataclass(frozen=True)
class Prepared:
    """One segment's sealed bodies; `used` and `clamped` count readings, for their owners only."""

    bodies: tuple[Body, ...]
    used: Ints
    clamped: Ints


class Encodable(Protocol):
    """What becomes f(x) by other means than readings: records of a federated job."""

    @property
    def count(self) -> int:
        """Curators."""
        ...

    def encoded(self, query: Query) -> Encoded:
        """f(x) of each, bounded as the query requires."""
        ...


class Engine:
    """Makes contributions of one party. The source is `SecureRandom` in a service."""

    def __init__(self, key: SealingKey, source: NoiseSource) -> None:
        self._source = source
        self._key = key
        self._agreed: OrderedDict[tuple[str, int, bytes], bytes] = OrderedDict()

    @property
    def key(self) -> SealingKey:
        """The sealing key in use."""
        return self._key

    def prepare(self, descriptor: RoundDescriptor, readings: Readings | Encodable) -> Prepared:
        """A lone curator's pieces, one per aggregator. `readings.count` is 1."""
        values, prepared = self._values(descriptor.query, readings)
        digest, d = descriptor.digest(), values.shape[1]
        bodies = []
        for index, (entry, words) in enumerate(
            zip(descriptor.aggregators, self._split(descriptor.query, values), strict=True)
        ):
            context = piece_context(digest, self._key.party, entry.id, index, d)
            nonce, sealed = seal_words(self._agreed_key(entry), words, context)
            piece = Piece(
                sender=self._key.party, key_epoch=self._key.epoch, nonce=nonce, sealed=sealed
            )
            bodies.append(Body(entry.id, CBOR, encode_body(piece, CBOR)))
        return Prepared(tuple(bodies), *prepared)

    def prepare_segment(
        self,
        descriptor: RoundDescriptor,
        span: Span,
        present: NDArray[np.bool_],
        readings: Readings | Encodable,
        part: int = 0,
    ) -> Prepared:
        """A host's batches of one segment, one per aggregator.

        `present`: (span.length,) whether each participates; `readings.count` is their number, in
        the order of their roster numbers.
        """
        values, prepared = self._values(descriptor.query, readings)
        digest, d = descriptor.digest(), values.shape[1]
        presence = sets.pack(present)
        bodies = []
        shares = deque(self._split(descriptor.query, values))
        for index, entry in enumerate(descriptor.aggregators):
            words = shares.popleft()  # free as soon as it is sealed
            header = BatchHeader(
                host=self._key.party,
                descriptor_hash=digest,
                share_index=index,
                part=part,
                span=span,
                dimension=d,
                key_epoch=self._key.epoch,
                presence=presence,
            )
            bodies.append(
                Body(entry.id, OCTETS, seal_batch(self._agreed_key(entry), header, words))
            )
        return Prepared(tuple(bodies), *prepared)

    def _values(
        self, query: Query, readings: Readings | Encodable
    ) -> tuple[Ints, tuple[Ints, Ints]]:
        if isinstance(readings, Readings):
            readings = within_reach(query, readings)
            encoded = encode(query, readings)
        else:
            encoded = readings.encoded(query)
        plan = curator_plan(query)
        values = encoded.values
        if plan is not None and query.stance is Stance.PAPER:
            assert isinstance(readings, Readings)
            sensitivities = tuple(part.sensitivity for part in parts(query))
            local = local_sensitivities(query, readings)
            values = values + draw_by_local_sensitivity(plan, sensitivities, local, self._source)
        elif plan is not None:
            values = values + draw(plan, self._source, readings.count)
        return values, (encoded.used, encoded.clamped)

    def _split(self, query: Query, values: Ints) -> list[NDArray[np.uint64]]:
        sharing = scheme(query)
        return sharing.split(values, self._source)

    def _agreed_key(self, entry: AggregatorEntry) -> bytes:
        statement = entry.epoch_key.statement
        name = (entry.id, statement.epoch, statement.public_key)
        found = self._agreed.get(name)
        if found is None:
            ends = Ends(
                sender=self._key.party,
                receiver=entry.id,
                sender_key=self._key.public,
                receiver_key=statement.public_key,
                epoch=statement.epoch,
                direction=Direction.CURATOR_TO_AGGREGATOR,
            )
            found = self._agreed[name] = agree_key(self._key.private, ends)
            while len(self._agreed) > _KEYS:
                self._agreed.popitem(last=False)
        return found


def no_readings(query: Query, count: int) -> Readings:
    """Of `count` curators that have none."""
    shape = (0, reading_dimension(query)) if reads_vectors(query) else (0,)
    empty = np.zeros(0, np.int64)
    return Readings(count, empty, np.zeros(shape, np.int64), empty)


def within_reach(query: Query, readings: Readings) -> Readings:
    """Quantities moved to just beyond the query's bounds where they are far outside.

    f(x) is the same, as they are clamped anyway; but no absurd reading can overflow a later step,
    which would make participation depend on data.
    """
    quantity = readings.quantity
    if query.function in (Function.COUNT, Function.HISTOGRAM) or quantity.size == 0:
        return readings
    if quantity.ndim == 2:
        reach = 2**61 // quantity.shape[1]
        low, high = -reach, reach
    else:
        nano = UNITS[query.unit].factor * NANO
        step = 2 * int(query.resolution * nano) + 1
        low, high = (int(bound * nano) for bound in query.bounds)
        low, high = max(low - step, -(2**62)), min(high + step, 2**62)
    if low <= quantity.min() and quantity.max() <= high:
        return readings
    limited = np.clip(quantity, low, high)
    return Readings(readings.count, readings.curator, limited, readings.offset)
