"""What is kept of the names of curators and devices is what the store has."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from common.models.enrolment import PartyKind
from common.service.clock import ManualClock
from common.service.database import migrate, open_database, reading
from curator.app import MIGRATIONS
from curator.hosted import Device, Hosted
from curator.store import parties
from curator.store import readings as store
from curator.store.parties import PartyRow


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    opened = open_database(database_url)
    await migrate(opened, MIGRATIONS)
    yield opened
    await opened.dispose()


async def _enrol(engine: AsyncEngine, clock: ManualClock, party: str, ids: list[str]) -> None:
    async with engine.begin() as connection:
        first = await parties.next_curator_key(connection)
        row = PartyRow(
            id=party,
            kind=PartyKind.HOST,
            state=parties.ACTIVE,
            deployment="feeder",
            identity=bytes(32),
            coordinator_url="https://coordinator.test",
            coordinator_key=None,
            coordinator_token=None,
            first=first,
            first_key=first,
            curators=len(ids),
            join_token=None,
            created=clock.now(),
            enrolled=clock.now(),
            anchors=(parties.Anchor("agg-1", "https://one.test", bytes(32), None),),
        )
        key = parties.EpochRow(party, 0, bytes(32), True, clock.now())
        await parties.add_party(connection, row, ids, key)


async def _make(engine: AsyncEngine, hosted: Hosted, wanted: list[Device]) -> dict[Device, int]:
    async with engine.begin() as connection:
        made = await hosted.devices(connection, wanted)
    hosted.remember(made)
    return made


async def _loaded(engine: AsyncEngine, hosted: Hosted | None = None) -> Hosted:
    hosted = hosted or Hosted()
    async with reading(engine) as connection:
        await hosted.load(connection)
    return hosted


async def test_devices_have_one_key(
    engine: AsyncEngine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (parties, store):
        monkeypatch.setattr(module, "PAGE", 2)
    await _enrol(engine, clock, "host-a", ["a", "b", "c"])
    first, second = await _loaded(engine), await _loaded(engine)
    # A device may have its curator's name, another's, or one that would need quoting.
    wanted = [(0, "a"), (0, "b"), (1, "b"), (2, 'line\n"two"'), (2, "0/a"), (0, "x")]
    made = await _make(engine, first, wanted)
    assert sorted(made.values()) == list(range(len(wanted)))
    assert await _make(engine, first, wanted) == made
    await _enrol(engine, clock, "host-b", ["x", "y"])
    later = await _make(engine, await _loaded(engine, first), [(3, "x"), (4, "a"), (0, "x")])
    assert later == {(3, "x"): 6, (4, "a"): 7, (0, "x"): 5}
    # Another process, one that was there before and one that starts, knows the same.
    for other in (second, Hosted()):
        known = await _loaded(engine, other)
        assert [known.curator(name) for name in ("a", "b", "c", "x", "y", "z")] == [
            0, 1, 2, 3, 4, None,
        ]  # fmt: skip
        async with reading(engine) as connection:
            assert await known.devices(connection, [*made, *later]) == made | later


async def test_the_only_curator_has_a_name(engine: AsyncEngine, clock: ManualClock) -> None:
    hosted = await _loaded(engine)
    assert hosted.only is None
    await _enrol(engine, clock, "alone", ["alone"])
    assert (await _loaded(engine, hosted)).only == "alone"
    await _enrol(engine, clock, "second", ["second"])
    assert (await _loaded(engine, hosted)).only is None
