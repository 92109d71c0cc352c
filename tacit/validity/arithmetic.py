"""What a scheme computes with: the two fields and the hash, by numpy or compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tacit.validity.field import Field
from tacit.validity.field64 import FIELD64
from tacit.validity.field128 import FIELD128
from tacit.validity.xof import HashRows, turboshake128


@dataclass(frozen=True)
class Arithmetic:
    """Fields and hash; `tacit.validity.compiled.COMPILED` gives the same bytes, faster."""

    field64: Field
    field128: Field
    hash_rows: HashRows


NUMPY: Final = Arithmetic(FIELD64, FIELD128, turboshake128)
