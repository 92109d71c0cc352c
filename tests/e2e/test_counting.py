"""Counting over curators through real services: n-grams and prefix trees that nobody keeps.

Spec: federated-counting, sections 3 to 5. One site for all: a host of 11 curators and a lone one,
one of them without sequences; 3 aggregators. An epsilon of 100 over few levels makes noise of
scale 0.04 at most, which is 0 in every cell (but for a chance of 10^-8): the release then
is the one that one keeper of all sequences computes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any

import httpx
import pytest
import pytest_asyncio

from algorithms import sequential_ngram, sequential_prefix_tree
from algorithms.contract import SequentialContext
from algorithms.counts.contract import drive
from algorithms.counts.keeper import KeeperSource
from algorithms.sequential_prefix_tree import counts, federated
from tacit.encoders.sequential_prefix_tree_counts import COUNTER
from tacit.randomness import SeededRandom
from tacit.records.sequences import Sequences
from tests.e2e.federation import Site, site

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONE = "clinic-0"
HOSTED = [f"clinic-{number}" for number in range(1, 12)]
ITEMS = ("home", "news", "sports", "mail")
FEDERATION: dict[str, Any] = {
    "collect": "rounds",
    "columns": [{"sequences": "visits"}],
    "min_participants": 10,
    "n_max": 20,
    "deadline": 60,
    "collusion": {"curators": 0, "aggregators": 2},
}
NGRAMS: dict[str, Any] = {"universe": ITEMS, "l_max": 2, "n_max": 2, "budget": "uniform"}
TREE: dict[str, Any] = {"universe": ITEMS, "height": 3}


def job(algorithm: str, params: dict[str, Any], epsilon: str, **changes: Any) -> dict[str, Any]:
    asked = {**params, "universe": list(params["universe"]), "epsilon": epsilon}
    return {"algorithm": algorithm, "params": asked, "federation": {**FEDERATION, **changes}}


def visits(number: int) -> list[list[str]]:
    """A clinic's own sequences; the last clinic has none."""
    if number == len(HOSTED):
        return []
    generator = SeededRandom(number).generator
    chosen = [generator.choice(4, size, p=[0.5, 0.3, 0.15, 0.05]) for size in range(1, 8)]
    return [[ITEMS[place] for place in each] for each in chosen]


ALL = [each for number in range(12) for each in visits(number)]


async def give(it: Site, curator: str, content: str) -> httpx.Response:
    return await it.own(
        "POST",
        "/v1/sequences",
        content=content.encode(),
        params={"curator": curator, "name": "visits"},
        headers={"Content-Type": "text/plain"},
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with site(tmp_path_factory.mktemp("counting")) as running:
        await running.enrol("host", HOSTED)
        await running.enrol(LONE)
        for number, name in enumerate((LONE, *HOSTED)):
            if number < len(HOSTED):
                # An item that no universe has: this sequence counts nowhere.
                lines = [*(" ".join(each) for each in visits(number)), "home elsewhere"]
                answer = await give(running, name, "\n".join(lines) + "\n")
                assert answer.status_code == 200, answer.text
        await running.agree(
            "sequential-ngram", "sequential-prefix-tree", record={"period": {"epsilon": "9000"}}
        )
        yield running


async def debits(it: Site, curator: str = LONE) -> list[str]:
    return [each["epsilon"] for each in (await it.ledger(curator))["record"]["debits"]]


def without(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in names}


async def test_n_grams_are_those_of_one_keeper_also_over_a_restart(it: Site) -> None:
    before = len(await debits(it))
    asked = await it.ask(job("sequential-ngram", NGRAMS, "100"))
    async with asyncio.timeout(30):
        while (await it.shown(asked["id"]))["progress"] <= 0.3:
            await asyncio.sleep(0.02)
    await it.house.restart()
    found = await it.result(asked["id"])
    params = sequential_ngram.Parameters(**NGRAMS, epsilon="100")
    kept = sequential_ngram.run(Sequences.of(ITEMS, ALL), params, "sound", SequentialContext())
    assert without(found["summary"], "truncated") == without(dict(kept.result), "truncated")
    spent = (await debits(it))[before:]
    assert spent == ["100", "0"]  # one debit, with the first step
    report = await it.report(asked["id"])
    lines = {line["key"]: line for line in report["verified"]}
    assert lines["e"]["epsilon"] == report["charged"]["epsilon"] == "100"
    assert report["charged"]["ledger"] == "curators"


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_prefix_tree_is_that_of_one_keeper(it: Site, grouped: bool) -> None:
    more = {"fan_out": 2, "height": 2} if grouped else {}
    asked = await it.ask(job("sequential-prefix-tree", {**TREE, **more}, "100"))
    found = await it.result(asked["id"])
    params = sequential_prefix_tree.Parameters(**{**TREE, **more}, epsilon="100")
    # One keeper's counts, with thresholds for three draws of noise as in the rounds' sums.
    source = KeeperSource(SequentialContext(), COUNTER, [Sequences.of(ITEMS, ALL).lists])
    state = drive(counts.COUNTING, federated.first(params, Fraction(3)), source)
    kept = federated.release(params, state)
    assert without(found["summary"], "truncated") == without(dict(kept.result), "truncated")


async def test_a_preview_forecasts_and_spends_nothing(it: Site) -> None:
    before = await debits(it)
    asked = job("sequential-ngram", {**NGRAMS, "l_max": 20, "n_max": 5}, "1", n_hint=10**6)
    answer = await it.house.ask("POST", "/v1/jobs/preview", asked)
    assert answer.status_code == 200, answer.text
    error = answer.json()["preview"]["error"]
    assert (error["rounds"], error["mean_absolute_error"]) == (5, "187.5")
    assert error["draws_of_noise"] == "3"
    # P(Z >= t) <= 1/5 for three draws of scale 100.
    assert error["smallest_count_released"] == error["steps"][0]["threshold"]
    assert await debits(it) == before


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"federation": {**FEDERATION, "columns": ["a"]}}, "/federation/columns"),
        ({"federation": {**FEDERATION, "collect": "reports"}}, "/federation/collect"),
        ({"params": {**NGRAMS, "epsilon": "1", "budget": "adaptive"}}, "/params/budget"),
        ({"params": {**NGRAMS, "epsilon": "1", "evaluate": True}}, "/params/evaluate"),
        ({"algorithm": "kmeans"}, None),
    ],
)
async def test_what_is_not_offered_is_refused_and_debits_nothing(
    it: Site, change: dict[str, Any], pointer: str | None
) -> None:
    before = await debits(it)
    answer = await it.house.ask("POST", "/v1/jobs", job("sequential-ngram", NGRAMS, "1") | change)
    assert answer.status_code == 422, answer.text
    pointers = [answer.json().get("pointer"), *(e["pointer"] for e in answer.json()["errors"])]
    assert pointer is None or pointer in pointers
    assert await debits(it) == before
