"""A checkpoint of the ledger: the folded state in compact bytes, signed by the coordinator.

It holds nothing that the events and disclosures do not lead to. A start takes the state from it
and folds only the events after it; the events before it are verified while the service runs.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from coordinator.models.budget_figures import Figures
from tacit.crypto.signing import Identity, Signed, verify
from tacit.wire import Binary, WireModel, canonical_json

VERSION: Final = 1
"""Of the content and of the figures; a checkpoint of another version is not read."""
LABEL: Final = "tacit ledger checkpoint v1"
_LENGTH_BYTES: Final = 4
_FAST: Final = 1


class CheckpointStatement(WireModel):
    """What is signed: the last event's number and hash, the digest of the figures, the hash of the
    content."""

    version: int
    seq: int
    head: Binary
    figures: Binary
    content: Binary


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as it is stored. `doubted`: the rows before it did not verify once."""

    figures: Figures
    version: int
    content: bytes
    signature: bytes
    doubted: bool = False

    @classmethod
    def of(cls, figures: Figures, parts: Mapping[str, Any], identity: Identity) -> Checkpoint:
        """The checkpoint of a state, signed."""
        content = packed(parts)
        signed = identity.sign(LABEL, _statement(figures, VERSION, content))
        return cls(figures, VERSION, content, signed.signature)

    def check(self, public_key: bytes) -> None:
        """Raises ValueError for another version, and for one that this key did not sign."""
        if self.version != VERSION:
            raise ValueError(f"a checkpoint of version {self.version}")
        statement = _statement(self.figures, self.version, self.content)
        signed = Signed[CheckpointStatement](statement=statement, signature=self.signature)
        verify(LABEL, signed, public_key)


def _statement(figures: Figures, version: int, content: bytes) -> CheckpointStatement:
    return CheckpointStatement(
        version=version,
        seq=figures.seq,
        head=figures.head,
        figures=figures.digest,
        content=hashlib.sha256(content).digest(),
    )


def packed(parts: Mapping[str, Any]) -> bytes:
    """Arrays and byte strings by name, compressed. A column of integers is written as differences,
    which are small where it rises or repeats."""
    header, blocks = [], []
    for name, part in parts.items():
        if isinstance(part, bytes):
            kind, shape, raw = "bytes", [len(part)], part
        else:
            kind, shape = part.dtype.str, list(part.shape)
            raw = (np.diff(part, prepend=part.dtype.type(0)) if _rises(part) else part).tobytes()
        block = zlib.compress(raw, _FAST)
        header.append([name, kind, shape, len(block)])
        blocks.append(block)
    described = canonical_json(header)
    return b"".join([len(described).to_bytes(_LENGTH_BYTES, "big"), described, *blocks])


def unpacked(content: bytes) -> dict[str, Any]:
    """What `packed` was given. Raises ValueError for anything else."""
    try:
        place = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "big")
        parts: dict[str, Any] = {}
        for name, kind, shape, length in json.loads(content[_LENGTH_BYTES:place]):
            raw = zlib.decompress(content[place : place + length])
            parts[name] = raw if kind == "bytes" else _array(raw, kind, shape)
            place += length
    except (zlib.error, TypeError) as error:
        raise ValueError("not the content of a checkpoint") from error
    return parts


def _array(raw: bytes, kind: str, shape: list[int]) -> np.ndarray[Any, Any]:
    found = np.frombuffer(raw, np.dtype(kind)).reshape(shape)
    return np.cumsum(found, dtype=found.dtype) if _rises(found) else found.copy()


def _rises(part: np.ndarray[Any, Any]) -> bool:
    return part.ndim == 1 and part.dtype.kind == "i"
