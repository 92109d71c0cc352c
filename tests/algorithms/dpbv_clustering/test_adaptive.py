"""`grid-core` by the plan of k-means, of stored rows and over curators.

Spec: dpbv-clustering, section 3.10.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import FederatedRounds, SequentialContext
from algorithms.datasets.tables import NumericTable
from algorithms.dpbv_clustering.algorithm import check, preview, run
from algorithms.dpbv_clustering.federated import ROUNDS, AdaptiveState
from algorithms.dpbv_clustering.grid import is_adaptive, plan_of
from algorithms.dpbv_clustering.parameters import BadParameter, Parameters
from algorithms.kmeans.sound_run import absorb, first, next_query, release
from tacit.encoders import sums
from tacit.encoders.kmeans import Grid, Zone
from tacit.encoders.kmeans_sums import KmeansSum


def asked(**changes: Any) -> Parameters:
    values = {"bounds": ((0.0, 1.0),) * 2, "k": 4, "method": "grid-core", "epsilon": Fraction(1)}
    return Parameters(**(values | changes))


def table(seed: int = 1) -> NumericTable:
    """Two dense clusters and two light ones."""
    generator = np.random.default_rng(seed)
    middles = np.array([[0.12, 0.2], [0.15, 0.8], [0.83, 0.77], [0.9, 0.31]])
    points = np.repeat(middles, (2_500, 2_500, 250, 250), axis=0)
    points = points + generator.normal(0, 0.02, points.shape)
    return NumericTable(("a", "b"), np.clip(points, 0, 1))


def test_what_is_spent_is_half_of_epsilon_for_a_record_that_joins() -> None:
    """Acceptance: all queries together cost epsilon / 2, so that a replacement costs epsilon."""
    for epsilon in ("1/2", "3", "7/3"):
        plan = plan_of(asked(epsilon=Fraction(epsilon)), 5_500)
        assert plan.epsilon == Fraction(epsilon) / 2
        half = Fraction(epsilon) / 2
        outcome = run(
            table(), asked(epsilon=Fraction(epsilon)), "sound", SequentialContext(bytes(32))
        )
        report = outcome.report
        (line,) = report.verified
        assert (line.model, line.neighbouring) == ("pure-dp", "replace")
        assert Fraction(line.epsilon or 0) >= Fraction(epsilon)
        split = outcome.result["plan"]["split"]
        assert sum(Fraction(each["epsilon"]) for each in split) == half


@pytest.mark.parametrize(
    ("changes", "adaptive"),
    [
        ({}, True),
        ({"grid": "fixed"}, False),
        ({"cells_per_axis": 8}, False),
        ({"rescale_global": True}, False),
        ({"clusterer": "dbscan", "k": None}, False),
    ],
)
def test_when_it_runs(changes: dict[str, Any], adaptive: bool) -> None:
    """From parameters alone; the preview says so."""
    assert is_adaptive(asked(**changes)) is adaptive
    if changes.get("clusterer") != "dbscan":
        chosen = preview(asked(**changes), "sound").details.get("method", {}).get("chosen")
        assert (chosen == "adaptive") is adaptive


def test_what_is_refused() -> None:
    with pytest.raises(BadParameter) as wrong:
        preview(asked(grid="adaptive", cells_per_axis=8), "sound")
    assert wrong.value.pointer == "/params/grid"
    with pytest.raises(BadParameter) as small:
        check(table(), asked(epsilon=Fraction(1, 10**9)), "sound")
    assert small.value.pointer == "/params/epsilon"


def test_an_evaluation_and_odd_tables() -> None:
    outcome = run(table(), asked(evaluate=True), "sound", SequentialContext(bytes(32)))
    assert outcome.evaluation is not None
    assert sum(outcome.evaluation["rows"].values()) == 5_500
    assert outcome.files[0].name == "centres.csv"
    for rows in (0, 1, 3):
        small = NumericTable(("a", "b"), np.full((rows, 2), 0.5))
        found = run(small, asked(), "sound", SequentialContext(bytes(32)))
        assert np.isfinite(found.result["centres"]).all()


def over_curators(rounds: FederatedRounds, params: Parameters, tables: list[np.ndarray]) -> Any:
    """The state after all sums, without noise, and the sums, each from its own document."""
    state, asked_sums = rounds.first(params, ("a", "b"), Fraction(1)), []
    while (asked := rounds.next_sum(state)) is not None:
        read = sums.read("dpbv-clustering", asked.document())
        assert isinstance(read, KmeansSum)
        opened = np.sum([read.vectors(rows).sum(axis=0) for rows in tables], axis=0)
        state = rounds.absorb(state, asked, asked.restored(opened))
        asked_sums.append(read)
    return state, asked_sums


def test_over_curators_the_centres_are_those_of_stored_rows() -> None:
    """Without noise, for 40 curators: noise that hides two records at epsilon is that of one at
    half of it, so that both follow the same plan."""
    rows = table().values[::10]
    params = asked(n_hint=len(rows), epsilon=Fraction(8))
    state, asked_sums = over_curators(ROUNDS, params, np.array_split(rows, 40))
    assert sum(each.epsilon for each in asked_sums) == params.epsilon
    plan = plan_of(params, len(rows), max_cells=4_096)
    assert (plan.per_side, plan.mode) == (state.steps.plan.per_side, state.steps.plan.mode)
    own, grid = first(plan, params.public_seed), Grid((0.0, 0.0), (1.0, 1.0), plan.steps)
    while (query := next_query(own)) is not None:
        own = absorb(own, query, query.sums(grid.quantise(rows)))
    found = ROUNDS.release(state)
    assert found.result["centres"] == grid.raw(release(own).centres).tolist()
    assert found.result["truncated"] is False
    assert len(asked_sums) == ROUNDS.planned(state) > 1
    replaced, joined = found.report.verified
    assert (replaced.neighbouring, replaced.epsilon) == ("replace", "8")
    assert (joined.neighbouring, joined.epsilon) == ("add-remove", "4")


def test_a_replaced_record_costs_epsilon_over_curators() -> None:
    """Two vectors, as far apart as blocks allow, against noise that hides two: all of epsilon."""
    generator = np.random.default_rng(2)
    rows = table().values[::25]
    params = asked(n_hint=len(rows), epsilon=Fraction(5))
    _, asked_sums = over_curators(ROUNDS, params, [rows])
    worst = Fraction(0)
    for _ in range(60):
        one, other = generator.random((2, 1, 2))
        loss = Fraction(0)
        for each in asked_sums:
            moved = np.abs(each.vectors(one) - each.vectors(other)).ravel()
            ends = np.cumsum([block.dimension for block in each.blocks])
            for block, end in zip(each.blocks, ends.tolist(), strict=True):
                part = int(moved[end - block.dimension : end].sum())
                loss += part * block.share * each.epsilon / (2 * block.bound)
        worst = max(worst, loss)
    assert params.epsilon / 2 < worst <= params.epsilon


def test_a_hint_decides_and_a_failed_zone_round_ends_early() -> None:
    fixed = ROUNDS.first(asked(), ("a", "b"), Fraction(1))
    assert not isinstance(fixed, AdaptiveState)
    assert not isinstance(
        ROUNDS.first(asked(n_hint=9, grid="fixed"), ("a", "b"), Fraction(1)), AdaptiveState
    )
    with pytest.raises(BadParameter) as refused:
        ROUNDS.first(asked(grid="adaptive"), ("a", "b"), Fraction(1))
    assert refused.value.pointer == "/params/n_hint"
    rows = table().values[::10]
    state = ROUNDS.first(asked(n_hint=550, epsilon=Fraction(8)), ("a", "b"), Fraction(1))
    while True:
        wanted = ROUNDS.next_sum(state)
        assert isinstance(wanted, KmeansSum)
        if isinstance(wanted.query, Zone):
            break
        assert ROUNDS.aborted(state, wanted) is None
        opened = wanted.vectors(rows).sum(axis=0)
        state = ROUNDS.absorb(state, wanted, wanted.restored(opened))
    ended = ROUNDS.aborted(state, wanted)
    assert ROUNDS.next_sum(ended) is None
    found = ROUNDS.release(ended)
    assert found.result["truncated"] is True
    assert len(found.result["centres"]) == 4
    assert any("aborted" in caveat for caveat in found.report.caveats)
