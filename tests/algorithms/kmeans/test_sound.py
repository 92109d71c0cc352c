"""The sound form of k-means: what it computes, how far it is off, and what it may not tell."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import Cancelled, SequentialContext
from algorithms.datasets.tables import NumericTable, Texts
from algorithms.kmeans import Parameters, preview, publish, run, sound_run
from algorithms.kmeans.parameters import DataShape, UnitMismatch, grid_and_plan
from algorithms.kmeans.plan import Plan, make_plan
from algorithms.kmeans.report import sound_report
from algorithms.kmeans.sound_run import (
    BLOCK_ROWS,
    Rows,
    State,
    absorb,
    chosen_records,
    combined,
    estimate,
    exact_sums,
    first,
    next_query,
    noise,
    release,
    run_central,
)
from algorithms.kmeans.starts import LEAST_RADIUS, packing
from bench.audit import proven
from reproduction.kmeans_data import s1_like
from tacit.crypto.sharing import Additive
from tacit.encoders.kmeans import GRID, Floats, Grid, Ints, Zone, nearest
from tacit.encoders.kmeans_sums import Query
from tacit.noise import DiscreteLaplace
from tacit.randomness import SeededRandom
from tacit.report.model import PrivacyReport
from tacit.report.text import plain_words
from tests.algorithms.outcomes import names_drawn, names_in

SHARES = (Fraction(3, 4), Fraction(3, 20), Fraction(1, 10))
UNIT = Grid((0.0, 0.0), (1.0, 1.0))
S1 = s1_like() / 1e6


def sound(points: Floats, plan: Plan, seed: int) -> Floats:
    """Centres of a run on points of the unit box."""
    grid = Grid((0.0,) * plan.dimension, (1.0,) * plan.dimension, plan.steps)
    state = run_central(Rows(points), grid, plan, seed, SequentialContext(test_seed=seed))
    return grid.raw(release(state).centres)


def test_a_round_without_noise() -> None:
    box = Grid((0.0, 0.0), (10.0, 10.0))
    records = box.quantise(np.array([(1, 1), (2, 1), (1, 3), (8, 9), (9, 7), (10, 12)], float))
    centres = np.array([(-52429, -52429), (52429, 52429)])
    # A budget that leaves no noise to speak of: no threshold bites and every step is trusted.
    query = Zone(centres, np.array([26214, 26214]), GRID, *(10**9 * share for share in SHARES))
    found = estimate(query, query.sums(records), 1.0)
    steps = [[-52429 + 4369, -52429 + 8738], [52429, 52429 - 4369]]
    assert np.abs(found.centres * GRID - steps).max() < 1e-6
    # The specification's figures start from centres off the grid, a fifth of a step away.
    expected = np.array([(1.333328, 1.666656), (9.0, 8.666672)])
    assert np.abs(box.raw(found.centres) - expected).max() < 5 / GRID / 4
    assert found.counts.tolist() == [3, 3]
    assert (found.gains > 1 - 1e-12).all()
    assert not found.starved.any()


def test_without_noise_a_step_ends_nearer_to_the_mean_and_costs_less() -> None:
    generator = np.random.default_rng(3)
    for _ in range(20):
        records = generator.integers(-GRID, GRID + 1, (200, 3))
        centres = generator.integers(-GRID // 2, GRID // 2, (4, 3))
        query = Zone(centres, np.full(4, 6 * GRID), GRID, *(10**9 * share for share in SHARES))
        found = estimate(query, query.sums(records), 1.0)
        labels = nearest(records, centres)
        for cluster in range(4):
            own = records[labels == cluster] / GRID
            mean, old, new = own.mean(0), centres[cluster] / GRID, found.centres[cluster]
            assert np.linalg.norm(new - mean) <= np.linalg.norm(old - mean) * 1e-6
            assert np.square(own - new).sum() <= np.square(own - old).sum()


def test_zones_only_shrink_and_steps_stay_inside() -> None:
    plan = make_plan(
        size=5000, dimension=2, clusters=15, epsilon=Fraction(1), mode="packing+zone", rounds=6
    )
    for seed in range(5):
        state = run_central(Rows(S1), UNIT, plan, seed, SequentialContext(test_seed=seed))
        before: Ints | None = None
        for each in state.rounds:
            radii = each.zone.radii / GRID
            steps = each.centres - each.zone.centres / GRID
            assert (np.abs(steps).sum(axis=1) <= radii * (1 + 1e-12)).all()
            assert (each.radii <= radii).all()
            assert (each.radii >= np.minimum(LEAST_RADIUS * 2, radii)).all()
            assert before is None or (each.zone.radii <= before).all()
            assert np.abs(each.centres).max() <= 1
            before = each.zone.radii


def test_starved_clusters_stay_where_they_are() -> None:
    query = Zone(np.array([[0, 0], [100, 100]]), np.array([500, 500]), GRID, *SHARES)
    opened = np.array([100, 100, 2, 3, -500_000, 0, 4000, 256_000])
    found = estimate(query, opened, 1.0)
    assert found.starved.tolist() == [True, False]
    assert found.centres[0].tolist() == [0, 0]
    assert found.radii[0] == 500 / GRID
    assert found.gains[0] == 0
    assert found.centres[1][0] < 100 / GRID


def test_several_rounds_are_weighed_by_their_noise() -> None:
    def round_of(offset: int, epsilon: int) -> Any:
        query = Zone(np.array([[0]]), np.array([GRID]), GRID, *(epsilon * s for s in SHARES))
        return estimate(query, np.array([offset * 1000, 1000, 0]), 1.0)

    first_round, last = round_of(1000, 1), round_of(2000, 2)
    both = combined([first_round, last])[0, 0] * GRID
    weights = np.array([1 / first_round.variances[0], 1 / last.variances[0]])
    gap = (first_round.estimates - last.centres)[0, 0] ** 2
    assert gap > 16 * first_round.variances[0]  # too far from the last: it does not count
    assert both == pytest.approx(2000, rel=1e-9)
    near = round_of(1990, 1)
    assert (near.estimates - last.centres)[0, 0] ** 2 <= 16 * near.variances[0]
    expected = (1990 * weights[0] + 2000 * weights[1]) / weights.sum()
    assert combined([near, last])[0, 0] * GRID == pytest.approx(expected, rel=1e-9)
    assert combined([last])[0, 0] == last.centres[0, 0]


def test_a_packing_keeps_its_distances() -> None:
    for clusters, dimension in ((1, 1), (5, 2), (15, 2), (6, 10)):
        plan = make_plan(
            size=100,
            dimension=dimension,
            clusters=clusters,
            epsilon=Fraction(1),
            mode="packing+zone",
        )
        start = packing(plan, 4)
        gaps = np.linalg.norm(start.centres[:, None] - start.centres, axis=2)
        np.fill_diagonal(gaps, np.inf)
        apart = gaps.min() / 2
        inside = 1 - np.abs(start.centres).max()
        assert clusters == 1 or inside >= 0.9**200
        assert clusters > 1 or start.centres.tolist() == [[0.0] * dimension]
        assert clusters == 1 or apart > 0.1
        assert (start.radii == 0.4 * dimension).all()


def federated(
    points: Floats, plan: Plan, seed: int, curators: int, parties: int, noisy: bool
) -> Floats:
    """Every query by shares of many curators at `parties` aggregators, each with full noise."""
    grid = Grid((0.0,) * plan.dimension, (1.0,) * plan.dimension, plan.steps)
    source, scheme = SeededRandom(seed), Additive(parties)
    groups = np.array_split(np.random.default_rng(seed).permutation(len(points)), curators)
    state = first(plan, seed)
    while (query := next_query(state)) is not None:
        partial = {each: np.zeros(query.length, np.uint64) for each in range(parties)}
        for group in groups:
            own = query.sums(grid.quantise(points[group]))
            for each, piece in enumerate(scheme.split(own, source)):
                partial[each] = scheme.add(partial[each], piece[None, :])
        if noisy:
            for each in partial:
                partial[each] += noise(query, plan.records, source).view(np.uint64)
        state = absorb(state, query, scheme.combine(partial))
    return release(state).centres


@pytest.mark.parametrize(
    ("size", "dimension", "clusters", "mode"),
    [
        (5000, 2, 4, "packing+zone"),
        (3000, 9, 3, "auto"),
    ],
)
def test_federated_and_central_are_equal_bit_by_bit_without_noise(
    monkeypatch: pytest.MonkeyPatch, size: int, dimension: int, clusters: int, mode: Any
) -> None:
    points = S1 if dimension == 2 else np.random.default_rng(1).beta(2, 5, (size, dimension))
    plan = make_plan(
        size=size, dimension=dimension, clusters=clusters, epsilon=Fraction(1), mode=mode
    )

    def silence(query: Query, *_rest: object) -> Ints:
        return np.zeros(query.length, np.int64)

    monkeypatch.setattr(sound_run, "noise", silence)
    grid = Grid((0.0,) * dimension, (1.0,) * dimension, plan.steps)
    state = run_central(Rows(points), grid, plan, 7, SequentialContext())
    there = federated(points, plan, 7, 500, 3, noisy=False)
    assert np.array_equal(release(state).centres, there)


@dataclass(frozen=True)
class Asked(SequentialContext):
    """A context that writes down which streams were drawn from."""

    streams: list[str] = field(default_factory=list)

    def noise(self, stage: str, block: int = 0) -> Any:
        self.streams.append(f"{stage}/{block}")
        return super().noise(stage, block)


def test_noise_has_the_scale_that_hides_a_curator_with_several_records() -> None:
    query = Zone(np.array([[0, 0]]), np.array([3000]), GRID, *SHARES)
    for records in (1, 4):
        drawn = np.stack([noise(query, records, SeededRandom(seed)) for seed in range(2000)])
        scales = np.array([3000 / 0.75, 3000 / 0.75, 1 / 0.15, 256 / 0.1]) * records
        # Mean |Z| of 2000 draws: five standard errors are 11.2 %.
        assert np.abs(drawn).mean(axis=0) == pytest.approx(scales, rel=0.112)


@pytest.mark.slow
def test_an_audit_proves_no_more_than_the_budget() -> None:
    """Two data sets that differ in one record; a false alarm has probability below 1e-6."""
    grid, runs = Grid((-1.0, -1.0), (1.0, 1.0)), 200_000
    records = grid.quantise(np.array([(-0.6, 0.1), (-0.4, -0.1), (0.4, 0.2)]))
    added = np.concatenate([records, grid.quantise(np.array([(0.9, 0.4)]))])
    centres = grid.quantise(np.array([(-0.5, 0.0), (0.3, 0.1)]))
    query = Zone(centres, np.full(2, int(0.8 * GRID)), GRID, *SHARES)
    one, other = query.sums(records), query.sums(added)
    scales = np.repeat(
        [float(block.scale()) for block in query.blocks],
        [block.dimension for block in query.blocks],
    )
    assert (np.abs(one - other) / scales).sum() == pytest.approx(1.0, abs=1e-4)

    def ratio(centre: Ints, seed: int) -> Floats:
        source = SeededRandom(seed)
        columns = [
            DiscreteLaplace(block.scale()).draw(source, runs * block.dimension).reshape(runs, -1)
            for block in query.blocks
        ]
        seen = np.concatenate(columns, axis=1) + centre
        return ((np.abs(seen - one) - np.abs(seen - other)) / scales).sum(axis=1)

    levels = np.array([0.0, 0.2, 0.4, 0.55])
    hits, other_hits = (
        np.array([(values >= level).sum() for level in levels])
        for values in (ratio(other, 1), ratio(one, 2))
    )
    logs = np.log(hits / other_hits)
    # The specification's figures for these events, within five standard errors and its rounding.
    spread = 5 * np.sqrt(1 / hits + 1 / other_hits) + 0.005
    assert (np.abs(logs - np.array([0.43, 0.55, 0.70, 0.79])) <= spread + 0.03).all(), logs
    found = proven([str(level) for level in levels], hits, other_hits, runs, 0.0)
    assert 0.5 < found.epsilon <= 1.0


def test_a_result_is_a_function_of_the_opened_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    params = Parameters(
        k=15, epsilon=Fraction(1), bounds=((0.0, 1.0), (0.0, 1.0)), n_hint=5000, public_seed=3
    )
    opened: list[Ints] = []

    def listening(state: State, query: Query, sums: Ints, *rest: Any) -> State:
        opened.append(sums.copy())
        return absorb(state, query, sums, *rest)

    monkeypatch.setattr(sound_run, "absorb", listening)
    table = NumericTable(("x", "y"), S1)
    whole = run(table, params, "sound", SequentialContext())
    grid, plan = grid_and_plan(params)
    state = first(plan, 3)
    for sums in opened:
        query = next_query(state)
        assert query is not None
        state = absorb(state, query, sums)
    again = publish(state, params, grid, table.columns)
    assert again == whole
    assert len(opened) == plan.queries == 3


def test_published_parts_hold_nothing_forbidden() -> None:
    # 4,987 rows of which 11 lie outside the box: neither number may appear anywhere.
    points = np.concatenate([S1[:4976], np.full((11, 2), 7.25)])
    params = Parameters(
        k=15,
        epsilon=Fraction(1),
        bounds=((0.0, 1.0), (0.0, 1.0)),
        n_hint=5000,
        evaluate=True,
    )
    table = NumericTable(("x", "y"), points, labels=Texts.of(range(4987)))
    outcome = run(table, params, "sound", SequentialContext(test_seed=5))
    forbidden = {"labels", "inertia", "inertia_ratio", "clipped", "rows", "n", "size", "sha256"}
    report = outcome.report.model_dump_json()
    assert not forbidden & (names_in(outcome.result) | names_in(json.loads(report)))
    published = json.dumps(dict(outcome.result)) + report + plain_words(outcome.report)
    published += json.dumps([dict(plot.values) for plot in outcome.plots])
    for secret in ("4987", "4976", "7.25"):
        assert secret not in published
    assert outcome.evaluation is not None
    assert set(outcome.evaluation) == {"inertia", "inertia_ratio", "clusters", "labels"}
    assert len(outcome.evaluation["labels"]) == 4987


def test_the_report_says_what_is_verified() -> None:
    params = Parameters(
        k=3,
        epsilon=Fraction(1, 3),
        bounds=((0.0, 1.0), (0.0, 1.0)),
        n_hint=5000,
        privacy_unit="curator",
        contribution_bound=4,
    )
    table = NumericTable(("x", "y"), S1, curators=Texts.of(range(1000)).repeated(5))
    report = run(table, params, "sound", SequentialContext()).report
    PrivacyReport.model_validate_json(report.model_dump_json())
    add, swap = report.verified
    assert (add.neighbouring, add.privacy_unit, add.delta) == ("add-remove", "curator", "0")
    assert Fraction(add.epsilon or "0") >= Fraction(1, 3)  # rounded against us
    assert Fraction(add.epsilon or "0") < Fraction(1, 3) + Fraction(1, 10**11)
    assert (swap.neighbouring, swap.epsilon) == ("replace", "0.666666666667")
    assert report.charged is not None
    assert report.charged.epsilon == add.epsilon == report.charged.reserved
    assert report.details["contribution_bound"] == 4
    assert {each.sampler for each in report.noise} == {"exact-integer"}
    assert report.sampler_delta is not None
    assert 0 < float(report.sampler_delta) < 1e-28
    planned = preview(params, "sound")
    assert planned.verified == report.verified
    assert planned.details["split"] == report.details["split"]
    assert "epsilon 0.334" in plain_words(report)  # three digits, rounded up


def test_an_early_end_gives_the_rest_back() -> None:
    params = Parameters(
        k=4,
        epsilon=Fraction(1),
        bounds=((0.0, 1.0), (0.0, 1.0)),
        n_hint=10,
        mode="packing+zone",
        rounds=5,
    )
    grid, plan = grid_and_plan(params)
    whole = 0
    for seed in range(20):
        rows = Rows(S1 if seed % 2 else S1[:0])
        state = run_central(rows, grid, plan, seed, SequentialContext(test_seed=seed))
        report = sound_report(params, grid, plan, state, release(state))
        assert state.spent == Fraction(len(state.rounds), 5)
        assert report.charged is not None
        assert Fraction(report.charged.epsilon or "0") == state.spent
        assert report.charged.reserved == "1"
        assert Fraction(report.details["refund"]) == 1 - state.spent
        assert bool(report.verified[0].conditions) == (state.spent < 1)
        assert state.stopped == state.rounds[-1].no_signal
        whole += state.spent == 1
    assert 0 < whole < 20


def test_at_most_so_many_records_of_a_curator_count() -> None:
    curators = np.random.default_rng(1).integers(0, 200, 3000)
    kept = chosen_records(curators, 6, SeededRandom(2))
    assert (np.bincount(curators[kept]) == np.minimum(np.bincount(curators), 6)).all()
    assert (np.diff(kept) > 0).all()
    assert chosen_records(np.empty(0, np.int64), 3, SeededRandom(1)).size == 0
    # Each of a curator's 30 records is kept alike: chi-square, 29 degrees; false alarm 1e-6.
    same = np.zeros(30, np.int64)
    times = [chosen_records(same, 6, SeededRandom(seed)) for seed in range(2000)]
    counts = np.bincount(np.concatenate(times), minlength=30)
    assert np.square(counts - 400).sum() / 400 < 86


def test_a_unit_without_owners_is_refused() -> None:
    params = Parameters(k=2, bounds=((0.0, 1.0), (0.0, 1.0)), n_hint=100, privacy_unit="curator")
    with pytest.raises(UnitMismatch) as caught:
        run(NumericTable(("x", "y"), S1), params, "sound", SequentialContext())
    assert caught.value.pointer == "/params/privacy_unit"
    narrow = NumericTable(("x",), S1[:, :1])
    with pytest.raises(DataShape):
        run(narrow, params, "sound", SequentialContext())


TWO = ((0.0, 1.0), (0.0, 1.0))


@pytest.mark.parametrize(
    ("values", "changes"),
    [
        (np.empty((0, 2)), {}),
        (np.empty((0, 2)), {"mode": "packing+zone"}),
        (np.empty((0, 9)), {"bounds": ((0.0, 1.0),) * 9}),
        (np.full((500, 2), 0.3), {}),
        (np.full((500, 2), 0.3), {"mode": "projection+zone"}),
        (np.full((3, 2), 0.3), {"k": 40, "max_cells": 16}),
        (np.array([[0.5, 0.5], [1e300, -1e300]]), {}),
        (np.linspace(0, 1, 900)[:, None], {"bounds": ((0.0, 1.0),)}),
        (np.random.default_rng(1).random((300, 12)), {"bounds": ((0.0, 1.0),) * 12, "rounds": 0}),
        (np.full((50, 2), 0.3), {"epsilon": Fraction(1, 1000), "k": 1}),
        (np.full((50, 2), 0.3), {"epsilon": Fraction(50), "rounds": 20}),
    ],
)
def test_odd_data_give_an_answer_inside_the_box(values: Floats, changes: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"k": 3, "epsilon": Fraction(1), "bounds": TWO, "n_hint": 500} | changes
    params = Parameters(**asked, evaluate=True)
    columns = tuple(f"c{place}" for place in range(values.shape[1]))
    outcome = run(NumericTable(columns, values), params, "sound", SequentialContext())
    centres = np.array(outcome.result["centres"])
    assert centres.shape == (params.k, values.shape[1])
    assert ((centres >= 0) & (centres <= 1)).all()
    assert np.isfinite(outcome.result["noisy_counts"]).all()
    assert Fraction(outcome.result["spent"]) <= params.epsilon
    assert outcome.files[0].content.count(b"\n") == params.k + 1
    json.dumps(dict(outcome.result), allow_nan=False)
    PrivacyReport.model_validate_json(outcome.report.model_dump_json())


def test_blocks_do_not_change_a_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(size=5000, dimension=2, clusters=15, epsilon=Fraction(1))
    query = next_query(first(plan, 0))
    assert query is not None
    whole = exact_sums(Rows(S1), UNIT, query, plan, 0, SequentialContext())
    assert whole.sum() == len(S1) < BLOCK_ROWS
    monkeypatch.setattr(sound_run, "BLOCK_ROWS", 333)
    assert np.array_equal(exact_sums(Rows(S1), UNIT, query, plan, 0, SequentialContext()), whole)
    kept = np.arange(0, 5000, 7)
    some = exact_sums(Rows(S1, kept), UNIT, query, plan, 0, SequentialContext())
    assert some.sum() == len(kept)


def test_every_query_has_a_stream_of_its_own_and_a_seed_repeats_it() -> None:
    params = Parameters(k=15, bounds=TWO, n_hint=5000)
    table = NumericTable(("x", "y"), S1)
    context = Asked(seed=bytes(32))
    one = run(table, params, "sound", context)
    assert context.streams == ["hist 0/0", "fine 1/0", "zone 2/0"]
    assert run(table, params, "sound", SequentialContext(seed=bytes(32))).result == one.result
    other = run(table, params, "sound", SequentialContext(seed=bytes(31) + b"1"))
    assert other.result != one.result


def test_a_cancelled_job_ends() -> None:
    def cancel(share: float, _stage: str) -> None:
        assert 0 <= share <= 1
        if share > 0.5:
            raise Cancelled

    params = Parameters(k=15, bounds=TWO, n_hint=5000)
    with pytest.raises(Cancelled):
        run(NumericTable(("x", "y"), S1), params, "sound", SequentialContext(on_progress=cancel))


@pytest.mark.parametrize(("columns", "start"), [(3, "two-level"), (8, "grid")])
def test_centres_are_drawn_whatever_the_columns(columns: int, start: str) -> None:
    """By the first two of them: over cells of three columns, without cells of a projection."""
    points = np.random.default_rng(1).uniform(0.2, 0.8, (2_000, columns))
    table = NumericTable(tuple(f"c{place}" for place in range(columns)), points)
    asked = Parameters(k=3, bounds=((0.0, 1.0),) * columns, n_hint=2_000, epsilon="8", start=start)
    plots = run(table, asked, "sound", SequentialContext()).plots
    assert names_drawn("kmeans", plots) == ["centres", "budget", "steps"]


def test_a_truncated_run_releases_its_last_centres() -> None:
    plan = make_plan(
        size=5000, dimension=2, clusters=5, epsilon=Fraction(1), mode="packing+zone", rounds=3
    )
    state = run_central(Rows(S1), UNIT, plan, 1, SequentialContext())
    cut = replace(state, rounds=state.rounds[:1], asked=state.asked[:1])
    assert np.abs(release(cut).centres - state.rounds[0].centres).max() <= 0.5 / GRID
    assert cut.spent == Fraction(1, 3)
    unstarted = first(make_plan(size=9, dimension=2, clusters=2, epsilon=Fraction(1)), 0)
    with pytest.raises(ValueError, match="before there are centres"):
        release(unstarted)
