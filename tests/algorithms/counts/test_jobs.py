"""What the three counting algorithms have in common as jobs: universes, reports, few rows."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from algorithms import catalogue
from algorithms.contract import BadUniverse, SequentialContext, Stance
from simulation.stand_in_data import metro, msnbc_like
from tacit.records.items import Sequences, Transactions
from tacit.report.model import PrivacyReport
from tests.algorithms.outcomes import published

NGRAMS, TREES, SETS = "sequential-ngram", "sequential-prefix-tree", "set-valued"
LINES = dict(zip(metro(3_000).dataset.universe, metro(3_000).taxonomy, strict=True))
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    NGRAMS: ("sequence", {"l_max": 10, "n_max": 4}),
    TREES: ("sequence", {"taxonomy": LINES}),
    SETS: ("record", {"method": "diffpart"}),
}
IN_PAPER: dict[str, dict[str, Any]] = {NGRAMS: {}, TREES: {}, SETS: {"C1": 3.0, "C2": 5.0}}


@cache
def sample(name: str) -> Sequences | Transactions:
    return msnbc_like(10_000, 17, 1).dataset if name == SETS else metro(3_000).dataset


def universe(data: Sequences | Transactions) -> tuple[str, ...]:
    return data.universe if isinstance(data, Sequences) else data.items


def params(name: str, **changes: Any) -> Any:
    given = {"epsilon": "1", "universe": universe(sample(name)), **JOBS[name][1]}
    return catalogue.find(name).params(**(given | changes))


def run(name: str, data: Any, asked: Any, stance: Stance = "sound") -> Any:
    context = SequentialContext(bytes(32) if stance == "sound" else None)
    return catalogue.find(name).run(data, asked, stance, context)


@pytest.mark.parametrize("name", JOBS)
def test_the_order_of_the_universe_is_the_parameters(name: str) -> None:
    """A dataset may know its items in another order."""
    data, last = sample(name), len(universe(sample(name))) - 1
    names = universe(data)[::-1]
    if isinstance(data, Sequences):
        turned: Any = Sequences(names, (last - data.items).astype(np.int32), data.starts)
    else:
        turned = Transactions(names, (last - data.values).astype(np.int32), data.offsets)
    one, two = (run(name, each, params(name)) for each in (data, turned))
    assert published(one) == published(two)


@pytest.mark.parametrize("name", JOBS)
def test_a_reference_has_to_be_replaced_by_its_list(name: str) -> None:
    referring = params(name, universe={"dataset": "01890a5d-ac96-774b-bcce-b302099a8057"})
    unknown = {"verdict": "unknown: needs the list that is named by reference"}
    assert catalogue.find(name).preview(referring, "sound").error == unknown
    with pytest.raises(BadUniverse, match="missing"):
        run(name, sample(name), referring)


@pytest.mark.parametrize("name", JOBS)
def test_the_sound_report(name: str) -> None:
    planned = catalogue.find(name).preview(params(name), "sound")
    made = run(name, sample(name), params(name)).report
    one, two = planned.verified
    assert (one.model, one.epsilon, one.delta) == ("pure-dp", "1", "0")
    assert (one.neighbouring, one.privacy_unit) == ("add-remove", JOBS[name][0])
    assert (two.epsilon, two.neighbouring) == ("2", "replace")
    assert planned.charged is not None
    assert (planned.charged.epsilon, planned.charged.outside_budget) == ("1", False)
    assert {each.sampler for each in planned.noise} == {"exact-integer"}
    assert 0 < float(planned.sampler_delta or 0) < 1e-20
    for report in (planned, made):
        assert PrivacyReport.model_validate_json(report.model_dump_json()) == report
    # only a run knows what it published, and the errors of its file
    same = {"details": {}, "error": None}
    assert planned.model_copy(update=same) == made.model_copy(update=same)


@pytest.mark.parametrize(("name", "defects"), [(NGRAMS, 6), (TREES, 4), (SETS, 6)])
def test_the_paper_report_verifies_nothing(name: str, defects: int) -> None:
    report = run(name, sample(name), params(name, **IN_PAPER[name]), "paper").report
    assert {(line.model, line.epsilon) for line in report.verified} == {("none", None)}
    assert all("floating-point Laplace" in (line.reason or "") for line in report.verified)
    assert report.charged is not None
    assert report.charged.outside_budget
    assert report.charged.epsilon is None
    assert report.sampler_delta is None
    assert {each.sampler for each in report.noise} == {"float"}
    assert len(report.source_defects) == defects


@pytest.mark.parametrize("rows", [[], [[], []], [["a"]]], ids=["none", "empty", "one"])
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (NGRAMS, {"epsilon": "20", "n_max": 1, "l_max": 1}),
        (NGRAMS, {"epsilon": "20", "l_max": "auto"}),
        (NGRAMS, {"epsilon": "20", "budget": "uniform", "fill": "none", "generation": "cap"}),
        (TREES, {"taxonomy": None}),
        (TREES, {"taxonomy": None, "fan_out": 3}),
        (SETS, {}),
        (SETS, {"method": "basic"}),
    ],
)
def test_few_rows_are_legal_in_paper(
    name: str, changes: dict[str, Any], rows: list[list[str]]
) -> None:
    """Those of `sound`: `test_small_datasets`."""
    items = tuple("abcdef")
    data = Transactions.of(rows, items) if name == SETS else Sequences.of(items, rows)
    asked = params(name, universe=items, evaluate=True, **(IN_PAPER[name] | changes))
    outcome = run(name, data, asked, "paper")
    assert outcome.evaluation is not None
    json.dumps(outcome.evaluation, allow_nan=False)
