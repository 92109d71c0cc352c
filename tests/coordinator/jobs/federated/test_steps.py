"""The pure steps over curators, and what their rounds add up to (spec: kmeans, section 6)."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from algorithms.crowd_tasking import federated as tasking
from algorithms.crowd_tasking.parameters import Parameters as CrowdTaskingParams
from algorithms.dpbv_clustering import federated as grid
from algorithms.dpbv_clustering.parameters import Parameters
from algorithms.kmeans import algorithm as federated
from algorithms.kmeans.parameters import Parameters as KmeansParameters
from algorithms.kmeans.sound_run import absorb, first, next_query, release
from coordinator.jobs.federated.preparation import JobPlan, noise_share, step_of_sum
from coordinator.jobs.privacy_statements import added, foreseen
from tacit.encoders import sums
from tacit.errors import Invalid
from tacit.protocol.federation import Federation, RegisterStatistic, step_of
from tacit.query.fields import ALWAYS
from tacit.query.functions import parts
from tacit.query.query import Query
from tacit.query.terms import Layer, Validity
from tacit.report.model import Subject
from tacit.report.queries import query_report

CURATORS = 100
PLAN = JobPlan("job-1", "kmeans", bytes(32), Federation(collect="rounds", columns=("a", "b")))
LOW = KmeansParameters(k=3, epsilon=Fraction(1), bounds=((0, 10), (0, 10)), n_hint=2000)
BOXED = Parameters(k=3, bounds=((0.0, 10.0),) * 2, epsilon=Fraction(2), cells_per_axis=4)
HIGH = KmeansParameters(
    k=3,
    epsilon=Fraction(2),
    bounds=((0.0, 1.0),) * 8,
    n_hint=2000,
    privacy_unit="curator",
    contribution_bound=4,
)


def rows_of(dimension: int, scale: float) -> Any:
    """Four rows at each curator, around three centres."""
    generator = np.random.default_rng(5)
    centres = generator.uniform(0.2, 0.8, (3, dimension))
    rows = centres[generator.integers(0, 3, CURATORS * 4)]
    return (rows + generator.normal(0, 0.05, rows.shape)).clip(-0.1, 1.1) * scale


def query_of(asked: Any, params: Any, number: int = 1, **changes: Any) -> Query:
    """The query of a sum."""
    plan = JobPlan("job-1", "kmeans", bytes(32), PLAN.federation.model_copy(update=changes))
    return step_of_sum(plan, number, asked, federated.scope(params))[1]


@pytest.mark.parametrize(("params", "scale"), [(LOW, 10.0), (HIGH, 1.0)], ids=["zone", "lift"])
def test_without_noise_many_curators_give_the_central_centres(
    params: KmeansParameters, scale: float
) -> None:
    assert params.bounds is not None
    rows = rows_of(len(params.bounds), scale)
    columns = [str(number) for number in range(len(params.bounds))]
    state = federated.start(params, columns, Fraction(3))
    central, grid_of = first(state.steps.plan, params.public_seed), state.grid
    number = 0
    while (asked := federated.next_sum(state)) is not None:
        number += 1
        again = sums.read("kmeans", asked.document())
        query = query_of(again, params, number)
        sums.check_query(query, again)
        total = sum(
            sums.encoded(query, again, rows[start : start + 4]).values[0]
            for start in range(0, len(rows), 4)
        )
        state = federated.take(state, asked, asked.restored(np.asarray(total)))
        own = next_query(central)
        assert own is not None
        central = absorb(central, own, own.sums(grid_of.quantise(rows)))
    assert 2 <= number <= federated.planned(state)
    assert next_query(central) is None
    assert (release(state.steps).centres == release(central).centres).all()
    assert not state.truncated


def test_an_aborted_zone_round_ends_the_run_with_what_was_released() -> None:
    state = federated.start(LOW, ["a", "b"], Fraction(3))
    for _ in range(2):  # coarse cells, then parts of them
        asked = federated.next_sum(state)
        assert asked is not None
        assert federated.aborted(state, asked) is None
        counts = asked.query.sums(state.grid.quantise(rows_of(2, 10.0)))
        state = federated.take(state, asked, counts)
    zone = federated.next_sum(state)
    assert zone is not None
    ended = federated.aborted(state, zone)
    assert ended is not None
    assert federated.next_sum(ended) is None
    outcome = federated.release_rounds(ended)
    assert outcome.result["truncated"] is True
    assert federated.TRUNCATED in outcome.report.caveats


def test_the_grid_is_counted_as_it_is() -> None:
    box = ((0.0, 10.0),) * 3
    params = Parameters(k=3, bounds=box, epsilon=Fraction(2), cells_per_axis=4)
    state = grid.start(params, ["a", "b", "c"], Fraction(3))
    asked = grid.next_sum(state)
    assert asked is not None
    again = sums.read("dpbv-clustering", asked.document())
    rows = rows_of(3, 10.0)
    counts = again.vectors(rows).sum(axis=0)
    assert (counts == asked.cells.sums(rows)).all()
    assert grid.finish(grid.take(state, asked, counts)).result["method"] == "grid-core"


def test_the_noise_of_a_released_sum() -> None:
    asked = federated.next_sum(federated.start(LOW, ["a", "b"], Fraction(1)))
    scope = federated.scope(LOW)
    assert noise_share(query_of(asked, LOW), scope) == 3
    assert noise_share(query_of(asked, LOW, **{"sharing": "shamir", "threshold": 2}), scope) == 3
    curators = {"layer": Layer.CURATOR, "min_participants": 50, "n_max": 100}
    assert noise_share(query_of(asked, LOW, **curators), scope) == 2


def test_rows_of_a_table_take_half_the_noise_of_statistics_of_registers() -> None:
    """One reading of a register replaces a record: two vectors, four times the variance."""
    asked = federated.next_sum(federated.start(LOW, ["a", "b"], Fraction(1)))
    scope, rows = federated.scope(LOW), query_of(asked, LOW)
    registers = tuple(
        RegisterStatistic.model_validate_json(
            json.dumps({"register": "energy_import", "statistic": name})
        )
        for name in ("min", "max")
    )
    statistics = query_of(asked, LOW, columns=registers, window=ALWAYS)
    assert (rows.registers, statistics.registers) == (None, ("energy_import",))
    assert rows.every_record is True
    assert statistics.every_record is None
    assert [part.sensitivity for part in parts(rows)] == [1]
    assert [part.sensitivity for part in parts(statistics)] == [2]
    assert noise_share(rows, scope) == 3
    assert noise_share(statistics, scope) == 12
    report = query_report(rows, subject=Subject(kind="query", id="x"))
    assert report.neighbouring == "add-remove"
    assert [item.value for item in report.sensitivity] == ["1"]
    cells = grid.next_sum(grid.start(BOXED, ["a", "b"], Fraction(1)))
    assert cells is not None
    plan = JobPlan("job-1", "dpbv-clustering", bytes(32), PLAN.federation)
    replaced = step_of_sum(plan, 1, cells, grid.scope(BOXED))[1]
    assert [part.sensitivity for part in parts(replaced)] == [2]
    assert noise_share(replaced, grid.scope(BOXED)) == 3


def test_the_name_of_a_query_binds_the_whole_step() -> None:
    asked = federated.next_sum(federated.start(LOW, ["a", "b"], Fraction(1)))
    assert asked is not None
    step, query = step_of_sum(PLAN, 7, asked, federated.scope(LOW))
    name = step_of(query)
    assert name is not None
    assert (name.algorithm, name.step, name.digest) == ("kmeans", 7, step.digest())
    assert query.job == "job-1"
    assert step_of(query.model_copy(update={"job": None})) is None


def test_rounds_add_up_scenario_by_scenario() -> None:
    one_grid = LOW.model_copy(update={"start": "grid"})
    asked = federated.next_sum(federated.start(one_grid, ["a", "b"], Fraction(1)))
    report = query_report(query_of(asked, LOW), subject=Subject(kind="query", id="x"))
    twice = {line.key: line for line in added([report, report])}
    once = {line.key: line for line in report.verified}
    assert once["e"].epsilon is not None
    assert twice["e"].epsilon == "1"
    assert once["e"].epsilon == "0.5"
    assert twice["d"].epsilon == "inf"
    whole = foreseen(report, Fraction(1), 2)
    assert {line.key: line.epsilon for line in whole.verified}["e"] == "1"


TASK: dict[str, Any] = {
    "sensor": {"name": "a", "coordinates": [{"name": "a", "lower": 0, "upper": 10}]},
    "n": 9,
    "T": 50,
}
UNITS: list[tuple[dict[str, Any], Fraction]] = [
    ({"epsilon": "1"}, Fraction(1)),
    ({"epsilon": "1", "privacy_unit": "level"}, Fraction(50)),
    ({"epsilon": "20", "privacy_unit": "user", "delta": "0"}, Fraction(20)),
]


@pytest.mark.parametrize(("change", "epsilon"), UNITS)
def test_curators_work_out_what_a_task_costs(change: dict[str, Any], epsilon: Fraction) -> None:
    params = CrowdTaskingParams.model_validate_json(json.dumps({**TASK, **change}))
    document = json.loads(json.dumps(tasking.encoding(params, "sound")))
    assert sums.read_encoding("crowd-tasking", document).cost == (epsilon, 0)
    charged = tasking.preview(params, "sound").charged
    assert charged is not None
    assert (charged.ledger, charged.epsilon) == ("curators", str(epsilon))
    line = tasking.preview(params, "sound").verified[0]
    assert line.epsilon is not None
    assert Fraction(line.epsilon) <= epsilon


def test_the_sums_of_a_job_may_be_proved() -> None:
    state = federated.start(LOW, ["a", "b"], Fraction(3))
    asked = federated.next_sum(state)
    assert asked is not None
    proved = {
        "validity": Validity.PROVED,
        "layer": Layer.BOTH,
        "noise_tail": Fraction(1, 3 * 10**9),
    }
    query = query_of(asked, LOW, **proved)
    assert (query.validity, query.noise_tail) == (Validity.PROVED, Fraction(1, 3 * 10**9))
    sums.check_query(query, asked)
    plain = query_of(asked, LOW)
    assert (plain.validity, plain.noise_tail) == (None, None)
    subject = Subject(kind="query", id="q")
    report = query_report(query, subject=subject)
    assert report.validity is not None
    assert report.validity.kind == "proved"
    once = [Fraction(line.clamp_delta or 0) for line in report.verified]
    thrice = [Fraction(line.clamp_delta or 0) for line in foreseen(report, Fraction(3), 3).verified]
    both = [Fraction(line.clamp_delta or 0) for line in added([report, report])]
    assert any(once)
    for one, three, two in zip(once, thrice, both, strict=True):
        assert 3 * one <= three <= 3 * one * (1 + Fraction(1, 10**9))
        assert 2 * one <= two <= 2 * one * (1 + Fraction(1, 10**9))
    with pytest.raises(Invalid) as refused:
        query_of(asked, LOW, **proved, sharing="shamir", threshold=2)
    assert "/federation/sharing" in [item.pointer for item in refused.value.errors]


def test_single_noisy_reports_are_not_proved() -> None:
    with pytest.raises(ValidationError, match="only sums in rounds"):
        Federation(collect="reports", columns=("a",), validity=Validity.PROVED)
    assert (
        Federation(collect="rounds", columns=("a",)).canonical()
        == Federation(collect="rounds", columns=("a",), validity=None, noise_tail=None).canonical()
    )
