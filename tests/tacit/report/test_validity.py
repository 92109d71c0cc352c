"""What a report says of lies: how far they reach, how sure a proof is, whom that needs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.protocol.round.messages import REFUSED_BY_PROOF
from tacit.query.proofs import proof_plan
from tacit.query.query import Query
from tacit.report.model import PrivacyReport, Subject, ValidityStatement
from tacit.report.queries import query_report
from tacit.report.text import plain_words
from tacit.report.validity import (
    ANY_AMOUNT,
    EVERY_AGGREGATOR,
    LYING_AGGREGATORS,
    NOT_PROVED,
    PROVED,
    with_total,
)
from tests.tacit.examples import VARIANTS, query

NOISY = {"mechanism": "distributed", "epsilon": "1"}
METER = {
    "unit": "kWh",
    "bounds": ["0", "8.191"],
    "resolution": "0.001",
    "max_readings": 1,
    "n_max": 10_000,
    **NOISY,
}


def proved(**changes: Any) -> Query:
    return query(**{**changes, "validity": "proved"})


def report(asked: Query, **arguments: Any) -> PrivacyReport:
    return query_report(asked, subject=Subject(kind="query", id="q"), **arguments)


def validity(found: PrivacyReport) -> ValidityStatement:
    assert found.validity is not None
    return found.validity


def test_the_sentence_of_the_specification() -> None:
    asked = proved(**METER)
    found = report(asked, hosts=[(4096,), (4096, 200), (300, 300)])
    assert validity(found).sentences[0] == (
        "A lying curator shifts the sum by at most 8.191 kWh; a host by at most 33,550.4 kWh for "
        "each segment of 4,096 roster numbers in which it has curators; the host that reaches "
        "furthest, 4,296 curators in 2 parts, by at most 35,188.6 kWh. Aggregators that lie: by "
        "any amount."
    )
    released = validity(with_total(found, asked, np.array([-40_955_000])))
    assert released.sentences[0] == (
        "A lying curator shifts the sum by at most 8.191 kWh (0.02 % of the released total); a "
        "host by at most 33,550.4 kWh (82 % of the released total) for each segment of 4,096 "
        "roster numbers in which it has curators; the host that reaches furthest, 4,296 curators "
        "in 2 parts, by at most 35,188.6 kWh (86 % of the released total). Aggregators that lie: "
        "by any amount."
    )
    assert released.influence[0].lone.share_of_total == "0.0002"


@pytest.mark.parametrize(
    ("n_max", "host"),
    [
        (10**6, "536,806 kWh for each segment of 65,536"),
        (5000, "40,955 kWh for each segment of 65,536"),
    ],
)
def test_longer_parts_reach_as_far_as_they_say(n_max: int, host: str) -> None:
    """8.191 kWh for each curator that a part can have, rounded up to six digits."""
    asked = proved(**{**METER, "n_max": n_max}, part_length=65_536)
    assert f"a host by at most {host}" in validity(report(asked)).sentences[0]


@pytest.mark.parametrize("asked", [query(**METER), query(**METER, validity="declared")])
def test_a_declared_query_says_by_any_amount(asked: Query) -> None:
    found = report(asked)
    assert validity(found) == ValidityStatement(kind="declared", sentences=(ANY_AMOUNT,))
    assert NOT_PROVED in found.caveats
    assert with_total(found, asked, np.array([5])) == found
    page = plain_words(found)
    assert ANY_AMOUNT in page
    assert EVERY_AGGREGATOR not in page


@pytest.mark.parametrize(
    ("kind", "layer", "completeness"),
    [("sum", "both", None), *((kind, "aggregator", "curators") for kind in VARIANTS)],
)
def test_every_proved_query_has_a_whole_report(kind: str, layer: str, completeness: Any) -> None:
    asked = proved(**VARIANTS[kind], **NOISY, layer=layer, completeness=completeness)
    found = report(asked, participants=20, hosts=(), refused=0)
    assert PrivacyReport.model_validate_json(found.model_dump_json()) == found
    assert found.canonical()
    clamped = [line.clamp_delta for line in found.verified if line.model != "none"]
    assert all((each is not None) == (layer == "both") for each in clamped)
    assert any("clamp_delta" in line for line in found.caveats) == (layer == "both")
    page = plain_words(found)
    assert PROVED in page
    assert EVERY_AGGREGATOR in page
    assert ANY_AMOUNT not in page
    assert LYING_AGGREGATORS in page
    assert "furthest" not in page
    assert REFUSED_BY_PROOF not in page


def reach_of(asked: Query, curators: int, place: int) -> tuple[Fraction, Fraction]:
    function = proof_plan(asked).of(curators).function
    return Fraction(function.influence[place]), Fraction(function.influence_from_zero[place])


def test_a_hosts_influence_is_that_of_all_its_parts() -> None:
    asked = proved(**{**METER, **VARIANTS["mean"]}, layer="both")
    statement = validity(report(asked, hosts=[(4096, 4096, 100), (4096,), (50, 60)]))
    assert {item.host_parts for item in statement.influence} == {(4096, 4096, 100)}
    for place, (item, worth) in enumerate(
        zip(statement.influence, (Fraction(1, 1000), Fraction(1)), strict=True)
    ):
        assert item.host is not None
        for reach, sizes in ((item.lone, (1,)), (item.host, (4096, 4096, 100))):
            both = [reach_of(asked, size, place) for size in sizes]
            assert Fraction(reach.coordinate) == worth * sum(each for each, _ in both)
            assert Fraction(reach.from_zero) == worth * sum(each for _, each in both)
    assert [item.unit for item in statement.influence] == ["kWh", "1"]


def test_a_vector_states_one_coordinate_and_all_together() -> None:
    """Spec: validity, section 4: 2 B for all entries, 2 m for all bins."""
    bins = validity(report(proved(**VARIANTS["histogram"]), hosts=[(3,)]))
    (item,) = bins.influence
    assert (item.lone.coordinate, item.lone.all_coordinates) == ("2", "4")
    assert (item.host.coordinate, item.host.all_coordinates) == ("6", "12")
    assert "one bin by at most 2 (all coordinates together: 4)" in bins.sentences[0]
    slots = validity(report(proved(**VARIANTS["slots with a bound"]), hosts=()))
    (item,) = slots.influence
    assert (item.lone.coordinate, item.lone.from_zero, item.lone.all_coordinates) == ("8", "4", "8")
    assert "one coordinate of vector" in slots.sentences[0]


def test_a_bounded_window_states_its_norm_and_that_a_host_may_concentrate_it() -> None:
    """W = 18.5 kWh: 2 W for signed entries in L1; in L2, where all are of one sign, sqrt(2) W."""
    day = {
        **METER,
        **VARIANTS["slots"],
        "bounds": ["0", "5"],
        "max_readings": 96,
        "dimension": 96,
        "window_bound": "18.5",
    }
    gaussian = {"noise": "gaussian", "epsilon": None, "rho": "0.002883172"}
    squared = validity(report(proved(**{**day, **gaussian}), hosts=[(10,)]))
    (item,) = squared.influence
    assert (item.lone.coordinate, item.lone.from_zero) == ("18.5", "18.5")
    assert (item.lone.all_coordinates, item.lone.all_coordinates_l2) == (None, "26.163")
    assert (item.host.coordinate, item.host.all_coordinates_l2) == ("185", "261.63")
    assert squared.sentences[0] == (
        "A lying curator shifts one coordinate of vector by at most 18.5 kWh (all coordinates "
        "together: 26.163 kWh as the root of the sum of squares); a host by at most 75,776 kWh "
        "(all coordinates together: 107,164 kWh as the root of the sum of squares) for each "
        "segment of 4,096 roster numbers in which it has curators, which it may put into one "
        "coordinate: the bound of a window is proved for all its curators of a segment together; "
        "the host that reaches furthest, 10 curators in 1 part, by at most 185 kWh (all "
        "coordinates together: 261.63 kWh as the root of the sum of squares). Aggregators that "
        "lie: by any amount."
    )
    (item,) = validity(report(proved(**day), hosts=())).influence
    assert (item.lone.all_coordinates, item.lone.all_coordinates_l2) == ("37", None)
    total = validity(report(proved(**METER, window_bound="5")))
    assert "one coordinate" not in total.sentences[0]


def test_parts_are_named_in_words() -> None:
    asked = proved(
        **{**METER, **VARIANTS["variance"], "resolution": "0.1"}, completeness="curators"
    )
    sentences = validity(report(asked)).sentences
    named = ["the sum by", "the sum of squares by", "the count by", "the count of curators with"]
    assert all(name in text for name, text in zip(named, sentences[:4], strict=True))
    assert "kWh^2" in sentences[1]
    assert [LYING_AGGREGATORS in text for text in sentences[:4]] == [False, False, False, True]


def test_how_sure_a_proof_is() -> None:
    """Spec: validity, section 12: of a part of 4,096 (25 bits) 2^-58.0."""
    statement = validity(report(proved(**METER)))
    assert float(statement.false_acceptance or 0) == pytest.approx(2**-58.0, rel=0.05)
    assert 0 < float(statement.honest_refusal or 0) < 2.0**-51


def test_the_host_that_reaches_furthest_has_the_most_parts_or_curators() -> None:
    """With noise of curators 45 in 3 parts reach further than 55 in one; every smaller one less."""
    asked = proved(**{**METER, "n_max": 100, "min_participants": 10}, layer="curator")
    hosts = [(55,), (15, 15, 15), (54,), (15, 15), (14, 15, 15)]
    (item,) = validity(report(asked, hosts=hosts)).influence
    reaches = {sizes: sum(reach_of(asked, size, 0)[0] for size in sizes) for sizes in hosts}
    assert item.host_parts == max(hosts, key=reaches.__getitem__) == (15, 15, 15)
    assert Fraction(item.host.coordinate) == Fraction(reaches[15, 15, 15], 1000)


def test_who_was_refused_is_a_count() -> None:
    one = validity(report(proved(**METER), refused=1))
    assert one.refused == 1
    assert one.sentences[-1].startswith("1 of the round's curators was excluded")
    many = validity(report(proved(**METER), refused=1200))
    assert many.sentences[-1] == (
        f"1,200 of the round's curators were excluded, each {REFUSED_BY_PROOF}."
    )


def test_clamped_noise_is_part_of_a_lies_reach() -> None:
    quiet = validity(report(proved(**METER)))
    noisy = validity(report(proved(**METER, layer="both", noise_tail="0.000001", delta="0.001")))
    reaches = [Fraction(each.influence[0].lone.coordinate) for each in (quiet, noisy)]
    assert reaches[1] > 10 * reaches[0]
    assert quiet.noise_tail is None
    assert noisy.noise_tail == "0.000001"
    assert any("clamped" in text and "0.000001" in text for text in noisy.sentences)


def test_a_total_of_nothing_has_no_share() -> None:
    asked = proved(**{**METER, **VARIANTS["mean"]})
    found = validity(with_total(report(asked), asked, np.array([0, 50])))
    first, second = found.influence
    assert first.lone.share_of_total is None
    assert second.lone.share_of_total == "0.02"
    bins = proved(**VARIANTS["histogram"])
    (item,) = validity(with_total(report(bins), bins, np.array([4, 5]))).influence
    assert item.lone.share_of_total is None


def test_an_opened_mean_has_the_error_of_its_own_count_and_mean() -> None:
    """At the middle of the bounds the noise of the count moves no mean; its own sum's noise is
    divided by the released count. Without a count there is none, and the forecast stays."""
    asked = query(
        mechanism="distributed",
        epsilon="8",
        function="mean",
        bounds=["0", "4"],
        resolution="0.001",
        max_readings=1,
        aggregators=5,
        min_participants=400,
    )
    before = report(asked)
    (forecast,), (sums, _) = before.error["averages"], before.error["parts"]
    opened = with_total(before, asked, np.array([0, 500])).error
    (own,) = opened["averages"]
    half_width = float(own["interval"]["half_width"])
    assert half_width == pytest.approx(float(sums["interval"]["half_width"]) / 500, rel=0.01)
    assert half_width < float(forecast["interval"]["half_width"])
    assert opened["sentences"][0] != before.error["sentences"][0]
    assert with_total(before, asked, np.array([0, 0])).error == before.error
