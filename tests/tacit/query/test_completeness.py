"""The count of curators with readings: one part more, with its own sensitivity, noise and price."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tacit.accounting.charges import unit_costs
from tacit.query.functions import PRESENCE, decode, encode, local_sensitivities, parts
from tacit.query.mechanisms import aggregator_plan
from tacit.report.model import Subject
from tacit.report.queries import query_report
from tacit.units import NANO
from tests.tacit.examples import VARIANTS, query, readings

NOISY: dict[str, Any] = {
    "mechanism": "distributed",
    "epsilon": "1",
    "collusion": {"curators": 0, "aggregators": 2},
}


@pytest.mark.parametrize("kind", VARIANTS)
def test_a_curator_counts_once_if_it_has_a_reading(kind: str) -> None:
    columns = 2 if VARIANTS[kind].get("coordinates") == "values" else None
    quantity = NANO if columns is None else (NANO, NANO)
    rows = [(0, quantity, 0), (2, quantity, 5), (2, quantity, 6), (2, quantity, 7)]
    given = readings(4, rows, columns)
    plain = query(**VARIANTS[kind])
    asked = query(**VARIANTS[kind], completeness="curators")
    encoded = encode(asked, given)
    assert encoded.values[:, -1].tolist() == [1, 0, 1, 0]
    assert np.array_equal(encoded.values[:, :-1], encode(plain, given).values)
    assert local_sensitivities(asked, given)[:, -1].tolist() == [1, 0, 1, 0]
    total = encoded.values.sum(axis=0)
    assert decode(asked, total) == {**decode(plain, total[:-1]), PRESENCE: "2"}


@pytest.mark.parametrize("unit", ["curator", "record"])
def test_it_is_paid_for_out_of_the_querys_epsilon(unit: str) -> None:
    plain = query(**NOISY, privacy_unit=unit)
    asked = query(**NOISY, privacy_unit=unit, completeness="curators", split=["0.9", "0.1"])
    paid, before = (
        {key: cost for key, cost in unit_costs(each).items() if key[0].value == unit}
        for each in (asked, plain)
    )
    assert paid == before  # the price in the query's own unit is its epsilon, as before
    plan = aggregator_plan(asked)
    assert plan is not None
    own = parts(asked)[-1]
    assert (own.name, own.sensitivity, own.epsilon_share) == (PRESENCE, 1, Fraction(1, 10))
    assert plan.scales[-1] == 10
    report = query_report(asked, subject=Subject(kind="query", id="q"))
    assert {each.part for each in report.sensitivity} == {"sum", PRESENCE}
    assert [each.part for each in report.noise] == ["sum", PRESENCE]
    assert report.error is not None
    errors = {each["part"]: each for each in report.error["parts"]}
    assert errors[PRESENCE]["unit"] == "1"
    assert report.verified[-1].epsilon == "1"
    assert any("completeness" in line for line in report.not_protected)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"completeness": "readings"}, "completeness"),
        ({**NOISY, "completeness": "curators", "split": ["1"]}, "split"),
        ({**NOISY, "split": ["0.5", "0.5"]}, "split"),
        ({"completeness": "curators", "job": "a-job"}, "job"),
    ],
)
def test_what_does_not_go_together_is_refused_by_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as error:
        query(**changes)
    assert [each["loc"][0] for each in error.value.errors()] == [field]
