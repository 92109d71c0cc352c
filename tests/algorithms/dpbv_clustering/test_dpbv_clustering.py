"""dpbv-clustering from a table to a result, and refusals.

Spec: dpbv-clustering, section 8, checks 6 and 8 to 12.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from algorithms.contract import Outcome, SequentialContext
from algorithms.datasets.tables import NumericTable, Texts
from algorithms.dpbv_clustering.algorithm import preview, run
from algorithms.dpbv_clustering.clustering_methods import (
    BitDistances,
    MatrixDistances,
    dbscan,
    dbscan_blocks,
    from_records,
    kcluster,
)
from algorithms.dpbv_clustering.distances import (
    Combination,
    decoded,
    distance_blocks,
    distances,
    point_distances,
)
from algorithms.dpbv_clustering.grid import absorb, first, next_query, release_grid, unary_counts
from algorithms.dpbv_clustering.paper import encode_blocks
from algorithms.dpbv_clustering.parameters import BadParameter, Parameters
from bench.audit import proven
from tacit.encoders.dpbv_clustering import Flip, Ints, encode, make_codes, unary_reports
from tacit.noise import DiscreteLaplace
from tacit.randomness import SeededRandom
from tacit.report.model import PrivacyReport
from tests.algorithms.outcomes import leaves, names_drawn
from tests.property_examples import examples

SECRET = SequentialContext(seed=bytes(range(32)))
BOUNDS = ((0.0, 50.0), (0.0, 50.0))
PLANE = ("kwh", "evening")


def blobs(rows: int = 3000, seed: int = 1) -> NumericTable:
    """Three groups of deviation 2.5 in [0, 50]^2."""
    generator = SeededRandom(seed).generator
    labels = np.arange(rows) % 3
    centres = np.array([[10.0, 10.0], [40.0, 15.0], [25.0, 40.0]])
    values = np.clip(generator.normal(centres[labels], 2.5), 0, 50)
    return NumericTable(PLANE, values, Texts.of(labels))


def asked(**given: Any) -> Parameters:
    return Parameters(**{"bounds": BOUNDS, "k": 3, **given})


def seeded(seed: int) -> SequentialContext:
    return SequentialContext(test_seed=seed)


@given(st.integers(1, 60), st.integers(8, 130), st.integers(1, 4), st.integers(0, 10**6))
@examples(30)
def test_sums_without_a_matrix_equal_those_with_one(
    rows: int, bits: int, clusters: int, seed: int
) -> None:
    codes = make_codes(((0, 10), (0, 20)), (3.0, 10.0), bits, "uniform", seed)
    flip = Flip.of_epsilon(Fraction(3, 2))
    source = SeededRandom(seed)
    values = source.generator.uniform(0, 10, (rows, 2))
    words = encode(values, codes, flip, source)
    held = distances(words, codes, flip, Combination("manhattan"))
    labels = source.generator.integers(0, clusters, rows)
    bitwise = BitDistances(words, codes, flip)
    exact = held.astype(np.float64) @ np.eye(clusters)[labels]
    assert np.abs(bitwise.to_clusters(labels, clusters) - exact).max() < 1e-3
    chosen = np.arange(min(rows, clusters))
    assert bitwise.to_records(chosen) == pytest.approx(held[:, chosen], abs=1e-4)


def test_blocks_make_the_matrix_and_dbscan_agrees() -> None:
    table = blobs(1100)
    codes = make_codes(BOUNDS, (25.0, 25.0), 64, "uniform", 1)
    flip = Flip.of_epsilon(Fraction(4))
    words = encode(table.values, codes, flip, SeededRandom(1))
    combination = Combination.of(codes, flip, "euclidean", correct=True)
    held = distances(words, codes, flip, combination)
    assert (held == held.T).all()
    assert (np.diag(held) == 0).all()
    parts = [decoded(words[:, j], codes[j], flip).astype(np.float64) ** 2 for j in range(2)]
    by_hand = np.sqrt(np.maximum(sum(parts) - combination.excess, 0))
    np.fill_diagonal(by_hand, 0)
    assert np.abs(held - by_hand).max() < 2e-2
    blocks = distance_blocks(words, codes, flip, combination)
    assert (dbscan_blocks(blocks, 1100, 4.0, 8) == dbscan(held, 4.0, 8)).all()


def test_too_much_noise_leaves_nothing_local() -> None:
    table = NumericTable(("x",), SeededRandom(1).generator.uniform(0, 25, (100, 1)))
    params = asked(
        bounds=((0.0, 25.0),), rescale_to=None, t=3.0, s=250, epsilon_bit=Fraction(1), k=2
    )
    with pytest.raises(BadParameter, match="three standard deviations") as refused:
        run(table, params, "paper", seeded(1))
    assert refused.value.name == "noise_too_large_for_local_view"


def held(values: Any) -> MatrixDistances:
    points = np.asarray(values, np.float64).reshape(len(values), -1)
    return MatrixDistances(point_distances(points, Combination("euclidean")))


def drawn(rows: int, seed: int = 1) -> Any:
    return SeededRandom(seed).generator.uniform(0, 50, (rows, 2))


def test_kcluster_ends_on_equal_points_duplicates_and_k_equal_to_n() -> None:
    generator = SeededRandom(1).generator
    equal = kcluster(held(np.ones(6)), 3, generator)
    assert np.bincount(equal.labels, minlength=3).min() >= 1
    assert equal.objective == 0
    singles = kcluster(held(np.arange(5.0)), 5, generator)
    assert sorted(singles.labels.tolist()) == [0, 1, 2, 3, 4]
    doubled = kcluster(held([0.0, 0.0, 0.1, 9.0, 9.0, 9.1]), 2, generator)
    assert doubled.converged
    assert len(set(doubled.labels[:3].tolist())) == len(set(doubled.labels[3:].tolist())) == 1
    alone = kcluster(held([3.0]), 1, generator)
    assert alone.labels.tolist() == [0]


def test_a_cycle_of_two_labellings_ends() -> None:
    """Two records, each drawn to the other's cluster by a negative distance, for ever."""
    swapping = MatrixDistances(np.array([[0, -1], [-1, 0]], np.float32))
    found = from_records(swapping, np.array([0, 1]), 1000)
    assert not found.converged
    assert found.iterations[0] <= 3


def test_a_round_is_a_move_to_the_least_mean_distance() -> None:
    values = drawn(40)
    matrix_form = held(values)
    found = from_records(matrix_form, np.array([3, 17, 29]))
    assert found.converged
    true = np.sqrt(np.square(values[:, None] - values[None]).sum(axis=2))
    sizes = np.bincount(found.labels, minlength=3)
    means = true @ np.eye(3)[found.labels] / sizes
    assert (np.argmin(means, axis=1) == found.labels).all()
    assert found.objective == pytest.approx(means.min(axis=1).sum(), rel=1e-5)


def test_an_emptied_cluster_is_seeded_again() -> None:
    # the first record of cluster 1 is drawn to cluster 0 at once, and leaves nobody
    lengths = np.array([[0, -2, 1, 8], [-2, 0, -2, 8], [1, -2, 0, 8], [8, 8, 8, 0]], np.float32)
    found = from_records(MatrixDistances(lengths), np.array([0, 1]))
    assert np.bincount(found.labels, minlength=2).min() >= 1


def score(outcome: Outcome) -> float:
    assert outcome.evaluation is not None
    return float(outcome.evaluation["nmi"])


def test_a_grid_without_records_to_see_says_so() -> None:
    table = NumericTable(PLANE, drawn(5))
    for changes in ({}, {"clusterer": "dbscan", "k": None}):
        params = asked(epsilon=Fraction(1, 100), **changes)
        found = run(table, params, "sound", seeded(4)).result
        assert found["k"] <= 3
        assert (found["warning"] == "no_cell_above_the_noise") == (found["k"] == 0)


def test_estimated_counts_are_unbiased() -> None:
    flip = Flip.of_epsilon(Fraction(1))
    places = np.repeat([0, 1, 2], [6000, 3000, 1000])
    ones = unary_reports(places, 4, flip, SeededRandom(1)).sum(axis=0)
    found = unary_counts(ones, 10_000, float(flip.probability))
    deviation = 10_000 * 2 * math.exp(0.5) / ((math.e - 1) * 100)  # section 3.9 (b)
    assert np.abs(found - [6000, 3000, 1000, 0]).max() < 5 * deviation


def test_paper_finds_groups_and_states_what_holds() -> None:
    table = blobs(600)
    params = asked(evaluate=True, columns=PLANE, baselines=("kmeans", "adp", "rsp"))
    outcome = run(table, params, "paper", SECRET)
    assert score(outcome) > 0.95
    assert outcome.evaluation is not None
    assert set(outcome.evaluation["baselines"]) == {"kmeans", "adp", "rsp"}
    assert outcome.report.charged is not None
    assert outcome.report.charged.outside_budget
    assert not outcome.report.reproducible
    repeated = run(table, params, "paper", SECRET)
    assert repeated.files == outcome.files
    assert repeated.result == outcome.result


def test_the_report_of_the_sources_own_setting() -> None:
    """Check 6."""
    params = asked(bounds=((0.0, 50.0),), columns=("x",), rescale_to=None, t=25.0)
    report = preview(params, "paper")
    assert report.claimed is not None
    assert report.claimed.epsilon == "2"
    assert float(report.claimed.delta or "nan") == pytest.approx(7.5e-56, rel=0.01)
    approximate, pure = report.verified
    assert pure.epsilon == "2000"
    assert pure.delta == "0"
    assert float(approximate.epsilon or "nan") == pytest.approx(1705.5, abs=0.05)
    assert approximate.delta == "0.000001"
    assert report.details["log10_one_minus_delta_at_epsilon_bit"] == -189.6
    assert report.details["k_differing"]["per_attribute"] == [1000]
    assert report.details["r_public"] is True
    attacked = report.details["attack"]
    assert attacked["llr_error_at"]["error"] < 1e-6 < attacked["claimed_floor"]


@pytest.mark.parametrize(
    "changes",
    [
        {"bounds": None},
        {"epsilon_bit": "inf"},
        {"partition": "vertical-plain", "alice_columns": 1},
        {"partition": "vertical-decomposed", "alice_columns": 1, "s": 100},
    ],
)
def test_nothing_is_stated_where_nothing_holds(changes: dict[str, Any]) -> None:
    outcome = run(blobs(120), asked(**changes), "paper", SECRET)
    (line_,) = outcome.report.verified
    assert (line_.model, line_.epsilon, line_.delta) == ("none", "inf", "1")
    assert line_.reason
    if "bounds" in changes:
        assert outcome.report.details["data_dependent_leaks"]
        assert outcome.report.error is None


@pytest.mark.parametrize(
    "changes",
    [
        {"t": 10.0, "consistency": "matched"},
        {"t": 10.0, "epsilon_bit": "inf"},
        {"t": 10.0, "consistency": "literal", "epsilon_bit": "inf"},
        {"clusterer": "agglomerative"},
        {"clusterer": "dbscan", "dbscan_radius": 4.0, "min_samples": 4, "k": None},
        {"metric": "manhattan"},
        {"bias_correct": True},
        {"partition": "vertical-plain", "alice_columns": 1},
        {"rescale_global": True},
    ],
)
def test_every_way_through_paper_finds_the_groups(changes: dict[str, Any]) -> None:
    params = asked(**{"evaluate": True, "epsilon_bit": Fraction(4), **changes})
    outcome = run(blobs(240), params, "paper", SECRET)
    assert score(outcome) > 0.9
    assert json.dumps(outcome.result, allow_nan=False)


def test_dpbv_exact_holds_its_budget_and_warns() -> None:
    for epsilon in (Fraction(1), Fraction(8)):
        report = preview(asked(method="dpbv-exact", epsilon=epsilon), "sound")
        first = report.verified[0]
        assert Fraction(first.epsilon or "0") <= epsilon
        assert Fraction(first.epsilon or "0") > epsilon * Fraction(999, 1000)
        assert report.charged is not None
        assert (report.charged.epsilon, report.charged.delta) == (first.epsilon, first.delta)
        assert report.error is not None
        assert report.error["warning"] == "no_utility_expected"
    # section 4.5: the predicted deviation of a distance, s = 1000
    for epsilon, deviation in ((4, 4490), (8, 1343)):
        alone = asked(
            method="dpbv-exact",
            epsilon=Fraction(epsilon),
            bounds=((0.0, 50.0),),
            k=2,
            r_design="uniform",
        )
        found = preview(alone, "sound").error or {}
        assert found["predicted_sd_distance"] == pytest.approx(deviation, rel=2e-3)


@pytest.mark.parametrize(
    ("method", "grid"),
    [
        ("grid-core", "fixed"),
        ("grid-core", "adaptive"),
        ("grid-ldp", None),
        ("laplace-points", None),
        ("dpbv-exact", None),
    ],
)
def test_a_sound_result_holds_nothing_of_the_rows(method: str, grid: str | None) -> None:
    """Same noise, other rows: the report is the same; no exact count, clamp or value is in it."""
    table = blobs(1003)
    outside = table.values.copy()
    outside[:17] += 1000.0  # clamped
    params = asked(method=method, evaluate=True, grid=grid)
    # With another secret a noisy mass is a true size by chance, as one in twenty is.
    secret = SequentialContext(seed=bytes([7]) * 32) if grid == "adaptive" else SECRET
    outcome = run(table, params, "sound", secret)
    clamped = run(NumericTable(PLANE, outside, table.labels), params, "sound", secret)
    reports = [outcome.report, clamped.report]
    if grid == "adaptive":  # its error follows from released counts
        reports = [each.model_copy(update={"error": None}) for each in reports]
    assert reports[0] == reports[1]
    assert set(outcome.result) == set(clamped.result)
    published = json.dumps(outcome.result) + outcome.report.model_dump_json()
    published += "".join(each.content.decode() for each in outcome.files)
    for forbidden in ("nmi", "ari", "clamped", "sha256", "seconds", "1003"):
        assert f'"{forbidden}"' not in published
    numbers = {leaf for leaf in leaves(outcome.result) if isinstance(leaf, int | float)}
    if method.startswith("grid"):
        assert not numbers & {1003, 334, 335}
    raw = set(table.values.ravel().tolist())
    assert not numbers & raw
    for file in outcome.files:
        text = file.content.decode()
        assert not any(repr(value) in text for value in list(raw)[:200])
    assert outcome.evaluation


def test_labels_are_not_an_input() -> None:
    table = blobs(120)
    other = NumericTable(PLANE, table.values, Texts.of([0] * 120))
    for stance, params in (("sound", asked()), ("paper", asked())):
        one, two = (run(each, params, stance, SECRET) for each in (table, other))
        assert one.result == two.result
        assert one.files == two.files


def test_the_same_job_draws_the_same_bits_and_another_seed_others() -> None:
    table, params = blobs(300), asked(method="laplace-points")
    one, again = (run(table, params, "sound", SECRET) for _ in range(2))
    other = run(table, params, "sound", SequentialContext(seed=bytes(32)))
    assert one.files == again.files
    assert one.result["centres"] != other.result["centres"]
    repeatable = run(table, params, "sound", seeded(1)).report
    assert repeatable.reproducible
    assert repeatable.voided_by
    assert repeatable.charged is not None
    assert repeatable.charged.outside_budget


def test_blocks_have_their_own_coins() -> None:
    from algorithms.dpbv_clustering.parameters import make_box, plan_bits

    params = asked(s=8192, bounds=((0.0, 50.0),))
    plan = plan_bits(params, "paper", make_box(params, params.bounds or ()), 6000)
    words = encode_blocks(np.full((6000, 1), 25.0), plan, SECRET)
    assert len(np.unique(words.reshape(6000, -1), axis=0)) == 6000


def test_plots_are_there() -> None:
    table = blobs(200)
    outcome = run(table, asked(clusterer="agglomerative"), "paper", SECRET)
    assert set(names_drawn("dpbv-clustering", outcome.plots)) == {"dendrogram", "delta"}
    names = [
        name
        for method in ("grid-core", "laplace-points")
        for name in names_drawn(
            "dpbv-clustering", run(table, asked(method=method), "sound", SECRET).plots
        )
    ]
    assert names == ["centres", "budget", "steps", "scatter"]
    fixed = run(table, asked(method="grid-core", grid="fixed"), "sound", SECRET)
    assert names_drawn("dpbv-clustering", fixed.plots) == ["grid"]


def test_previews_say_what_results_say() -> None:
    table = blobs(300)
    for method in ("grid-core", "grid-ldp", "laplace-points", "dpbv-exact"):
        params = asked(method=method, n_hint=300, grid="fixed" if method == "grid-core" else None)
        assert preview(params, "sound") == run(table, params, "sound", SECRET).report
    adaptive = asked(n_hint=300)
    planned, made = preview(adaptive, "sound"), run(table, adaptive, "sound", SECRET).report
    assert planned == made.model_copy(update={"error": planned.error})
    params = asked(epsilon_bit=Fraction(1))
    assert preview(params, "paper") == run(blobs(60), params, "paper", SECRET).report
    assert preview(asked(bounds=None), "paper").verified[0].model == "none"
    PrivacyReport.model_validate_json(preview(asked(), "sound").model_dump_json())


def test_grid_core_states_both_relations_only_where_both_hold() -> None:
    declared = preview(asked(cells_per_axis=8, epsilon=Fraction(3)), "sound").verified
    assert [(each.neighbouring, each.epsilon) for each in declared] == [
        ("replace", "3"),
        ("add-remove", "1.5"),
    ]
    (derived,) = preview(asked(), "sound").verified
    assert derived.neighbouring == "replace"


def audited(one: Ints, other: Ints, levels: np.ndarray, runs: int, delta: float) -> float:
    """What half-lines of a statistic prove of epsilon, but for a chance of 10^-6."""
    names = [f"at least {level}" for level in levels.tolist()]
    hits, rest = (np.array([(each >= level).sum() for level in levels]) for each in (one, other))
    return proven(names, hits, rest, runs, delta).epsilon


def test_no_audit_passes_what_is_verified_and_one_passes_the_claim() -> None:
    """Runs of two inputs, the likelihood-ratio statistic, Clopper-Pearson at 10^-6."""
    runs = 20_000
    code = make_codes(((0, 50),), (25.0,), 64, "grid", 1)[0]
    ends = np.array([0.0, 50.0])
    clean = code.clean(ends)

    def statistic(flip: Flip, seed: int) -> list[Ints]:
        source = SeededRandom(seed)
        found = []
        for row in clean:
            bits = row ^ flip.draw(source, runs * 64).reshape(runs, 64)
            found.append((bits == clean[0]).sum(axis=1))
        return found

    levels = np.arange(65)
    for epsilon in (Fraction(1), Fraction(4)):
        params = asked(method="dpbv-exact", epsilon=epsilon, s=64, bounds=((0.0, 50.0),), k=2)
        report = preview(params, "sound")
        flip = Flip.of_epsilon(Fraction(report.details["epsilon_bit"]))
        proof = audited(*statistic(flip, 1), levels, runs, 1e-6)
        assert 0.1 * float(epsilon) < proof <= float(epsilon)
    claim = Flip.of_epsilon(Fraction(1, 2))  # "(1/2, tiny)-LDP" with 64 bits
    assert audited(*statistic(claim, 2), levels, runs, 1e-6) > 3


def test_an_audit_of_the_grids() -> None:
    runs = 200_000
    noise = DiscreteLaplace(Fraction(2)).draw(SeededRandom(1), 4 * runs).reshape(2, 2, runs)
    one, other = noise[0] + np.array([[1], [0]]), noise[1] + np.array([[0], [1]])
    levels = np.arange(-12, 13)
    proof = audited(one[0] - one[1], other[0] - other[1], levels, runs, 0.0)
    assert 0.3 < proof <= 1.0
    flip = Flip.of_epsilon(Fraction(1))
    reports = [
        unary_reports(np.full(runs, cell), 3, flip, SeededRandom(cell + 5)) for cell in (0, 1)
    ]
    one, other = (each[:, 0].astype(int) - each[:, 1] for each in reports)
    proof = audited(one, other, np.array([0, 1]), runs, 0.0)
    assert 0.8 < proof <= 1.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("s", 65_537),
        ("t", 0.0),
        ("epsilon_bit", Fraction(0)),
        ("epsilon_bit", Fraction(21)),
        ("epsilon", Fraction(0)),
        ("epsilon", 1.0),
        ("delta", Fraction(1, 999)),
        ("k", 0),
        ("cells_per_axis", 1),
        ("dbscan_radius", 0.0),
        ("bounds", ((1.0, 1.0), (0.0, 1.0))),
        ("bounds", ((0.0, math.inf), (0.0, 1.0))),
        ("bounds", ()),
        ("rescale_to", (50.0, 0.0)),
        ("r_seed", 1 << 64),
        ("adp_sigma", Fraction(0)),
        ("unknown", 1),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_field(field: str, value: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        asked(**{field: value})
    assert any(field in map(str, error["loc"]) for error in refused.value.errors())


@pytest.mark.parametrize(
    "changes",
    [
        {"k": None},
        {"columns": ("a", "a")},
        {"privacy_unit": "radius"},
        {"radius": (1.0, 1.0)},
        {"partition": "vertical-plain"},
        {"alice_columns": 1},
    ],
)
def test_parameters_that_do_not_fit_together(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(changes)).split("_")[0][:4]):
        asked(**changes)


PAPER_REFUSES: list[tuple[dict[str, Any], str]] = [
    ({"t": 51.0}, "t"),
    ({"clusterer": "dbscan"}, "dbscan_radius"),
    ({"consistency": "line"}, "consistency"),
    ({"columns": ("kwh", "gas")}, "columns"),
    ({"columns": ("kwh",)}, "bounds"),
    ({"bounds": ((0.0, 5.0), (0.0, 50.0))}, "kwh"),
    ({"partition": "vertical-plain", "alice_columns": 2}, "alice_columns"),
    ({"k": 61}, "k"),
]
SOUND_REFUSES: list[tuple[dict[str, Any], str]] = [
    ({"bounds": None}, "bounds"),
    ({"baselines": ("adp",)}, "baselines"),
    ({"partition": "vertical-plain", "alice_columns": 1}, "partition"),
    ({"consistency": "literal"}, "consistency"),
    ({"privacy_unit": "radius", "radius": (1.0, 1.0)}, "privacy_unit"),
    ({"clusterer": "agglomerative"}, "clusterer"),
    ({"method": "laplace-points", "clusterer": "dbscan"}, "clusterer"),
    ({"method": "dpbv-exact", "clusterer": "dbscan"}, "dbscan_radius"),
    ({"method": "dpbv-exact", "radius": (1.0,), "privacy_unit": "radius"}, "radius"),
    ({"method": "grid-core", "cells_per_axis": 64, "bounds": ((0.0, 1.0),) * 3}, "bounds"),
    ({"epsilon": Fraction(1, 10**8)}, "epsilon"),
    ({"epsilon": Fraction(1, 10**10), "method": "grid-ldp"}, "epsilon"),
    ({"epsilon": Fraction(1, 10**8), "method": "dpbv-exact", "delta": Fraction(0)}, "epsilon"),
    ({"epsilon": Fraction(1, 1000), "method": "laplace-points"}, "epsilon"),
]
OTHER_NAMES = {"kwh": "malformed_row", "privacy_unit": "unit_not_protected"}


@pytest.mark.parametrize(
    ("stance", "changes", "field"),
    [("paper", *each) for each in PAPER_REFUSES] + [("sound", *each) for each in SOUND_REFUSES],
)
def test_what_a_run_refuses(stance: Any, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(BadParameter) as refused:
        run(blobs(60), asked(**changes), stance, SECRET)
    assert (refused.value.field, refused.value.name) == (
        field,
        OTHER_NAMES.get(field, "bad_parameter"),
    )


def test_too_many_cells_and_bits() -> None:
    with pytest.raises(BadParameter, match="fewer columns") as refused:
        preview(asked(method="grid-core", bounds=((0.0, 1.0),) * 4), "sound")
    assert refused.value.name == "too_many_cells"
    many = asked(bounds=((0.0, 1.0),) * 20, s=65_536)
    with pytest.raises(BadParameter, match="bits in total"):
        preview(many, "paper")
    wide = preview(asked(bounds=((0.0, 1.0),) * 4), "sound")
    assert wide.mechanism.name == "laplace-points"  # type: ignore[union-attr]


def test_a_row_outside_the_bounds_is_named_without_its_value() -> None:
    values = blobs(30).values.copy()
    values[7, 1] = 77.125
    with pytest.raises(BadParameter, match="row 7") as refused:
        run(NumericTable(PLANE, values), asked(), "paper", SECRET)
    assert (refused.value.row, refused.value.field) == (7, "evening")
    assert "77" not in str(refused.value)


def test_curators_and_the_coordinator_share_the_steps() -> None:
    """Sums of several curators' cells, noise added, give what the central form gives."""
    table = blobs(900)
    params = asked(cells_per_axis=8, epsilon=Fraction(2))
    state = first(params, 8)
    grid = next_query(state)
    assert grid is not None
    sums = sum(grid.sums(part) for part in np.array_split(table.values, 7))
    opened = sums + DiscreteLaplace(state.scale).draw(SECRET.noise("counts"), grid.count)
    state = absorb(state, opened)
    assert next_query(state) is None
    central = run(table, params, "sound", SECRET).result
    assert release_grid(state).centres.tolist() == central["centres"]
    for wrong in (lambda: absorb(state, opened[:-1]), lambda: release_grid(first(params, 8))):
        with pytest.raises(ValueError, match="count"):
            wrong()
    assert first(params, 8, Fraction(4)).deviation == 2 * first(params, 8).deviation
