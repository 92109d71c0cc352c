"""The form of a query: the fields make the query, and the query gives the fields back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinator.console import query_wizard
from tacit.errors import Invalid
from tacit.noise.gaussian_privacy import zcdp_rho
from tacit.query.fields import QueryFields
from tacit.query.query import Query
from tacit.query.terms import Function, Mechanism
from tests.coordinator.double import query


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"function": "mean", "split": ["0.25", "0.75"], "delta": "0.000001"},
        {"function": "variance", "completeness": "curators", "privacy_unit": "record"},
        {"function": "histogram", "edges": ["0.5", "1", "2"], "percentiles": ["5", "50"]},
        {"function": "vector_sum", "dimension": 4, "l1_bound": "3"},
        {"function": "table", "columns": {"sex": ["f", "m"], "age": [0, None]}, "measure": "kwh"},
        {"mechanism": "local", "sharing": "none", "aggregators": 1, "collusion": {"curators": 1}},
        {"mechanism": "two-layer", "epsilon_u": "7.5", "pr_u": "1/2", "pr_s": "1"},
        {"sharing": "shamir", "threshold": 2, "c_noise": 2, "collusion": {"aggregators": 1}},
        {"layer": "both", "validity": "proved", "noise_tail": "0.0000001"},
        {"window": {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:00:01.5Z"}},
        {"schedule": {"first_start": "2026-01-01T00:00:00Z", "period_s": 86_400}},
        {"window_bound": "20"},
        {"noise": "gaussian", "epsilon": None, "rho": "0.05", "delta": "0.000001"},
        {"noise": "gaussian", "delta": "0.000001", "window_bound": "20"},
        {"group": "north", "family": "feeders", "family_minimum": 40, "stance": "paper"},
        {"bounds": ["-5", "5"], "register": "1-0:1.8.1", "unit": "MWh", "deadline_s": 5},
    ],
)
def test_every_query_of_the_form_survives_it(changes: dict[str, Any]) -> None:
    names = {"local": "epsilon_i", "two-layer": "epsilon_s"}
    epsilon = {names.get(changes.get("mechanism", ""), "epsilon"): "1.25"}
    told = query(**{"mechanism": "distributed", "n_max": 1000, **epsilon, **changes})
    asked = Query.model_validate_json(json.dumps(told))
    assert query_wizard.query(query_wizard.read({}, query_wizard.fields_of(asked))) == asked


def test_the_form_has_every_field_of_a_query() -> None:
    """A new field of the query has to get a place in the form, or a word here why not."""
    names = {info.alias or name for name, info in QueryFields.model_fields.items()}
    apart = {"bounds", "window", "schedule", "collusion", "epsilon_s", "epsilon_i"}
    never = {"blocks", "job", "every_record", "registers"}  # of federated jobs alone
    never |= {"rule"}  # sums without noise are asked by the API: with a lawyer, not in passing
    assert names - apart - never <= set(query_wizard.STEP_OF)
    assert set(query_wizard.FUNCTIONS) == set(Function)
    assert set(query_wizard.MECHANISMS) == set(Mechanism) - {Mechanism.EXACT}


FAULTS: tuple[tuple[dict[str, str], str, int], ...] = (
    ({"name": ""}, "name", 1),
    ({"upper": "-1"}, "upper", 1),
    ({"function": "histogram", "edges": "3 2"}, "edges", 1),
    ({"when": "fixed"}, "start", 2),
    ({"when": "schedule", "first_start": "2026-01-01T00:00", "period_s": "1"}, "period_s", 2),
    ({"epsilon": ""}, "epsilon", 3),
    ({"mechanism": "two-layer", "pr_u": "2"}, "pr_u", 3),
    ({"collusion_aggregators": "3"}, "collusion_aggregators", 4),
    ({"sharing": "shamir"}, "threshold", 4),
)


def test_a_days_profile_is_a_query_once_its_bounds_are_given() -> None:
    """365 days of it keep (8, 10^-6)."""
    typed = {"name": "load", "upper": "5", "window_bound": "18.5"}
    given = {**query_wizard.PROFILE, "first_start": "2027-01-01T00:00"}
    asked = query_wizard.query(query_wizard.read(typed, given))
    assert (asked.function, asked.dimension, asked.noise) == ("vector_sum", 96, "gaussian")
    assert asked.schedule is not None
    assert asked.schedule.period_s == 86_400
    assert asked.epsilon is None
    assert 365 * asked.rho < zcdp_rho(8, 1e-6) < 365 * asked.rho + 1e-6


def test_a_fault_stands_at_its_field() -> None:
    for changes, field, step in FAULTS:
        fields = query_wizard.read({"name": "evening", "upper": "5", **changes}, {})
        with pytest.raises(Invalid) as caught:
            query_wizard.query(fields)
        found = query_wizard.faults(caught.value)
        assert (field, step) in [(each.field, each.step) for each in found]
        assert query_wizard.until(found, step - 1) == [each for each in found if each.step < step]


def test_fields_of_another_choice_are_left_out() -> None:
    fields = query_wizard.read(
        {"name": "evening", "upper": "5", "edges": "1 2", "layer": "curator", "threshold": "2"}, {}
    )
    local = {**fields, "mechanism": "local"}
    assert query_wizard.query(fields).edges is None
    assert query_wizard.query(local).sharing.value == "none"
    assert query_wizard.query(local).layer is None
