"""What is inside the seal in a proved round: one aggregator's share of a contribution.

    plaintext = nonce 16 | public share | input share

The public share has 32 bytes per aggregator with joint randomness, and none without. Nonce and
public share go to every aggregator inside its own seal, so that nobody on the way can give two of
them different ones. All lengths follow from the query, the aggregator's index and how many curators
the contribution is of. Whole batches are packed and unpacked at once: rows of bytes, one per
contribution.

Spec: validity, sections 5 and 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.crypto.sealing import length_prefixed
from tacit.query.proofs import ContributionProof
from tacit.randomness import NoiseSource
from tacit.validity.field import Mask, Rows
from tacit.validity.prio3 import NONCE_BYTES, Contributions, Prio3

_LABEL = b"tacit proved piece v1"
_PROOF_LABEL = b"tacit proved v1"


class WrongShareLength(ValueError):
    """A plaintext that has not the length of such a contribution's share."""


@dataclass(frozen=True, eq=False)
class Shares:
    """One aggregator's shares of B contributions; as `Prio3.verify` takes them."""

    nonces: Rows
    """(B, 16)."""
    public_shares: Rows
    """(B, 32 c), or (B, 0) without joint randomness."""
    input_shares: Rows
    """(B, bytes of an input share of this index)."""


def proof_context(descriptor_hash: bytes) -> bytes:
    """What every proof of a round is bound to: it holds in this round of this query only (spec:
    validity, section 8)."""
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
    """The shares in the plaintexts (B, length) of the aggregator of this index. Raises
    WrongShareLength. Words that are no field elements are not looked for: see `in_field`."""
    if plaintexts.shape[1] != prio3.share_bytes(index):
        raise WrongShareLength("the plaintexts are not of this query, index and size of part")
    public, inputs = NONCE_BYTES, NONCE_BYTES + prio3.public_share_bytes
    return Shares(plaintexts[:, :public], plaintexts[:, public:inputs], plaintexts[:, inputs:])


def in_field(prio3: Prio3, index: int, shares: Shares) -> Mask:
    """Where an input share holds field elements only, (B,). What does not is refused when it is
    accepted, and never reduced."""
    return prio3.in_field(index, shares.input_shares)
