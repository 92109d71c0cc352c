"""The chain: what was edited, removed, moved or added shows, and the first bad row is named."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.models.budget_ledger import (
    GENESIS,
    Draft,
    Event,
    Kind,
    MemberSet,
    chain,
    first_break,
)

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)


def rows(count: int = 8) -> list[Event]:
    drafts = [Draft(Kind.FLAGGED, "operator", {"reason": f"r{i}"}, i, 1) for i in range(count)]
    return list(chain(drafts, 0, GENESIS, NOON))


def test_a_whole_chain_verifies_in_one_piece_or_two() -> None:
    events = rows()
    assert first_break(events) is None
    assert first_break(events[3:], 3, events[2].hash) is None


@pytest.mark.parametrize(
    "change",
    [
        {"kind": Kind.CLEANSED},
        {"actor": "somebody"},
        {"payload": {"reason": "other"}},
        {"first": 7},
        {"count": 2},
        {"time": datetime(2026, 11, 2, 13, tzinfo=UTC)},
        {"hash": GENESIS},
    ],
)
def test_an_edited_row_is_named(change: dict[str, object]) -> None:
    events = rows()
    events[4] = replace(events[4], **change)
    found = first_break(events)
    assert found is not None
    assert found.seq == 5


def test_a_row_that_was_edited_with_its_hash_is_found_at_the_next() -> None:
    events = rows()
    forged = Draft(Kind.FLAGGED, "operator", {"reason": "other"}, 4, 1)
    (events[4],) = chain([forged], 4, events[3].hash, NOON)
    found = first_break(events)
    assert found is not None
    assert found.seq == 6


def test_removed_and_moved_rows_are_named() -> None:
    events = rows()
    removed = first_break([*events[:3], *events[4:]])
    assert removed is not None
    assert removed.seq == 4
    moved = first_break([*events[:3], events[4], events[3], *events[5:]])
    assert moved is not None
    assert moved.seq == 4
    swapped = [*events[:3], replace(events[4], seq=4), replace(events[3], seq=5), *events[5:]]
    found = first_break(swapped)
    assert found is not None
    assert found.seq == 4


@given(st.lists(st.booleans(), max_size=300))
def test_members_come_back(some: list[bool]) -> None:
    bits = np.array(some, np.bool_)
    assert (MemberSet.of(bits).bits() == bits).all()
