"""A backup put back: nothing of before goes on, and nothing of before can be summed again."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text

from aggregator.app import create_app
from aggregator.context import Aggregator
from aggregator.rounds.restoring import MARKER, REASON
from common.runtime.clock import ManualClock
from tacit.accounting.charges import abort_credit
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import AbortStatement, Frozen
from tests.aggregator.conftest import Running, settings
from tests.aggregator.double import Federation, Round, query
from tests.aggregator.rounds.test_state_machine import refused


class Site:
    """Two aggregators, the first of which can be stopped and started."""

    def __init__(self, folder: Path, clock: ManualClock, running: Running) -> None:
        self.folder, self.clock, self.running = folder, clock, running
        self.data = settings(0, folder).data_dir
        self.first = AsyncExitStack()

    async def start(self) -> None:
        """Start the first aggregator again, on what is in its directory."""
        app = create_app(settings(0, self.folder), clock=self.clock)
        client = await self.first.enter_async_context(self.running(app))
        client.app = app  # type: ignore[attr-defined]
        self.federation.peers[0].client = client

    async def restart(self) -> None:
        """Stop the first aggregator, and start it again."""
        await self.first.aclose()
        await self.start()

    async def back_up(self) -> None:
        """Copy the directory of the first aggregator while it is stopped."""
        await self.first.aclose()
        shutil.copytree(self.data, self.folder / "backup")
        await self.start()

    async def put_back(self) -> None:
        """Start the first aggregator on that copy, as a restore leaves it."""
        await self.first.aclose()
        shutil.rmtree(self.data)
        shutil.copytree(self.folder / "backup", self.data)
        (self.data / MARKER).touch()
        await self.start()

    async def run(self, stack: AsyncExitStack) -> Federation:
        """Both, paired."""
        clients = []
        for index, into in enumerate((self.first, stack)):
            app = create_app(settings(index, self.folder), clock=self.clock)
            client = await into.enter_async_context(self.running(app))
            client.app = app  # type: ignore[attr-defined]
            clients.append(client)
        stack.push_async_callback(lambda: self.first.aclose())
        self.federation = await Federation(*clients, now=self.clock.now()).pair()
        return self.federation

    async def state(self, current: Round) -> tuple[str, str | None]:
        shown = (await self.federation.peers[0].coordinate("GET", current.path())).json()
        return shown["state"], shown["reason"]


@pytest.fixture
async def site(tmp_path: Path, clock: ManualClock, running: Running) -> AsyncIterator[Site]:
    """The two, running and paired."""
    it = Site(tmp_path, clock, running)
    async with AsyncExitStack() as stack:
        await it.run(stack)
        yield it


ASKED = query(aggregators=2, mechanism="exact")


async def test_the_marker_aborts_every_round_that_is_not_released(site: Site) -> None:
    federation = site.federation
    lone = await federation.lone(2)
    rounds = [await federation.open(ASKED) for _ in range(4)]
    for current in rounds:
        for sender in lone:
            await current.contribute(sender, np.array([[3]]))
    await rounds[1].freeze()
    await rounds[2].commit(await rounds[2].freeze())
    await rounds[3].release()
    await site.first.aclose()
    (site.data / MARKER).touch()
    await site.start()
    assert [await site.state(current) for current in rounds] == [
        *[("aborted", REASON)] * 3,
        ("released", None),
    ]
    assert not (site.data / MARKER).exists()
    async with federation.peers[0].part(Aggregator).database.reading() as transaction:
        lengths = await transaction.execute(text("SELECT length(bodies) FROM piece"))
        assert set(lengths.scalars()) == {0}
    # from now on all is as ever, and a start without the marker aborts nothing
    current = await federation.open(ASKED)
    await site.restart()
    for sender in lone:
        await current.contribute(sender, np.array([[5]]))
    assert (await current.release())[0].tolist() == [10]


async def test_a_database_put_back_without_the_marker_is_recognised_by_its_seal_keys(
    site: Site, clock: ManualClock, tmp_path: Path
) -> None:
    """The directory of wrapping keys knows a higher number than the database."""
    federation = site.federation
    lone = await federation.lone(2)
    opened = await federation.open(ASKED)
    for sender in lone:
        await opened.contribute(sender, np.array([[3]]))
    await site.first.aclose()
    shutil.copy(site.data / "aggregator.db", tmp_path / "backup.db")
    await site.start()
    clock.advance(timedelta(hours=1))
    federation.now = clock.now()
    later = await federation.open(ASKED)
    for sender in lone:
        await later.contribute(sender, np.array([[3]]))
    await later.release()
    await opened.release()
    await site.first.aclose()
    for path in site.data.glob("aggregator.db*"):
        path.unlink()
    shutil.copy(tmp_path / "backup.db", site.data / "aggregator.db")
    await site.start()
    peer = federation.peers[0]
    assert await site.state(opened) == ("aborted", REASON)
    answer = await peer.coordinate("POST", opened.path("abort"), {"reason": "again"})
    statement = Signed[AbortStatement].model_validate_json(answer.content)
    assert statement.statement.frozen is Frozen.MAYBE
    assert not abort_credit(opened.descriptor, [statement])
    refused(await peer.coordinate("POST", "/v1/rounds", later.signed), 422, "descriptor_refused")
    # a new key with a higher number; a further start aborts nothing
    current = await federation.open(ASKED)
    numbers = [r.descriptor.aggregators[0].seal.number for r in (opened, later, current)]
    assert numbers == [1, 2, 3]
    await site.restart()
    for sender in lone:
        await current.contribute(sender, np.array([[5]]))
    assert (await current.release())[0].tolist() == [10]


async def test_a_round_of_after_the_backup_is_never_summed_twice(site: Site) -> None:
    """The restored store has never heard of it; shown again, it would get noise a second time."""
    federation = site.federation
    lone = await federation.lone(2)
    await site.back_up()
    current = await federation.open(ASKED)
    for sender in lone:
        await current.contribute(sender, np.array([[3]]))
    await current.release()
    await site.put_back()
    peer = federation.peers[0]
    refused(await peer.coordinate("GET", current.path()), 404, "unknown_round")
    answer = await peer.coordinate("POST", "/v1/rounds", current.signed)
    refused(answer, 422, "descriptor_refused")
    # an entry of now with a piece of then: sealed for a key that is gone, in another round
    again = await federation.open(ASKED)
    old = current.piece(lone[0], 0, np.array([3], np.uint64))
    refused(await again.send(lone[0], 0, old), 409, "unknown_session")
