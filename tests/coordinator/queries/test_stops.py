"""A query at other epsilons, against a preview of each by itself."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from coordinator.queries import at_epsilon
from tacit.query.query import Query
from tacit.wire import canonical_json
from tests.coordinator.conftest import Houses
from tests.coordinator.double import NOISY, query

TWO_LAYER = {
    "mechanism": "two-layer",
    "epsilon_u": "1",
    "epsilon_s": "2",
    "pr_u": "1",
    "pr_s": "1",
}
LOCAL = {"mechanism": "local", "epsilon_i": "1", "sharing": "none", "aggregators": 1}


async def test_a_stop_is_what_a_preview_of_its_own_says(house: Houses) -> None:
    async with house(3) as it:
        asked = {**query(**NOISY), "epsilons": ["0.05", "1", "4"]}
        found = (await it.ask("POST", "/v1/queries/preview", asked)).json()
        assert [stop["epsilon"] for stop in found["stops"]] == ["0.05", "1", "4"]
        for stop in found["stops"]:
            alone = query(**{**NOISY, "epsilon": stop["epsilon"]})
            report = (await it.ask("POST", "/v1/queries/preview", alone)).json()
            assert stop["error"] == report["error"]
            assert stop["guess"] == next(x["guess"] for x in report["verified"] if x["key"] == "e")
            assert "stops" not in report
        alone = (await it.ask("POST", "/v1/queries/preview", query(**NOISY))).json()
        assert alone == {name: value for name, value in found.items() if name != "stops"}


GAUSSIAN = {
    **{"mechanism": "distributed", "noise": "gaussian", "epsilon": None, "rho": "0.1"},
    "collusion": {"aggregators": 2},
}


async def test_gaussian_noise_is_tried_at_rhos(house: Houses) -> None:
    async with house(3) as it:
        asked = {**query(**GAUSSIAN), "rhos": ["0.002", "0.3"], "epsilons": ["1"]}
        found = (await it.ask("POST", "/v1/queries/preview", asked)).json()
        first, *stops = found["stops"]
        assert first["epsilon"] == "1"
        assert [stop["rho"] for stop in stops] == ["0.002", "0.3"]
        for stop in stops:
            alone = query(**{**GAUSSIAN, "rho": stop["rho"]})
            report = (await it.ask("POST", "/v1/queries/preview", alone)).json()
            [promised] = [line for line in report["verified"] if line["key"] == "e"]
            assert stop["error"] == report["error"]
            assert (stop["epsilon"], stop["guess"]) == (promised["epsilon"], promised["guess"])
        for changes, rho in ((NOISY, "0.1"), (GAUSSIAN, "0"), (GAUSSIAN, "1e-13")):
            asked = {**query(**changes), "rhos": [rho]}
            answer = await it.ask("POST", "/v1/queries/preview", asked)
            assert answer.status_code == 422
            assert [each["pointer"] for each in answer.json()["errors"]] == ["/rhos/0"]


BAD: list[tuple[dict[str, Any], list[Any], str]] = [
    (NOISY, ["1", "0"], "/epsilons/1"),
    (NOISY, ["20000"], "/epsilons/0"),
    (NOISY, ["x"], "/epsilons/0"),
    (NOISY, [1], "/epsilons/0"),
    (NOISY, ["1"] * 33, "/epsilons"),
    ({"mechanism": "exact"}, ["1"], "/epsilons/0"),
]


async def test_an_epsilon_that_cannot_be_names_its_place(house: Houses) -> None:
    async with house(3) as it:
        for changes, epsilons, pointer in BAD:
            asked = {**query(**changes), "epsilons": epsilons}
            answer = await it.ask("POST", "/v1/queries/preview", asked)
            assert answer.status_code == 422
            assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize("changes", [NOISY, TWO_LAYER, LOCAL])
def test_another_epsilon_changes_nothing_else(changes: dict[str, Any]) -> None:
    fields = {name: value for name, value in query(**changes).items() if value is not None}
    if changes is LOCAL:
        fields["collusion"] = {"aggregators": 1}
    asked = Query.model_validate_json(canonical_json(fields))
    own = asked.epsilon or asked.epsilon_i or asked.epsilon_s
    assert own is not None
    assert at_epsilon(asked, own) == asked
    doubled = at_epsilon(asked, 2 * own)
    before, after = asked.model_dump(), doubled.model_dump()
    changed = {name for name, value in before.items() if after[name] != value}
    assert changed <= {"epsilon", "epsilon_i", "epsilon_s", "epsilon_u"}
    if asked.epsilon_u is not None:
        assert doubled.epsilon_u == 2 * asked.epsilon_u
    assert at_epsilon(asked, Fraction(1, 3)) != asked
