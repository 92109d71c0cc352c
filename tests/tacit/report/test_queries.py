"""The privacy report: its schema, what it says for each mechanism, its plain words."""

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.noise import SelfTest, self_test
from tacit.query.query import Query
from tacit.randomness import SeededRandom
from tacit.report.figures import amount
from tacit.report.model import PrivacyReport, Subject
from tacit.report.queries import query_report
from tacit.report.statements import PARTICIPATION
from tacit.report.text import plain_words
from tacit.report.validity import ANY_AMOUNT, NOT_PROVED
from tests.tacit.examples import VARIANTS, query

SUBJECT = Subject(kind="query", id="feeder-7")
NOISY: dict[str, dict[str, Any]] = {
    "distributed": {"mechanism": "distributed", "epsilon": "1"},
    "curator layer": {"mechanism": "distributed", "epsilon": "1", "layer": "curator"},
    "two-layer": {
        "mechanism": "two-layer",
        "epsilon_u": "7.5",
        "epsilon_s": "2.5",
        "pr_u": "0.01",
        "pr_s": "0.5",
    },
    "local": {"mechanism": "local", "epsilon_i": "0.5", "sharing": "none", "aggregators": 1},
    "exact": {},
    "shamir": {
        "mechanism": "distributed",
        "epsilon": "1",
        "sharing": "shamir",
        "aggregators": 5,
        "threshold": 3,
        "collusion": {"aggregators": 1},
    },
}


def report(of: Query, **arguments: Any) -> PrivacyReport:
    return query_report(of, subject=SUBJECT, **arguments)


@pytest.mark.parametrize(
    ("function", "mechanism", "stance"),
    [
        *(("sum", mechanism, stance) for mechanism in NOISY for stance in ("sound", "paper")),
        *((function, "distributed", "sound") for function in VARIANTS if function != "sum"),
    ],
)
def test_every_query_has_a_whole_report(function: str, mechanism: str, stance: str) -> None:
    q = query(**{**VARIANTS[function], **NOISY[mechanism]}, stance=stance)
    found = report(q, participants=20)
    assert PrivacyReport.model_validate_json(found.model_dump_json()) == found
    assert found.canonical()  # no floating-point number in it
    assert [line.key for line in found.verified] == list("abcde")
    for line in found.verified:
        assert (line.model == "none") == (line.epsilon == "inf")
        assert line.model != "none" or (line.delta == "1" and line.reason)
    page = plain_words(found)
    for sentence in (ANY_AMOUNT, NOT_PROVED, PARTICIPATION):
        assert sentence in page
    assert "The unit is curator" in page


def test_a_sound_report() -> None:
    found = report(query(**NOISY["distributed"]), operators=["A", "B", "C"])
    assert found.claimed is None
    assert found.sensitivity[0].value == "6"
    assert found.neighbouring == "add-remove"
    assumed = found.verified[-1]
    assert (assumed.scenario, assumed.model, assumed.epsilon, assumed.delta) == (
        "assumed",
        "pure-dp",
        "1",
        "0",
    )
    assert (found.charged.ledger, found.charged.epsilon, found.charged.delta) == (
        "curators",
        "1",
        "0",
    )
    assert found.charged.epsilon_all_corrupt == "inf"
    assert found.noise[0].distribution == "polya-share"
    assert found.noise[0].draws == 3
    assert 0 < Fraction(found.sampler_delta) < Fraction(1, 10**30)
    assert any("by a different operator, as declared" in text for text in found.assumptions)


def test_two_layer_claims_what_does_not_hold() -> None:
    found = report(query(**NOISY["two-layer"]))
    assert (found.claimed.epsilon, found.claimed.delta) == ("10", "0")
    assert "Proposition 4.1" in (found.claimed.theorem or "")
    assert all(Fraction(line.delta or "1") > 0 for line in found.verified)
    assert "overlooks the atom" in found.source_defects[0]
    assert any("hedging" in text for text in found.caveats)
    sure = report(query(**{**NOISY["two-layer"], "pr_u": "1", "pr_s": "1"}))
    assert [line.epsilon for line in sure.verified] == ["2.5", "2.5", "2.5", "7.5", "2.5"]
    assert "min(epsilon_u, epsilon_s)" in sure.source_defects[0]


@pytest.mark.parametrize("mechanism", ["two-layer", "local"])
def test_a_paper_report_keeps_the_private_maximum(mechanism: str) -> None:
    q = query(**NOISY[mechanism], bounds=["0", "7919"], stance="paper")
    found = report(q)
    assert [(s.value, s.source) for s in found.sensitivity] == [(None, "data-dependent")]
    assert all(line.epsilon == "inf" and line.delta == "1" for line in found.verified)
    assert all(noise.scale is None for noise in found.noise)
    assert found.claimed is not None
    assert found.source_defects
    assert found.sampler_delta is None
    assert found.charged.epsilon == "inf"
    assert str(7919 * 2) not in json.dumps(found.model_dump(mode="json"))


def test_exact_is_stamped() -> None:
    page = plain_words(report(query()))
    assert "No differential privacy: nobody adds noise." in page
    assert page.count("nothing holds") == 5


def test_record_unit_says_what_it_does_not_hide() -> None:
    page = plain_words(report(query(**NOISY["distributed"], privacy_unit="record")))
    assert "one reading, more or less" in page
    assert "not a household's habit" in page
    assert "removal and an addition" in page


def test_the_samplers_check_is_in_the_report() -> None:
    healthy = self_test(SeededRandom(5))
    q = query(**NOISY["distributed"])
    assert "check at start: passed" in plain_words(report(q, sampler_self_test=healthy))
    broken = SelfTest(
        tuple(
            type(check)(check.sampler, check.draws, 2 * check.limit, check.limit)
            for check in healthy.checks
        )
    )
    assert "FAILED" in plain_words(report(q, sampler_self_test=broken))


def test_the_error_is_predicted_for_the_participants() -> None:
    q = query(**NOISY["curator layer"])
    preview, result = report(q), report(q, participants=800)
    assert preview.error["participants"] == q.min_participants
    assert result.error["participants"] == 800
    before, after = (
        Fraction(error["parts"][0]["mean_absolute"]) for error in (preview.error, result.error)
    )
    assert after > before
    assert "relative error below 0.01" in plain_words(result)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(1, 3), "0.333333333334"),
        (Fraction(5, 2), "2.5"),
        (Fraction(240_000), "240000"),
        (Fraction(10) ** 20, "1e20"),
        (Fraction(1, 10**9), "1e-9"),
        (Fraction(123, 10**20), "1.23e-18"),
        (0, "0"),
    ],
)
def test_amounts(value: Fraction, text: str) -> None:
    assert amount(value) == text


@given(st.fractions(0, 10**6, max_denominator=10**9))
def test_amounts_are_rounded_up(value: Fraction) -> None:
    assert value <= Fraction(amount(value)) <= value * (1 + Fraction(1, 10**11))
