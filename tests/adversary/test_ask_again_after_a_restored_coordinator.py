"""A coordinator restored from a backup asks again, and aborts what it released: nobody deviates.

It does not know of rounds since the copy, so that it may ask the same of the same readings, date
its rounds as before, and call a round aborted that it released. Curators and aggregators, who were
not restored, remember.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from common.web.dependencies import part_of
from coordinator.restoring import MARKER
from curator.participation.loop import Participation
from tests.aggregator.double import Round
from tests.coordinator.double import WINDOW, query
from tests.e2e.federation import Site, site

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = ("a", "b")
NOISY = query(
    mechanism="distributed",
    epsilon="0.001",
    layer="both",
    collusion={"curators": 0, "aggregators": 1},
    deadline_s=60,
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with site(tmp_path_factory.mktemp("restored")) as running:
        for name in NAMES:
            await running.enrol(name)
        yield running


async def restored(it: Site, copy: Path) -> None:
    """Put the copy in the place of the coordinator's database."""
    await it.house.stop()
    home = it.house.settings.data_dir
    for path in home.glob("coordinator.db*"):
        path.unlink()
    for path in copy.glob("coordinator.db*"):
        shutil.copy(path, home)
    (home / MARKER).touch()
    await it.house.start()


async def copied(it: Site, copy: Path) -> Path:
    """A backup of the coordinator as it is."""
    await it.house.stop()
    copy.mkdir()
    for path in it.house.settings.data_dir.glob("coordinator.db*"):
        shutil.copy(path, copy)
    await it.house.start()
    return copy


async def debits(it: Site, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await it.ledger(name))["curator"]["debits"]
    return found


async def refused(it: Site, name: str, opened: Round) -> dict[str, Any]:
    """Why a curator refuses a round, once it does."""
    awake = part_of(it.app, Participation)._awake
    while True:
        ticket = awake.ticket()
        answer = await it.own("GET", f"/v1/curators/{name}/contributions")
        for found in answer.json()["contributions"]:
            if found["round"] == opened.id and found["refused_because"]:
                (ground,) = found["refused_because"]
                reason: dict[str, Any] = ground
                return reason
        await ticket.wait()  # until the service has taken up rounds again


async def test_the_same_is_not_answered_twice(it: Site, tmp_path: Path) -> None:
    await it.agree()
    copy = await copied(it, tmp_path / "copy")
    first = await it.house.open(NOISY)
    assert (await it.house.finish(first))["state"] == "released"
    await restored(it, copy)
    answer = await it.house.ask("GET", f"/v1/rounds/{first.id}")
    assert answer.status_code == 404
    second = await it.house.open(NOISY)
    assert second.descriptor.window == first.descriptor.window
    assert second.descriptor.query.digest() == first.descriptor.query.digest()
    for name in NAMES:
        ground = await refused(it, name, second)
        assert (ground["name"], ground["figures"]) == ("window_contributed", {"round": first.id})
        assert [item["round"] for item in await debits(it, name)] == [first.id]
    # Control: curators that allow repeats pay for a second noise over the same readings.
    await it.agree(allow_repeats=True)
    third = await it.house.open(NOISY)
    assert (await it.house.finish(third))["state"] == "released"
    assert [item["round"] for item in await debits(it, "a")] == [first.id, third.id]


async def test_what_was_released_is_not_credited_when_it_is_aborted(
    it: Site, tmp_path: Path
) -> None:
    await it.agree()
    window = {**WINDOW, "end": "2026-01-01T00:15:00Z"}
    for wire in it.house.wires:  # nobody's piece arrives before the copy is made
        wire.fault = lambda _method, path: "request" if path.endswith("/pieces") else None
    opened = await it.house.open(NOISY, window=window)
    copy = await copied(it, tmp_path / "copy")
    for wire in it.house.wires:
        wire.fault = lambda _method, _path: None
    assert (await it.house.finish(opened))["state"] == "released"
    await restored(it, copy)
    assert (await it.house.ask("GET", f"/v1/rounds/{opened.id}")).json()["state"] == "open"
    await it.house.ask("POST", f"/v1/rounds/{opened.id}/abort")
    ended = await it.house.finish(opened)
    assert ended["state"] in ("released", "aborted")
    assert ended["aborts"] == []
    await part_of(it.app, Participation).settle()
    for name in NAMES:
        (debit,) = [item for item in await debits(it, name) if item["round"] == opened.id]
        assert not debit["credited"]
    # Nor is it asked again.
    second = await it.house.open({**NOISY}, window=window)
    assert (await refused(it, "a", second))["name"] == "window_contributed"
