"""The content of a dataset on the disk: sealed parts, read through whatever compresses them."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from algorithms.datasets.declaration import DatasetDeclaration
from algorithms.datasets.kinds import FILE, Format, format_of, kind_of
from algorithms.datasets.parts import joined
from common.runtime.directories import make_private_directory
from coordinator.sealed.files import SealedWriter, file_generation, open_sealed
from coordinator.sealed.keys import StorageKeys
from coordinator.sealed.resealing import reseal_file
from tacit.compression import Limits, expanded

_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Checked:
    """A content that matches its declaration. `digest` never leaves the process; `generation`: the
    oldest storage key that sealed a part."""

    outline: dict[str, Any]
    parts: Mapping[str, int]
    """Name and plain bytes of each part, in the order of reading."""
    digest: bytes
    generation: int

    @property
    def bytes(self) -> int:
        """Plain bytes of all parts."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Vault:
    """The directory of sealed contents; each dataset has its own directory in it."""

    directory: Path
    keys: StorageKeys
    limits: Limits

    def prepare(self, dataset_id: str) -> None:
        """Make the directory of a new dataset."""
        make_private_directory(self.directory / dataset_id)

    def writer(self, dataset_id: str, part: str) -> SealedWriter:
        """Where a part is written while it arrives."""
        return SealedWriter(self._path(dataset_id, part), self.keys, _purpose(dataset_id, part))

    def plain(self, dataset_id: str, part: str) -> BinaryIO:
        """The plain content of a part; reading raises ContentTooLarge."""
        sealed = open_sealed(self._path(dataset_id, part), self.keys, _purpose(dataset_id, part))
        return expanded(sealed, self.limits)

    def open(self, dataset_id: str, parts: Mapping[str, int]) -> BinaryIO:
        """The content as its kind's reader takes it."""
        if len(parts) == 1:
            return self.plain(dataset_id, next(iter(parts)))
        return joined({name: (size, self.plain(dataset_id, name)) for name, size in parts.items()})

    def check(self, dataset_id: str, declaration: DatasetDeclaration, sent: set[str]) -> Checked:
        """Validate all of a content. Raises what its reader raises. Blocks: call it in a thread."""
        kind, form = kind_of(declaration), format_of(declaration)
        parts = [name for name in form.parts if name in sent]
        sizes, digest = self.measure(dataset_id, parts)
        with self.open(dataset_id, sizes) as stream:
            dataset = form.read(declaration, stream)
        return Checked(kind.outline(dataset), sizes, digest, self.generation(dataset_id, parts))

    def measure(self, dataset_id: str, parts: Iterable[str]) -> tuple[dict[str, int], bytes]:
        """(plain bytes of each part, digest of all) in the order of reading. Blocks."""
        sizes, digest = {}, hashlib.sha256()
        for part in parts:
            size, own = self._measure(dataset_id, part)
            sizes[part] = size
            digest.update(own)
        return sizes, digest.digest()

    def generation(self, dataset_id: str, parts: Iterable[str]) -> int:
        """The oldest storage key that sealed a part. Raises StorageKeyWrong, FileNotFoundError."""
        return min(file_generation(self._path(dataset_id, part)) for part in parts)

    def reseal(self, dataset_id: str, parts: Iterable[str]) -> None:
        """Seal all parts anew under the key of now. Raises as `generation`. Blocks."""
        for part in parts:
            reseal_file(self._path(dataset_id, part), self.keys, _purpose(dataset_id, part))

    def remove(self, dataset_id: str) -> None:
        """Remove a content, whole or half."""
        shutil.rmtree(self.directory / dataset_id, ignore_errors=True)

    def _measure(self, dataset_id: str, part: str) -> tuple[int, bytes]:
        """(plain bytes, SHA-256) of a part; the limits are held here."""
        size, digest = 0, hashlib.sha256()
        with self.plain(dataset_id, part) as stream:
            while data := stream.read(_READ_BYTES):
                size += len(data)
                digest.update(data)
        return size, digest.digest()

    def _path(self, dataset_id: str, part: str) -> Path:
        return self.directory / dataset_id / f"{part}.sealed"


def expected_parts(form: Format, sent: set[str]) -> str | None:
    """What is wrong with the names of the files that were sent; None if nothing is."""
    if not sent <= set(form.parts):
        return f"files named {' or '.join(form.parts)} are expected"
    if form.parts[-1] not in sent:
        return f"a file named {form.parts[-1]} is expected"
    return None


def single_part(form: Format) -> str:
    """The name under which a content in one piece is kept."""
    return form.parts[-1] if len(form.parts) > 1 else FILE


def _purpose(dataset_id: str, part: str) -> str:
    return f"dataset {dataset_id} {part}"
