"""What follows from a stance and a relation, without an algorithm."""

from dataclasses import replace
from fractions import Fraction

from tacit.report.builder import (
    ADD_SAMPLER_DELTA,
    EVALUATED,
    FLOATING,
    NO_FIGURE,
    NOT_VERIFIED,
    NOTHING_HOLDS,
    ONE_RELEASE,
    OUTSIDE_BUDGET,
    ReportBuilder,
)
from tacit.report.model import Charge, PrivacyReport, Subject

SOUND = ReportBuilder("a", "tacit algorithms.a", "sound", "sequence")
PAPER = replace(SOUND, stance="paper")
THIRD = Fraction(1, 3)


def report(builder: ReportBuilder, sampler: Fraction | None) -> PrivacyReport:
    line = builder.laplace_line("a", "one more", THIRD)
    return builder.report("m", {"k": 1}, method="sum", sampler=sampler, verified=(line,))


def test_a_report_has_what_follows_and_leaves_the_job_to_the_service() -> None:
    found = report(SOUND, THIRD)
    assert found.subject == Subject(kind="job", id="", algorithm="a", version="1")
    assert (found.stance, found.privacy_unit, found.neighbouring) == (
        "sound",
        "sequence",
        "add-remove",
    )
    assert found.accounting.library == "tacit algorithms.a"
    assert (found.sampler_delta, found.sampler_epsilon) == ("0.333333333334", "0")
    assert not found.evaluation_attached


def test_a_sampler_delta_is_at_most_one_and_none_is_stated_in_the_paper_stance() -> None:
    assert report(SOUND, Fraction(7)).sampler_delta == "1"
    for found in (report(PAPER, THIRD), report(SOUND, None)):
        assert (found.sampler_delta, found.sampler_epsilon) == (None, None)


def test_fields_take_the_place_of_what_follows() -> None:
    found = SOUND.report("m", {}, method="sum", verified=(), privacy_unit=None)
    assert found.privacy_unit is None
    line = SOUND.line("a", None, NOTHING_HOLDS, privacy_unit="edge", neighbouring="replace")
    assert (line.privacy_unit, line.neighbouring) == ("edge", "replace")
    assert (line.model, line.epsilon, line.delta) == ("none", "inf", "1")


def test_a_replacement_costs_twice_an_addition() -> None:
    added, replaced = SOUND.neighbour_lines(THIRD, "one more", "one other", conditions=("c",))
    assert (added.key, added.neighbouring, added.epsilon) == ("a", "add-remove", "0.333333333334")
    assert (replaced.key, replaced.neighbouring, replaced.epsilon) == (
        "b",
        "replace",
        "0.666666666667",
    )
    assert (added.reason, replaced.reason) == (None, "a removal and an addition")
    assert added.conditions == replaced.conditions == ("c",)
    assert added.description == "anyone who reads the result; one more"


def test_the_paper_stance_states_no_figure_and_lies_outside_the_budget() -> None:
    for line in PAPER.neighbour_lines(THIRD, "one more", "one other"):
        assert (line.model, line.epsilon, line.delta) == tuple(NO_FIGURE.values())
        assert line.reason == FLOATING
    assert PAPER.charge(THIRD) == Charge(
        ledger="dataset", privacy_unit="sequence", outside_budget=True
    )
    noise = PAPER.noise("counts", None)
    assert (noise.distribution, noise.scale, noise.sampler) == ("Laplace", None, "float")
    assert PAPER.caveats("x", evaluated=False) == (ONE_RELEASE, NOT_VERIFIED, OUTSIDE_BUDGET, "x")


def test_the_sound_stance_reserves_what_it_charges_unless_told_otherwise() -> None:
    charge = SOUND.charge(THIRD, Fraction(1, 4))
    assert (charge.epsilon, charge.delta, charge.reserved) == (
        "0.333333333334",
        "0.25",
        "0.333333333334",
    )
    assert SOUND.charge(THIRD, reserved=Fraction(1)).reserved == "1"
    noise = SOUND.noise(None, None, "Gaussian")
    assert (noise.distribution, noise.sampler) == ("discrete Gaussian", "exact-integer")
    assert SOUND.caveats("x", evaluated=True) == (ONE_RELEASE, ADD_SAMPLER_DELTA, "x", EVALUATED)
