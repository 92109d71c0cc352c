"""What is kept of the names of curators and devices is what the store has."""

from collections.abc import AsyncIterator

import pytest

from common.store.database import migrate, open_database
from common.store.transactions import Database
from curator.app import MIGRATIONS
from curator.intake.hosted_names import Device, Hosted
from curator.store import parties
from curator.store import readings as store
from tacit.protocol.identities import Pin
from tests.curator.participation.test_consent import gateway


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = open_database(database_url)
    await migrate(opened, MIGRATIONS)
    yield opened
    await opened.dispose()


async def _enrol(database: Database, party: str, ids: list[str]) -> None:
    async with database.begin() as transaction:
        first = await parties.next_curator_key(transaction)
        anchor = parties.Anchor("agg-1", "https://one.test", Pin(fingerprint=bytes(32)), None)
        row = gateway(
            id=party,
            state=parties.ACTIVE,
            first=first,
            first_key=first,
            curators=len(ids),
            anchors=(anchor,),
        )
        await parties.add_party(transaction, row, ids)


async def _make(database: Database, hosted: Hosted, wanted: list[Device]) -> dict[Device, int]:
    async with database.begin() as transaction:
        made = await hosted.devices(transaction, wanted)
    hosted.remember(made)
    return made


async def _loaded(database: Database, hosted: Hosted | None = None) -> Hosted:
    hosted = hosted or Hosted()
    async with database.reading() as transaction:
        await hosted.load(transaction)
    return hosted


async def test_devices_have_one_key(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (parties, store):
        monkeypatch.setattr(module, "PAGE", 2)
    await _enrol(database, "host-a", ["a", "b", "c"])
    first, second = await _loaded(database), await _loaded(database)
    # A device may have its curator's name, another's, or one that would need quoting.
    wanted = [(0, "a"), (0, "b"), (1, "b"), (2, 'line\n"two"'), (2, "0/a"), (0, "x")]
    made = await _make(database, first, wanted)
    assert sorted(made.values()) == list(range(len(wanted)))
    assert await _make(database, first, wanted) == made
    await _enrol(database, "host-b", ["x", "y"])
    later = await _make(database, await _loaded(database, first), [(3, "x"), (4, "a"), (0, "x")])
    assert later == {(3, "x"): 6, (4, "a"): 7, (0, "x"): 5}
    # Another process, one that was there before and one that starts, knows the same.
    for other in (second, Hosted()):
        known = await _loaded(database, other)
        assert [known.curator(name) for name in ("a", "b", "c", "x", "y", "z")] == [
            0, 1, 2, 3, 4, None,
        ]  # fmt: skip
        async with database.reading() as transaction:
            assert await known.devices(transaction, [*made, *later]) == made | later


async def test_the_only_curator_has_a_name(database: Database) -> None:
    hosted = await _loaded(database)
    assert hosted.only is None
    await _enrol(database, "alone", ["alone"])
    assert (await _loaded(database, hosted)).only == "alone"
    await _enrol(database, "second", ["second"])
    assert (await _loaded(database, hosted)).only is None
