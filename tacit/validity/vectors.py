"""Vectors of bits, checked together by few calls of a sum of products.

Bit x of call i, place j enters as r^(j + 1) x (x - 1), r one element of joint randomness for the
call. The sum over all calls vanishes for bits, and for anything else only with small probability.

Sums of squares take more calls of the same gadget, whose products are those of a value with itself.

Source: VDAF draft, "Prio3SumVec", "Prio3Histogram" and "Prio3MultihotCountVec". Spec: validity,
section 3.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.validity.circuit import BoundedInteger, Circuit, Gadget, ParallelSum
from tacit.validity.field import Elements, Field


class BitVector(Circuit):
    """A measurement of bits only, in chunks."""

    chunk: int
    """Bits of one call."""

    @property
    def gadget(self) -> Gadget:
        return ParallelSum(self.chunk)

    @property
    def bit_calls(self) -> int:
        """The first calls, which take the bits."""
        return -(-self.measurement_length // self.chunk)

    @property
    def calls(self) -> int:
        return self.bit_calls

    @property
    def joint_randomness_length(self) -> int:
        return self.bit_calls

    def inputs(self, measurement: Elements, joint_randomness: Elements, shares: int) -> Elements:
        field = self.field
        limbs, length, count = measurement.shape
        padded = np.zeros((limbs, self.bit_calls * self.chunk, count), np.uint64)
        padded[:, :length] = measurement
        bits = padded.reshape(limbs, self.bit_calls, self.chunk, count)
        one = field.constant(field.inverse_of(shares), axes=3)
        powers = _consecutive_powers(field, joint_randomness[:, :, np.newaxis], self.chunk)
        inputs = np.empty((limbs, self.bit_calls, 2 * self.chunk, count), np.uint64)
        inputs[:, :, 0::2] = field.multiply(powers, bits)
        inputs[:, :, 1::2] = field.subtract(bits, one)
        return inputs

    def check_values(
        self, measurement: Elements, gadget_outputs: Elements, shares: int
    ) -> Elements:
        bits = self.field.sum(gadget_outputs)[:, np.newaxis]
        return np.concatenate((bits, self.sum_checks(measurement, shares)), axis=1)

    @abstractmethod
    def sum_checks(self, measurement: Elements, shares: int) -> Elements:
        """What else has to be 0, (limbs, checks - 1, B)."""


@dataclass(frozen=True)
class SumVector(BitVector):
    """Prio3SumVec: integers in [0, top]. Source: VDAF draft, "Prio3SumVec"."""

    field: Field
    length: int
    entry: BoundedInteger
    chunk: int

    @property
    def measurement_length(self) -> int:
        return self.length * self.entry.bits

    @property
    def output_length(self) -> int:
        return self.length

    @property
    def checks(self) -> int:
        return 1

    def sum_checks(self, measurement: Elements, shares: int) -> Elements:  # noqa: ARG002
        return measurement[:, :0]

    def outputs(self, measurement: Elements) -> Elements:
        return _entries(self.field, measurement, self.entry)

    def encode(self, values: NDArray[np.int64]) -> Elements:
        """The measurement (limbs, n, B) of values (B, length). ValueError: one is out of range."""
        return self.field.small(_entry_bits(self.entry, values))


@dataclass(frozen=True)
class Histogram(BitVector):
    """Prio3Histogram: exactly one of the bits is set. Source: VDAF draft, "Prio3Histogram"."""

    field: Field
    length: int
    chunk: int

    @property
    def measurement_length(self) -> int:
        return self.length

    @property
    def output_length(self) -> int:
        return self.length

    @property
    def checks(self) -> int:
        return 2

    def sum_checks(self, measurement: Elements, shares: int) -> Elements:
        field = self.field
        one = field.constant(field.inverse_of(shares), axes=1)
        return field.subtract(field.sum(measurement), one)[:, np.newaxis]

    def outputs(self, measurement: Elements) -> Elements:
        return measurement

    def encode(self, buckets: NDArray[np.int64]) -> Elements:
        """The measurement (limbs, length, B) of buckets (B,). ValueError: a bucket does not
        exist."""
        if ((buckets < 0) | (buckets >= self.length)).any():
            raise ValueError("a value lies outside of the range that its circuit proves")
        return self.field.small(np.arange(self.length)[:, np.newaxis] == buckets)


@dataclass(frozen=True, slots=True)
class Block:
    """Entries of a vector under one bound: |e_j| <= top, and sum |e_j| <= bound; with `l2` the root
    of sum e_j^2 <= bound.

    A signed entry is p - n, both in [0, top], and the bound holds for the sum of all p and n; with
    `l2` it is u - top, u in [0, 2 top].
    ValueError: there is no entry, or top is above the bound.
    """

    length: int
    top: int
    bound: int
    signed: bool = False
    l2: bool = False

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError("a block has at least one entry")
        if self.top > self.bound:
            raise ValueError("no entry passes the bound of all of them")

    @property
    def offset(self) -> int:
        """What is added to an entry, so that its integer is not negative."""
        return self.top if self.signed and self.l2 else 0

    @property
    def entry(self) -> BoundedInteger:
        """The range of an entry's integer, or of either part of a signed one."""
        return BoundedInteger(self.top + self.offset)

    @property
    def weight(self) -> BoundedInteger:
        """The range of the claimed sum of absolute values, or of squares."""
        return BoundedInteger(self.bound**2 if self.l2 else self.bound)

    @property
    def parts(self) -> int:
        """Numbers without a sign: one or two per entry."""
        return self.length * (2 if self.signed and not self.l2 else 1)

    @property
    def bits(self) -> int:
        """Bits of its entries, without the claimed weight."""
        return self.parts * self.entry.bits

    @property
    def wide(self) -> bool:
        """Whether its check needs more than Field64: squares may reach 2^63, or their sum 2^62."""
        squares = self.length * self.top**2
        return self.l2 and (squares >= 1 << 63 or self.bound**2 >= 1 << 62)


@dataclass(frozen=True)
class BoundedVector(BitVector):
    """`L1Vec` and `L2Vec`: blocks of entries with a proved norm, and integers of noise.

    The measurement is, block after block, the bits of all p, then (signed) of all n, or (L2) of all
    entries' integers; then the claimed weights, block by block; then the noise integers in the
    order of coordinates. One check of the bits, then one per block: the parts, or the squares of
    the entries, add up to the claimed weight. Calls of the gadget: the bits, then block by block
    the entries of those in L2, each with itself. A coordinate's output is its entry plus its noise
    integer. With one unsigned L1 block of top 1 and no noise it is Prio3MultihotCountVec.
    Spec: validity, section 3.
    """

    field: Field
    blocks: tuple[Block, ...]
    chunk: int
    noise: tuple[BoundedInteger, ...] = ()

    @property
    def measurement_length(self) -> int:
        blocks = sum(block.bits + block.weight.bits for block in self.blocks)
        return blocks + sum(item.bits for item in self.noise)

    @property
    def calls(self) -> int:
        return self.bit_calls + sum(self._square_calls(block) for block in self.blocks)

    @property
    def output_length(self) -> int:
        return sum(block.length for block in self.blocks)

    @property
    def checks(self) -> int:
        return 1 + len(self.blocks)

    def inputs(self, measurement: Elements, joint_randomness: Elements, shares: int) -> Elements:
        inputs = [super().inputs(measurement, joint_randomness, shares)]
        limbs, _, count = measurement.shape
        start = 0
        for block in self.blocks:
            if block.l2:
                calls = self._square_calls(block)
                padded = np.zeros((limbs, calls * self.chunk, count), np.uint64)
                padded[:, : block.length] = self._block_entries(measurement, block, start, shares)
                entries = padded.reshape(limbs, calls, self.chunk, count)
                inputs.append(np.repeat(entries, 2, axis=2))
            start += block.bits
        return inputs[0] if len(inputs) == 1 else np.concatenate(inputs, axis=1)

    def check_values(
        self, measurement: Elements, gadget_outputs: Elements, shares: int
    ) -> Elements:
        field, place = self.field, self.bit_calls
        checks = super().check_values(measurement, gadget_outputs[:, :place], shares)
        for number, block in enumerate(self.blocks, start=1):
            if block.l2:
                calls = self._square_calls(block)
                squares = field.sum(gadget_outputs[:, place : place + calls])
                checks[:, number] = field.add(checks[:, number], squares)
                place += calls
        return checks

    def sum_checks(self, measurement: Elements, shares: int) -> Elements:  # noqa: ARG002
        """The parts of each L1 block less its claimed weight; of an L2 block, whose squares come
        from the gadget, the weight's negative alone."""
        field, checks, start = self.field, [], 0
        place = sum(block.bits for block in self.blocks)
        for block in self.blocks:
            weight = block.weight.decode(field, measurement[:, place : place + block.weight.bits])
            if block.l2:
                checks.append(field.negate(weight))
            else:
                parts = self._block_parts(measurement, block, start)
                checks.append(field.subtract(field.sum(parts), weight))
            start += block.bits
            place += block.weight.bits
        return np.stack(checks, axis=1)

    def outputs(self, measurement: Elements) -> Elements:
        """For a signed L2 block the entries' integers, which exceed the entries by its offset."""
        field, outputs_of_blocks, start = self.field, [], 0
        for block in self.blocks:
            parts = self._block_parts(measurement, block, start)
            if block.signed and not block.l2:
                parts = field.subtract(parts[:, : block.length], parts[:, block.length :])
            outputs_of_blocks.append(parts)
            start += block.bits
        entries = np.concatenate(outputs_of_blocks, axis=1)
        if not self.noise:
            return entries
        start += sum(block.weight.bits for block in self.blocks)
        drawn = []
        for item in self.noise:
            drawn.append(item.decode(field, measurement[:, start : start + item.bits]))
            start += item.bits
        return field.add(entries, np.stack(drawn, axis=1))

    def encode(
        self, entries: NDArray[np.int64], noise: NDArray[np.int64] | None = None
    ) -> Elements:
        """The measurement (limbs, n, B) of entries (B, d) and noise integers (B, d) from 0 on.

        ValueError: an entry, a block's norm or a noise integer lies outside of its range.
        """
        parts: list[NDArray[np.uint64]] = []
        weights: list[NDArray[np.uint64]] = []
        start = 0
        for block in self.blocks:
            of_block = entries[:, start : start + block.length]
            start += block.length
            if block.l2:
                parts.append(_entry_bits(block.entry, of_block + block.offset))
                weights.append(block.weight.encode(_squares(block, of_block)))
                continue
            if block.signed:
                signs = (np.maximum(of_block, 0), np.maximum(-of_block, 0))
                of_block = np.concatenate(signs, axis=1)
            parts.append(_entry_bits(block.entry, of_block))
            weights.append(block.weight.encode(of_block.sum(axis=1)))
        drawn: Sequence[NDArray[np.uint64]] = ()
        if noise is not None:
            drawn = [item.encode(noise[:, place]) for place, item in enumerate(self.noise)]
        return self.field.small(np.concatenate([*parts, *weights, *drawn]))

    def _square_calls(self, block: Block) -> int:
        return -(-block.length // self.chunk) if block.l2 else 0

    def _block_parts(self, measurement: Elements, block: Block, start: int) -> Elements:
        """The numbers without a sign of the block whose bits begin at `start`."""
        return _entries(self.field, measurement[:, start : start + block.bits], block.entry)

    def _block_entries(
        self, measurement: Elements, block: Block, start: int, shares: int
    ) -> Elements:
        """The entries of an L2 block, or of a share of it: the offset is divided among shares."""
        parts = self._block_parts(measurement, block, start)
        if not block.offset:
            return parts
        offset = self.field.constant(block.offset * self.field.inverse_of(shares))
        return self.field.subtract(parts, offset)


def multihot_count_vector(field: Field, length: int, max_weight: int, chunk: int) -> BoundedVector:
    """Prio3MultihotCountVec. Source: VDAF draft, "Prio3MultihotCountVec"."""
    return BoundedVector(field, (Block(length, 1, max_weight),), chunk)


def least_proof_chunk(bits: int, squares: Sequence[int] = ()) -> int:
    """The chunk with the shortest proof for this number of bits, and for the entries of each block
    that are squared; the smaller one of equals.

    Proof: 2 chunk + 2 (P - 1) + 1, P = next_pow2(1 + calls), calls = ceil(n / chunk) of the bits
    and of each block. For each P the best chunk is the smallest that needs no more calls, so only
    these are compared. Spec: validity, section 3. ValueError: bits is below 1.
    """
    if bits < 1:
        raise ValueError("a measurement has at least one bit")

    def calls(chunk: int) -> int:
        return sum(-(-count // chunk) for count in (bits, *squares))

    chunks = range(1, max(bits, *squares, 1) + 1)
    best: tuple[int, int] | None = None
    points = 1 << calls(chunks[-1]).bit_length()
    while True:
        most = points - 1
        chunk = chunks[bisect_left(chunks, True, key=lambda one: calls(one) <= most)]
        used = 1 << calls(chunk).bit_length()
        length = 2 * chunk + 2 * (used - 1) + 1
        best = (length, chunk) if best is None else min(best, (length, chunk))
        if chunk == 1:
            return best[1]
        points *= 2


def _consecutive_powers(field: Field, base: Elements, count: int) -> Elements:
    """base^1, .., base^count along axis 2; base (limbs, calls, 1, B)."""
    powers = base
    while powers.shape[2] < count:
        more = powers[:, :, : count - powers.shape[2]]
        powers = np.concatenate((powers, field.multiply(more, powers[:, :, -1:])), axis=2)
    return powers


def _entry_bits(entry: BoundedInteger, values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Bits (n b, B) of values (B, n), entry after entry."""
    bits = entry.encode(values)
    return bits.transpose(2, 0, 1).reshape(values.shape[1] * entry.bits, len(values))


def _entries(field: Field, bits: Elements, entry: BoundedInteger) -> Elements:
    """Entries (limbs, n, B) of bits (limbs, n b, B)."""
    table = bits.reshape(field.limbs, bits.shape[1] // entry.bits, entry.bits, bits.shape[2])
    weights = field.elements(entry.weights).reshape(field.limbs, 1, -1, 1)
    return field.sum(field.multiply(table, weights), axis=2)


def _squares(block: Block, entries: NDArray[np.int64]) -> NDArray[np.int64] | NDArray[np.object_]:
    """The sum of squares (B,) of entries (B, n) in the block's range; in Python's integers if 63
    bits could overflow."""
    if block.length * block.top**2 >= 1 << 63:
        wide = entries.astype(object)
        return np.asarray((wide * wide).sum(axis=1), dtype=object)
    return np.asarray((entries * entries).sum(axis=1))
