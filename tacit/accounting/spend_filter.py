"""What each record has spent of a job's one debit, and which records may still count.

Spec: federated-counting, section 6.2. A record that adds v to a block with noise of scale b spends
|v|_1 / b. It counts in a round only while the sum S of what it spent stays within the job's
epsilon; otherwise it adds nothing to this round. So whatever is asked, in whatever order and at
whatever rates, no record spends more: for two databases that differ by one record the views of a
whole job are within e^epsilon (an individual privacy filter; Feldman and Zrnic 2021, pure DP).

All sums are exact: numerators over a common denominator. S is private: nobody is told it, and
nothing but the vectors depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bits = NDArray[np.bool_]

MOST_BITS: Final = 4_096
"""Of a common denominator: honest jobs stay far below, and sums stay cheap."""
_WIDE: Final = 1 << 62


@dataclass(frozen=True, eq=False)
class Spent:
    """S of each record (n,) of one curator in one job: numerators over a denominator."""

    numerators: NDArray[Any]
    denominator: int = 1

    @classmethod
    def nothing(cls, records: int) -> Spent:
        """Before the first round."""
        return cls(np.zeros(records, np.int64))

    @property
    def most(self) -> Fraction:
        """The largest S; 0 without records."""
        return Fraction(int(self.numerators.max(initial=0)), self.denominator)

    def admit(
        self, counts: Ints, costs: Sequence[Fraction], epsilon: Fraction
    ) -> tuple[Spent, Bits]:
        """One round more: the sums after it, and (n,) whether each record counts in it.

        counts (n, blocks): what each record adds to each block, in L1 norm; costs: 1 / b of each
        block. Where no common denominator of `MOST_BITS` exists, which is public, no record counts.
        """
        denominator = math.lcm(self.denominator, *(cost.denominator for cost in costs))
        if denominator.bit_length() > MOST_BITS:
            return self, np.zeros(len(self.numerators), np.bool_)
        units = [cost.numerator * (denominator // cost.denominator) for cost in costs]
        limit = math.floor(epsilon * denominator)
        largest = int(counts.max(initial=0)) * sum(units) + limit
        kind = np.int64 if max(largest, denominator) < _WIDE else object
        own = self.numerators.astype(kind) * (denominator // self.denominator)
        after = own.copy()
        for block, unit in enumerate(units):
            after = after + counts[:, block].astype(kind) * unit
        counted = np.asarray(after <= limit, np.bool_)
        return Spent(np.where(counted, after, own), denominator), counted

    def packed(self) -> bytes:
        """The numerators as bytes, all of one width."""
        width = max(1, -(-int(self.numerators.max(initial=0)).bit_length() // 8))
        if self.numerators.dtype != object:
            octets = np.ascontiguousarray(self.numerators, "<i8").view(np.uint8)
            return octets.reshape(-1, 8)[:, :width].tobytes()
        return b"".join(int(each).to_bytes(width, "little") for each in self.numerators)

    @classmethod
    def unpacked(cls, packed: bytes, records: int, denominator: int) -> Spent:
        """The sums of `packed`. Raises ValueError for bytes of another number of records."""
        if not records:
            return cls.nothing(0)
        width, rest = divmod(len(packed), records)
        if rest or not width:
            raise ValueError("the sums are those of another number of records")
        if width < 8:
            octets = np.zeros((records, 8), np.uint8)
            octets[:, :width] = np.frombuffer(packed, np.uint8).reshape(records, width)
            return cls(octets.view("<i8").ravel().astype(np.int64), denominator)
        numbers = [
            int.from_bytes(packed[start : start + width], "little")
            for start in range(0, len(packed), width)
        ]
        return cls(np.array(numbers, object), denominator)
