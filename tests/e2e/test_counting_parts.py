"""A question that one round cannot carry: all its parts are open at once, and are one question.

Spec: federated-counting, section 7. A vector has 6 words here, so that the second level of n-grams
(20 cells) is asked in four parts; noise is 0 in every cell, as in `test_counting`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from algorithms import sequential_ngram
from algorithms.contract import SequentialContext
from tacit.encoders import count_sums
from tacit.records.items import Sequences
from tests.e2e.federation import Site
from tests.e2e.test_counting import (
    ALL,
    HOSTED,
    ITEMS,
    LONE,
    NGRAMS,
    debits,
    entered,
    job,
    told_once,
    without,
)
from tests.e2e.test_counting import it as it

pytestmark = pytest.mark.asyncio(loop_scope="module")

PARTS = 4
METRIC = "tacit_coordinator_job_ledger_events{"


@pytest.fixture(autouse=True)
def short_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_sums, "MAX_DIMENSION", 6)


def expected() -> dict[str, Any]:
    """What one keeper of all sequences has."""
    own = sequential_ngram.Parameters(**NGRAMS, epsilon="100")
    kept = sequential_ngram.run(Sequences.of(ITEMS, ALL), own, "sound", SequentialContext())
    return without(dict(kept.result), "truncated")


async def rounds_of(it: Site, job_id: str) -> list[dict[str, Any]]:
    names = (await it.report(job_id))["details"]["rounds_asked"]
    return [(await it.house.ask("GET", f"/v1/rounds/{name}")).json() for name in names]


async def entries_of(it: Site) -> list[int]:
    """How many jobs were debited, and settled, as the coordinator's metrics tell."""
    text = (await it.house.ask("GET", "/metrics")).text
    lines = [line for line in text.splitlines() if line.startswith(METRIC)]
    return [int(float(line.split()[1])) for line in sorted(lines)]


async def test_all_parts_are_open_at_once_and_give_what_one_keeper_has(it: Site) -> None:
    before, entries = len(await debits(it)), await entries_of(it)
    asked = await it.ask(job("sequential-ngram", NGRAMS, "100"))
    found = await it.result(asked["id"])
    assert await entries_of(it) == [each + 1 for each in entries]
    assert without(found["summary"], "truncated") == expected()
    first, *parts = await rounds_of(it, asked["id"])
    assert len(parts) == PARTS
    opened = [each["opened"] for each in parts]
    assert first["finished"] <= min(opened)
    assert max(opened) < min(each["finished"] for each in parts)
    assert (await debits(it))[before:] == ["100", *["0"] * PARTS]
    await told_once(it, asked["id"], "100", settled=1 + PARTS, curators=12)
    report = await it.report(asked["id"])
    assert report["details"]["participants"] == [12] * (1 + PARTS)
    assert not any("98 %" in each for each in report["caveats"])


@pytest.mark.slow
async def test_a_part_that_never_froze_is_asked_again_and_the_others_stand(it: Site) -> None:
    """A lone curator's pieces reach an aggregator in the first round alone. One of four parts is
    aborted meanwhile; that one is asked a second time, the others are released as they are."""
    before = {name: len(await debits(it, name)) for name in (LONE, HOSTED[0])}
    wire, first = it.house.wires[0], []

    def fault(_method: str, path: str) -> str | None:
        if not path.endswith("/pieces"):
            return None
        first.append(path)
        return None if path == first[0] else "request"

    wire.fault = fault
    asked = await it.ask(job("sequential-ngram", NGRAMS, "100"))
    await entered(it, before, 1 + PARTS)
    shown = (await it.house.ask("GET", "/v1/rounds?state=open")).json()["rounds"]
    names = [each["statement"]["round"] for each in shown]
    assert len(names) == PARTS
    answer = await it.house.ask("POST", f"/v1/rounds/{names[1]}/abort")
    assert answer.status_code < 300, answer.text
    wire.fault = lambda _method, _path: None
    found = await it.result(asked["id"])
    assert without(found["summary"], "truncated") == expected()
    assert not found["summary"]["truncated"]
    rounds = await rounds_of(it, asked["id"])
    states = [each["state"] for each in rounds]
    assert (len(states), states.count("aborted"), states[-1]) == (2 + PARTS, 1, "released")
    for name in (LONE, HOSTED[0]):
        assert (await debits(it, name))[before[name] :] == ["100", *["0"] * (1 + PARTS)]


@pytest.mark.slow
async def test_a_restart_while_parts_are_open_goes_on(it: Site) -> None:
    asked = await it.ask(job("sequential-ngram", NGRAMS, "100"))
    async with asyncio.timeout(120):
        while (await it.shown(asked["id"]))["progress"] <= 0.4:
            await asyncio.sleep(0.02)
    await it.house.restart()
    found = await it.result(asked["id"])
    assert without(found["summary"], "truncated") == expected()
    assert len(await rounds_of(it, asked["id"])) == 1 + PARTS
