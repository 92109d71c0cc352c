"""The results of a job on the coordinator's disk, and results side by side.

Spec: jobs, "Result". The layout under `<data_dir>/jobs/<id>/`:

    result.json  report.json  report.txt  files/NAME  plots/NAME.svg  plots/NAME.png
    private/evaluation.json

A comparison of two to four jobs has the published parts; times of jobs depend on the data and are
not compared.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from common.runtime.process import make_private_directory
from common.store.transactions import Database
from coordinator.errors import UnknownPart
from coordinator.jobs import views
from coordinator.jobs.workers.link import Packed, text, unpack
from coordinator.models.job import RESULT_FORMAT
from coordinator.sealed_files import holds_current, reseal_value_file
from coordinator.storage_keys import StorageKeys
from coordinator.store.jobs import JobRow
from tacit.errors import FieldError, Invalid
from tacit.report.model import PrivacyReport
from tacit.report.text import plain_words
from tacit.wire import WireModel

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
        """Seal an evaluation again; False if it was current. Raises StorageKeyWrong. Blocks."""
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


# Only published parts are compared: times of jobs depend on the data. Spec: console, sections 5.8,
# 7.

FEWEST: Final = 2
MOST: Final = 4
_WHOLE: Final = 300
"""Characters of JSON up to which a value is shown as it is."""
_ASKED: Final = ("algorithm", "version", "dataset", "stance")


class ComparedKey(WireModel):
    """A key and its value in each job, in JSON, null where a job has none; a value that is long is
    told by its size and SHA-256."""

    key: str
    values: tuple[Any, ...]
    differs: bool


class ComparedPlot(WireModel):
    """A plot, and which of the jobs have it."""

    name: str
    there: tuple[bool, ...]


class Comparison(WireModel):
    """Jobs by id, their keys, and their plots."""

    jobs: tuple[str, ...]
    keys: tuple[ComparedKey, ...]
    plots: tuple[ComparedPlot, ...]


async def compared(
    database: Database, results: Results, ids: Sequence[str], *, operator: bool
) -> Comparison:
    """The jobs side by side. Raises Invalid, UnknownJob, JobNotFinished."""
    if not FEWEST <= len(ids) <= MOST or len(set(ids)) < len(ids):
        problem = f"{FEWEST} to {MOST} different jobs are compared"
        raise Invalid(problem, errors=(FieldError("/ids", problem, "query"),))
    for job_id in ids:
        await views.succeeded(database, job_id, operator=operator)
    documents = [await asyncio.to_thread(results.document, job_id) for job_id in ids]
    reports = [await asyncio.to_thread(_report, results, job_id) for job_id in ids]
    columns = [_values(*pair) for pair in zip(documents, reports, strict=True)]
    plots = dict.fromkeys(name for each in documents for name in each["plots"])
    return Comparison(
        jobs=tuple(ids),
        keys=tuple(_key(name, columns) for name in dict.fromkeys(n for c in columns for n in c)),
        plots=tuple(
            ComparedPlot(name=name, there=tuple(name in each["plots"] for each in documents))
            for name in plots
        ),
    )


def _report(results: Results, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(results.path(job_id, "report.json").read_bytes())
    return found


def _values(document: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared of one job, by key."""
    found = {name: document[name] for name in _ASKED}
    found |= {f"params.{name}": value for name, value in document["params"].items()}
    for line in report["verified"]:
        name = f"verified.{line['key'] or line['scenario']}"
        found |= {f"{name}.{each}": line[each] for each in ("epsilon", "delta", "guess")}
    for name in ("epsilon", "delta"):
        found[f"charged.{name}"] = (report["charged"] or {}).get(name)
    return found | {f"summary.{name}": value for name, value in document["summary"].items()}


def _key(name: str, columns: Sequence[Mapping[str, Any]]) -> ComparedKey:
    values = [column.get(name) for column in columns]
    texts = {json.dumps(value, sort_keys=True) for value in values}
    return ComparedKey(
        key=name, values=tuple(_short(value) for value in values), differs=len(texts) > 1
    )


def _short(value: Any) -> Any:
    text = json.dumps(value, sort_keys=True)
    if len(text) <= _WHOLE:
        return value
    return f"{len(text)} characters, SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"
