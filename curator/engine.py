"""The curator engine: readings of a window in, sealed bytes out. It knows no HTTP and no store.

    quantise -> clamp -> f(x) -> noise -> split -> seal        (spec: aggregation, sections 2 to 5)

In a proved round noise is clamped, too, shares carry a proof, and a host sends one proved total for
each part instead of its curators' pieces (spec: validity, sections 8 and 9).

One engine serves one party, a lone curator or a host of many; a simulation uses the same object as
the service. A curator without readings gets f = 0 plus noise in a piece of the same size.
The noisy values and the shares exist inside `prepare` only: its results are sealed.

`Sealer` keeps the sealing sessions, in memory only: a session is one encapsulation to one
aggregator's seal key, and a restart begins another. Its announcement goes with what is sealed until
the aggregator has answered under the session (spec: aggregation, section 8; keys, section 2.2).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from common.bodies import CBOR
from common.bodies import encode as encode_body
from tacit import sets
from tacit.crypto.sealing import (
    BatchHeader,
    Direction,
    PartHeader,
    SealPublicKey,
    Span,
    seal_batch,
    seal_octets,
    seal_part,
)
from tacit.crypto.signing import Identity
from tacit.protocol import sealing_sessions
from tacit.protocol.round import pieces as proved_pieces
from tacit.protocol.round.descriptor import AggregatorEntry, RoundDescriptor
from tacit.protocol.round.pieces import DeclaredForm, Piece
from tacit.protocol.sealing_sessions import SessionEnds, begin_session
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
    draw_total,
)
from tacit.query.proofs import ProofPlan, is_proved, proof_plan
from tacit.query.query import Query
from tacit.query.terms import Function, Stance
from tacit.randomness import NoiseSource
from tacit.units import NANO, UNITS
from tacit.validity.field import Rows

_SESSIONS_EACH: Final = 3
"""Of one aggregator: those of its current seal key, of the one before, and of one for a round."""


@dataclass(frozen=True)
class Seal:
    """A session to seal under. `announce`: the session's signed announcement in CBOR, unless its
    aggregator knows it."""

    key: bytes
    session: bytes
    announce: bytes | None = None


class Sealer:
    """One party's keys towards all its aggregators."""

    def __init__(self, party: str, identity: Identity) -> None:
        self.party = party
        self._identity = identity
        self._sessions: OrderedDict[tuple[str, bytes], Seal] = OrderedDict()

    def seal(self, descriptor: RoundDescriptor, index: int, seal_key: SealPublicKey) -> Seal:
        """The seal for the aggregator at this index in this round, with the seal key of its
        entry. Raises SealBroken for a key that yields no shared secret."""
        entry = descriptor.aggregators[index]
        if seal_key.hash != entry.seal.public_key_hash:
            raise ValueError("not the seal key of this aggregator's entry")
        name = (entry.id, seal_key.hash)
        session = self._sessions.get(name)
        if session is None:
            ends = SessionEnds(
                deployment=descriptor.deployment,
                party=self.party,
                party_key=self._identity.public_key,
                aggregator=entry.id,
                aggregator_key=entry.identity_key,
                direction=Direction.CURATOR_TO_AGGREGATOR,
            )
            sealing_session = begin_session(self._identity, ends, seal_key)
            session = Seal(
                sealing_session.key,
                session=sealing_session.id,
                announce=encode_body(sealing_session.announce, CBOR),
            )
            self._sessions[name] = session
            while len(self._sessions) > _SESSIONS_EACH * len(descriptor.aggregators):
                self._sessions.popitem(last=False)
        return session

    def is_answered(self, session: bytes) -> bool:
        """Whether the aggregator of a session has answered under it."""
        name = self._find(session)
        return name is not None and self._sessions[name].announce is None

    def answered(self, session: bytes) -> None:
        """The aggregator of a session has answered under it, so it needs no further
        announcement."""
        name = self._find(session)
        if name is not None:
            self._sessions[name] = Seal(self._sessions[name].key, session=session)

    def forget(self, session: bytes) -> None:
        """Seal nothing more under a session: its aggregator has lost it."""
        name = self._find(session)
        if name is not None:
            del self._sessions[name]

    def _find(self, session: bytes) -> tuple[str, bytes] | None:
        sessions = self._sessions.items()
        return next((name for name, seal in sessions if seal.session == session), None)


Ints = NDArray[np.int64]
Share = NDArray[np.uint64 | np.uint8]

OCTETS: Final = "application/octet-stream"


@dataclass(frozen=True)
class Body:
    """Sealed bytes for one aggregator, ready to be stored and sent. `session`: the one under
    which they are sealed."""

    aggregator: str
    media_type: str
    content: bytes
    session: bytes | None = None
    announce: bytes | None = None
    """Of the session, for an aggregator that does not know it yet."""


@dataclass(frozen=True)
class Prepared:
    """One segment's sealed bodies; for their owners only: `used` and `clamped`, which count
    readings, and `kept`, millionths of a contribution."""

    bodies: tuple[Body, ...]
    used: Ints
    clamped: Ints
    kept: Ints


@dataclass(frozen=True)
class Total:
    """The sum of f(x) over some curators of a part, (d,), and `used`, `clamped` and `kept` of
    each."""

    values: Ints
    used: Ints
    clamped: Ints
    kept: Ints

    @classmethod
    def of(cls, query: Query, readings: Readings | Encodable) -> Total:
        """That of these readings."""
        encoded = _encoded(query, readings)
        total = encoded.values.sum(axis=0)
        return cls(total, encoded.used, encoded.clamped, encoded.kept)


@dataclass(frozen=True)
class HostPart:
    """A host's part of a proved round. `present`: (span.length,) whether each curator
    participates; `totals`: of the participants, in the order of their roster numbers."""

    span: Span
    present: NDArray[np.bool_]
    totals: Sequence[Total]
    part: int = 0

    @property
    def curators(self) -> int:
        """n': of how many curators it is."""
        return int(np.count_nonzero(self.present))


@dataclass(frozen=True)
class Placed:
    """What a host's body covers: `presence`: the curators of the span in it."""

    span: Span
    part: int
    presence: bytes


class Encodable(Protocol):
    """A source of f(x) other than readings: records of a federated job."""

    @property
    def count(self) -> int:
        """Curators."""
        ...

    def encoded(self, query: Query) -> Encoded:
        """f(x) of each, bounded as the query requires."""
        ...


@dataclass(frozen=True)
class Terms:
    """A round's descriptor, and what follows from it for every party: computed once per round, not
    once per party.

    `invited`: one boolean per roster number, None for everyone.
    """

    descriptor: RoundDescriptor
    digest: bytes
    query_digest: bytes
    dimension: int
    invited: sets.Bits | None
    plan: NoisePlan | None
    proofs: ProofPlan | None
    """What contributions are proved to be, in a proved round."""
    seal_keys: tuple[SealPublicKey, ...] = ()
    """Of all aggregators, once they were fetched."""

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
            proof_plan(query) if is_proved(query) else None,
        )

    @property
    def query(self) -> Query:
        """What the round computes."""
        return self.descriptor.query

    @cached_property
    def declared(self) -> DeclaredForm:
        """The form of contributions that are not proved."""
        return DeclaredForm.of(self.descriptor)

    @property
    def piece_words(self) -> int:
        """Words of 8 bytes in the longest of a lone curator's pieces."""
        if self.proofs is None:
            return self.dimension
        return -(-self.proofs.of(1).share_bytes(0) // 8)


class Engine:
    """Makes contributions of one party. The source is `SecureRandom` in a service."""

    def __init__(self, sealer: Sealer, source: NoiseSource) -> None:
        self.sealer = sealer
        self._source = source

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
        encoded = _encoded(terms.query, readings)
        noise = _noise(terms, readings, self._source)
        presence = sets.pack(present)
        place = Placed(span, part, presence)
        bodies = []
        shares = deque(_declared(terms, encoded.values, noise, self._source, hosted=True))
        for index, entry in enumerate(terms.descriptor.aggregators):
            share = shares.popleft()  # free as soon as it is sealed
            if terms.declared.seeded(index, hosted=True):
                bodies.append(self._one_plaintext(terms, index, place, share.tobytes()))
                continue
            seal = self._seal(terms, index)
            header = BatchHeader(
                host=self.sealer.party,
                descriptor_hash=terms.digest,
                share_index=index,
                part=part,
                span=span,
                dimension=terms.dimension,
                sealed_under=seal.session,
                presence=presence,
            )
            words = share.astype(np.uint64, copy=False)
            bodies.append(_body(entry, OCTETS, seal_batch(seal.key, header, words), seal))
        return Prepared(tuple(bodies), encoded.used, encoded.clamped, encoded.kept)

    def _one_plaintext(self, terms: Terms, index: int, place: Placed, plain: bytes) -> Body:
        """One plaintext for all of a host's curators in a segment, in the form that an
        aggregator receives."""
        seal = self._seal(terms, index)
        header = PartHeader(
            host=self.sealer.party,
            descriptor_hash=terms.digest,
            share_index=index,
            part=place.part,
            span=place.span,
            plaintext_bytes=len(plain),
            sealed_under=seal.session,
            presence=place.presence,
        )
        sealed = seal_part(seal.key, header, plain)
        return _body(terms.descriptor.aggregators[index], OCTETS, sealed, seal)

    def _sealed_part(self, terms: Terms, own: HostPart, shares: Sequence[bytes]) -> Prepared:
        """A host's part, one body per aggregator."""
        place = Placed(own.span, own.part, sets.pack(own.present))
        bodies = [
            self._one_plaintext(terms, index, place, plain) for index, plain in enumerate(shares)
        ]
        return Prepared(
            tuple(bodies),
            _joined([total.used for total in own.totals]),
            _joined([total.clamped for total in own.totals]),
            _joined([total.kept for total in own.totals]),
        )

    def _sealed(self, terms: Terms, index: int, share: Share) -> Body:
        """A lone curator's piece for the aggregator of this place."""
        entry, party = terms.descriptor.aggregators[index], self.sealer.party
        seal = self._seal(terms, index)
        length = terms.dimension if terms.proofs is None else share.size
        place = (terms.digest, party, entry.id, index, length)
        if terms.proofs is not None:
            context = proved_pieces.piece_context(*place)
        else:
            context = sealing_sessions.piece_context(*place)
        plain = share.astype(share.dtype.newbyteorder("<"), copy=False).tobytes()
        nonce, sealed = seal_octets(seal.key, plain, context)
        piece = Piece(
            sender=party,
            session=seal.session,
            nonce=nonce,
            sealed=sealed,
        )
        content = encode_body(piece.model_dump(exclude_none=True), CBOR)
        return _body(entry, CBOR, content, seal)

    def _seal(self, terms: Terms, index: int) -> Seal:
        return self.sealer.seal(terms.descriptor, index, terms.seal_keys[index])


def _body(entry: AggregatorEntry, media_type: str, content: bytes, seal: Seal) -> Body:
    return Body(entry.id, media_type, content, seal.session, seal.announce)


def prepare_together(
    terms: Terms, engines: Sequence[Engine], readings: Readings | Encodable
) -> list[Prepared]:
    """The pieces of lone curators, each sealed by its own engine; `readings` has them in the order
    of the engines.

    Noise and shares of all are drawn together, from the first engine's source.
    """
    source = engines[0]._source
    encoded = _encoded(terms.query, readings)
    shares = _shares(terms, encoded.values, _noise(terms, readings, source), source)
    return [
        Prepared(
            tuple(engine._sealed(terms, index, rows[row]) for index, rows in enumerate(shares)),
            encoded.used[row : row + 1],
            encoded.clamped[row : row + 1],
            encoded.kept[row : row + 1],
        )
        for row, engine in enumerate(engines)
    ]


def prepare_parts(
    terms: Terms, engines: Sequence[Engine], parts: Sequence[HostPart]
) -> list[Prepared]:
    """Parts of a proved round, each sealed by the engine of its host.

    Totals over equally many curators are proved together, with randomness of the first engine's
    source.
    """
    prepared: dict[int, Prepared] = {}
    sizes = [part.curators for part in parts]
    for curators in sorted(set(sizes)):
        places = [place for place, size in enumerate(sizes) if size == curators]
        shares = _proved_totals(
            terms, curators, [parts[place] for place in places], engines[0]._source
        )
        for row, place in enumerate(places):
            plain = [rows[row].tobytes() for rows in shares]
            prepared[place] = engines[place]._sealed_part(terms, parts[place], plain)
    return [prepared[place] for place in range(len(parts))]


def _joined(several: Sequence[Ints]) -> Ints:
    """Their elements one after the other; one alone is not copied."""
    return several[0] if len(several) == 1 else np.concatenate(several)


def _proved_totals(
    terms: Terms, curators: int, parts: Sequence[HostPart], source: NoiseSource
) -> tuple[Rows, ...]:
    """Plaintexts for each aggregator, a row for each of these parts of `curators` curators."""
    assert terms.proofs is not None
    values = np.stack([np.sum([total.values for total in part.totals], axis=0) for part in parts])
    noise = None
    if terms.plan is not None:
        noise = np.stack([draw_total(terms.plan, source, curators) for _ in parts])
    proof = terms.proofs.of(curators)
    return proved_pieces.split(proof, terms.digest, values, noise, source)


def _encoded(query: Query, readings: Readings | Encodable) -> Encoded:
    """f(x) of each, (count, d), and what its owner learns of it."""
    if isinstance(readings, Readings):
        return encode(query, within_reach(query, readings))
    return readings.encoded(query)


def _noise(terms: Terms, readings: Readings | Encodable, source: NoiseSource) -> Ints | None:
    """The noise of each curator, (count, d); None where curators draw none."""
    query, plan = terms.query, terms.plan
    if plan is None:
        return None
    if query.stance is not Stance.PAPER:
        return draw(plan, source, readings.count)
    assert isinstance(readings, Readings)
    sensitivities = tuple(part.sensitivity for part in parts(query))
    local = local_sensitivities(query, within_reach(query, readings))
    return draw_by_local_sensitivity(plan, sensitivities, local, source)


def _shares(terms: Terms, values: Ints, noise: Ints | None, source: NoiseSource) -> Sequence[Share]:
    """What is sealed for each aggregator, a row for each lone curator."""
    if terms.proofs is None:
        return _declared(terms, values, noise, source, hosted=False)
    return proved_pieces.split(terms.proofs.of(1), terms.digest, values, noise, source)


def _declared(
    terms: Terms, values: Ints, noise: Ints | None, source: NoiseSource, *, hosted: bool
) -> Sequence[Share]:
    """Shares of noisy values (count, d) without a proof."""
    noisy = values if noise is None else values + noise
    return terms.declared.split(noisy, source, hosted=hosted)


def joined(several: Sequence[Readings]) -> Readings:
    """The readings of several groups of curators as one group, in their order."""
    firsts = np.cumsum([0, *(readings.count for readings in several)])
    return Readings(
        int(firsts[-1]),
        np.concatenate(
            [readings.curator + first for readings, first in zip(several, firsts, strict=False)]
        ),
        np.concatenate([readings.quantity for readings in several]),
        np.concatenate([readings.offset for readings in several]),
    )


def no_readings(query: Query, count: int) -> Readings:
    """Of `count` curators that have none."""
    shape = (0, reading_dimension(query)) if reads_vectors(query) else (0,)
    empty = np.zeros(0, np.int64)
    return Readings(count, empty, np.zeros(shape, np.int64), empty)


def within_reach(query: Query, readings: Readings) -> Readings:
    """Quantities far outside the query's bounds are moved to just beyond them.

    f(x) is the same, as they are clamped anyway; but no absurd reading can overflow a later
    step, which would make participation depend on data.
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
