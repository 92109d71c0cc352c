"""The job of (K,C)_L: parameters, datasets, what is published and what the report says.

Long paths: what cannot be enumerated is counted and refused, before it is enumerated.

Pictures of the published table show its pairs, and nothing else.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from algorithms import catalogue
from algorithms.contract import Outcome, SequentialContext, Stance, ValueUnknown
from algorithms.datasets.trajectories import Trajectories, read_ndjson
from algorithms.trajectory_kcl import ALGORITHM
from algorithms.trajectory_kcl.algorithm import (
    MOST_PLACES,
    MOST_TIMES,
    pairs_by_place_and_time,
    plots_of,
)
from algorithms.trajectory_kcl.checker import check
from algorithms.trajectory_kcl.parameters import (
    BadGrid,
    MissingSensitive,
    Model,
    PairTable,
    Parameters,
    TooManySequences,
    code,
)
from reproduction.trajectory_kcl import SENSITIVE
from tacit.errors import Invalid
from tacit.report.text import plain_words
from tests.algorithms.outcomes import names_drawn
from tests.algorithms.trajectory_kcl.tables import (
    B3,
    MODEL_51,
    TABLE_52,
    dataset_51,
    lines,
    paths_of,
)

PARAMS = Parameters(K=2, C=Fraction(1, 2), L=2, sensitive_values=SENSITIVE, Kprime=2, evaluate=True)


def run(params: Parameters = PARAMS, stance: str = "sound", seed: int = 1) -> Outcome:
    context = SequentialContext(test_seed=seed)
    return ALGORITHM.run(dataset_51(), params, stance, context)  # type: ignore[arg-type]


def read(text: str) -> Trajectories:
    return read_ndjson(io.BytesIO(text.encode()))


def published(outcome: Outcome) -> Trajectories:
    (file,) = outcome.files
    return read_ndjson(io.BytesIO(file.content))


def test_the_result_of_table_5_1() -> None:
    outcome = run()
    assert outcome.result["suppressed"] == {
        "instances": 5,
        "instances_local": 5,
        "instances_global": 0,
        "local_ops": 3,
        "global_ops": 0,
        "empty_paths": 0,
    }
    assert outcome.result["instance_loss"] == pytest.approx(5 / 34)
    assert outcome.result["verification"]["violating_left"] == 0
    assert outcome.evaluation is not None
    assert outcome.evaluation["mfs_loss"] == pytest.approx(1 / 6)
    lost = {
        (e["location"], e["time"]): e["suppressed"] for e in outcome.evaluation["suppressed_pairs"]
    }
    assert lost == {("d", 2): 1, ("b", 3): 1, ("a", 1): 3}


def test_the_published_table_is_shuffled_and_satisfies_the_model() -> None:
    again = published(run())
    table = code(again, SENSITIVE).table
    assert sorted(paths_of(table)) == sorted(path.replace(" ", "") for path in TABLE_52)
    assert check(table, MODEL_51).holds
    orders = {tuple(paths_of(code(published(run(seed=seed)), ()).table)) for seed in range(3)}
    assert len(orders) == 3
    assert run(seed=3).files == run(seed=3).files
    for line in run().files[0].content.decode().splitlines():
        assert set(json.loads(line)) == {"path", "sensitive"}


def test_empty_paths_are_kept_or_dropped() -> None:
    few = read('{"path": [["a", 1]]}\n{"path": [["b", 1]]}\n')
    params = Parameters(K=2, sensitive_values=())
    kept = ALGORITHM.run(few, params, "sound", SequentialContext())
    assert (kept.result["records"], kept.result["instances"]) == (2, 0)
    dropped = params.model_copy(update={"empty_paths": "drop"})
    outcome = ALGORITHM.run(few, dropped, "sound", SequentialContext())
    assert (outcome.result["records"], outcome.files[0].content) == (0, b"")
    assert outcome.result["suppressed"]["empty_paths"] == 2


@pytest.mark.parametrize("stance", ["sound", "paper"])
@pytest.mark.parametrize("text", ["", '{"path": []}\n', '{"path": [["a", 1]]}\n'])
def test_small_tables_are_legal(text: str, stance: str) -> None:
    params = Parameters(K=2, sensitive_values=(), Kprime=1, utility="mfs", evaluate=True, L="all")
    outcome = ALGORITHM.run(read(text), params, stance, SequentialContext())  # type: ignore[arg-type]
    assert outcome.result["verification"]["violating_left"] == 0
    assert outcome.result["instances"] == 0


def test_a_value_that_never_occurs_is_refused() -> None:
    for value in ("Cold", "hiv", "HIV "):
        named = (*SENSITIVE, ("diagnosis", value))
        with pytest.raises(ValueUnknown) as raised:
            run(Parameters(K=2, C=Fraction(1, 2), sensitive_values=named))
        assert raised.value.pointer == f"/params/sensitive_values/{len(SENSITIVE)}"


def test_a_missing_attribute_is_refused() -> None:
    params = Parameters(sensitive_values=(("age", "1"),))
    for attempt in (ALGORITHM.run, lambda d, p, s, _c: ALGORITHM.check(d, p, s)):
        with pytest.raises(MissingSensitive) as raised:
            attempt(dataset_51(), params, "sound", SequentialContext())
        assert raised.value.pointer == "/params/sensitive_values/0"
    partly = read('{"path": [], "sensitive": {"age": "1"}}\n{"path": []}\n')
    with pytest.raises(MissingSensitive):
        ALGORITHM.check(partly, params, "sound")


@pytest.mark.parametrize(
    ("given", "name", "pointer"),
    [
        ({"K": 0}, "bad_k", "/params/K"),
        ({"C": "1.01"}, "bad_c", "/params/C"),
        ({"C": "-1/2"}, "bad_c", "/params/C"),
        ({"L": 0}, "bad_l", "/params/L"),
        ({"utility": "mfs"}, "kprime_required", "/params/Kprime"),
        ({"grid": {"slot": 0}}, "bad_grid", "/params/grid"),
    ],
)
def test_parameters_out_of_range_are_named(
    given: dict[str, object], name: str, pointer: str
) -> None:
    with pytest.raises(Invalid) as raised:
        Parameters.model_validate_json(json.dumps({"sensitive_values": []} | given))
    assert (raised.value.name, raised.value.pointer) == (name, pointer)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"sensitive_values": [["a", "b"], ["a", "b"]]},
        {"sensitive_values": [], "C": 0.6},
    ],
    ids=range(3),
)
def test_other_parameters_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Parameters.model_validate_json(json.dumps(given))


def test_confidences_are_exact() -> None:
    params = Parameters.model_validate_json('{"sensitive_values": [], "C": "1/3", "L": "all"}')
    assert Fraction(1, 3) == params.C
    assert params.model.length is None
    sixth = Model(1, Fraction(1, 3), 1)
    assert sixth.most(7).tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    fine = Model(1, Fraction(10**40 + 1, 3 * 10**40), 1)
    assert fine.most(7).tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    below = Model(1, Fraction(10**40 - 1, 3 * 10**40), 1)
    assert below.most(7).tolist() == [0, 0, 0, 0, 1, 1, 1, 2]


def test_a_grid_makes_pairs_of_points() -> None:
    text = '{"path": [[[0.4, 1.2], 10], [[0.6, -0.1], 14], [[3, 3], 25]]}\n'
    params = Parameters.model_validate_json(
        '{"sensitive_values": [], "grid": {"cell": 0.5, "slot": 10}, "evaluate": true, "K": 1}'
    )
    outcome = ALGORITHM.run(read(text), params, "sound", SequentialContext())
    (line,) = outcome.files[0].content.decode().splitlines()
    assert json.loads(line)["path"] == [["0:2", 1], ["6:6", 2]]
    assert outcome.evaluation is not None
    assert outcome.evaluation["merged_points"] == 1
    slots = Parameters.model_validate_json('{"sensitive_values": [], "grid": {"slot": 10}}')
    named = code(read('{"path": [["a", 10], ["b", 14]]}\n'), (), slots.grid)
    assert (named.merged, named.table.times) == (1, (1.0,))


@pytest.mark.parametrize(
    ("text", "grid"),
    [
        ('{"path": [[[0, 1], 10]]}', None),
        ('{"path": [[[0, 1], 10]]}', '{"slot": 1}'),
        ('{"path": [["a", 10]]}', '{"slot": 1, "cell": 1}'),
        ('{"path": [[[1e90, 1], 10]]}', '{"slot": 1, "cell": 1e-300}'),
        ('{"path": [["a", 10]]}', '{"slot": 1e-300}'),
    ],
)
def test_a_grid_that_does_not_fit_is_refused(text: str, grid: str | None) -> None:
    given = '{"sensitive_values": []' + (f', "grid": {grid}' if grid else "") + "}"
    with pytest.raises(BadGrid):
        ALGORITHM.check(read(text), Parameters.model_validate_json(given), "sound")


def test_several_attributes_of_a_record_count_each() -> None:
    record = '{"path": [["a", 1]], "sensitive": {"d": "x", "e": "y"}}\n'
    other = '{"path": [["a", 1]], "sensitive": {"d": "z", "e": "y"}}\n'
    table = code(read(record + other), (("d", "x"), ("e", "y"))).table
    assert table.marks.tolist() == [[True, True], [False, True]]
    verdict = check(table, Model(1, Fraction(1, 2), 1))
    assert (verdict.violating, verdict.confidence) == (1, Fraction(1))


def test_the_report_says_what_it_is_not() -> None:
    report = run().report
    (line,) = report.verified
    assert (line.model, line.epsilon, line.delta) == ("syntactic", None, None)
    assert report.details["not_differentially_private"] is True
    assert report.details["claimed"]["linkage_bounds"] == {"identity": "1/2", "attribute": "0.5"}
    assert report.details["verification"]["min_group"] == 2
    assert report.details["verification"]["max_confidence"] == "0.5"
    assert report.charged is not None
    assert report.charged.outside_budget
    assert len(report.not_protected) == 10
    words = plain_words(report)
    assert "NOT DIFFERENTIALLY PRIVATE" in words
    assert "epsilon 0" not in words


def test_the_preview_of_local_suppression_says_where_it_gains_nothing() -> None:
    for method, count in (("local", 1), ("global", 0)):
        params = PARAMS.model_copy(update={"method": method})
        caveats = ALGORITHM.preview(params, "sound").caveats
        assert sum("both omit about as much" in caveat for caveat in caveats) == count


def test_the_report_of_a_table_that_breaks_the_model() -> None:
    data = read_ndjson(io.BytesIO(lines(B3)))
    params = Parameters(K=2, C=Fraction(1), sensitive_values=())
    outcome = ALGORITHM.run(data, params, "paper", SequentialContext())
    (line,) = outcome.report.verified
    assert (line.model, line.epsilon, line.delta) == ("none", "inf", "1")
    assert line.reason is not None
    assert "violated (2 sequences)" in line.reason
    assert {each["records"] for each in outcome.result["violations"]} == {1}
    sound = ALGORITHM.run(data, params, "sound", SequentialContext())
    assert sound.report.verified[0].model == "syntactic"
    assert sound.report.details["algorithm"]["corrections"] == ["B1", "B2", "B3", "B4"]


def test_all_records_are_shuffled_alike() -> None:
    """Where the first of 8 records lands: chi-squared with 7 degrees of freedom; 42.0 is passed by
    chance once in 2 * 10^6."""
    from algorithms.trajectory_kcl.algorithm import shuffled

    places = np.zeros(8)
    for seed in range(2000):
        order = shuffled(8, SequentialContext(test_seed=seed).noise("rows"))
        places[order.tolist().index(0)] += 1
    assert ((places - 250) ** 2 / 250).sum() < 42.0


KCL = catalogue.find("trajectory-kcl")


def same(records: int, pairs: int) -> Trajectories:
    """Records of one path of so many pairs."""
    path = [["p", step] for step in range(pairs)]
    return read((json.dumps({"path": path}, separators=(",", ":")) + "\n") * records)


def asked(**changes: Any) -> Parameters:
    return Parameters(**({"K": 2, "L": 3, "sensitive_values": ()} | changes))


@pytest.mark.parametrize(("pairs", "longest"), [(6, 3), (6, None), (40, 2), (1, None), (0, None)])
def test_how_many_sequences_a_path_has(pairs: int, longest: int | None) -> None:
    model = Model(2, asked().C, longest)
    most = pairs if longest is None else longest
    every = sum(1 for size in range(1, most + 1) for _ in combinations(range(pairs), size))
    assert model.sequences(pairs, 10**9) == every
    assert model.sequences(pairs, every) == every


def test_more_than_the_limit_is_not_counted_to_the_end() -> None:
    assert asked(L="all").model.sequences(10**9, 2 * 10**9) > 2 * 10**9


@pytest.mark.parametrize(
    ("pairs", "longest", "stance"),
    [(40, "all", "sound"), (4_000, 3, "paper"), (80_000, 1, "sound")],
)
def test_three_long_records_are_refused_before_they_are_queued(
    pairs: int, longest: int | str, stance: Stance
) -> None:
    data = same(3, pairs)
    with pytest.raises(TooManySequences) as refused:
        KCL.check(data, asked(L=longest), stance)
    assert refused.value.pointer == "/params/L"
    with pytest.raises(TooManySequences):
        KCL.run(data, asked(L=longest), stance, SequentialContext())


@pytest.mark.parametrize(("stance", "pairs", "longest"), [("sound", 600, 3), ("paper", 600, 3)])
@pytest.mark.slow
def test_what_memory_does_not_hold_is_refused_in_the_run(
    stance: Stance, pairs: int, longest: int | str
) -> None:
    """Few enough to be counted, too many to be kept; nothing violates, so none is pruned."""
    data = same(3, pairs)
    KCL.check(data, asked(L=longest), stance)
    with pytest.raises(TooManySequences):
        KCL.run(data, asked(L=longest), stance, SequentialContext())


def test_long_paths_with_few_sequences_are_published() -> None:
    """The control: the same length, within the limits."""
    found = KCL.run(same(3, 1_000), asked(L=1), "sound", SequentialContext())
    assert found.result["instances"] == 3_000


def table_of(paths: list[list[tuple[str, float]]]) -> PairTable:
    text = "".join(json.dumps({"path": path}) + "\n" for path in paths)
    return code(read_ndjson(io.BytesIO(text.encode())), ()).table


def test_the_picture_counts_what_the_file_publishes() -> None:
    params = Parameters(K=2, C=Fraction(1, 2), L=2, sensitive_values=SENSITIVE)
    outcome = ALGORITHM.run(dataset_51(), params, "sound", SequentialContext(test_seed=1))
    [file] = outcome.files
    records = [json.loads(line) for line in file.content.splitlines()]
    told = Counter((place, f"{time:g}") for record in records for place, time in record["path"])
    places, times, counts = pairs_by_place_and_time(
        code(read_ndjson(io.BytesIO(file.content)), SENSITIVE).table
    )
    drawn = {
        (place, time): int(counts[row, column])
        for row, place in enumerate(places)
        for column, time in enumerate(times)
    }
    assert +Counter(drawn) == told
    assert names_drawn("trajectory-kcl", outcome.plots) == ["pairs", "lengths"]


def test_the_fullest_places_are_drawn_and_times_put_together() -> None:
    paths = [[(f"p{place:02}", place + step / 64)] for place in range(40) for step in range(place)]
    places, times, counts = pairs_by_place_and_time(table_of(paths))
    assert places == [f"p{place:02}" for place in range(39, 39 - MOST_PLACES, -1)]
    assert len(times) == MOST_TIMES
    assert counts.shape == (MOST_PLACES, MOST_TIMES)
    assert counts.sum(axis=1).tolist() == list(range(39, 39 - MOST_PLACES, -1))


def test_a_place_is_drawn_as_it_is_called() -> None:
    table = table_of([[("$\\frac{1", 1.0)], [("<b>", 2.0)]])
    assert names_drawn("trajectory-kcl", plots_of(table, table.rows)) == ["pairs", "lengths"]


def test_a_table_without_pairs_has_lengths_alone() -> None:
    table = table_of([[], []])
    assert names_drawn("trajectory-kcl", plots_of(table, table.rows)) == ["lengths"]
