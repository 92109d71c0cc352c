"""What a round of counting gets of a curator's own sequences, and what a coordinator is refused.

Spec: federated-counting, sections 2 to 5. A refusal debits nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.encoders import sums
from tacit.encoders.count_sums import MOST_SEQUENCES, CountSum
from tacit.encoders.counts import Level
from tacit.encoders.sequential_ngram_counts import COUNTER, Successors
from tacit.protocol.federation import FederatedStep
from tacit.query.query import Query
from tests.curator.conftest import OpenSite, Site
from tests.curator.double import FakeWorld
from tests.curator.records.test_records import OF_A_JOB, ask, refused, serving_steps

ITEMS = ("L1", "L2", "L3")
RATES, ONE = (Fraction(1, 3),), np.zeros(1, np.int64)
FIRST = CountSum.of(COUNTER, Successors(3, 5), 5, RATES, ONE)
ALL_ITEMS = Level(np.zeros(3, np.int64), np.arange(3))
SECOND = CountSum.of(COUNTER, Successors(3, 5, (ALL_ITEMS,)), 5, RATES, np.zeros(3, np.int64))
CURATOR_A = "L2 L3 L1\nL2 L3 L1\nL2 L3\n"
CURATOR_C = "L2 L3 L1 L2 L3\nL3 L1 L2 L3\nL1 elsewhere\n"


def step_and_query(
    asked: CountSum = FIRST, number: int = 1, step: dict[str, Any] | None = None, **query: Any
) -> tuple[FederatedStep, Query]:
    """What a coordinator asks; changes of the step, and of the query."""
    document = {
        "job": "job-1",
        "algorithm": "sequential-ngram",
        "step": number,
        "plan": "cGxhbnBsYW5wbGFucGxhbnBsYW5wbGFucGxhbnBsYW4",
        "columns": [{"sequences": "visits"}],
        "sum": asked.document(),
        "universe": list(ITEMS),
        **(step or {}),
    }
    made = FederatedStep.model_validate_json(json.dumps(document))
    fields = {
        **sums.query_fields(asked, "record", MOST_SEQUENCES, every_record=True),
        "name": made.name,
        **OF_A_JOB,
        **query,
    }
    return made, Query.model_validate_json(json.dumps(fields))


async def give(it: Site, content: str, name: str = "visits") -> None:
    path = f"/v1/sequences?curator=meter&name={name}"
    headers = {"Content-Type": "text/plain"}
    await it.request("POST", path, None, content=content.encode(), headers=headers)


@asynccontextmanager
async def serving(site: OpenSite, world: FakeWorld) -> AsyncIterator[Site]:
    """A curator with sequences, and a coordinator that serves its steps."""
    async with serving_steps(site, world) as running:
        await running.policy(algorithms=["sequential-ngram", "kmeans"], min_participants=2)
        await give(running, CURATOR_A)
        yield running


@pytest.fixture
async def it(site: OpenSite, world: FakeWorld) -> AsyncIterator[Site]:
    async with serving(site, world) as running:
        yield running


async def debits(it: Site, unit: str = "record") -> list[str]:
    found = (await it.get("/v1/curators/meter/budget"))["units"][unit]["debits"]
    return [debit["epsilon"] for debit in found]


def opened(it: Site) -> list[int]:
    """The sum of the newest round, as far as this curator adds to it."""
    signed = list(it.world.rounds.values())[-1]
    return it.world.total(signed.statement).tolist()


async def test_example_a_of_the_spec_by_hand(it: Site) -> None:
    assert (await ask(it, *step_and_query()))["contributed"]
    assert opened(it) == [2, 3, 3]
    assert (await ask(it, *step_and_query(SECOND, 2)))["contributed"]
    # L1 is followed by the end twice, L2 by L3 three times, L3 by L1 twice and once by the end.
    assert opened(it) == [0, 0, 0, 2, 0, 0, 3, 0, 2, 0, 0, 1]
    assert await debits(it) == ["0.333334"] * 2


async def test_items_are_places_in_the_steps_universe_and_strangers_count_nowhere(it: Site) -> None:
    await give(it, CURATOR_C)
    universe = {"universe": ["L3", "L2", "L1"]}
    assert (await ask(it, *step_and_query(step=universe)))["contributed"]
    assert opened(it) == [4, 3, 2]


async def test_a_curator_without_the_table_answers_zeros_and_pays(it: Site) -> None:
    await give(it, CURATOR_C, name="not-asked")
    await it.request("DELETE", "/v1/curators/meter/sequences?name=visits", status=204)
    assert (await ask(it, *step_and_query()))["contributed"]
    assert opened(it) == [0, 0, 0]
    assert await debits(it) == ["0.333334"]


async def test_a_table_that_is_younger_than_the_job_answers_zeros(it: Site) -> None:
    """Stored between two steps: neither what was there nor what came counts any more."""
    assert (await ask(it, *step_and_query()))["contributed"]
    assert opened(it) == [2, 3, 3]
    it.clock.advance(timedelta(seconds=1))
    await give(it, CURATOR_C)
    assert (await ask(it, *step_and_query(SECOND, 2)))["contributed"]
    assert opened(it) == [0] * 12
    assert await debits(it) == ["0.333334"] * 2


FORGED: list[tuple[str, dict[str, Any]]] = [
    ("fewer sequences than a table may hold", {"max_readings": MOST_SEQUENCES - 1}),
    ("some are left out", {"every_record": None}),
    ("less noise", {"epsilon": "2"}),
    ("numbers of a table", {"step": {"columns": ["a"]}}),
    ("two tables", {"step": {"columns": [{"sequences": "visits"}, {"sequences": "b"}]}}),
    ("a universe of another size", {"step": {"universe": ["L1", "L2"]}}),
    ("no universe", {"step": {"universe": None}}),
    ("an item twice", {"step": {"universe": ["L1", "L1", "L2"]}}),
    ("another algorithm's sum", {"step": {"algorithm": "kmeans"}}),
    ("no document", {"step": {"sum": {"reach": 1}}}),
]


async def test_a_forged_question_is_refused_and_debits_nothing(it: Site) -> None:
    for what, change in FORGED:
        assert refused(await ask(it, *step_and_query(**change))) == "step_refused", what
    assert await debits(it) == []
