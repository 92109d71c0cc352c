"""The attacker wants one curator's reading: a sum over a register, and a job's step that takes a
statistic of the same register over all of its curators but one.

The analyst tries at the coordinator; a corrupt coordinator, which forgets the guard, at an
aggregator, and one that hides the register from the aggregators at a curator.
"""

from __future__ import annotations

from typing import Any

import pytest

from tacit.protocol.federation import RegisterStatistic, StatisticKind
from tests.aggregator.double import Federation, query
from tests.aggregator.rounds.test_differencing import commitment, deliver, released
from tests.aggregator.rounds.test_state_machine import refused
from tests.coordinator.conftest import Houses
from tests.coordinator.double import query as query_json
from tests.coordinator.rounds.test_differencing import NOISY, finish, hours
from tests.curator.conftest import Site
from tests.curator.records.test_records import ask, step_and_query
from tests.curator.records.test_records import it as curator
from tests.curator.records.test_records import refused as ground

FAMILY: dict[str, Any] = {**NOISY, "family": "net", "family_minimum": 3}
STEP: dict[str, Any] = {
    **NOISY,
    "name": f"kmeans:1:{'0' * 64}",
    "job": "clusters",
    "function": "vector_sum",
    "register": "records",
    "coordinates": "values",
    "dimension": 1,
}
OVER: dict[str, Any] = {"registers": ["energy_import", "power_import"]}
ELSEWHERE: tuple[dict[str, Any], ...] = ({}, {"registers": ["power_import"]})
STATISTICS = tuple(
    RegisterStatistic(register="energy_import", statistic=kind)
    for kind in (StatisticKind.MIN, StatisticKind.MAX)
)
__all__ = ["curator"]


async def test_an_analyst_with_a_job(house: Houses) -> None:
    asked = [query_json(**FAMILY), query_json(**{**STEP, **OVER})]
    async with house(3) as it:
        host = await it.host("gateway", 6)
        opened = [
            await it.open(each, window=hours(1, 30 * place)) for place, each in enumerate(asked)
        ]
        assert (await finish(it, opened[0], host))["state"] == "released"
        found = await finish(it, opened[1], host, 5)
        assert found["state"] == "aborted"
        assert opened[0].id in found["reason"]


@pytest.mark.parametrize("step_first", [False, True])
async def test_a_coordinator_that_forgets_the_guard(pair: Federation, step_first: bool) -> None:
    two = {"aggregators": 2, "collusion": {"curators": 0, "aggregators": 1}}
    asked = [query(**{**FAMILY, **two}), query(**{**STEP, **OVER, **two})]
    lone = await pair.lone(5)
    first, second = reversed(asked) if step_first else asked
    await released(pair, lone, first)
    opened = await deliver(await pair.open(second), lone[1:])
    refused(await commitment(opened), 409, "difference_refused")


@pytest.mark.parametrize("registers", ELSEWHERE)
async def test_a_step_over_something_else_is_summed(
    pair: Federation, registers: dict[str, Any]
) -> None:
    """The control: rows of a table, or a register that no released sum reads."""
    two = {"aggregators": 2, "collusion": {"curators": 0, "aggregators": 1}}
    lone = await pair.lone(5)
    await released(pair, lone, query(**{**FAMILY, **two}))
    await released(pair, lone[1:], query(**{**STEP, **registers, **two}))


@pytest.mark.parametrize("registers", [None, ("gas",), ("energy_import", "gas")])
async def test_a_coordinator_that_hides_the_register(
    curator: Site, registers: tuple[str, ...] | None
) -> None:
    step, honest = step_and_query(columns=STATISTICS, registers=["energy_import"])
    hidden = honest.model_copy(update={"registers": registers})
    assert ground(await ask(curator, step, hidden)) == "step_refused"


async def test_a_curator_answers_a_step_that_names_its_registers(curator: Site) -> None:
    """The control."""
    found = await ask(curator, *step_and_query(columns=STATISTICS, registers=["energy_import"]))
    assert found["contributed"]
