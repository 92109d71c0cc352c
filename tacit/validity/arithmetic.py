"""What a scheme computes with: the two fields and the hash, XofTurboShake128.

XofTurboShake128: seeds expanded to bytes and to field elements, for many rows at once.

    row = le16(length of the tag) | tag | le8(length of the seed) | seed | binder

absorbed by TurboSHAKE128 with domain byte 1.

Source: VDAF draft, "XofTurboShake128" (TurboSHAKE: RFC 9861). Spec: validity, sections 6 and 13.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from Crypto.Hash import TurboSHAKE128

from tacit.validity.field import FIELD64, FIELD128, Elements, Field, Rows

SEED_BYTES: Final = 32
DOMAIN: Final = 1
_MORE: Final = 64
"""Elements drawn beyond those that are needed, where one was refused."""

HashRows: TypeAlias = Callable[[Rows, int], Rows]
"""Rows (B, k) of equal length to rows (B, length)."""


def turboshake128(rows: Rows, length: int) -> Rows:
    """TurboSHAKE128 of each row (B, k), domain byte 1: (B, length)."""
    octets = b"".join(
        TurboSHAKE128.new(data=row.tobytes(), domain=DOMAIN).read(length) for row in rows
    )
    return np.frombuffer(octets, np.uint8).reshape(len(rows), length)


def xof_rows(tag: bytes, seeds: Rows, binders: Rows) -> Rows:
    """What is hashed: one row per seed (B, 32) and binder (B, k)."""
    prefix = len(tag).to_bytes(2, "little") + tag + seeds.shape[1].to_bytes(1, "little")
    rows = np.empty((len(seeds), len(prefix) + seeds.shape[1] + binders.shape[1]), np.uint8)
    rows[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
    rows[:, len(prefix) : len(prefix) + seeds.shape[1]] = seeds
    rows[:, len(prefix) + seeds.shape[1] :] = binders
    return rows


def expand(hash_rows: HashRows, field: Field, rows: Rows, count: int) -> Elements:
    """`count` uniform elements (limbs, count, B) from each row; words >= p are skipped.

    A word is skipped with probability 2^-32 (Field64) or 2^-59 (Field128); rows in which that
    happens are drawn once more, longer.
    """
    elements, valid = field.decode(hash_rows(rows, count * field.element_bytes))
    for place in np.flatnonzero(~valid):
        elements[:, :, place] = _passing_over(hash_rows, field, rows[place : place + 1], count)
    return elements


def _passing_over(hash_rows: HashRows, field: Field, row: Rows, count: int) -> Elements:
    """The first `count` words of one row that are elements, (limbs, count)."""
    drawn = count
    while True:
        drawn += _MORE
        words = field.words(hash_rows(row, drawn * field.element_bytes))[:, :, 0]
        elements = words[:, field.below_prime(words)]
        if elements.shape[1] >= count:
            return elements[:, :count]


# What a scheme computes with: the two fields and the hash, by numpy or compiled.


@dataclass(frozen=True)
class Arithmetic:
    """Fields and hash; `tacit.validity.compiled.COMPILED` gives the same bytes, faster."""

    field64: Field
    field128: Field
    hash_rows: HashRows


NUMPY: Final = Arithmetic(FIELD64, FIELD128, turboshake128)
