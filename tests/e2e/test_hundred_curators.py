"""100 curators over HTTP: what rounds release is what one keeper of all records computes.

Spec: federated-counting, section 13, check 2. One curator has nothing, one a single record; a host
of 97 and three lone ones. The aggregators' draws are 0 here, all else is as ever, thresholds too.
Sharings take turns; pieces of more than 128 words are seeds.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from aggregator.rounds import opening, partial_sum
from algorithms import catalogue
from tacit.encoders.count_sums import CountSum
from tacit.encoders.counts import Lists
from tacit.query.mechanisms import Ints, NoisePlan
from tacit.randomness import NoiseSource
from tests.e2e.federation import Site, site

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

LONE = ["clinic-0", "clinic-1", "clinic-2"]
NAMES = [*LONE, *(f"clinic-{number}" for number in range(3, 100))]
ITEMS = [f"page-{number}" for number in range(16)]
SHARINGS: list[dict[str, Any]] = [
    {"sharing": "additive", "collusion": {"curators": 0, "aggregators": 2}},
    {"sharing": "shamir", "threshold": 2, "collusion": {"curators": 0, "aggregators": 1}},
]
GRAMS: dict[str, Any] = {"l_max": 4, "n_max": 2, "epsilon": "4"}
JOBS: list[tuple[str, dict[str, Any]]] = [
    ("sequential-ngram", {**GRAMS, "budget": "uniform"}),
    ("sequential-ngram", {**GRAMS, "budget": "adaptive"}),
    ("sequential-prefix-tree", {"height": 3, "epsilon": "4"}),
    ("sequential-prefix-tree", {"height": 2, "fan_out": 4, "epsilon": "4"}),
    ("set-valued", {"fanout": 4, "epsilon": "4"}),
    ("set-valued", {"fanout": 5, "epsilon": "4"}),
    ("set-valued", {"method": "basic", "epsilon": "4"}),
]


def records(number: int) -> list[list[int]]:
    """A curator's own: the last one has none, the one before it a single record."""
    generator = np.random.default_rng(number)
    many = {99: 0, 98: 1}.get(number, 6)
    law = np.arange(16, 0, -1) ** 2 / (np.arange(16, 0, -1) ** 2).sum()
    return [generator.choice(16, generator.integers(1, 7), p=law).tolist() for _ in range(many)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    silent = pytest.MonkeyPatch()
    for module in (partial_sum, opening):
        silent.setattr(module, "draw", no_noise)
    async with site(tmp_path_factory.mktemp("hundred")) as running:
        await running.enrol("host", NAMES[3:])
        for name in LONE:
            await running.enrol(name)
        for number, name in enumerate(NAMES[:-1]):
            lines = [" ".join(ITEMS[item] for item in each) for each in records(number)]
            for kind in ("sequences", "transactions"):
                answer = await running.own(
                    "POST",
                    f"/v1/{kind}",
                    content=("\n".join(lines) + "\n").encode(),
                    params={"curator": name, "name": "visits"},
                    headers={"Content-Type": "text/plain"},
                )
                assert answer.status_code == 200, answer.text
        names = sorted({algorithm for algorithm, _ in JOBS})
        await running.agree(*names, record={"period": {"epsilon": "9000"}})
        yield running
    silent.undo()


def no_noise(plan: NoisePlan, _source: NoiseSource, count: int) -> Ints:
    """The noise of none."""
    return np.zeros((count, sum(plan.dimensions)), np.int64)


def kept(algorithm: str, params: dict[str, Any], draws: Fraction) -> dict[str, Any]:
    """What one keeper releases, with thresholds for as many draws."""
    found = catalogue.find(algorithm)
    rounds = found.rounds
    assert rounds is not None
    own = found.params.model_validate_json(json.dumps({**params, "universe": ITEMS}))
    rows = [row for number in range(100) for row in records(number)]
    starts = np.cumsum([0, *map(len, rows)])
    lists = Lists(np.array([item for row in rows for item in row], np.int32), starts)
    run = rounds.first(own, ("visits",), draws)
    while (asked := rounds.next_sum(run)) is not None:
        assert isinstance(asked, CountSum)
        run = rounds.absorb(run, asked, asked.restored(asked.total(lists)))
    return dict(rounds.release(run).result)


@pytest.mark.parametrize(
    ("algorithm", "params", "sharing"),
    [(*each, SHARINGS[place % 2]) for place, each in enumerate(JOBS)],
)
async def test_a_hundred_curators_release_what_one_keeper_does(
    it: Site, algorithm: str, params: dict[str, Any], sharing: dict[str, Any]
) -> None:
    kind = "transactions" if algorithm == "set-valued" else "sequences"
    asked = await it.ask(
        {
            "algorithm": algorithm,
            "params": {**params, "universe": ITEMS},
            "federation": {
                "collect": "rounds",
                "columns": [{kind: "visits"}],
                "min_participants": 90,
                "n_max": 200,
                "deadline": 60,
                **sharing,
            },
        }
    )
    found = (await it.result(asked["id"]))["summary"]
    report = await it.report(asked["id"])
    draws = Fraction(report["details"]["draws_of_noise"])
    assert draws == 3
    assert found == kept(algorithm, params, draws)
    for name in (LONE[0], NAMES[98], NAMES[99]):
        ledger = (await it.ledger(name))["record"]["debits"]
        assert ledger[-len(report["details"]["rounds_asked"])]["epsilon"] == "4"
