"""Windows and subsets over curators: the document, its price, what is refused, what comes out.

Spec: crowd-tasking, section 10.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import Collected, Outcome, SequentialContext
from algorithms.crowd_tasking.algorithm import run
from algorithms.crowd_tasking.federated import REPORTS
from algorithms.crowd_tasking.parameters import Parameters
from tacit.encoders.crowd_tasking_bounded import POINT, SubsetReports, WindowReports, odds
from tacit.encoders.crowd_tasking_reports import Encoding
from tacit.encoders.sums import Cost, EncodingRefused, read_encoding
from tacit.protocol.federation import Report
from tacit.randomness import SeededRandom
from tests.algorithms.crowd_tasking.tasks import params, sensor, series

HIST: dict[str, Any] = {"aggregate": "HIST", "buckets": {"width": 5}, "n": 2_000}


def encoder(task: Parameters) -> Encoding:
    """What a curator reads in the task's document, as it travels."""
    document = json.loads(json.dumps(REPORTS.encoding(task, "sound")))
    found = read_encoding("crowd-tasking", document)
    assert isinstance(found, Encoding)
    assert found.document() == document
    return found


def over_curators(task: Parameters, readings: np.ndarray, seed: int = 1) -> Outcome:
    """Readings (users, T, k) of one curator each, sent and aggregated."""
    found = encoder(task)
    tables = {f"c{number}": rows for number, rows in enumerate(readings)}
    sent = found.perturbed(tables, SeededRandom(seed))
    assert all(found.refusal(each) is None for each in sent)
    users = {name: number for number, name in enumerate(tables)}
    numbered = [(users[each.curator], each) for each in reversed(sent)]
    collected = Collected(numbered, len(tables), ("rate",))
    return REPORTS.aggregate(task, "sound", collected, SequentialContext())


def test_a_curator_pays_what_the_mechanism_proves() -> None:
    """k coordinates at epsilon / k each; all rounds of a user add up, or less with a delta."""
    three = encoder(params(epsilon="2", sensor=sensor(3)))
    assert isinstance(three.mechanism, WindowReports)
    assert (three.columns, three.mechanism.epsilon_each) == (3, Fraction(2, 3))
    assert (three.cost, three.other_cost) == (Cost(Fraction(2), Fraction(0)),) * 2
    buckets = encoder(params(**HIST, epsilon="2", T=5))
    assert isinstance(buckets.mechanism, SubsetReports)
    assert buckets.cost == Cost(Fraction(2), Fraction(0))
    assert buckets.other_cost == Cost(Fraction(10), Fraction(0))
    user = encoder(params(epsilon="10", T=400, privacy_unit="user"))
    assert user.cost is not None
    assert user.cost.delta > 0
    assert user.cost.epsilon <= 10 < 400 * user.reading_epsilon


@pytest.mark.parametrize(
    ("task", "change"),
    [
        (params(epsilon="2"), {"epsilon": "0"}),
        (params(epsilon="2"), {"epsilon": "65"}),
        (params(epsilon="2"), {"epsilon": "0.0000000000001"}),
        (params(epsilon="2"), {"reach": -1}),
        (params(epsilon="2"), {"reach": 2047}),
        (params(epsilon="2"), {"mixed": (1 << 32) + 1}),
        (params(epsilon="2"), {"report": "gaussian"}),
        (params(epsilon="2"), {"odds": 1 << 60}),
        (params(epsilon="2"), {"stance": "paper"}),
        (params(epsilon="2"), {"steps": "9"}),
        (params(**HIST, epsilon="2"), {"size": 0}),
        (params(**HIST, epsilon="2"), {"size": 20}),
        (params(**HIST, epsilon="2"), {"edges": ["nan", "1", "2"]}),
        (params(**HIST, epsilon="2"), {"lower": ["0", "0"], "upper": ["1", "1"]}),
    ],
)
def test_a_document_under_which_nothing_holds_is_refused(
    task: Parameters, change: dict[str, Any]
) -> None:
    with pytest.raises(EncodingRefused):
        read_encoding("crowd-tasking", {**REPORTS.encoding(task, "sound"), **change})


def test_a_lying_coordinator_cannot_change_the_odds() -> None:
    """Whatever reach, mixture and number of buckets it names, ratios stay at e^epsilon."""
    task, subset = params(epsilon="1"), params(**HIST, epsilon="1")
    most = Fraction(odds(Fraction(1)), 1 << 40)
    for reach in (0, 1, 1_000, 2_046):
        document = {**REPORTS.encoding(task, "sound"), "reach": reach, "mixed": 1 << 32}
        found = read_encoding("crowd-tasking", document)
        assert isinstance(found, Encoding)
        assert isinstance(found.mechanism, WindowReports)
        law = found.mechanism.law
        wide = 2 * law.reach + 1
        inside = Fraction(law.odds * wide, law.total)
        assert inside / wide / ((1 - inside) / (2 * law.half + 1 - wide)) == most
        assert found.cost == Cost(Fraction(1), Fraction(0))
    for size in (1, 5, 19):
        found = read_encoding("crowd-tasking", {**REPORTS.encoding(subset, "sound"), "size": size})
        assert isinstance(found, Encoding)
        assert isinstance(found.mechanism, SubsetReports)
        own = found.mechanism.law.own
        assert own / size / ((1 - own) / (20 - size)) == most
        assert found.cost == Cost(Fraction(1), Fraction(0))


def test_reports_that_are_refused() -> None:
    window, subset = encoder(params(epsilon="1", T=2)), encoder(params(**HIST, epsilon="2"))
    size = 2
    for found, good, bad in (
        (window, ((0,), (POINT,), (-POINT,)), ((POINT + 1,), (-POINT - 1,), (0, 0))),
        (subset, ((0, 1), (3, 19)), ((0,), (1, 1), (2, 1), (-1, 3), (3, 20), (1, 2, 3))),
    ):
        for values, taken in [*((each, True) for each in good), *((each, False) for each in bad)]:
            report = Report(curator="a", values=values)
            assert (found.refusal(report) is None) is taken, values
    assert isinstance(subset.mechanism, SubsetReports)
    assert subset.mechanism.size == size
    assert window.refusal(Report(curator="a", round=3, values=(0,))) is not None
    assert window.refusal(Report(curator="a", values=(0,), label=1)) == "the task takes no labels"


def test_every_reading_is_clamped() -> None:
    """What lies beyond the bounds is sent as the bound, with the same noise."""
    for task in (params(epsilon="3"), params(**HIST, epsilon="3")):
        found = encoder(task)
        sent = [
            [each.values for each in found.perturbed({"a": rows}, SeededRandom(3))]
            for rows in (np.array([[-1e300], [1e300]] * 50), np.array([[50.0], [150.0]] * 50))
        ]
        assert sent[0] == sent[1]


def test_a_bucket_is_that_of_the_clamped_reading() -> None:
    """Edges may lie beyond the bounds: a reading of 0 is sent as one of 50."""
    edges = {"edges": [0, 40, 60, 140, 160, 200]}
    found = encoder(params(**{**HIST, "buckets": edges}, epsilon="60"))
    rows = np.array([[0.0], [55.0], [100.0], [1e9]])
    sent = found.perturbed({"a": rows}, SeededRandom(1))
    assert [each.values for each in sent] == [(1,), (1,), (2,), (3,)]


@pytest.mark.parametrize(("epsilon", "place"), [("1/2", 50.0), ("1", 80.0), ("4", 150.0)])
def test_what_is_read_of_reports_has_no_bias(epsilon: str, place: float) -> None:
    """Windows and points together, as they travel: 60,000 readings within 5 standard errors, and
    their deviation that of the law."""
    mechanism = encoder(params(epsilon=epsilon)).mechanism
    assert isinstance(mechanism, WindowReports)
    found = mechanism.estimates(mechanism.reports(np.full((60_000, 1), place), SeededRandom(9)))
    assert abs(found.mean() - place) < 5 * found.std() / 60_000**0.5
    assert found.std() <= 50 * mechanism.law.deviation() * 1.03


@pytest.mark.parametrize("changes", [{}, HIST], ids=["window", "subset"])
def test_over_curators_as_over_stored_rows(changes: dict[str, Any]) -> None:
    """The same words give the same result: one curator's rows, in both ways."""
    task = params(**{"n": 1, "epsilon": "2", "T": 300, **changes})
    readings = np.random.default_rng(1).normal(90, 15, (1, 300, 1))
    found = over_curators(task, readings, 7)

    class Context(SequentialContext):
        def noise(self, stage: str, block: int = 0) -> Any:
            return SeededRandom(7)

    stored = run(series(readings), task, "sound", Context())
    for key in ("average", "histogram", "reports"):
        assert found.result.get(key) == stored.result.get(key)
    assert [file.content for file in found.files] == [file.content for file in stored.files]
    assert found.report.charged is not None
    assert found.report.charged.ledger == "curators"
    assert {line.scenario for line in found.report.verified} == {
        "coordinator and all other curators"
    }
