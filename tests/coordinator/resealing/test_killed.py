"""A coordinator that is killed at any instant of a rotation loses nothing, and then ends it."""

from __future__ import annotations

import asyncio
import hashlib
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from common.store.database import open_store
from coordinator.errors import StorageKeyUnavailable, StorageKeyWrong
from coordinator.sealed_files import file_generation, open_sealed
from coordinator.settings import CoordinatorSettings
from coordinator.storage_keys import KeySource, StorageKeys, open_storage_keys, seed_purpose
from tacit.wire import encode_binary
from tests.coordinator.jobs.office import TOKEN
from tests.coordinator.jobs.test_surviving import Process

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
MARK = b"314159.26535"
"""In every dataset, so that plain bytes on the disk would show."""


@dataclass
class Stored:
    """What the coordinator has confirmed: SHA-256 of each content by its dataset."""

    contents: dict[str, bytes] = field(default_factory=dict)
    ledgers: dict[bytes, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


def content_of(number: int, rows: int) -> bytes:
    generator = np.random.default_rng(number)
    lines = [f"{value:.6f},{number}" for value in generator.uniform(0, 10, rows)]
    return b"x,y\n" + MARK + b",0\n" + "\n".join(lines).encode() + b"\n"


def hand_in(http: httpx.Client, stored: Stored, content: bytes) -> str:
    form = {"name": "n", "kind": "numeric-table", "format": "csv", "budget": '{"epsilon": "1"}'}
    files = {"file": ("data", content)}
    answer = http.post("/v1/datasets", data=form, files=files, headers=HEADERS)
    answer.raise_for_status()
    made: str = answer.json()["id"]
    stored.contents[made] = hashlib.sha256(content).digest()
    found = http.get(f"/v1/datasets/{made}/ledger", headers=HEADERS).raise_for_status().json()
    known = stored.ledgers.setdefault(stored.contents[made], found["ledger"])
    assert known == found["ledger"], "the same content has begun another ledger"
    return made


def keys_of(settings: CoordinatorSettings) -> StorageKeys:
    """The keys as a start of the coordinator finds them."""

    async def run() -> StorageKeys:
        database = open_store(settings)
        try:
            return await open_storage_keys(database, settings)
        finally:
            await database.dispose()

    return asyncio.run(run())


def check_all(it: Process, stored: Stored) -> None:
    """Everything that was confirmed opens, and is what it was."""
    keys = keys_of(it.settings)
    home = it.settings.data_dir
    for made, digest in stored.contents.items():
        path = home / "datasets" / made / "file.sealed"
        with open_sealed(path, keys, f"dataset {made} file") as stream:
            assert hashlib.sha256(stream.read()).digest() == digest
    with sqlite3.connect(home / "coordinator.db") as database:
        for job, sealed in database.execute("SELECT id, secret FROM job").fetchall():
            assert keys.open(seed_purpose(job), sealed) == b"s" * 32
    for path in home.glob("jobs/*/private/evaluation.sealed"):
        job = path.parent.parent.name
        assert keys.open(f"job evaluation {job}", path.read_bytes()) == MARK
    for path in home.rglob("*"):
        if path.is_file():
            assert MARK not in path.read_bytes(), path.name


def add_jobs(it: Process, count: int) -> None:
    """Seeds and evaluations, as jobs leave them; no worker takes these."""
    keys = keys_of(it.settings)
    with sqlite3.connect(it.settings.data_dir / "coordinator.db") as database:
        for number in range(count):
            job = f"job-{number}"
            database.execute(
                "INSERT INTO job (id, algorithm, version, stance, params, preview, price, state, "
                "stage, created, progress, charged, attempts, secret) VALUES "
                "(?, 'kmeans', '1', 'sound', '{}', '{}', '{}', 'failed', '', 0, 0, 0, 0, ?)",
                (job, keys.seal(seed_purpose(job), b"s" * 32)),
            )
            place = it.settings.data_dir / "jobs" / job / "private"
            place.mkdir(parents=True)
            sealed = keys.seal(f"job evaluation {job}", MARK)
            (place / "evaluation.sealed").write_bytes(sealed)


@contextmanager
def busy(it: Process, stored: Stored) -> Iterator[None]:
    """Uploads, and readers of sealed files, while the coordinator is killed and started."""
    over = threading.Event()

    def upload() -> None:
        number = 1000
        while not over.is_set():
            number += 1
            with suppress(httpx.HTTPError):  # killed, or it starts
                hand_in(it.http, stored, content_of(number % 1007, 2000))
            over.wait(0.05)

    def read() -> None:
        chosen = list(stored.contents.items())
        while not over.is_set():
            made, digest = random.choice(chosen)
            path = it.settings.data_dir / "datasets" / made / "file.sealed"
            generation = file_generation(path)
            found, purpose = b"", f"dataset {made} file"
            for key in KeySource((), it.settings.data_dir).found():
                keys = StorageKeys(KeySource((key,), it.settings.data_dir))
                keys.place(generation, key)
                with (
                    suppress(StorageKeyWrong, StorageKeyUnavailable),
                    open_sealed(path, keys, purpose) as stream,
                ):
                    found = hashlib.sha256(stream.read()).digest()
            if not found and file_generation(path) != generation:
                continue  # it was sealed anew, and the key of before was destroyed
            if found != digest:
                stored.failed.append(made)
            over.wait(0.02)

    threads = [threading.Thread(target=work) for work in (upload, read)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def state_of(it: Process) -> dict[str, Any]:
    found: dict[str, Any] = it.http.get("/v1/storage-key", headers=HEADERS).json()
    return found


def rotate(it: Process, number: int) -> None:
    body = {"key": encode_binary(hashlib.sha256(b"%d" % number).digest())}
    answer = it.http.put("/v1/storage-key", json=body, headers=HEADERS)
    assert answer.status_code in (202, 409), answer.text


def killed(directory: Path, times: int, sizes: list[int], longest_s: float, seed: int = 7) -> None:
    """Kill it so many times, each up to `longest_s` after it has begun or gone on to rotate."""
    directory.mkdir()
    it, stored, generator = Process(directory), Stored(), random.Random(seed)
    it.start()
    try:
        for number, rows in enumerate(sizes):
            hand_in(it.http, stored, content_of(number, rows))
        add_jobs(it, 6)
        first = KeySource.of(it.settings).found()
        with busy(it, stored):
            for number in range(times):
                if state_of(it)["state"] == "idle":
                    rotate(it, number)
                time.sleep(generator.uniform(0, longest_s))
                it.kill()
                check_all(it, stored)
                it.start()
        ends = time.monotonic() + 300
        while state_of(it)["state"] != "idle":
            assert time.monotonic() < ends, state_of(it)
            time.sleep(0.1)
        assert stored.failed == []
        check_all(it, stored)
        generation = state_of(it)["generation"]
        assert generation > 1
        for path in (directory / "datasets").glob("*/*.sealed"):
            if path.parent.name in stored.contents:
                assert file_generation(path) == generation
        assert not list(directory.rglob("*.reseal"))
        assert [path.name for path in directory.glob("storage.key*")] == ["storage.key"]
        old = StorageKeys(KeySource(first, directory))
        old.place(1, first[0])
        for made in stored.contents:
            with pytest.raises((StorageKeyWrong, StorageKeyUnavailable)):
                open_sealed(directory / "datasets" / made / "file.sealed", old, "p")
        for number, rows in enumerate(sizes):  # each finds its ledger, or `hand_in` says so
            hand_in(it.http, stored, content_of(number, rows))
    finally:
        it.kill()
        it.stop()


@pytest.mark.parametrize(
    "seed",
    [pytest.param(0, marks=pytest.mark.slow)]
    + [pytest.param(number, marks=pytest.mark.release) for number in range(1, 5)],
)
def test_rotations_survive_fifty_kills(tmp_path: Path, seed: int) -> None:
    """Acceptance: 50 random instants, ten a run, over 24 files of 0 to 6 MiB."""
    sizes = [int(rows) for rows in np.linspace(0, 550_000, 24)]
    killed(tmp_path / "data", 10, sizes, 1.0, seed)
