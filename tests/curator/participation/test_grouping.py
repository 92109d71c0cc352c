"""Portions cover every segment once; lots and groups stay within their bounds."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator.participation import windows
from curator.participation.contribution import Lot
from curator.participation.preparation import (
    LOT_PORTIONS,
    LOT_WORDS,
    Portion,
    Task,
    groups,
    keys_of,
    lots,
    portions,
    runs,
)
from curator.records.records import RecordSource, RecordWindow
from curator.store import readings
from curator.store.outbox import ContributionRow, State
from tacit.protocol.enrolment import PartyKind
from tests.curator.conftest import OPEN, PLAIN, OpenSite, query
from tests.curator.participation.test_consent import gateway

NOW = datetime(2026, 1, 5, tzinfo=UTC)
LONE = gateway(id="lone", kind=PartyKind.CURATOR, first=0, first_key=0, curators=1)


def task(number: int, first: int, key: int, curators: int | None) -> Task:
    """Of a host with so many curators, or of a lone one."""
    party = replace(LONE, id=f"party-{number}", first=first, first_key=key)
    if curators is not None:
        party = replace(party, kind=PartyKind.HOST, curators=curators)
    return Task(ContributionRow(number, party.id, "round", State.PLANNED, NOW), party)


@st.composite
def tasks(draw: Any) -> list[Task]:
    found, first, key = [], 0, 0
    for number in range(draw(st.integers(1, 12))):
        curators = draw(st.none() | st.integers(1, 700))
        first += -first % 64 if curators else 0
        found.append(task(number, first, key, curators))
        first, key = first + (curators or 1), key + (curators or 1)
    return draw(st.permutations(found))


def cut(found: list[Task], size: int) -> list[Portion]:
    return [portion for each in found for portion in portions(each, size, ())]


@given(tasks(), st.sampled_from([64, 128, 256]), st.data())
def test_runs_are_of_one_task_and_without_gaps(
    found: list[Task], size: int, data: st.DataObject
) -> None:
    """Where portions are done already, or another's come between, a run ends."""
    every = sorted(cut(found, size), key=lambda each: each.first_key)
    left = [each for each in every if data.draw(st.booleans())]
    cut_up = list(runs(left))
    assert [each for run in cut_up for each in run] == left
    for run in cut_up:
        assert len({each.task.contribution.id for each in run}) == 1
        places = [range(each.first_key, each.end_key)[each.within(each)] for each in run]
        assert all(one.stop == other.start for one, other in pairwise(places))
        whole = range(run[0].first_key, run[-1].end_key)
        assert [whole[each.within(run[0])] for each in run] == places
    for one, other in pairwise(cut_up):
        same = one[-1].task.contribution.id == other[0].task.contribution.id
        assert not same or one[-1].end_key < other[0].first_key


@given(tasks(), st.sampled_from([64, 128, 256]))
def test_portions_cover_everybody_once_and_one_is_the_last(found: list[Task], size: int) -> None:
    every = cut(found, size)
    keys = [key for each in every for key in range(*keys_of([each]))]
    assert sorted(keys) == list(range(sum(each.party.curators for each in found)))
    last = [each.task.contribution.id for each in every if each.last]
    assert sorted(last) == sorted(each.contribution.id for each in found)


@given(tasks(), st.integers(1, 1500), st.sampled_from([1, 96, 4096]))
def test_groups_and_lots_lose_nothing_and_stay_small(
    found: list[Task], reach: int, dimension: int
) -> None:
    every = cut(found, 128)
    together: list[Portion] = []
    for group in groups(every, reach):
        first, end = keys_of(group)
        assert len(group) == 1 or end - first <= reach
        for lot in lots(group, dimension, dimension):
            words = sum(each.span.length for each in lot) * dimension
            assert len(lot) == 1 or words <= LOT_WORDS
            assert len(lot) <= LOT_PORTIONS
            together += lot
    assert sorted(map(id, together)) == sorted(map(id, every))


def test_a_segment_that_is_done_is_left_out() -> None:
    host = task(1, 64, 0, 300)
    left = portions(host, 128, {1})
    assert [each.span.segment for each in left] == [0, 2]
    assert [each.last for each in left] == [False, True]
    assert [keys_of([each]) for each in left] == [(0, 64), (192, 300)]
    assert portions(host, 128, {0, 1, 2}) == []


@pytest.mark.parametrize(("together", "scans"), [(1000, 1), (10, 4), (1, 5)])
async def test_a_large_window_is_read_in_parts(
    site: OpenSite, monkeypatch: pytest.MonkeyPatch, together: int, scans: int
) -> None:
    """Three hosts and two lone curators with 32 readings: so many scans, and the same sum."""
    monkeypatch.setattr(windows, "TOGETHER", together)
    monkeypatch.setattr(readings, "WINDOW_PAGE", 8)
    asked: list[tuple[int, int]] = []
    original = windows.ReadingSource.load

    async def load(self: windows.ReadingSource, connection: Any, keys: tuple[int, int]) -> Any:
        asked.append(keys)
        return await original(self, connection, keys)

    monkeypatch.setattr(windows.ReadingSource, "load", load)
    async with site() as s:
        await s.policy(**OPEN)
        for host in ("a", "b", "c"):
            names = [f"{host}-{i}" for i in range(10)]
            await s.enrol(f"host-{host}", names)
            for name in names:
                await s.reading(name, "2")
        for name in ("house-1", "house-2"):
            await s.enrol(name)
            await s.reading(name, "1")
        descriptor = s.open(query(PLAIN))
        await s.take_part()
        assert s.world.result(descriptor) == {"sum": "62"}
        assert len(s.world.members(descriptor)) == 32
    assert len(asked) == scans
    assert sum(end - first for first, end in asked) == 32


def test_a_lot_is_of_two_megabytes_and_a_hundred_portions() -> None:
    """A whole segment of one coordinate is a lot; a lone curator is segment 0 of its own party."""
    assert (LOT_WORDS, LOT_PORTIONS) == (262_144, 100)
    lone, host = task(1, 70, 0, None), task(2, 128, 1, 300)
    (alone,) = portions(lone, 64, ())
    assert (alone.span.segment, alone.span.first, alone.span.length) == (0, 0, 1)
    for value, name in ((lone, "party"), (cut([host], 64)[0], "span")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, None)


@pytest.mark.parametrize(
    ("dimension", "curators", "prepared_in_thread", "large"),
    [(10, 3, False, False), (65_536, 3, True, False), (10, 2_000, True, True)],
)
def test_long_vectors_of_few_curators_make_no_large_transaction(
    dimension: int, curators: int, prepared_in_thread: bool, large: bool
) -> None:
    """Each statement of a large one is a visit to a thread, and other writers give up meanwhile."""
    terms = SimpleNamespace(
        descriptor=SimpleNamespace(aggregators=[None] * 3),
        dimension=dimension,
        invited=None,
        proofs=None,
    )
    own = SimpleNamespace(terms=terms)
    found = portions(task(1, 0, 0, curators), 1 << 20, ())
    lot = Lot(own, found, RecordWindow(None, {}))  # type: ignore[arg-type]
    assert (lot.is_large, lot.touches_many) == (prepared_in_thread, large)
    source = RecordSource(None, None, None, 1)  # type: ignore[arg-type]
    assert Lot(own, found, source).touches_many  # type: ignore[arg-type]
