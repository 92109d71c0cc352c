"""The job engine: what it adds to an algorithm, many jobs at once, large jobs, uploads.

    python -m bench.jobs [--jobs 50] [--rows 1000000]

A coordinator process on loopback with worker processes of its own and durable storage, no TLS.
Overhead: from the request that submits a small k-means to its result, against `run` called in this
process with the same rows; the first job, which also starts the workers, is told apart. Queue: so
many jobs are submitted one after the other while `GET /v1/jobs` is asked without a pause over a
connection of its own, until the last has ended. Large: one k-means of `--rows` rows, 16 columns and
96 clusters on one and on two workers; its blocks go to the other worker where they take longer than
the way there. Upload: that table as CSV and as Parquet, from the request to the answer, which comes
after every row was checked and sealed on the disk.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from algorithms import catalogue
from algorithms.contract import SequentialContext
from algorithms.datasets.tables import NumericTable
from cli.services.deployment import Deployment, Running, ServiceAddress
from cli.services.up import service_settings
from tacit import Client
from tacit.randomness import SeededRandom

REPEATS: Final = 20
SMALL_ROWS: Final = 200
COLUMNS: Final = 16
PATIENCE_S: Final = 1800.0
BUDGET: Final = {"epsilon": "1000"}
Json = dict[str, Any]
Floats = NDArray[np.float64]


def params(columns: int, clusters: int, rows: int) -> Json:
    """Of k-means on the unit box; all queries of its plan."""
    return {"k": clusters, "epsilon": "1", "bounds": [[0, 1]] * columns, "n_hint": rows}


def table(rows: int, columns: int) -> Floats:
    """Rows around eight places of the unit box, with four digits."""
    generator = SeededRandom(1).generator
    places = generator.uniform(0.2, 0.8, (8, columns))
    drawn = places[generator.integers(0, 8, rows)] + generator.normal(0, 0.05, (rows, columns))
    found: Floats = np.clip(drawn, 0, 1).round(4)
    return found


def arrow(values: Floats) -> pa.Table:
    """The same as named columns."""
    return pa.table({f"c{place}": column for place, column in enumerate(values.T)})


@contextmanager
def coordinator(workers: int) -> Iterator[ServiceAddress]:
    """One with this many workers, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="tacit-bench-") as directory:
        deployment = Deployment.plan(Path(directory), aggregators=0)
        settings = service_settings()
        settings["coordinator"]["TACIT_JOB_WORKERS"] = str(workers)
        running = Running(deployment, settings)
        try:
            running.start_one(deployment.coordinator)
            running.wait_for(deployment.coordinator)
            yield deployment.coordinator
        finally:
            running.stop()


def upload(client: Client, name: str, form: str, content: bytes) -> str:
    """The id of a dataset with a budget for everything here."""
    made = client.datasets.add(
        name, "numeric-table", form, content={"file": content}, budget=BUDGET
    )
    return str(made["id"])


def finished(client: Client, request: Json) -> float:
    """Seconds from submitting a job to having its result."""
    began = time.perf_counter()
    client.jobs.wait(client.jobs.submit(request)["id"], PATIENCE_S)
    return time.perf_counter() - began


def in_process(values: Floats, request: Json) -> float:
    """Seconds of the algorithm alone."""
    found = catalogue.find(request["algorithm"])
    model = found.params.model_validate_json(json.dumps(request["params"]))
    data = NumericTable(tuple(f"c{place}" for place in range(values.shape[1])), values)
    began = time.perf_counter()
    found.run(data, model, "sound", SequentialContext(seed=bytes(32)))
    return time.perf_counter() - began


def overhead(client: Client, dataset: str, values: Floats) -> None:
    """A small job, again and again."""
    request = job(dataset, params(2, 2, SMALL_ROWS))
    print(f"first job, with the start of the workers {finished(client, request):7.2f} s")
    through = [finished(client, request) for _ in range(REPEATS)]
    in_process(values, request)
    alone = [in_process(values, request) for _ in range(REPEATS)]
    low, high = np.median(alone), np.median(through)
    print(f"small job, from submit to result         {1000 * high:7.0f} ms in the median")
    print(f"the same `run` in one process            {1000 * low:7.0f} ms, ratio {high / low:.2f}")


def job(dataset: str, wanted: Json) -> Json:
    """A request for a k-means."""
    return {"algorithm": "kmeans", "dataset": dataset, "params": wanted}


def queue(address: ServiceAddress, client: Client, dataset: str, count: int) -> None:
    """Many jobs at once, and how long a listing takes meanwhile."""
    latencies: list[float] = []
    over = threading.Event()

    def ask() -> None:
        with address.client() as other:
            while not over.is_set():
                began = time.perf_counter()
                other.get("/v1/jobs")
                latencies.append(time.perf_counter() - began)

    asking = threading.Thread(target=ask)
    asking.start()
    began = time.perf_counter()
    request = job(dataset, params(2, 2, SMALL_ROWS))
    submitted, made = [], []
    for _ in range(count):
        start = time.perf_counter()
        made.append(client.jobs.submit(request)["id"])
        submitted.append(time.perf_counter() - start)
    for job_id in made:
        client.jobs.wait(job_id, PATIENCE_S)
    took = time.perf_counter() - began
    over.set()
    asking.join()
    p50, p99 = 1000 * np.percentile(latencies, (50, 99))
    print(f"{count} jobs, submitted and ended           {took:7.1f} s, {count / took:.1f} a second")
    print(f"  POST /v1/jobs meanwhile                {1000 * np.median(submitted):7.0f} ms (p50)")
    print(f"  GET /v1/jobs meanwhile ({len(latencies)})        p50 {p50:.1f} ms, p99 {p99:.1f} ms")


def large(rows: int) -> None:
    """A large table: uploads, and a job on one and on two workers."""
    values = table(rows, COLUMNS)
    held = arrow(values)
    text, packed = io.BytesIO(), io.BytesIO()
    csv.write_csv(held, text)
    parquet.write_table(held, packed)
    contents = {"csv": text.getvalue(), "parquet": packed.getvalue()}
    for workers in (1, 2):
        with coordinator(workers) as address, address.client() as client:
            found = {}
            for form, content in contents.items():
                began = time.perf_counter()
                found[form] = upload(client, "large", form, content)
                took, size = time.perf_counter() - began, len(content) / 1e6
                if workers == 1:
                    print(
                        f"upload of {rows:,} x {COLUMNS} as {form:8}      {took:7.1f} s, "
                        f"{size / took:.0f} MB/s of {size:.0f} MB, {rows / took:,.0f} rows/s"
                    )
            small = upload(client, "small", "csv", _csv(table(SMALL_ROWS, 2)))
            finished(client, job(small, params(2, 2, SMALL_ROWS)))  # the workers are there
            took = finished(client, job(found["parquet"], params(COLUMNS, 96, rows)))
            print(f"k-means of {rows:,} x {COLUMNS}, k = 96, {workers} worker(s) {took:7.1f} s")


def _csv(values: Floats) -> bytes:
    target = io.BytesIO()
    csv.write_csv(arrow(values), target)
    return target.getvalue()


def main() -> None:
    """Measure everything once."""
    parser = argparse.ArgumentParser(description="the job engine")
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    values = table(SMALL_ROWS, 2)
    with coordinator(2) as address, address.client() as client:
        dataset = upload(client, "small", "csv", _csv(values))
        overhead(client, dataset, values)
        queue(address, client, dataset, arguments.jobs)
    large(arguments.rows)


if __name__ == "__main__":
    main()
