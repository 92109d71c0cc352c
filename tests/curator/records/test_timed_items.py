"""Sequences with a time: a job with a window counts those in it, and they pay there alone.

Spec: federated-counting, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from tacit.encoders.count_sums import CountSum
from tacit.query.fields import ALWAYS, Window
from tacit.wire import format_instant
from tests.curator.conftest import START, Site
from tests.curator.records.test_job_debit import asked, debits, opened, spent
from tests.curator.records.test_records import ask, refused
from tests.curator.records.test_sequence_rounds import FIRST, SECOND
from tests.curator.records.test_sequence_rounds import it as it

DAY = timedelta(days=1)
EARLY, LATE = START - 2 * DAY, START - DAY


def lines(records: Sequence[tuple[str, datetime]]) -> str:
    return "".join(
        f'{{"items": ["{items.replace(" ", chr(34) + ", " + chr(34))}"], '
        f'"time": "{format_instant(time)}"}}\n'
        for items, time in records
    )


async def give(it: Site, content: str) -> Any:
    path = "/v1/sequences?curator=meter&name=visits&format=ndjson"
    headers = {"Content-Type": "text/plain"}
    return await it.request("POST", path, None, content=content.encode(), headers=headers)


RECORDS = [
    ("L2 L3 L1", EARLY),
    ("L2 L3", EARLY + DAY - timedelta(microseconds=1)),
    ("L1", LATE),
    ("L1 L1 L1", LATE + DAY),
]


def window_of(start: datetime) -> dict[str, Any]:
    return {"start": format_instant(start), "end": format_instant(start + DAY)}


async def step(
    it: Site, name: str, start: datetime, question: CountSum = FIRST, number: int = 1
) -> Any:
    """A step of a job over the day from `start` on."""
    if getattr(it.app.state, "job", None) != name:
        it.app.state.job = name
        if hasattr(it.app.state, "terms"):
            del it.app.state.terms
    made = asked(it, question, number, {}, {"job": name}, job=name, window=window_of(start))
    return await ask(it, *made, window=Window(start=start, end=start + DAY))


async def test_a_window_counts_what_lies_in_it(it: Site) -> None:
    """Half open, to the microsecond; in every step the same records."""
    assert (await give(it, lines(RECORDS)))["timed"]
    assert (await step(it, "early", EARLY))["contributed"]
    assert opened(it) == [1, 2, 2]
    assert (await step(it, "early", EARLY, SECOND, 2))["contributed"]
    assert opened(it) == [0, 0, 0, 1, 0, 0, 2, 0, 1, 0, 0, 1]
    third, fifth = Fraction(3, 15), Fraction(2, 15)
    assert await spent(it) == [2 * third, 2 * fifth, 0, 0]
    assert (await step(it, "late", LATE))["contributed"]
    assert opened(it) == [1, 0, 0]


async def test_a_record_pays_in_its_window_alone(it: Site) -> None:
    """Two jobs over two days: epsilon at each instant. A third one over all of time adds to both;
    a limit of 2 admits it, and nothing more at any instant."""
    limits = {"record": {"period": {"epsilon": "2"}}, "curator": {}}
    await it.policy(algorithms=["sequential-ngram"], min_participants=2, **limits)
    await give(it, lines(RECORDS))
    for name, start in (("early", EARLY), ("late", LATE)):
        assert (await step(it, name, start))["contributed"]
    budget = (await it.get("/v1/curators/meter/budget"))["units"]["record"]
    assert budget["worst_instant"]["epsilon"] == "1"
    del it.app.state.terms
    assert (await ask(it, *asked(it, FIRST, 1, {}, {"job": "all"}, job="all")))["contributed"]
    assert opened(it) == [5, 2, 2]
    budget = (await it.get("/v1/curators/meter/budget"))["units"]["record"]
    assert budget["worst_instant"]["epsilon"] == "2"
    assert refused(await step(it, "again", EARLY)) == "budget_exceeded"
    assert await debits(it) == ["1", "1", "1"]


async def test_records_without_a_time_are_in_no_window(it: Site) -> None:
    """As if there were no table, which nobody is told: zeros, and the same debit."""
    assert (await step(it, "early", EARLY))["contributed"]
    assert opened(it) == [0, 0, 0]
    assert await debits(it) == ["1"]
    assert ALWAYS.start < EARLY


@pytest.mark.parametrize("number", [1, 2])
async def test_a_step_with_another_window_than_its_terms_is_refused(it: Site, number: int) -> None:
    await give(it, lines(RECORDS))
    if number == 2:
        assert (await step(it, "early", EARLY))["contributed"]
    terms = {"window": window_of(EARLY)}
    made = asked(it, FIRST, number, terms, {"job": "early"}, job="early", window=window_of(LATE))
    answer = await ask(it, *made, window=Window(start=LATE, end=LATE + DAY))
    assert refused(answer) == "step_refused"
    assert await debits(it) == ["1"] * (number - 1)
