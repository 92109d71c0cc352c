"""Results of two to four jobs side by side: what was asked, what is guaranteed, what came out.

Everything is of the published parts; times of jobs depend on the data and are not compared.
Spec: console, sections 5.8 and 7.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from common.store.transactions import Database
from coordinator.jobs import views
from coordinator.jobs.results import Results
from tacit.errors import FieldError, Invalid
from tacit.wire import WireModel

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
