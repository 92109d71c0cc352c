"""A database is lost, and its service is started: with a fresh budget, nobody would notice.

The control is a first start in an empty directory.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

import aggregator.app
import coordinator.app
import curator.app
from aggregator.settings import AggregatorSettings
from common.web.app import StartFailed
from coordinator.settings import CoordinatorSettings
from curator.settings import CuratorSettings

KEEPS = {
    "coordinator": ["storage.key", "datasets/0198", "jobs/0198"],
    "aggregator": ["keys/1.key"],
    "curator": ["curator.db-wal"],
}


def app_of(service: str, directory: Path, **more: Any) -> FastAPI:
    """A service whose data are in a directory."""
    settings: dict[str, Any] = {"data_dir": directory, **more}
    if service == "coordinator":
        return coordinator.app.create_app(CoordinatorSettings(**settings))
    if service == "curator":
        return curator.app.create_app(CuratorSettings(**settings))
    own = AggregatorSettings(aggregator_id="a", operator="a", **settings)
    return aggregator.app.create_app(own)


async def start(service: str, directory: Path) -> str:
    """Start and stop a service; why it did not start."""
    app = app_of(service, directory)
    try:
        async with app.router.lifespan_context(app):
            return ""
    except StartFailed as error:
        return str(error)


@pytest.mark.parametrize(
    ("service", "kept"), [(service, kept) for service, each in KEEPS.items() for kept in each]
)
@pytest.mark.parametrize("empty", [True, False], ids=["0 bytes", "missing"])
async def test_no_start_beside_what_an_earlier_one_left(
    service: str, kept: str, empty: bool, tmp_path: Path
) -> None:
    place = tmp_path / kept
    place.parent.mkdir(exist_ok=True)
    place.write_text("1")
    if empty:
        (tmp_path / f"{service}.db").touch()
    why = await start(service, tmp_path)
    assert f"{service}.db is missing or empty, and {tmp_path / Path(kept).parts[0]}" in why
    assert "tacit restore" in why
    assert place.read_text() == "1"
    assert not (tmp_path / "operator.token").exists()


@pytest.mark.parametrize("service", KEEPS)
async def test_control_a_first_start_is_one_and_no_second_begins_anew(
    service: str, tmp_path: Path
) -> None:
    assert await start(service, tmp_path) == ""
    assert await start(service, tmp_path) == ""
    for path in tmp_path.iterdir():
        if path.suffix != ".begun":
            path.rename(tmp_path.with_name(f"{path.name}.aside"))
    assert f"{service}.db is missing or empty" in await start(service, tmp_path)


@pytest.mark.slow
def test_a_refused_start_says_one_line(tmp_path: Path) -> None:
    (tmp_path / "coordinator.db").touch()
    (tmp_path / "storage.key").write_text("1")
    done = subprocess.run(
        [sys.executable, "-m", "coordinator"],
        env={"PATH": os.environ["PATH"], "TACIT_DATA_DIR": str(tmp_path), "TACIT_PORT": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    lines = (done.stdout + done.stderr).splitlines()
    assert "Traceback" not in "".join(lines)
    assert sum("missing or empty" in line for line in lines) == 1


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def half_zeroed(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes(len(content) - 100))


def of_something_else(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 4096)


@pytest.mark.parametrize(
    ("service", "damage"),
    [
        *(("curator", damage) for damage in (zeroed, half_zeroed, of_something_else)),
        *((service, truncated) for service in KEEPS),
    ],
)
async def test_a_damaged_file_is_called_damaged(
    service: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    assert await start(service, tmp_path) == ""
    database = tmp_path / f"{service}.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(database)
    why = await start(service, tmp_path)
    assert f"the database {database} is damaged" in why
    assert "backup" in why
