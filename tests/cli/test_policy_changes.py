"""Changes of a policy: flat names and JSON merge patches, as pure functions."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.policy import BadChange, Change, _merged, changed, differences, flat, policy_of
from curator.policy import AtDelta, Limit, Limits, Policy
from tacit.query.disclosure import DisclosureRule
from tacit.query.terms import Mechanism, Stance

AMOUNTS = st.none() | st.fractions(0, 10**8, max_denominator=10**6)
AT_DELTA = st.builds(
    AtDelta,
    epsilon=st.fractions(0, 10**4, max_denominator=10**6),
    delta=st.fractions(Fraction(1, 10**6), Fraction(1, 2), max_denominator=10**6),
)
LIMIT = st.builds(Limit, epsilon=AMOUNTS, delta=AMOUNTS, zcdp=st.none() | AT_DELTA)
LIMITS = st.builds(Limits, period=LIMIT, lifetime=LIMIT, all_aggregators=LIMIT)
RULE = st.builds(
    DisclosureRule,
    min_participants=st.integers(2, 10**6),
    max_share=st.none() | st.fractions(Fraction(1, 1000), Fraction(1, 2), max_denominator=10**6),
    top=st.integers(1, 10),
)
POLICIES = st.builds(
    Policy,
    period_s=st.integers(60, 366 * 86_400),
    record=LIMITS,
    curator=LIMITS,
    min_participants=st.integers(1, 10**9),
    mechanisms=st.lists(st.sampled_from(Mechanism), unique=True).map(tuple),
    stances=st.lists(st.sampled_from(Stance), unique=True).map(tuple),
    allow_unverified=st.booleans(),
    accept_any=st.booleans(),
    queries=st.lists(st.binary(min_size=32, max_size=32), max_size=3).map(tuple),
    allow_repeats=st.booleans(),
    exact=st.none() | RULE,
    algorithms=st.lists(st.sampled_from(["kmeans", "crowd-tasking"]), unique=True).map(tuple),
)
TIGHT = Policy(
    record=Limits(period=Limit(epsilon=Fraction(10), delta=Fraction(1, 10_000))),
    algorithms=("kmeans",),
)


@given(POLICIES, POLICIES)
def test_the_differences_make_one_policy_of_the_other(old: Policy, new: Policy) -> None:
    assert changed(old, [f"{name}={value}" for name, value in flat(new).items()]) == new
    found = differences(old, new)
    assert changed(old, [f"{item.name}={item.new}" for item in found]) == new
    assert changed(new, [f"{item.name}={item.old}" for item in found]) == old
    assert all(item.old != item.new for item in found)


@given(POLICIES, POLICIES)
def test_a_whole_policy_as_the_service_answers_it(old: Policy, new: Policy) -> None:
    """Figures without a limit are left out of the answer, so they stay as they are."""
    answer = new.model_dump_json(exclude_none=True)
    after = flat(changed(old, [answer]))
    for name, value in flat(new).items():
        assert after[name] == (flat(old)[name] if value == "none" and "." in name else value)


def test_a_merge_patch() -> None:
    """Of RFC 7396, appendix A."""
    cases: list[tuple[Any, Any, Any]] = [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ]
    for target, patch, result in cases:
        assert _merged(target, patch) == result


def test_changes_are_laid_over_one_another(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"record": {"period": {"epsilon": "4"}}, "min_participants": 5}))
    new = changed(TIGHT, [str(file), '{"algorithms": []}', "min_participants=9"])
    assert differences(TIGHT, new) == [
        Change("record.period.epsilon", "10", "4"),
        Change("min_participants", "2", "9"),
        Change("algorithms", "kmeans", "none"),
    ]
    assert new.record.period.delta == Fraction(1, 10_000)


def test_null_lifts_a_limit() -> None:
    for change in ("record.period.epsilon=none", '{"record": {"period": {"epsilon": null}}}'):
        assert changed(TIGHT, [change]).record.period == Limit(delta=Fraction(1, 10_000))


BAD = (
    ("min_participants", "min_participants: neither name=value nor a file"),
    ("recrd.period.epsilon=3", "recrd.period.epsilon: no such field: did you mean record?"),
    ('{"record":{"perod":{}}}', "record.perod: no such field: did you mean period?"),
    ("record.period=3", "record.period: not one value but epsilon, delta, zcdp"),
    ("record.period.zcdp=3", "record.period.zcdp: not one value but epsilon, delta"),
    ("record.period.zcdp.epsilon=3", "record.period.zcdp.delta: "),
    ("record.period.epsilon.x=3", "record.period.epsilon.x: no such field"),
    ("=3", ": no such field"),
    ("min_participants=0", "min_participants: must be at least"),
    ("min_participants=NaN", "min_participants: "),
    ("allow_unverified=yes", "allow_unverified: must be true or false"),
    ("record.period.epsilon=much", "record.period.epsilon: must be a decimal"),
    ("mechanisms=local,magic", "mechanisms.1: "),
    ("min_aggregators=0", 'min_aggregators: must be "all", or a whole number in 1..16'),
    ("min_aggregators=true", "min_aggregators: must be"),
    ("min_collusion=2", "min_collusion: not one value but curators, aggregators"),
    ('{"record": {"period": {"epsilon": 3}}}', "record.period.epsilon: must be a decimal"),
    ('{"record": 3}', "record: "),
    ('{"record"', "the text given: not JSON"),
)


def test_a_bad_change_names_its_field() -> None:
    for change, said in BAD:
        with pytest.raises(ValueError, match=re.escape(said)) as refused:
            changed(TIGHT, [change])
        assert str(refused.value).startswith(said)
        assert "\n" not in str(refused.value)


def test_a_file_that_holds_no_object(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text("[1]")
    with pytest.raises(BadChange, match="a policy is a JSON object"):
        changed(TIGHT, [str(file)])


def test_a_document_of_another_version() -> None:
    with pytest.raises(BadChange, match="moon: "):
        policy_of({"moon": "full"})
