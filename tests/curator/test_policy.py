"""What a policy may say, and which public parameters of a round it refuses."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from curator.errors import PolicyRefused
from curator.policy import (
    AtLeast,
    Limit,
    Limits,
    Policy,
    check_algorithm,
    check_collection,
    check_policy,
    initial_policy,
)
from curator.settings import CuratorSettings
from tacit.protocol.federation import Descriptor
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.fields import Collusion
from tacit.query.query import Query
from tacit.query.terms import MAX_AGGREGATORS, Mechanism, PrivacyUnit, Stance, Validity
from tacit.wire import encode_binary
from tests.curator.conftest import HOUR, NOISY, START, query
from tests.curator.double import FakeWorld

LOCAL: dict[str, Any] = {
    **NOISY,
    "mechanism": "local",
    "sharing": "none",
    "aggregators": 1,
    "epsilon": None,
    "layer": None,
    "epsilon_i": "1",
    "collusion": {"curators": 0, "aggregators": 0},
}
STEP: dict[str, Any] = {
    **NOISY,
    "name": f"kmeans:1:{'0' * 64}",
    "job": "clusters",
    "function": "vector_sum",
    "dimension": 1,
    "coordinates": "values",
    "l1_bound": "20",
}


def policy(**fields: Any) -> Policy:
    return Policy.model_validate_json(json.dumps(fields))


def opened(asked: Query, world: FakeWorld | None = None) -> RoundDescriptor:
    return (world or FakeWorld()).open_round(asked, START, START + HOUR, START + HOUR)


def ground(
    rules: Policy, asked: Query | RoundDescriptor, *, verified: bool = True, anchors: int = 3
) -> tuple[str | None, dict[str, Any]]:
    """The pointer and the figures of a refusal; (None, {}) where the policy agrees."""
    descriptor = asked if isinstance(asked, RoundDescriptor) else opened(asked)
    try:
        check_policy(rules, descriptor, verified=verified, anchors=anchors)
    except PolicyRefused as error:
        return error.pointer, dict(error.extra)
    return None, {}


def test_a_policy_that_says_nothing_is_the_cautious_one() -> None:
    plain = policy()
    assert plain.period_s == 86_400
    assert plain.min_participants == 2
    assert plain.accept_any
    assert not plain.allow_unverified
    assert not plain.allow_repeats
    assert plain.min_aggregators == "all"
    assert (plain.mechanisms, plain.stances) == (tuple(Mechanism), tuple(Stance))
    assert plain.limits(PrivacyUnit.RECORD) == plain.limits(PrivacyUnit.CURATOR) == Limits()


@pytest.mark.parametrize(
    "fields",
    [
        {"period_s": 60},
        {"period_s": 366 * 86_400},
        {"min_participants": 1},
        {"min_aggregators": 1},
        {"min_aggregators": MAX_AGGREGATORS},
        {"min_aggregators": "all"},
        {"queries": [encode_binary(bytes(32))]},
        {"require_validity": "proved"},
        {"require_validity": None},
        {"record": {"period": {"epsilon": "0", "delta": "0"}}},
        {"record": {"period": {"epsilon": "0.5"}}},
        {"record": {"period": {"epsilon": "100000000"}}},
    ],
)
def test_what_a_policy_may_say(fields: dict[str, Any]) -> None:
    policy(**fields)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"period_s": 59}, "greater than or equal to 60"),
        ({"period_s": 31_622_401}, "less than or equal to 31622400"),
        ({"min_participants": 0}, "greater than or equal to 1"),
        ({"require_validity": "declared"}, "proved"),
        ({"min_aggregators": 0}, f"a whole number in 1..{MAX_AGGREGATORS}"),
        ({"min_aggregators": MAX_AGGREGATORS + 1}, f"a whole number in 1..{MAX_AGGREGATORS}"),
        ({"min_aggregators": True}, f"a whole number in 1..{MAX_AGGREGATORS}"),
        ({"min_aggregators": "some"}, f"a whole number in 1..{MAX_AGGREGATORS}"),
        ({"queries": [encode_binary(bytes(31))]}, "at least 32 items"),
        ({"queries": [encode_binary(bytes(33))]}, "at most 32 items"),
        ({"curator": {"period": {"epsilon": "-0.000001"}}}, r"must lie in 0..10\^8"),
        ({"curator": {"lifetime": {"epsilon": "100000000.000001"}}}, r"must lie in 0..10\^8"),
        ({"curator": {"lifetime": {"delta": "-0.5"}}}, r"must lie in 0..10\^8"),
    ],
)
def test_what_a_policy_may_not_say(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        policy(**fields)


def test_the_schema_of_a_number_of_aggregators_says_its_bounds() -> None:
    schema = TypeAdapter(AtLeast).json_schema()
    assert schema["anyOf"] == [
        {"type": "integer", "minimum": 1, "maximum": MAX_AGGREGATORS},
        {"const": "all", "type": "string"},
    ]


def test_each_privacy_unit_has_limits_of_its_own() -> None:
    record, curator = (Limits(period=Limit(epsilon=Fraction(n))) for n in (1, 2))
    both = Policy(record=record, curator=curator)
    assert both.limits(PrivacyUnit.RECORD) == record
    assert both.limits(PrivacyUnit.CURATOR) == curator


def test_a_round_meets_the_policy_exactly_at_its_figures() -> None:
    asked = query(NOISY, min_participants=5)
    assert ground(policy(min_participants=5), asked) == (None, {})
    assert ground(policy(min_participants=4), asked) == (None, {})
    figures = {"minimum": 6, "asked": 5}
    assert ground(policy(min_participants=6), asked) == ("/min_participants", figures)


def test_a_round_needs_a_verified_figure_unless_the_policy_does_without() -> None:
    assert ground(policy(), query(NOISY), verified=False)[0] == "/allow_unverified"
    assert ground(policy(), query(NOISY), verified=True)[0] is None
    assert ground(policy(allow_unverified=True), query(NOISY), verified=False)[0] is None
    assert ground(policy(allow_unverified=True), query(NOISY), verified=True)[0] is None


def test_mechanisms_and_stances_are_those_listed() -> None:
    assert ground(policy(mechanisms=["exact", "distributed"]), query(NOISY))[0] is None
    assert ground(policy(mechanisms=["exact"]), query(NOISY))[0] == "/mechanisms"
    assert ground(policy(stances=["sound"]), query(NOISY))[0] is None
    assert ground(policy(stances=["paper"]), query(NOISY))[0] == "/stances"
    assert ground(policy(noises=["laplace"]), query(NOISY))[0] is None
    assert ground(policy(noises=["gaussian"]), query(NOISY))[0] == "/noises"


def test_only_agreed_queries_count_unless_any_is_accepted() -> None:
    asked, other = query(NOISY), query(NOISY, name="other")
    agreed = {"queries": [encode_binary(asked.digest())]}
    assert ground(policy(accept_any=False, **agreed), asked)[0] is None
    assert ground(policy(accept_any=False, **agreed), other)[0] == "/queries"
    assert ground(policy(accept_any=True, **agreed), other)[0] is None


def test_a_jobs_step_needs_its_algorithm_and_no_agreed_query() -> None:
    step = query(STEP)
    assert ground(policy(algorithms=["kmeans"], accept_any=False), step)[0] is None
    assert ground(policy(algorithms=["other"]), step) == ("/algorithms", {"algorithm": "kmeans"})
    check_algorithm(policy(algorithms=["kmeans"]), "kmeans")
    with pytest.raises(PolicyRefused):
        check_algorithm(policy(), "kmeans")


def test_every_required_aggregator_is_in_a_shared_round() -> None:
    world = FakeWorld(4)
    names = [item.identity.fingerprint.hex() for item in world.aggregators]
    descriptor = opened(query(NOISY), world)  # of the first three
    for required in (names[:1], names[:3]):
        assert ground(policy(required_aggregators=required), descriptor)[0] is None
    for required in (names[3:], names[2:]):
        pointer, extra = ground(policy(required_aggregators=required), descriptor)
        assert (pointer, extra) == ("/required_aggregators", {"missing": names[3:]})


def test_a_local_round_has_one_of_the_required_aggregators_where_there_are_any() -> None:
    world = FakeWorld(2)
    mine, other = (item.identity.fingerprint.hex() for item in world.aggregators)
    descriptor = opened(query(LOCAL), world)
    assert ground(policy(), descriptor)[0] is None
    assert ground(policy(required_aggregators=[mine]), descriptor)[0] is None
    assert ground(policy(required_aggregators=[mine, other]), descriptor)[0] is None
    pointer, extra = ground(policy(required_aggregators=[other]), descriptor)
    assert (pointer, extra) == ("/required_aggregators", {"missing": [other]})
    # Its figure assumes nothing of its one aggregator: what shared rounds need does not count.
    demanding = policy(min_aggregators=9, min_collusion={"curators": 5, "aggregators": 5})
    assert ground(demanding, descriptor, anchors=9)[0] is None


@pytest.mark.parametrize(("least", "refused"), [(2, False), (3, False), (4, True)])
def test_a_round_shares_among_as_many_aggregators_as_the_policy_demands(
    least: int, refused: bool
) -> None:
    """Three aggregators are in it; `all` is the number of the party's anchors."""
    found = [
        ground(policy(min_aggregators=least), query(NOISY), anchors=9),
        ground(policy(), query(NOISY), anchors=least),
    ]
    wanted = ("/min_aggregators", {"minimum": 4, "asked": 3}) if refused else (None, {})
    assert found == [wanted, wanted]


def test_the_figure_assumes_as_many_corrupt_parties_as_the_policy_demands() -> None:
    asked = query(
        NOISY, collusion={"curators": 3, "aggregators": 1}, layer="curator", min_participants=5
    )
    for curators, aggregators, pointer in (
        (3, 1, None),
        (2, 0, None),
        (4, 1, "/min_collusion/curators"),
        (3, 2, "/min_collusion/aggregators"),
    ):
        rules = Policy(min_collusion=Collusion(curators=curators, aggregators=aggregators))
        assert ground(rules, asked)[0] == pointer


def collection(**changes: Any) -> Descriptor:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    values: dict[str, Any] = {
        "deployment": "test",
        "job": "clusters",
        "algorithm": "kmeans",
        "stance": "sound",
        "columns": ("height",),
        "window": {"start": noon - timedelta(hours=1), "end": noon},
        "min_participants": 5,
        "n_max": 100,
        "opened": noon,
        "deadline": noon + timedelta(hours=1),
        "encoding": {},
        "parameters": "{}",
    }
    return Descriptor(**{**values, **changes})


@pytest.mark.parametrize(
    ("rules", "changes", "verified", "pointer"),
    [
        ({}, {}, True, None),
        ({"algorithms": []}, {}, True, "/algorithms"),
        ({"stances": ["paper"]}, {}, True, "/stances"),
        ({"stances": ["paper"]}, {"stance": "paper"}, True, None),
        ({}, {}, False, "/allow_unverified"),
        ({"allow_unverified": True}, {}, False, None),
        ({"allow_unverified": True}, {}, True, None),
        ({"min_participants": 5}, {}, True, None),
        ({"min_participants": 6}, {}, True, "/min_participants"),
        ({}, {"label": "sort"}, True, "/public_columns"),
        ({"public_columns": ["other"]}, {"label": "sort"}, True, "/public_columns"),
        ({"public_columns": ["sort"]}, {"label": "sort"}, True, None),
    ],
)
def test_a_collection_meets_the_policy_or_says_where_it_does_not(
    rules: dict[str, Any], changes: dict[str, Any], verified: bool, pointer: str | None
) -> None:
    agreed = policy(**{"algorithms": ["kmeans"], **rules})
    if pointer is None:
        check_collection(agreed, collection(**changes), verified=verified)
        return
    with pytest.raises(PolicyRefused) as found:
        check_collection(agreed, collection(**changes), verified=verified)
    assert found.value.pointer == pointer


def test_a_policy_that_demands_proofs() -> None:
    rules, proved = policy(require_validity="proved"), {"validity": "proved", "n_max": 1000}
    assert ground(rules, query(NOISY)) == ("/require_validity", {})
    assert ground(rules, query(NOISY, validity="declared")) == ("/require_validity", {})
    assert ground(rules, query(NOISY, **proved)) == (None, {})
    assert ground(policy(), query(NOISY, **proved)) == (None, {})
    assert ground(policy(), query(NOISY)) == (None, {})


def test_the_setting_demands_proofs_until_an_operator_sets_a_policy() -> None:
    assert initial_policy(CuratorSettings()).require_validity is None
    asked = CuratorSettings(policy_require_validity="proved")
    assert initial_policy(asked).require_validity is Validity.PROVED
