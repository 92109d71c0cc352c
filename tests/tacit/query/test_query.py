"""Every rule of a query refuses at the field that breaks it; the canonical form is stable.

The count of curators with readings: one part more, with its own sensitivity, noise and price.

Groups, families and jobs in queries and descriptors; what knows none of them is as it was.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tacit import sets
from tacit.accounting.charges import unit_costs
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.fields import Window
from tacit.query.functions import PRESENCE, decode, encode, local_sensitivities, parts
from tacit.query.mechanisms import aggregator_plan
from tacit.query.query import Query
from tacit.report.model import Subject
from tacit.report.queries import query_report
from tacit.units import NANO
from tacit.wire import encode_binary
from tests.tacit.examples import PLAIN, VARIANTS, fields, query, readings
from tests.tacit.protocol.round.test_checks import bitmap, descriptor

NOISY = {"mechanism": "distributed", "epsilon": "1"}
TWO_LAYER = {
    "mechanism": "two-layer", "epsilon_u": "1", "epsilon_s": "1", "pr_u": "1", "pr_s": "1"
}  # fmt: skip
LOCAL = {"mechanism": "local", "epsilon_i": "1", "sharing": "none", "aggregators": 1}
SHAMIR = {"sharing": "shamir", "aggregators": 5, "threshold": 3}
TABLE = {"function": "table", "columns": {"sex": ["f", "m"]}}
HISTOGRAM = {"function": "histogram", "edges": ["0", "1"]}
VECTOR = {"function": "vector_sum", "dimension": 2}
BLOCK = {"name": "a", "dimension": 1, "l1_bound": "1", "resolution": "1"}
BLOCKS = {"function": "vector_sum", "coordinates": "values", "blocks": [BLOCK]}
DAY = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
HOURLY = {"period_s": 3600, "first_start": "2026-01-01T00:00:00Z"}

BAD = [
    # names and shapes
    ("name", {"name": ""}),
    ("name", {"name": "a\n"}),
    ("name", {"name": "x" * 129}),
    ("register", {"register": "no such name"}),
    ("unit", {"unit": "furlong"}),
    ("family", {"family": "-"}),
    ("family_minimum", {"family_minimum": 3}),
    ("family_minimum", {"family": "f", "family_minimum": 0}),
    ("family_minimum", {"family": "f", "family_minimum": 10_000_001}),
    (
        "family_minimum",
        {"family": "f", "family_minimum": 3, "collusion": {"curators": 3}, "min_participants": 4},
    ),
    ("group", {"group": ""}),
    ("group", {"group": "a/b"}),
    ("job", {"job": "-"}),
    ("colour", {"colour": "red"}),
    # bounds, readings, resolution
    ("bounds", {"bounds": ["3", "3"]}),
    ("bounds", {"bounds": ["0", "4611686018.427387905"]}),
    ("max_readings", {"max_readings": 0}),
    ("max_readings", {"max_readings": 1_000_001}),
    ("resolution", {"resolution": "0"}),
    ("resolution", {"resolution": "1e-10"}),
    ("resolution", {"resolution": "1/3"}),
    ("resolution", {"resolution": "1000"}),
    # functions
    ("edges", {"edges": ["0", "1"]}),
    ("edges", {"function": "histogram"}),
    ("edges", {"function": "histogram", "edges": ["0"]}),
    ("edges", {"function": "histogram", "edges": ["0", "0"]}),
    ("edges", {"function": "histogram", "edges": ["0", "1e12"]}),
    ("dimension", {"dimension": 2}),
    ("dimension", {**VECTOR, "dimension": 0}),
    ("dimension", {**VECTOR, "dimension": 65_537}),
    ("l1_bound", {"l1_bound": "1"}),
    ("l1_bound", {**VECTOR, "l1_bound": "0"}),
    ("l1_bound", {**VECTOR, "l1_bound": "0.9"}),
    ("coordinates", {"coordinates": "slots"}),
    ("coordinates", {**BLOCKS, "coordinates": None}),
    ("coordinates", {**BLOCKS, "coordinates": "slots"}),
    ("blocks", {"function": "vector_sum"}),
    ("blocks", {"blocks": [BLOCK]}),
    ("blocks", {**BLOCKS, "blocks": []}),
    ("blocks", {**BLOCKS, "dimension": 2}),
    ("blocks", {**BLOCKS, "l1_bound": "2"}),
    ("blocks", {**BLOCKS, "blocks": [BLOCK, BLOCK]}),
    ("blocks", {**BLOCKS, "blocks": [{**BLOCK, "resolution": "1e-10"}]}),
    ("blocks", {**BLOCKS, "blocks": [{**BLOCK, "l1_bound": "0.1"}]}),
    ("blocks", {**BLOCKS, "blocks": [{**BLOCK, "name": n, "dimension": 40_000} for n in "ab"]}),
    ("blocks.0.name", {**BLOCKS, "blocks": [{**BLOCK, "name": "a b"}]}),
    # mechanisms and their epsilons
    ("epsilon", {"mechanism": "distributed"}),
    ("epsilon", {**NOISY, "epsilon": "0"}),
    ("epsilon", {**NOISY, "epsilon": "10001"}),
    ("epsilon", {"epsilon": "1"}),
    ("epsilon_u", {**TWO_LAYER, "epsilon_u": None}),
    ("epsilon_s", {**TWO_LAYER, "epsilon_s": "-0.1"}),
    ("epsilon_s", {**NOISY, "epsilon_s": "1"}),
    ("pr_u", {**TWO_LAYER, "pr_u": "1.01"}),
    ("pr_u", {**TWO_LAYER, "pr_u": None}),
    ("pr_s", {**TWO_LAYER, "pr_s": "-0.01"}),
    ("pr_s", {**NOISY, "pr_s": "1"}),
    ("epsilon_i", {**LOCAL, "epsilon_i": None}),
    ("epsilon_i", {**NOISY, "epsilon_i": "1"}),
    ("delta", {"delta": "1"}),
    ("delta", {"delta": "-1e-9"}),
    ("split", {"function": "mean", "split": ["0.5", "0.4"]}),
    ("split", {"function": "mean", "split": ["1"]}),
    ("split", {"function": "mean", "split": ["1.5", "-0.5"]}),
    ("split", {"split": ["0.5", "0.5"]}),
    ("split", {"function": "variance", "split": ["0.5", "0.5"]}),
    ("split", {**BLOCKS, "split": ["0.5", "0.5"]}),
    ("split", {**NOISY, "split": ["0.5", "0.5"]}),
    ("split", {**NOISY, "completeness": "curators", "split": ["1"]}),
    ("completeness", {"completeness": "readings"}),
    ("job", {"completeness": "curators", "job": "a-job"}),
    ("layer", {"layer": "curator"}),
    ("layer", {**TWO_LAYER, "layer": "both"}),
    # sharing and collusion
    ("aggregators", {"aggregators": 1}),
    ("aggregators", {"aggregators": 17}),
    ("aggregators", {**LOCAL, "aggregators": 2}),
    ("aggregators", {**LOCAL, "sharing": "additive"}),
    ("aggregators", {"sharing": "none"}),
    ("threshold", {"threshold": 2}),
    ("threshold", {**SHAMIR, "threshold": None}),
    ("threshold", {**SHAMIR, "threshold": 6}),
    ("threshold", {**SHAMIR, "threshold": 2}),
    ("threshold", {**SHAMIR, "aggregators": 4, "threshold": 2}),
    ("collusion", {"collusion": {"aggregators": 3}}),
    ("collusion", {**SHAMIR, "collusion": {"aggregators": 3}}),
    ("collusion", {**LOCAL, "collusion": {"aggregators": 2}}),
    ("collusion.aggregators", {"collusion": {"aggregators": -1}}),
    ("c_noise", {"c_noise": 2}),
    ("c_noise", {**SHAMIR, **NOISY, "c_noise": 4}),
    ("c_noise", {**SHAMIR, **NOISY, "c_noise": 2, "collusion": {"aggregators": 2}}),
    ("c_noise", {**SHAMIR, "c_noise": 2}),
    ("min_participants", {"min_participants": 0}),
    ("min_participants", {"collusion": {"curators": 2}}),
    ("min_participants", {"collusion": {"curators": 9}, "min_participants": 9}),
    ("n_max", {"n_max": 1}),
    ("n_max", {"n_max": 10_000_001}),
    ("n_max", {"n_max": 9, "min_participants": 10}),
    # proved contributions
    ("stance", {**NOISY, "validity": "proved", "stance": "paper"}),
    ("sharing", {**SHAMIR, "validity": "proved"}),
    ("sharing", {**LOCAL, "validity": "proved"}),
    ("aggregators", {"validity": "proved", "aggregators": 1}),
    ("noise_tail", {**NOISY, "layer": "curator", "noise_tail": "1e-9"}),
    ("noise_tail", {**NOISY, "validity": "proved", "noise_tail": "1e-9"}),
    ("noise_tail", {"validity": "proved", "noise_tail": "1e-9"}),
    ("noise_tail", {**TWO_LAYER, "validity": "proved", "noise_tail": "0"}),
    ("noise_tail", {**TWO_LAYER, "validity": "proved", "noise_tail": "1"}),
    ("part_length", {"part_length": 8192}),
    ("part_length", {"validity": "proved", "part_length": 2048}),
    ("part_length", {"validity": "proved", "part_length": 12_288}),
    ("part_length", {"validity": "proved", "part_length": 524_288}),
    # time
    ("deadline_s", {"deadline_s": 0}),
    ("window.end", {"window": {"start": DAY["start"], "end": DAY["start"]}}),
    ("window.start", {"window": {**DAY, "start": "2026-01-01T00:00:00"}}),
    ("schedule.period_s", {"schedule": {**HOURLY, "period_s": 1}}),
    ("schedule", {"schedule": HOURLY, "window": DAY}),
]


@pytest.mark.parametrize(("field", "changes"), BAD)
def test_a_bad_field_is_refused_by_name(field, changes):
    with pytest.raises(ValidationError) as error:
        query(**changes)
    places = [".".join(map(str, problem["loc"])) for problem in error.value.errors()]
    assert places == [field]


@pytest.mark.parametrize(
    "changes",
    [NOISY, TWO_LAYER, LOCAL, SHAMIR, HISTOGRAM, VECTOR, BLOCKS, {"window": DAY},
     {"schedule": HOURLY}, {"validity": "proved"},
     {**TWO_LAYER, "validity": "proved", "noise_tail": "1e-9"}],
)  # fmt: skip
def test_one_mistake_gives_one_error(changes):
    assert query(**changes)
    with pytest.raises(ValidationError) as error:
        query(**{**changes, "max_readings": 0})
    assert [problem["loc"] for problem in error.value.errors()] == [("max_readings",)]


@pytest.mark.parametrize("changes", [HISTOGRAM, VECTOR, BLOCKS])
def test_an_unknown_function_is_told_once(changes):
    with pytest.raises(ValidationError) as error:
        query(**{**changes, "function": "median"})
    assert [problem["loc"] for problem in error.value.errors()] == [("function",)]


def test_no_error_shows_an_exception_of_the_validator_itself():
    """However many fields are wrong at once, every one is told."""
    wrong = dict.fromkeys(Query.model_json_schema()["properties"], "?")
    with pytest.raises(ValidationError) as error:
        Query.model_validate_json(json.dumps(wrong))
    assert {problem["loc"][0] for problem in error.value.errors()} >= set(PLAIN)


# --- the canonical form --------------------------------------------------------------------------


def everything() -> list[Query]:
    noisy = [NOISY, TWO_LAYER, LOCAL, {**NOISY, **SHAMIR}, {"window": DAY}, {"schedule": HOURLY}]
    return [*(query(**v) for v in VARIANTS.values()), *(query(**v) for v in noisy)]


@pytest.mark.parametrize("asked", everything())
def test_round_trip(asked):
    for text in (asked.canonical(), asked.model_dump_json().encode()):
        back = Query.model_validate_json(text)
        assert back == asked
        assert back.digest() == asked.digest()
    assert hashlib.sha256(asked.canonical()).digest() == asked.digest()


@pytest.mark.parametrize("asked", everything())
def test_the_canonical_form_has_no_float_and_no_blank(asked):
    def refuse(text):
        raise AssertionError(text)

    json.loads(asked.canonical(), parse_float=refuse, parse_constant=refuse)
    assert b" " not in asked.canonical()
    assert b"null" not in asked.canonical()


def test_the_canonical_form_is_pinned():
    """A change of this text changes every hash: parties of two versions could not meet."""
    asked = query(**NOISY, bounds=["-0.50", "3e0"], resolution="0.10")
    assert asked.canonical() == (
        b'{"aggregators":3,"bounds":["-0.5","3"],"collusion":{"aggregators":0,"curators":0},'
        b'"deadline_s":60,"delta":"0","epsilon":"1","function":"sum","layer":"aggregator",'
        b'"max_readings":2,"mechanism":"distributed","min_participants":2,"n_max":1000,'
        b'"name":"feeder-7","privacy_unit":"curator","register":"energy_import",'
        b'"resolution":"0.1","sharing":"additive","stance":"sound","unit":"1"}'
    )


def test_equal_amounts_in_other_words_and_order_give_the_same_hash():
    one = query(**NOISY, split=["1"], delta="0.00")
    backwards = dict(reversed(fields(**NOISY, split=["1.0"], delta="0").items()))
    backwards["epsilon"] = "10/10"
    assert Query.model_validate_json(json.dumps(backwards, indent=3)).digest() == one.digest()
    assert query(**NOISY, layer="aggregator").digest() == query(**NOISY).digest()


GAUSSIAN = {"noise": "gaussian", "epsilon": None, "rho": "0.05", "delta": "1e-6"}
COUNTED = {**VECTOR, "coordinates": "values", "job": "f", "privacy_unit": "record"}
CHANGES = [
    {"name": "feeder-8"},
    {"purpose": "where a cable is needed"},
    {"function": "mean"},
    {"function": "count"},
    {"register": "energy_export"},
    {"unit": "kWh"},
    {"bounds": ["-2", "4"]},
    {"bounds": ["-1", "3"]},
    {"max_readings": 3},
    {"resolution": "0.5"},
    {"privacy_unit": "record"},
    {"stance": "paper"},
    {"mechanism": "exact", "epsilon": None, "rule": {"min_participants": 2}},
    {"epsilon": "2"},
    {"delta": "1e-9"},
    {"window_bound": "10"},
    {"window_bound": "11"},
    GAUSSIAN,
    {**GAUSSIAN, "delta": "1e-9"},
    {**GAUSSIAN, "rho": "0.06"},
    {**GAUSSIAN, "window_bound": "10"},
    {**GAUSSIAN, "rho": None, "epsilon": "1"},
    {"split": ["1"]},
    {"layer": "both"},
    {"aggregators": 4},
    {"collusion": {"curators": 1}},
    {"collusion": {"aggregators": 1}},
    {"min_participants": 3},
    {"n_max": 1001},
    {"deadline_s": 61},
    {"window": DAY},
    {"schedule": HOURLY},
    {"family": "f"},
    {"family": "f", "family_minimum": 2},
    {"group": "f"},
    {"job": "f"},
    {"completeness": "curators"},
    {"validity": "declared"},
    {"validity": "proved"},
    {"validity": "proved", "layer": "both"},
    {"validity": "proved", "layer": "both", "noise_tail": "1e-9"},
    {"validity": "proved", "part_length": 4096},
    {"validity": "proved", "part_length": 8192},
    {"sharing": "shamir", "threshold": 2},
    {"sharing": "shamir", "threshold": 3},
    {"sharing": "shamir", "threshold": 3, "c_noise": 2},
    {"mechanism": "two-layer", "epsilon": None, **TWO_LAYER},
    {"mechanism": "two-layer", "epsilon": None, **TWO_LAYER, "pr_u": "0.5"},
    {"mechanism": "two-layer", "epsilon": None, **TWO_LAYER, "pr_s": "0.5"},
    {"mechanism": "two-layer", "epsilon": None, **TWO_LAYER, "epsilon_u": "0.5"},
    {"mechanism": "two-layer", "epsilon": None, **TWO_LAYER, "epsilon_s": "0.5"},
    {"epsilon": None, **LOCAL},
    {"epsilon": None, **LOCAL, "epsilon_i": "0.5"},
    HISTOGRAM,
    {**HISTOGRAM, "edges": ["0", "2"]},
    {**HISTOGRAM, "percentiles": ["50"]},
    TABLE,
    {**TABLE, "columns": {"sex": ["m", "f"]}},
    {**TABLE, "measure": "kwh"},
    VECTOR,
    {**VECTOR, "dimension": 3},
    {**VECTOR, "l1_bound": "1"},
    {**VECTOR, "coordinates": "values"},
    {**VECTOR, "coordinates": "slots"},
    {**COUNTED, "every_record": True},
    {**COUNTED, "registers": ["gas"]},
    COUNTED,
    BLOCKS,
    {**BLOCKS, "blocks": [{**BLOCK, "l1_bound": "2"}]},
]


def test_every_field_changes_the_hash():
    made = [query(**NOISY), *(query(**{**NOISY, **changes}) for changes in CHANGES)]
    assert len({asked.digest() for asked in made}) == len(made)
    touched = {key for changes in CHANGES for key in changes}
    names = {field.alias or name for name, field in Query.model_fields.items()}
    assert touched == names


def test_windows_are_half_open_in_utc():
    window = Window.model_validate_json(
        '{"start": "2026-01-01T01:00:00+01:00", "end": "2026-01-01T00:00:00.001Z"}'
    )
    assert window.canonical() == (
        b'{"end":"2026-01-01T00:00:00.001Z","start":"2026-01-01T00:00:00Z"}'
    )


def test_equal_queries_have_one_hash_and_most_others_another():
    asked = [query(**NOISY, name=f"q-{number}") for number in range(50)]
    asked += [query(**{**NOISY, "epsilon": str(number)}) for number in range(1, 50)]
    again = [Query.model_validate_json(each.model_dump_json()) for each in asked]
    assert again == asked
    assert [hash(each) for each in again] == [hash(each) for each in asked]
    assert len({hash(each) for each in asked}) == len(asked)
    assert query(**NOISY) != query(**NOISY, deadline_s=61)


NOISY_SUM: dict[str, Any] = {
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
    plain = query(**NOISY_SUM, privacy_unit=unit)
    asked = query(**NOISY_SUM, privacy_unit=unit, completeness="curators", split=["0.9", "0.1"])
    paid, before = (
        {key: cost for key, cost in unit_costs(each).items() if key[0].value == unit}
        for each in (asked, plain)
    )
    assert paid == before  # the price in the query's own unit is its epsilon, as before
    plan = aggregator_plan(asked)
    own = parts(asked)[-1]
    assert (own.name, own.sensitivity, own.epsilon_share) == (PRESENCE, 1, Fraction(1, 10))
    assert plan.scales[-1] == 10
    report = query_report(asked, subject=Subject(kind="query", id="q"))
    assert {each.part for each in report.sensitivity} == {"sum", PRESENCE}
    assert [each.part for each in report.noise] == ["sum", PRESENCE]
    errors = {each["part"]: each for each in report.error["parts"]}
    assert errors[PRESENCE]["unit"] == "1"
    assert report.verified[-1].epsilon == "1"
    assert any("completeness" in line for line in report.not_protected)


def test_a_descriptor_for_everyone_says_nothing_of_members() -> None:
    assert b"members" not in descriptor().canonical()
    assert descriptor().invited() is None


def test_the_members_of_a_group_travel() -> None:
    made = descriptor({"members": sets.compressed(bitmap(1, 5))}, group="g")
    invited = made.invited()
    assert invited is not None
    assert np.flatnonzero(invited).tolist() == [1, 5]
    back = RoundDescriptor.model_validate_json(made.canonical())
    assert back == made
    other = descriptor({"members": sets.compressed(bitmap(1, 6))}, group="g")
    assert other.digest() != made.digest()


@pytest.mark.parametrize(
    ("members", "group"),
    [
        (None, "g"),
        (sets.compressed(bitmap(1)), None),
        (sets.compressed(bitmap()), "g"),
        (sets.compressed(b"\x01"), "g"),
        (sets.compressed(b"\x01\x10"), "g"),  # number 12 of 12
        (b"no zlib", "g"),
        (zlib.compress(bytes(10**6)), "g"),
        (sets.compressed(bitmap(1)) + b"more", "g"),
        (sets.compressed(bitmap(1))[:-2], "g"),
    ],
    ids=["none", "no group", "empty", "short", "stray", "text", "large", "longer", "cut"],
)
def test_members_that_are_no_bitmap_of_the_roster(members: bytes | None, group: str | None) -> None:
    changes = {} if members is None else {"members": members}
    with pytest.raises(ValidationError):
        descriptor(changes, **({} if group is None else {"group": group}))
    good = descriptor({"members": sets.compressed(bitmap(1))}, group="g")
    text = json.loads(good.canonical())
    text["query"]["group"] = group
    text["members"] = None if members is None else encode_binary(members)
    with pytest.raises(ValidationError):
        RoundDescriptor.model_validate_json(json.dumps(text))


def test_no_larger_bitmap_is_unpacked() -> None:
    small = {"members": sets.compressed(bitmap(1)), "roster_size": 2**26 + 1}
    with pytest.raises(ValidationError, match="at most 67108864"):
        descriptor(small, group="g")
