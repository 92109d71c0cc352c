"""The results of a job on the coordinator's disk, results side by side, and the documents of jobs
that the API and the console show.

Spec: jobs, "Result". The layout under `<data_dir>/jobs/<id>/`:

    result.json  report.json  report.txt  files/NAME  plots/NAME.json  private/evaluation.sealed

`plots/NAME.json` are the published values that a plot shows; `coordinator/jobs/pictures.py` draws
it.

A comparison of two to four jobs has the published parts; times of jobs depend on the data and are
not compared.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from common.runtime.process import make_private_directory
from common.store.transactions import Database
from coordinator.errors import JobNotFinished, UnknownJob, UnknownPart
from coordinator.jobs.privacy_statements import Price, spent
from coordinator.jobs.workers.link import Packed, text, unpack
from coordinator.models.job import FINISHED, RESULT_FORMAT, JobState
from coordinator.sealed_files import holds_current, reseal_value_file
from coordinator.storage_keys import StorageKeys
from coordinator.store import jobs as store
from coordinator.store.jobs import JobRow
from coordinator.web import time_text
from tacit.accounting.amounts import EpsilonDelta, format_amount
from tacit.answers.jobs import CreatedJob, Job, JobBudget, JobPrice, PublishedJob
from tacit.errors import FieldError, Invalid
from tacit.protocol.federation import Federation
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
        """Write all parts and move them into place, replacing those of an earlier attempt."""
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
        file = place / part
        if part not in set(self._names(job_id)) or not file.is_file():
            raise UnknownPart
        return file

    def document(self, job_id: str) -> dict[str, Any]:
        """result.json."""
        content: dict[str, Any] = json.loads(self.path(job_id, "result.json").read_bytes())
        return content

    def evaluation(self, job_id: str) -> bytes:
        """The comparison with the true data. Raises UnknownPart if none was requested."""
        try:
            sealed = (self.directory / job_id / _SEALED).read_bytes()
        except FileNotFoundError:
            raise UnknownPart from None
        return self.keys.open(_purpose(job_id), sealed)

    def sealed(self) -> list[str]:
        """The jobs whose evaluation is kept."""
        directories = self.directory.glob(f"*/{_SEALED}")
        names = (path.parent.parent.name for path in directories)
        return [name for name in names if not name.startswith("draft-")]

    def is_current(self, job_id: str) -> bool:
        """Whether a job's evaluation, if it has one, is encrypted with the current key."""
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
            yield f"plots/{plot}.json"


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


# Only published parts are compared: times of jobs depend on the data. Spec: console, sections 5
# and 7.

FEWEST: Final = 2
MOST: Final = 4
_WHOLE: Final = 300
"""Characters of JSON up to which a value is shown as it is."""
_ASKED: Final = ("algorithm", "version", "dataset", "stance")


class ComparedKey(WireModel):
    """A key and its value in each job, in JSON, null if a job has none; a long value is replaced
    by its size and SHA-256."""

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
        await succeeded(database, job_id, operator=operator)
    documents = [await asyncio.to_thread(results.document, job_id) for job_id in ids]
    reports = [await asyncio.to_thread(_report, results, job_id) for job_id in ids]
    columns = [_values(*pair) for pair in zip(documents, reports, strict=True)]
    plots = dict.fromkeys(name for document in documents for name in document["plots"])
    return Comparison(
        jobs=tuple(ids),
        keys=tuple(_key(name, columns) for name in dict.fromkeys(n for c in columns for n in c)),
        plots=tuple(
            ComparedPlot(
                name=name, there=tuple(name in document["plots"] for document in documents)
            )
            for name in plots
        ),
    )


def _report(results: Results, job_id: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(results.path(job_id, "report.json").read_bytes())
    return report


def _values(document: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared of one job, by key."""
    values = {name: document[name] for name in _ASKED}
    values |= {f"params.{name}": value for name, value in document["params"].items()}
    for line in report["verified"]:
        name = f"verified.{line['key'] or line['scenario']}"
        values |= {f"{name}.{figure}": line[figure] for figure in ("epsilon", "delta", "guess")}
    for name in ("epsilon", "delta"):
        values[f"charged.{name}"] = (report["charged"] or {}).get(name)
    return values | {f"summary.{name}": value for name, value in document["summary"].items()}


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


_TOLD_FROM: Final = 0.05
"""Before so much is done, nothing is said of the rest."""


async def find(database: Database, job_id: str, *, operator: bool) -> JobRow:
    """A job that the caller may see. Raises UnknownJob."""
    async with database.reading() as transaction:
        row = await store.find(transaction, job_id)
    if row is None or not (operator or row.state is JobState.SUCCEEDED):
        raise UnknownJob
    return row


async def succeeded(database: Database, job_id: str, *, operator: bool) -> JobRow:
    """A job with a result. Raises UnknownJob, JobNotFinished."""
    row = await find(database, job_id, operator=operator)
    if row.state is not JobState.SUCCEEDED:
        raise JobNotFinished(extra={"state": row.state.value})
    return row


def published(row: JobRow) -> PublishedJob:
    """The part that depends on the data only through the mechanism. When and how long a job ran
    depends on the data directly, so only operators see it."""
    return PublishedJob(**_published(row))


def timed(row: JobRow, now: datetime) -> Job:
    """All of a job."""
    return Job(**_whole(row, now))


def created(row: JobRow, now: datetime) -> CreatedJob:
    """A new job with the report that its result will have."""
    return CreatedJob(**_whole(row, now), preview=PrivacyReport.model_validate_json(row.preview))


def _published(row: JobRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "algorithm": row.algorithm,
        "version": row.version,
        "dataset": row.dataset_id,
        "stance": row.stance,
        "state": row.state.value,
    }


def _whole(row: JobRow, now: datetime) -> dict[str, Any]:
    price, charge = Price.model_validate_json(row.price), spent(row)
    federation = row.federation
    return {
        **_published(row),
        "federation": None if federation is None else Federation.model_validate_json(federation),
        "params": json.loads(row.params),
        "seed": row.chosen_seed,
        "cancelling": row.cancelling is not None and row.state not in FINISHED,
        "progress": row.progress,
        "stage": row.stage,
        "attempt": row.attempts,
        "created": time_text(row.created),
        "started": time_text(row.started),
        "finished": time_text(row.finished),
        "error": None if row.error is None else json.loads(row.error),
        "budget": JobBudget(
            **dict(price_shown(price)),
            charged=None if charge is None else format_amount(charge),
            noise_drawn=row.charged,
        ),
        "remaining_s": remaining_s(row, now),
    }


def price_shown(price: Price) -> JobPrice:
    """What a job costs its dataset."""
    reserved = None
    if price.kind == "budget":
        reserved = format_amount(EpsilonDelta(price.epsilon, price.delta))
    return JobPrice(reserved=reserved, outside_budget=price.kind == "outside", reason=price.reason)


def remaining_s(row: JobRow, now: datetime) -> int | None:
    """Whole seconds that a job will still take at its pace so far; None if there is no estimate:
    it does not run, has hardly begun, or began again."""
    may_tell = row.state is JobState.RUNNING and row.attempts <= 1 and row.progress >= _TOLD_FROM
    if not may_tell or row.started is None:
        return None
    passed_s = max(0.0, (now - row.started).total_seconds())
    return math.ceil(passed_s * (1 - row.progress) / row.progress)
