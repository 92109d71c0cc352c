"""The results of a job on the coordinator's disk: `<data_dir>/jobs/<id>/`.

Spec: jobs, "Result". The layout:

    result.json  report.json  report.txt  files/NAME  plots/NAME.svg  plots/NAME.png
    private/evaluation.sealed           visible only to the operator, sealed with the storage key

Published parts contain nothing secret and are stored in the clear. One rename makes a directory
that of a job; it is read only after the job has succeeded.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from common.runtime.directories import make_private_directory
from coordinator.errors import UnknownPart
from coordinator.jobs.workers.packing import Packed, text, unpack
from coordinator.models.job import RESULT_FORMAT
from coordinator.sealed.keys import StorageKeys
from coordinator.sealed.resealing import holds_current, reseal_value_file
from coordinator.store.jobs import JobRow
from tacit.report.model import PrivacyReport
from tacit.report.words import plain_words

_SEALED: Final = "private/evaluation.sealed"
_PUBLISHED: Final = ("result.json", "report.json", "report.txt")


@dataclass(frozen=True)
class Results:
    """The directory of all jobs' results."""

    directory: Path
    keys: StorageKeys

    def incoming(self) -> Path:
        """A file for an arriving outcome; the caller removes it."""
        make_private_directory(self.directory)
        return self.directory / f"incoming-{uuid4().hex}"

    def opened(self, arrived: Path) -> Packed:
        """The content of an outcome that arrived. Raises ValueError if it is malformed."""
        try:
            with zipfile.ZipFile(arrived) as archive:
                return unpack(archive)
        except (zipfile.BadZipFile, KeyError, TypeError) as error:
            raise ValueError("the outcome cannot be read") from error

    def keep(self, job: JobRow, arrived: Path, packed: Packed, report: PrivacyReport) -> None:
        """Write all parts and move them into place, replacing those of an earlier try."""
        draft = self.directory / f"draft-{uuid4().hex}"
        for name in ("files", "plots", "private"):
            make_private_directory(draft / name)
        try:
            with zipfile.ZipFile(arrived) as archive:
                for member in archive.namelist():
                    if member.startswith(("files/", "plots/")):
                        with archive.open(member) as source, (draft / member).open("wb") as target:
                            shutil.copyfileobj(source, target)
            shown = _document(job, packed, draft)
            (draft / "result.json").write_bytes(text(shown))
            (draft / "report.json").write_bytes(report.model_dump_json(indent=1).encode() + b"\n")
            (draft / "report.txt").write_text(plain_words(report), "utf-8")
            if packed.evaluation is not None:
                sealed = self.keys.seal(_purpose(job.id), packed.evaluation)
                (draft / _SEALED).write_bytes(sealed)
            _to_disk(draft)
            place = self.directory / job.id
            shutil.rmtree(place, ignore_errors=True)
            draft.rename(place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def path(self, job_id: str, part: str) -> Path:
        """A published part. Raises UnknownPart."""
        place = self.directory / job_id
        found = place / part
        if part not in set(self._names(job_id)) or not found.is_file():
            raise UnknownPart
        return found

    def document(self, job_id: str) -> dict[str, Any]:
        """result.json."""
        found: dict[str, Any] = json.loads(self.path(job_id, "result.json").read_bytes())
        return found

    def evaluation(self, job_id: str) -> bytes:
        """The comparison with the true data. Raises UnknownPart if none was requested."""
        try:
            sealed = (self.directory / job_id / _SEALED).read_bytes()
        except FileNotFoundError:
            raise UnknownPart from None
        return self.keys.open(_purpose(job_id), sealed)

    def sealed(self) -> list[str]:
        """The jobs whose evaluation is kept."""
        found = self.directory.glob(f"*/{_SEALED}")
        names = (path.parent.parent.name for path in found)
        return [name for name in names if not name.startswith("draft-")]

    def is_current(self, job_id: str) -> bool:
        """Whether a job's evaluation, if it has one, is sealed with the key of now."""
        try:
            return holds_current(self.directory / job_id / _SEALED, self.keys)
        except FileNotFoundError:
            return True

    def reseal(self, job_id: str) -> bool:
        """Seal an evaluation anew; whether there was need to. Raises StorageKeyWrong. Blocks."""
        try:
            path = self.directory / job_id / _SEALED
            return reseal_value_file(path, self.keys, _purpose(job_id))
        except FileNotFoundError:  # deleted meanwhile
            return False

    def archive(self, job_id: str) -> Path:
        """A zip of all published parts, always the same bytes; the caller removes it."""
        target = self.directory / f"archive-{uuid4().hex}"
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in self._names(job_id):
                info = zipfile.ZipInfo(name)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                with self.path(job_id, name).open("rb") as source, archive.open(info, "w") as file:
                    shutil.copyfileobj(source, file)
        return target

    def _names(self, job_id: str) -> Iterator[str]:
        yield from _PUBLISHED
        try:
            shown = json.loads((self.directory / job_id / "result.json").read_bytes())
        except FileNotFoundError:
            raise UnknownPart from None
        for file in shown["files"]:
            yield f"files/{file['name']}"
        for plot in shown["plots"]:
            yield f"plots/{plot}.svg"
            yield f"plots/{plot}.png"


def _document(job: JobRow, packed: Packed, draft: Path) -> dict[str, Any]:
    files = []
    for name, media_type, description in packed.files:
        content = (draft / "files" / name).read_bytes()
        files.append(
            {
                "name": name,
                "media_type": media_type,
                "bytes": len(content),
                "sha256": sha256(content).hexdigest(),
                "description": description,
            }
        )
    return {
        "format": RESULT_FORMAT,
        "job": job.id,
        "algorithm": job.algorithm,
        "version": job.version,
        "stance": job.stance,
        "params": json.loads(job.params),
        "public_seeds": packed.public_seeds,
        "dataset": job.dataset_id,
        "federation": None if job.federation is None else json.loads(job.federation),
        "summary": packed.result,
        "files": files,
        "plots": list(packed.plots),
    }


def _purpose(job_id: str) -> str:
    return f"job evaluation {job_id}"


def _to_disk(directory: Path) -> None:
    """Flush all files of a directory: an outcome is acknowledged only when it is on the disk."""
    for path in directory.rglob("*"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
