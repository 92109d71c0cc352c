"""The curator engine: readings of a window in, sealed bytes out. It knows no HTTP and no store.

    quantise -> clamp -> f(x) -> noise -> split -> seal        (spec: aggregation, sections 2 to 5)

One engine serves one party, a lone curator or a host of many; a simulation uses the same object as
the service. A curator without readings gets f = 0 plus noise in a piece of the same size.
The noisy values and the shares exist inside `prepare` only: its results are sealed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
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
    dimension,
    encode,
    local_sensitivities,
    parts,
    reading_dimension,
    reads_vectors,
)
from tacit.query.mechanisms import (
    NoisePlan,
    curator_plan,
    draw,
    draw_by_local_sensitivity,
    scheme,
)
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


@dataclass(frozen=True)
class Terms:
    """A round's descriptor, and what follows from it for every party: worked out once a round, not
    once a party. `invited`: one boolean per roster number, None for everyone."""

    descriptor: RoundDescriptor
    digest: bytes
    query_digest: bytes
    dimension: int
    invited: sets.Bits | None
    plan: NoisePlan | None

    @classmethod
    def of(cls, descriptor: RoundDescriptor) -> Terms:
        """The terms of a descriptor."""
        query = descriptor.query
        return cls(
            descriptor,
            descriptor.digest(),
            query.digest(),
            dimension(query),
            descriptor.invited(),
            curator_plan(query),
        )

    @property
    def query(self) -> Query:
        """What the round computes."""
        return self.descriptor.query


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

    def prepare(self, terms: Terms, readings: Readings | Encodable) -> Prepared:
        """A lone curator's pieces, one per aggregator. `readings.count` is 1."""
        return prepare_together(terms, [self], readings)[0]

    def prepare_segment(
        self,
        terms: Terms,
        span: Span,
        present: NDArray[np.bool_],
        readings: Readings | Encodable,
        part: int = 0,
    ) -> Prepared:
        """A host's batches of one segment, one per aggregator.

        `present`: (span.length,) whether each participates; `readings.count` is their number, in
        the order of their roster numbers.
        """
        values, used, clamped = self._values(terms, readings)
        presence = sets.pack(present)
        bodies = []
        shares = deque(self._split(terms.query, values))
        for index, entry in enumerate(terms.descriptor.aggregators):
            words = shares.popleft()  # free as soon as it is sealed
            header = BatchHeader(
                host=self._key.party,
                descriptor_hash=terms.digest,
                share_index=index,
                part=part,
                span=span,
                dimension=terms.dimension,
                key_epoch=self._key.epoch,
                presence=presence,
            )
            bodies.append(
                Body(entry.id, OCTETS, seal_batch(self._agreed_key(entry), header, words))
            )
        return Prepared(tuple(bodies), used, clamped)

    def _sealed(self, terms: Terms, index: int, words: NDArray[np.uint64]) -> Body:
        """A lone curator's piece for the aggregator of this place; `words`: (d,)."""
        entry, own = terms.descriptor.aggregators[index], self._key
        context = piece_context(terms.digest, own.party, entry.id, index, terms.dimension)
        nonce, sealed = seal_words(self._agreed_key(entry), words, context)
        piece = Piece(sender=own.party, key_epoch=own.epoch, nonce=nonce, sealed=sealed)
        return Body(entry.id, CBOR, encode_body(piece, CBOR))

    def _values(self, terms: Terms, readings: Readings | Encodable) -> tuple[Ints, Ints, Ints]:
        """Noisy f(x), (count, d), and how many readings of each were used and clamped."""
        query, plan = terms.query, terms.plan
        if isinstance(readings, Readings):
            readings = within_reach(query, readings)
            encoded = encode(query, readings)
        else:
            encoded = readings.encoded(query)
        values = encoded.values
        if plan is not None and query.stance is Stance.PAPER:
            assert isinstance(readings, Readings)
            sensitivities = tuple(part.sensitivity for part in parts(query))
            local = local_sensitivities(query, readings)
            values = values + draw_by_local_sensitivity(plan, sensitivities, local, self._source)
        elif plan is not None:
            values = values + draw(plan, self._source, readings.count)
        return values, encoded.used, encoded.clamped

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


def prepare_together(
    terms: Terms, engines: Sequence[Engine], readings: Readings | Encodable
) -> list[Prepared]:
    """The pieces of lone curators, each sealed by its own engine; `readings` has them in the order
    of the engines. Noise and shares of all are drawn at once, from the first one's source."""
    values, used, clamped = engines[0]._values(terms, readings)
    shares = engines[0]._split(terms.query, values)
    return [
        Prepared(
            tuple(engine._sealed(terms, index, words[row]) for index, words in enumerate(shares)),
            used[row : row + 1],
            clamped[row : row + 1],
        )
        for row, engine in enumerate(engines)
    ]


def joined(several: Sequence[Readings]) -> Readings:
    """The readings of several groups of curators as those of one, in their order."""
    firsts = np.cumsum([0, *(each.count for each in several)])
    return Readings(
        int(firsts[-1]),
        np.concatenate(
            [each.curator + first for each, first in zip(several, firsts, strict=False)]
        ),
        np.concatenate([each.quantity for each in several]),
        np.concatenate([each.offset for each in several]),
    )


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
