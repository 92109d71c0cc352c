"""Sealed pieces in transit to an aggregator, and what is inside the seals of a declared
contribution, and of one with a proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from tacit.crypto.sealing import length_prefixed
from tacit.crypto.sharing import Ints, Scheme, Words
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import RoundDescriptor, RoundId
from tacit.protocol.sealing_sessions import Session, SessionId
from tacit.query.functions import dimension
from tacit.query.mechanisms import scheme
from tacit.query.proofs import ContributionProof
from tacit.query.terms import Identifier
from tacit.randomness import SEED_BYTES, NoiseSource
from tacit.validity.field import Mask, Rows
from tacit.validity.prio3 import NONCE_BYTES, Contributions, Prio3
from tacit.wire import Binary, WireModel, require


class Piece(WireModel):
    """One sealed piece of one sender for one aggregator; words inside are little-endian.

    It names a session, and carries its announcement until the aggregator has answered under it.
    """

    sender: Identifier
    session: SessionId
    nonce: Annotated[Binary, Field(min_length=12, max_length=12)]
    sealed: Binary
    announce: Signed[Session] | None = None

    @model_validator(mode="after")
    def _one_key(self) -> Piece:
        alone = self.announce is None or self.announce.statement.session == self.session
        require(alone, None, "the announcement is of another session")
        return self


class CarriedPiece(Piece):
    """A piece among those of several parties in one request, with its own party's token, and
    with its round if the request is for several rounds."""

    token: Annotated[str, Field(max_length=512)] | None = None
    round: RoundId | None = None


class CarriedBatch(WireModel):
    """A sealed batch among several in one request, with its own host's token, and with its round
    if the request is for several rounds."""

    body: Binary
    token: Annotated[str, Field(max_length=512)] | None = None
    round: RoundId | None = None


class Contribution(WireModel):
    """An aggregator's own noise as a shared value (Shamir), one sealed piece per aggregator."""

    aggregator: Identifier
    pieces: tuple[Piece, ...]


class ItemAnswer(WireModel):
    """The answer to one item of a bulk upload. `status`: as if it had been sent alone;
    `included`, once the round accepts nothing more: whether this piece is in the sum."""

    index: int
    status: int
    problem: str | None = None
    detail: str | None = None
    included: bool | None = None


# Inside the seals of a declared contribution: words, or a seed of them (spec: federated-counting,
# section 9; aggregation, section 5). Aggregators whose pieces are uniform get seeds, the others
# words: what is inside follows from descriptor, share index and kind of sender alone. A host's
# batch is one seed for all its curators, so that its header is that of a part. A lone curator's
# piece of few words stays words: a seed would hardly be shorter, and has to be expanded.

Seeds = NDArray[np.uint8]

SHORT: Final = 128
"""Words of the longest piece that a lone curator never sends as a seed: 1 KiB."""


@dataclass(frozen=True)
class DeclaredForm:
    """The form of a round's contributions. `host_seeds`, `lone_seeds`: how many aggregators,
    counted from the first, get seeds from hosts and from lone curators."""

    sharing: Scheme
    dimension: int
    host_seeds: int
    lone_seeds: int

    @classmethod
    def of(cls, descriptor: RoundDescriptor) -> DeclaredForm:
        """That of a round whose contributions are not proved."""
        query = descriptor.query
        sharing, d = scheme(query), dimension(query)
        return cls(sharing, d, sharing.uniform, sharing.uniform if d > SHORT else 0)

    def seeded(self, index: int, *, hosted: bool) -> bool:
        """Whether an aggregator gets seeds; hosted: of hosts."""
        return index < (self.host_seeds if hosted else self.lone_seeds)

    def split(self, values: Ints, source: NoiseSource, *, hosted: bool) -> list[Words | Seeds]:
        """What is sealed for each aggregator, of values (n, d).

        For lone curators a row each: (n, d) words or (n, 32) bytes of seeds. For a host (n, d)
        words, or one seed (1, 32) for all of them in order.
        """
        if not self.seeded(0, hosted=hosted):
            return list(self.sharing.split(values, source))
        count, rows = self.sharing.uniform, 1 if hosted else len(values)
        drawn = source.bytes(count * rows * SEED_BYTES)
        seeds = np.frombuffer(drawn, np.uint8).reshape(count, rows, SEED_BYTES)
        uniform = (self._expanded(seed, values.shape) for seed in seeds)
        return [*seeds, *self.sharing.rest(values, uniform)]

    def content_bytes(self, index: int, count: int, *, hosted: bool) -> int:
        """Bytes inside the seal of `count` curators' words, or of the seed that replaces them."""
        return SEED_BYTES if self.seeded(index, hosted=hosted) else 8 * self.dimension * count

    def opened(self, index: int, content: bytes, count: int, *, hosted: bool) -> Words:
        """The words (count, d) of the content of a seal, whose length `content_bytes` gives."""
        if self.seeded(index, hosted=hosted):
            return self.sharing.expand(content, count * self.dimension).reshape(count, -1)
        words = np.frombuffer(content, "<u8").astype(np.uint64, copy=False)
        return words.reshape(count, self.dimension)

    def _expanded(self, seeds: Seeds, shape: tuple[int, ...]) -> Words:
        """The uniform piece of this shape that the seeds expand to, one seed for each share of
        rows."""
        length = math.prod(shape) // len(seeds)
        words = [self.sharing.expand(seed.tobytes(), length) for seed in seeds]
        return np.concatenate(words).reshape(shape)


# Inside the seal in a proved round (spec: validity, sections 5 and 8): one aggregator's share.
#
#     plaintext = nonce 16 | public share | input share
#
# The public share has 32 bytes per aggregator with joint randomness, and none without. Nonce and
# public share go to every aggregator inside its own seal, so that nobody in transit can give two of
# them different ones. All lengths follow from the query, the aggregator's index and the number of
# curators of the contribution. Whole batches are packed at once: rows of bytes, one a contribution.

_LABEL = b"tacit proved piece v1"
_PROOF_LABEL = b"tacit proved v1"


class WrongShareLength(ValueError):
    """A plaintext that has not the length of such a contribution's share."""


@dataclass(frozen=True, eq=False)
class Shares:
    """One aggregator's shares of B contributions, in the form that `Prio3.verify` takes."""

    nonces: Rows
    """(B, 16)."""
    public_shares: Rows
    """(B, 32 c), or (B, 0) without joint randomness."""
    input_shares: Rows
    """(B, bytes of an input share of this index)."""


def proof_context(descriptor_hash: bytes) -> bytes:
    """What every proof of a round is bound to: it is valid in this round of this query only
    (spec: validity, section 8)."""
    return _PROOF_LABEL + descriptor_hash


def piece_context(
    descriptor_hash: bytes, sender: str, aggregator: str, index: int, length: int
) -> bytes:
    """The associated data of a lone curator's piece; `length`: of the plaintext, in bytes."""
    return length_prefixed(
        _LABEL,
        descriptor_hash,
        sender.encode(),
        aggregator.encode(),
        str(index).encode(),
        str(length).encode(),
    )


def split(
    proof: ContributionProof,
    descriptor_hash: bytes,
    values: NDArray[np.int64],
    noise: NDArray[np.int64] | None,
    source: NoiseSource,
) -> tuple[Rows, ...]:
    """Contributions with their proofs, as plaintexts (B, length) for each aggregator.

    values: (B, d), each the f(x) of a lone curator or the total of a part, as `proof` has it.
    noise: (B, d), of these as drawn; it is clamped here. None where curators draw none. The source
    is `SecureRandom` in a service. ValueError: a value is outside of what can be proved.
    """
    drawn = None if noise is None else clamped(proof, noise)
    measurements = proof.function.encode(values, drawn)
    nonces, randomness = proof.prio3.draw_randomness(source, len(values))
    context = proof_context(descriptor_hash)
    return pack(nonces, proof.prio3.shard(context, measurements, nonces, randomness))


def clamped(proof: ContributionProof, noise: NDArray[np.int64]) -> NDArray[np.int64]:
    """Noise (B, d) of contributions, each coordinate moved into its [-T, T]. Spec: validity,
    section 5."""
    bounds = np.array(proof.function.noise_bounds)
    return np.clip(noise, -bounds, bounds)


def pack(nonces: Rows, contributions: Contributions) -> tuple[Rows, ...]:
    """The plaintexts (B, length) for each aggregator, in their order; nonces: (B, 16)."""
    return tuple(
        np.concatenate((nonces, contributions.public_shares, share), axis=1)
        for share in contributions.input_shares
    )


def rows_of(prio3: Prio3, index: int, plaintexts: Sequence[bytes]) -> Rows:
    """Opened plaintexts as rows (B, length). Raises WrongShareLength if one has another length."""
    length = prio3.share_bytes(index)
    if any(len(plain) != length for plain in plaintexts):
        raise WrongShareLength(f"a share for the aggregator of index {index} has {length} bytes")
    return np.frombuffer(b"".join(plaintexts), np.uint8).reshape(len(plaintexts), length)


def unpack(prio3: Prio3, index: int, plaintexts: Rows) -> Shares:
    """The shares in the plaintexts (B, length) of the aggregator with this index. Raises
    WrongShareLength.

    Does not check that words are field elements: see `in_field`.
    """
    if plaintexts.shape[1] != prio3.share_bytes(index):
        raise WrongShareLength("the plaintexts are not of this query, index and size of part")
    public, inputs = NONCE_BYTES, NONCE_BYTES + prio3.public_share_bytes
    return Shares(plaintexts[:, :public], plaintexts[:, public:inputs], plaintexts[:, inputs:])


def in_field(prio3: Prio3, index: int, shares: Shares) -> Mask:
    """Whether an input share consists of field elements, (B,). Other shares are refused on
    arrival, and never reduced."""
    return prio3.in_field(index, shares.input_shares)
