"""Prio3: contributions split into shares with a proof, verified together and added up.

One curator splits; each aggregator makes a verifier share from its own input share alone; all
verifier shares together decide. Everything is done for B contributions at once, and messages are
rows of bytes, byte for byte those of the draft.

Randomness is handed in: a service draws it by `draw_randomness` from `SecureRandom`, again for each
contribution.

Source: VDAF draft, "Prio3" (wire version 18). Spec: validity, sections 8, 12 and 13.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.randomness import NoiseSource
from tacit.validity.arithmetic import SEED_BYTES, HashRows, expand, turboshake128, xof_rows
from tacit.validity.circuit import Circuit
from tacit.validity.field import Elements, Mask, Rows
from tacit.validity.proof import decide, prove, query

VERSION: Final = 18
NONCE_BYTES: Final = 16
SHARES_LIMIT: Final = 255

_CACHED_ELEMENTS: Final = 1 << 13
"""Elements of wires that are worked on at a time, so that they stay in the cache."""


class Usage(IntEnum):
    """What the expansion of a seed is for."""

    MEASUREMENT_SHARE = 1
    PROOF_SHARE = 2
    JOINT_RANDOMNESS = 3
    PROVE_RANDOMNESS = 4
    QUERY_RANDOMNESS = 5
    JOINT_RANDOMNESS_SEED = 6
    JOINT_RANDOMNESS_PART = 7


class Outcome(IntEnum):
    """What is decided about a contribution."""

    ACCEPTED = 0
    POINT = 1
    """The point is a root of unity: refused whatever the shares say."""
    PROOF = 2
    JOINT_RANDOMNESS = 3
    """The shares were not those from which this aggregator's randomness was made."""


@dataclass(frozen=True, eq=False)
class Contributions:
    """B contributions, split."""

    public_shares: Rows
    """(B, 32 shares), or (B, 0) without joint randomness."""
    input_shares: tuple[Rows, ...]
    """One per aggregator; that of index 0 holds its elements, the others seeds."""


@dataclass(frozen=True, eq=False)
class Verification:
    """What one aggregator makes of its shares of B contributions."""

    verifier_shares: Rows
    """For all aggregators. All zero where the point is not permitted."""
    output_shares: Elements
    """(limbs, d, B), for this aggregator alone."""
    seeds: Rows
    """This aggregator's joint randomness seeds (B, 32), or (B, 0)."""
    permitted: Mask
    """Where its point is none of the roots, (B,)."""


@dataclass(frozen=True, eq=False)
class Decision:
    """What the verifier shares of all aggregators say, the same for each."""

    messages: Rows
    """The joint randomness seeds of the public parts (B, 32), or (B, 0)."""
    proved: Mask
    """Where all proofs hold, (B,)."""


@dataclass(frozen=True)
class Prio3:
    """A circuit with the number of shares and proofs. ValueError: shares outside of 2 to 255."""

    algorithm: int
    """Its identifier, 32 bits."""
    circuit: Circuit
    shares: int
    proofs: int = 1
    hash_rows: HashRows = turboshake128

    def __post_init__(self) -> None:
        if not 2 <= self.shares <= SHARES_LIMIT:
            raise ValueError(f"there are 2 to {SHARES_LIMIT} shares")
        if not 1 <= self.proofs <= 255:
            raise ValueError("there are 1 to 255 proofs")

    @property
    def joint(self) -> bool:
        """Whether there is joint randomness: a public share, and a blind in each input share."""
        return self.circuit.joint_randomness_length > 0

    @property
    def randomness_bytes(self) -> int:
        """Random bytes that one contribution takes."""
        return SEED_BYTES * self.shares * (2 if self.joint else 1)

    @property
    def public_share_bytes(self) -> int:
        """Bytes of a public share."""
        return SEED_BYTES * self.shares if self.joint else 0

    def input_share_bytes(self, aggregator: int) -> int:
        """Bytes of the input share of an aggregator, by its index."""
        blind = SEED_BYTES if self.joint else 0
        if aggregator > 0:
            return SEED_BYTES + blind
        length = self.circuit.measurement_length + self.proofs * self.circuit.proof_length
        return length * self.circuit.field.element_bytes + blind

    def share_bytes(self, aggregator: int) -> int:
        """Bytes that an aggregator gets of a contribution: nonce, public share, input share."""
        return NONCE_BYTES + self.public_share_bytes + self.input_share_bytes(aggregator)

    @property
    def verifier_share_bytes(self) -> int:
        """Bytes of a verifier share."""
        length = self.proofs * self.circuit.verifier_length * self.circuit.field.element_bytes
        return length + (SEED_BYTES if self.joint else 0)

    def draw_randomness(self, source: NoiseSource, count: int) -> tuple[Rows, Rows]:
        """Nonces (count, 16) and randomness (count, randomness_bytes) of `count` contributions."""
        width = NONCE_BYTES + self.randomness_bytes
        drawn = np.frombuffer(source.bytes(count * width), np.uint8).reshape(count, width)
        return drawn[:, :NONCE_BYTES], drawn[:, NONCE_BYTES:]

    def shard(
        self, context: bytes, measurements: Elements, nonces: Rows, randomness: Rows
    ) -> Contributions:
        """Split encoded measurements (limbs, n, B), with their proofs.

        context: what the proof is bound to. nonces (B, 16), randomness (B, randomness_bytes):
        secret, uniform, and never used again. ValueError: a length is wrong.
        """
        count, length = len(nonces), self.circuit.measurement_length
        if (
            measurements.shape != (self.circuit.field.limbs, length, count)
            or nonces.shape != (count, NONCE_BYTES)
            or randomness.shape != (count, self.randomness_bytes)
        ):
            raise ValueError("a measurement, nonce or randomness has a wrong length")
        parts = [
            self._shard(context, measurements[:, :, block], nonces[block], randomness[block])
            for block in self._blocks(len(nonces))
        ]
        return Contributions(
            np.concatenate([part.public_shares for part in parts]),
            tuple(
                np.concatenate([part.input_shares[index] for part in parts])
                for index in range(self.shares)
            ),
        )

    def in_field(self, aggregator: int, input_shares: Rows) -> Mask:
        """Whether an input share has its right length and, if explicit, consists of field
        elements."""
        if input_shares.shape[1] != self.input_share_bytes(aggregator):
            return np.zeros(len(input_shares), np.bool_)
        if aggregator > 0:
            return np.ones(len(input_shares), np.bool_)
        explicit = input_shares[:, : -SEED_BYTES or None] if self.joint else input_shares
        return self.circuit.field.decode(explicit)[1]

    def verify(
        self,
        verify_key: bytes,
        context: bytes,
        aggregator: int,
        nonces: Rows,
        public_shares: Rows,
        input_shares: Rows,
    ) -> Verification:
        """One aggregator's verifier shares and output shares of B contributions.

        verify_key: 32 bytes, common to the aggregators and unknown to curators until their
        contributions are fixed. ValueError: a length is wrong, or an explicit share has a word
        that is no field element (check with `in_field` first).
        """
        if len(verify_key) != SEED_BYTES:
            raise ValueError(f"a verify key has {SEED_BYTES} bytes")
        if not 0 <= aggregator < self.shares:
            raise ValueError("there is no aggregator of this index")
        widths = (NONCE_BYTES, self.public_share_bytes, self.input_share_bytes(aggregator))
        arrays = (nonces, public_shares, input_shares)
        if any(
            rows.shape != (len(nonces), width) for rows, width in zip(arrays, widths, strict=True)
        ):
            raise ValueError("a nonce, public share or input share has a wrong length")
        parts = [
            self._verify(
                verify_key,
                context,
                aggregator,
                nonces[block],
                public_shares[block],
                input_shares[block],
            )
            for block in self._blocks(len(nonces))
        ]
        return Verification(
            np.concatenate([part.verifier_shares for part in parts]),
            np.concatenate([part.output_shares for part in parts], axis=2),
            np.concatenate([part.seeds for part in parts]),
            np.concatenate([part.permitted for part in parts]),
        )

    def decide(self, context: bytes, verifier_shares: Sequence[Rows]) -> Decision:
        """What the verifier shares of all aggregators, in their order, prove together.

        A share with a word that is no field element proves nothing. ValueError: there is not one
        share per aggregator, or one has a wrong length.
        """
        if len(verifier_shares) != self.shares:
            raise ValueError(f"there are verifier shares of {self.shares} aggregators")
        count = len(verifier_shares[0])
        if any(rows.shape != (count, self.verifier_share_bytes) for rows in verifier_shares):
            raise ValueError("a verifier share has a wrong length")
        field = self.circuit.field
        length = self.circuit.verifier_length
        words = self.proofs * length * field.element_bytes
        proved = np.ones(count, np.bool_)
        total = field.small(np.zeros((self.proofs * length, count)))
        for rows in verifier_shares:
            share, valid = field.decode(rows[:, :words])
            total = field.add(total, share)
            proved &= valid
        for proof in range(self.proofs):
            proved &= decide(self.circuit, total[:, proof * length : (proof + 1) * length])
        parts = np.concatenate([rows[:, words:] for rows in verifier_shares], axis=1)
        return Decision(self._joint_seeds(context, parts), proved)

    def outcomes(self, verification: Verification, decision: Decision) -> NDArray[np.uint8]:
        """An aggregator's own decisions on B contributions: values of `Outcome`, (B,)."""
        agrees = (verification.seeds == decision.messages).all(axis=1)
        verdicts = np.where(agrees, Outcome.ACCEPTED, Outcome.JOINT_RANDOMNESS)
        verdicts = np.where(decision.proved, verdicts, Outcome.PROOF)
        return np.where(verification.permitted, verdicts, Outcome.POINT).astype(np.uint8)

    def aggregate(self, output_shares: Elements, counted: Mask) -> Elements:
        """The sum (limbs, d) of the output shares (limbs, d, B) of contributions that count."""
        return self.circuit.field.sum(output_shares[:, :, counted], axis=2)

    def unshard(self, aggregate_shares: Sequence[Elements]) -> list[int]:
        """The totals (d) from the sums of all aggregators, 0 to below the prime."""
        return [int(value) for value in self._total(aggregate_shares)]

    def unshard_centred(self, aggregate_shares: Sequence[Elements]) -> list[int]:
        """The totals (d) as the integers nearest to 0, from above -p/2 to below p/2."""
        prime = self.circuit.field.prime
        return [
            value - prime if 2 * value > prime else value
            for value in self.unshard(aggregate_shares)
        ]

    # ------------------------------------------------------------------------------------- inside

    def _total(self, aggregate_shares: Sequence[Elements]) -> NDArray[np.object_]:
        if len(aggregate_shares) != self.shares:
            raise ValueError(f"there are sums of {self.shares} aggregators")
        return self.circuit.field.integers(
            self.circuit.field.sum(np.stack(aggregate_shares, axis=1))
        )

    def _blocks(self, count: int) -> Iterator[slice]:
        width = self.circuit.points * self.circuit.gadget.arity
        step = max(1, _CACHED_ELEMENTS // width)
        return (slice(start, start + step) for start in range(0, max(count, 1), step))

    def _tag(self, context: bytes, usage: Usage) -> bytes:
        """The domain separation tag: version, class 0 (a VDAF), algorithm, usage, context."""
        head = bytes((VERSION, 0)) + self.algorithm.to_bytes(4, "big") + usage.to_bytes(2, "big")
        return head + context

    def _expand(
        self, context: bytes, usage: Usage, seeds: Rows, binder: bytes | Rows, count: int
    ) -> Elements:
        rows = xof_rows(self._tag(context, usage), seeds, _binders(binder, len(seeds)))
        return expand(self.hash_rows, self.circuit.field, rows, count)

    def _seeds(self, context: bytes, usage: Usage, seeds: Rows, binder: Rows) -> Rows:
        return self.hash_rows(xof_rows(self._tag(context, usage), seeds, binder), SEED_BYTES)

    def _measurement_share(self, context: bytes, index: int, seeds: Rows) -> Elements:
        length = self.circuit.measurement_length
        return self._expand(context, Usage.MEASUREMENT_SHARE, seeds, bytes((index,)), length)

    def _proof_shares(self, context: bytes, index: int, seeds: Rows) -> Elements:
        binder, length = bytes((self.proofs, index)), self.proofs * self.circuit.proof_length
        return self._expand(context, Usage.PROOF_SHARE, seeds, binder, length)

    def _joint_part(
        self, context: bytes, index: int, blinds: Rows, nonces: Rows, share: Elements
    ) -> Rows:
        index_rows = np.full((len(nonces), 1), index, np.uint8)
        binder = np.concatenate((index_rows, nonces, self.circuit.field.encode(share)), axis=1)
        return self._seeds(context, Usage.JOINT_RANDOMNESS_PART, blinds, binder)

    def _joint_seeds(self, context: bytes, parts: Rows) -> Rows:
        if not self.joint:
            return parts
        zeros = np.zeros((len(parts), SEED_BYTES), np.uint8)
        return self._seeds(context, Usage.JOINT_RANDOMNESS_SEED, zeros, parts)

    def _joint_randomness(self, context: bytes, seeds: Rows) -> Elements:
        field = self.circuit.field
        if not self.joint:
            return field.small(np.zeros((0, len(seeds))))
        count = self.proofs * self.circuit.joint_randomness_length
        return self._expand(context, Usage.JOINT_RANDOMNESS, seeds, bytes((self.proofs,)), count)

    def _shard(
        self, context: bytes, measurements: Elements, nonces: Rows, randomness: Rows
    ) -> Contributions:
        field, circuit = self.circuit.field, self.circuit
        seeds = randomness.reshape(len(nonces), self.randomness_bytes // SEED_BYTES, SEED_BYTES)
        helpers = seeds[:, : self.shares - 1]
        blinds: list[Rows] = []
        if self.joint:
            # The draft's order: seed and blind of each helper, blind of index 0, prove seed.
            helpers = seeds[:, 0 : 2 * (self.shares - 1) : 2]
            blinds = [seeds[:, -2], *seeds[:, 1 : 2 * (self.shares - 1) : 2].swapaxes(0, 1)]

        shares = [
            self._measurement_share(context, index, helpers[:, index - 1])
            for index in range(1, self.shares)
        ]
        leader_share = measurements
        for share in shares:
            leader_share = field.subtract(leader_share, share)

        parts = nonces[:, :0]
        if self.joint:
            parts = np.concatenate(
                [
                    self._joint_part(context, index, blinds[index], nonces, share)
                    for index, share in enumerate((leader_share, *shares))
                ],
                axis=1,
            )
        joint = self._joint_randomness(context, self._joint_seeds(context, parts))
        count = self.proofs * circuit.prove_randomness_length
        binder = bytes((self.proofs,))
        drawn = self._expand(context, Usage.PROVE_RANDOMNESS, seeds[:, -1], binder, count)
        proofs = np.concatenate(
            [
                prove(circuit, measurements, own_randomness, joint_randomness)
                for own_randomness, joint_randomness in zip(
                    self._per_proof(drawn), self._per_proof(joint), strict=True
                )
            ],
            axis=1,
        )
        for index in range(1, self.shares):
            share = self._proof_shares(context, index, helpers[:, index - 1])
            proofs = field.subtract(proofs, share)

        explicit = field.encode(np.concatenate((leader_share, proofs), axis=1))
        inputs = [explicit, *helpers.swapaxes(0, 1)]
        if self.joint:
            inputs = [
                np.concatenate((share, blind), axis=1)
                for share, blind in zip(inputs, blinds, strict=True)
            ]
        return Contributions(parts, tuple(np.ascontiguousarray(rows) for rows in inputs))

    def _verify(
        self,
        verify_key: bytes,
        context: bytes,
        aggregator: int,
        nonces: Rows,
        public_shares: Rows,
        input_shares: Rows,
    ) -> Verification:
        field, circuit = self.circuit.field, self.circuit
        secret = input_shares[:, :-SEED_BYTES] if self.joint else input_shares
        if aggregator == 0:
            elements, valid = field.decode(secret)
            if not valid.all():
                raise ValueError("an explicit share has a word that is not an element of the field")
            measurement = elements[:, : circuit.measurement_length]
            proofs = elements[:, circuit.measurement_length :]
        else:
            measurement = self._measurement_share(context, aggregator, secret)
            proofs = self._proof_shares(context, aggregator, secret)

        part = seeds = public_shares
        if self.joint:
            blinds = input_shares[:, -SEED_BYTES:]
            part = self._joint_part(context, aggregator, blinds, nonces, measurement)
            parts = public_shares.copy()
            parts[:, SEED_BYTES * aggregator : SEED_BYTES * (aggregator + 1)] = part
            seeds = self._joint_seeds(context, parts)
        joint = self._joint_randomness(context, seeds)

        keys = np.broadcast_to(np.frombuffer(verify_key, np.uint8), (len(nonces), SEED_BYTES))
        binder = np.concatenate((np.full((len(nonces), 1), self.proofs, np.uint8), nonces), axis=1)
        count = self.proofs * circuit.query_randomness_length
        drawn = self._expand(context, Usage.QUERY_RANDOMNESS, keys, binder, count)
        verifiers, permitted = [], np.ones(len(nonces), np.bool_)
        for proof, own_randomness, joint_randomness in zip(
            self._per_proof(proofs), self._per_proof(drawn), self._per_proof(joint), strict=True
        ):
            verifier, allowed = query(
                circuit, measurement, proof, own_randomness, joint_randomness, self.shares
            )
            verifiers.append(verifier)
            permitted &= allowed
        rows = np.concatenate((field.encode(np.concatenate(verifiers, axis=1)), part), axis=1)
        rows[~permitted] = 0
        return Verification(rows, circuit.outputs(measurement), seeds, permitted)

    def _per_proof(self, elements: Elements) -> list[Elements]:
        return np.split(elements, self.proofs, axis=1)


def _binders(binder: bytes | Rows, count: int) -> Rows:
    if isinstance(binder, bytes):
        row = np.frombuffer(binder, np.uint8)
        return np.broadcast_to(row, (count, len(row)))
    return binder
