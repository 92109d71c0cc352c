"""Blocks of a job on several workers: the same result, and nothing readable on the way."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from distributed import LocalCluster

from common.web.dependencies import part_of
from coordinator.jobs import submission
from coordinator.jobs.workers import execution
from coordinator.jobs.workers.execution import map_spread
from coordinator.jobs.workers.link import Ticket
from coordinator.services import Jobs
from tests.coordinator.jobs.office import ANY_PORT, BOX, Office, blobs, expected, office

PARAMS: dict[str, Any] = {
    "method": "grid-ldp",
    "k": 2,
    "bounds": BOX,
    "epsilon": "2",
    "cells_per_axis": 64,
}


def worth_it(worth_s: float, left_s: float, seals: int) -> None:
    """What a worker finds worth the way."""
    from coordinator.jobs.workers import execution as here

    here.WORTH_S, here.WORTH_LEFT_S, here.WORTH_SEALS = worth_s, left_s, seals  # type: ignore[misc]


AS_IT_WAS = (execution.WORTH_S, execution.WORTH_LEFT_S, execution.WORTH_SEALS)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """An office with two workers of a Dask scheduler."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=ANY_PORT) as cluster,
        office(
            tmp_path_factory.mktemp("office"), dask_scheduler=cluster.scheduler_address
        ) as running,
    ):
        yield running


def block_keys(dask_scheduler: Any) -> list[str]:
    """The tasks of blocks that a scheduler has seen."""
    return sorted({str(item[0]) for item in dask_scheduler.transition_log if "/block-" in item[0]})


@pytest.mark.slow
def test_spread_blocks_draw_the_same_noise(two: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    it = two
    seed, rows = bytes(range(32, 64)), blobs(2000, 99)
    it.succeeded(it.submit(it.rows()))  # the workers are there
    client = part_of(it.app, Jobs).dispatcher._cluster._client
    client.wait_for_workers(2, timeout=60)  # a test before may have cost one
    before = client.run_on_scheduler(block_keys)
    client.run(worth_it, 0.0, 0.0, 0, on_error="ignore")  # one may just have left
    try:
        monkeypatch.setattr(submission, "os", SimpleNamespace(urandom=lambda _: seed))
        job = it.submit(it.rows(rows=rows), "dpbv-clustering", params=PARAMS)
        result = it.succeeded(job)
    finally:
        client.run(worth_it, *AS_IT_WAS, on_error="ignore")
    assert result["summary"] == expected(seed, "dpbv-clustering", PARAMS, rows)
    assert len(client.run_on_scheduler(block_keys)) > len(before)


@pytest.mark.slow
def test_blocks_that_take_less_than_their_way_stay(
    two: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = two
    it.succeeded(it.submit(it.rows()))
    client = part_of(it.app, Jobs).dispatcher._cluster._client
    before = client.run_on_scheduler(block_keys)
    client.run(worth_it, 0.0, 0.0, 1_000_000_000, on_error="ignore")
    try:
        monkeypatch.setattr(submission, "os", SimpleNamespace(urandom=lambda _: bytes(32)))
        rows = blobs(2000, 98)
        job = it.submit(it.rows(rows=rows), "dpbv-clustering", params=PARAMS)
        result = it.succeeded(job)
    finally:
        client.run(worth_it, *AS_IT_WAS, on_error="ignore")
    assert result["summary"] == expected(bytes(32), "dpbv-clustering", PARAMS, rows)
    assert client.run_on_scheduler(block_keys) == before


def test_outside_a_worker_blocks_are_done_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "WORTH_S", 0.0)
    monkeypatch.setattr(execution, "WORTH_LEFT_S", 0.0)
    looks = []
    found = map_spread(
        lambda number: number**2,
        iter(range(6)),
        Ticket("http://it.test", "a", "t"),
        bytes(32),
        lambda: looks.append(1),
    )
    assert found == [0, 1, 4, 9, 16, 25]
    assert len(looks) == 6


def test_what_is_sealed_cannot_be_read_or_changed() -> None:
    sealed = execution._Sealed(bytes(32))
    data = sealed.seal({"reading": "a private value"})
    assert b"private" not in data
    assert sealed.open(data) == {"reading": "a private value"}
    with pytest.raises(InvalidTag):
        execution._Sealed(bytes(31) + b"x").open(data)
