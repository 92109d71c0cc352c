"""The job: parameters, what each mode publishes, what its report says, what never gets out."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from algorithms.contract import Cancelled, Outcome, SequentialContext, Stance
from algorithms.path_publishing import (
    Parameters,
    algorithm,
    check,
    preview,
    run,
)
from algorithms.path_publishing import (
    algorithm as pictures,
)
from algorithms.path_publishing.algorithm import RESULT
from algorithms.path_publishing.levelled_graph import arranged, drawn_relations
from algorithms.path_publishing.parameters import (
    BadRecipientKey,
    CyclicPathNotSupported,
    EpsilonOutOfRange,
    ForeignParameter,
    ModeStanceMismatch,
    NetworkTooLarge,
    PathNotSpanning,
)
from coordinator.jobs.privacy_statements import price_of
from reproduction.path_publishing_networks import random_network
from tacit.crypto.sealing import SealKey
from tacit.errors import DomainError
from tacit.paths.network import NetworkPath
from tacit.paths.recovery import recover
from tacit.randomness import SeededRandom
from tacit.report.model import PrivacyReport
from tests.algorithms.outcomes import names_drawn
from tests.algorithms.path_publishing.examples import RINGS, SIX

KEY = SealKey(b"\7" * 32)
PUBLIC = KEY.public.raw
MODES: dict[str, tuple[Stance, dict[str, Any]]] = {
    "graph-path": ("paper", {}),
    "complement": ("sound", {}),
    "complement-told": ("sound", {"epsilon_dir": "1", "layout": True}),
    "randomized": ("sound", {"mode": "randomized", "epsilon": "3"}),
    "sealed": ("sound", {"mode": "sealed", "recipients": (PUBLIC,)}),
}


def params(**values: Any) -> Parameters:
    return Parameters(**values)


def context(**changes: Any) -> SequentialContext:
    return SequentialContext(bytes(range(32)), **changes)


def ran(name: str, dataset: NetworkPath = SIX, **changes: Any) -> Outcome:
    stance, values = MODES[name]
    return run(dataset, params(**(values | changes)), stance, context())


@pytest.mark.parametrize(
    ("stance", "values", "problem", "pointer"),
    [
        ("sound", {"mode": "graph-path"}, ModeStanceMismatch, "mode"),
        ("paper", {"mode": "sealed"}, ModeStanceMismatch, "mode"),
        ("paper", {"epsilon_e": "-1"}, EpsilonOutOfRange, "epsilon_e"),
        ("sound", {"mode": "randomized", "epsilon": "20.1"}, EpsilonOutOfRange, "epsilon"),
        ("sound", {"epsilon_dir": "0"}, EpsilonOutOfRange, "epsilon_dir"),
        ("sound", {"mode": "sealed"}, BadRecipientKey, "recipients"),
        ("sound", {"mode": "sealed", "recipients": (PUBLIC, b"x")}, BadRecipientKey,
         "recipients/1"),
        ("sound", {"mode": "sealed", "recipients": (bytes(32),)}, BadRecipientKey, "recipients/0"),
        ("sound", {"epsilon": "1"}, ForeignParameter, "epsilon"),
        ("sound", {"split": False}, ForeignParameter, "split"),
        ("sound", {"mode": "sealed", "recipients": (PUBLIC,), "layout": True}, ForeignParameter,
         "layout"),
        ("paper", {"epsilon_dir": "1"}, ForeignParameter, "epsilon_dir"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_what_is_refused(
    stance: Stance, values: dict[str, Any], problem: type[DomainError], pointer: str
) -> None:
    asked = params(**values)
    for ask in (lambda: preview(asked, stance), lambda: check(SIX, asked, stance)):
        with pytest.raises(problem) as wrong:
            ask()
        assert wrong.value.pointer == f"/params/{pointer}"
        assert wrong.value.name == problem.name


PART = NetworkPath.of([1, 2, 3], [[1, 2], [2, 3]], [1, 2])


def line(size: int) -> NetworkPath:
    ids = list(range(size))
    return NetworkPath.of(ids, [[at, at + 1] for at in range(size - 1)], ids)


@pytest.mark.parametrize(
    ("name", "dataset", "problem", "pointer"),
    [
        ("graph-path", PART, PathNotSpanning, "path"),
        ("randomized", PART, PathNotSpanning, "path"),
        ("complement", RINGS, CyclicPathNotSupported, "path"),
        ("randomized", RINGS, CyclicPathNotSupported, "path"),
        ("graph-path", line(61), NetworkTooLarge, "vertices"),
        ("randomized", line(19), NetworkTooLarge, "vertices"),
        ("complement-told", line(61), NetworkTooLarge, "vertices"),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "name", ""),
)
def test_networks_that_do_not_fit_a_mode(
    name: str, dataset: NetworkPath, problem: type[DomainError], pointer: str
) -> None:
    with pytest.raises(problem) as wrong:
        ran(name, dataset)
    assert wrong.value.pointer == f"/dataset/{pointer}"


def test_the_largest_networks_of_each_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits by mode, lowered to be tried."""
    monkeypatch.setitem(algorithm.VERTICES, "complement", 5)
    monkeypatch.setitem(algorithm.VERTICES, "sealed", 5)
    for name in ("complement", "sealed"):
        with pytest.raises(NetworkTooLarge):
            ran(name)
    assert algorithm.VERTICES["graph-path"] == 60
    long_walk = NetworkPath.of([1, 2], [[1, 2]], [1, 2] * 121)
    with pytest.raises(NetworkTooLarge):
        ran("graph-path", long_walk)
    chain = [[at, at + 1] for at in range(1, 12)]
    rings = NetworkPath.of(list(range(1, 13)), chain, [1, 2] * 90 + list(range(3, 13)))
    with pytest.raises(NetworkTooLarge) as many:
        ran("graph-path", rings, epsilon_v="0")
    assert many.value.pointer == "/params/epsilon_v"


@pytest.mark.parametrize("name", list(MODES))
def test_two_vertices_are_enough(name: str) -> None:
    pair = NetworkPath.of(["x", "y"], [["x", "y"]], ["y", "x"])
    outcome = ran(name, pair)
    found = recover(pair.network, outcome.files[0].content, private_key=KEY)
    assert pair.ids() in (found.paths[0], found.paths[0][::-1])


@pytest.mark.parametrize("name", list(MODES))
def test_a_publication(name: str) -> None:
    told: list[float] = []
    stance, values = MODES[name]
    asked = params(**values)
    outcome = run(SIX, asked, stance, context(on_progress=lambda share, _: told.append(share)))
    assert told == sorted(told)
    assert set(outcome.result) == {"mode", "format", "vertices", "edges", "bytes"}
    assert {file.name for file in outcome.files} <= set(RESULT)
    assert len(outcome.files) == (2 if asked.layout else 1)
    published = json.loads(outcome.files[0].content)
    assert published["format"] == outcome.result["format"]
    assert outcome.result["bytes"] == len(outcome.files[0].content)
    assert outcome.report == preview(asked, stance)
    assert PrivacyReport.model_validate_json(outcome.report.model_dump_json()) == outcome.report
    found = recover(SIX.network, outcome.files[0].content, private_key=KEY)
    if name != "randomized":
        assert SIX.ids() in found.paths
    assert (outcome.evaluation is not None) == (name == "graph-path")
    assert outcome.report.evaluation_attached == (name == "graph-path")


def test_a_chosen_seed_never_opens_what_is_sealed() -> None:
    one, two = ran("sealed"), ran("sealed")
    assert one.files != two.files
    shown = json.loads(one.files[0].content)
    assert re.fullmatch("[0-9a-f]{32}", shown["name"])


def test_the_owner_learns_what_an_adversary_would() -> None:
    """Spec: path-publishing, sections 8 (check 3) and 9."""
    found = ran("graph-path").evaluation
    assert found is not None
    assert found["attack"]["replay"]["identified"] is True
    assert found["attack"]["replay"]["candidates"] <= 4
    assert found["attack"]["level_sort"]["share_of_path_edges"] > 0.5
    left = found["attack"]["candidates_left_of"]
    assert left["graph-path"] <= left["g_only_canonical_layout"] <= left["complement"] <= 2
    assert found["adversary_prior"]["max"] == 2
    assert found["self_test"]["recovered"] is True
    assert found["usable_without_split"] is True
    json.dumps(found, allow_nan=False)
    complete = NetworkPath.of([1, 2, 3], [[1, 2], [2, 3], [1, 3]], [3, 1, 2])
    warned = ran("graph-path", complete).evaluation
    assert warned is not None
    assert len(warned["warnings"]) == 1
    back = NetworkPath.of([1, 2, 3], [[1, 2], [2, 3]], [1, 2, 3, 2, 1])
    walked = ran("graph-path", back).evaluation
    assert walked is not None
    assert walked["attack"]["replay"] is None
    for name in ("complement", "randomized"):
        compared = ran(name, evaluate=True)
        assert compared.report.evaluation_attached
        assert compared.evaluation is not None
        assert compared.evaluation["adversary_prior"]["max"] == 2
        assert compared.files == ran(name).files
    assert ran("sealed", evaluate=True).evaluation is None


def test_nothing_of_the_owners_gets_out() -> None:
    """Spec: path-publishing, section 2.4.

    Effort, splits, self-tests; and no id is in result or report.
    """
    private = ("usable", "split", "budget_hit", "steps", "pieces", "self_test", "prior", "replay")
    named = NetworkPath.of(
        ["alpha", "beta", "gamma"],
        [["alpha", "beta"], ["beta", "gamma"]],
        ["gamma", "beta", "alpha"],
    )
    for name in MODES:
        outcome = ran(name, named)
        shown = json.dumps(outcome.result)
        for word in (*private, "alpha"):
            assert word not in shown
        assert "alpha" not in outcome.report.model_dump_json()
        content = outcome.files[0].content.decode()
        for word in private:
            assert word not in content
    one, other = (ran(name) for name in ("complement", "complement"))
    assert one.files == other.files


def test_many_vertices_are_warned_of() -> None:
    network = random_network(13, 20, np.random.default_rng(1))
    assert "warnings" in ran("graph-path", network, search_budget=100).result


def test_cancelling_ends_a_search() -> None:
    """Spec: path-publishing, section 8, check 13.

    Between stages, and inside a stage every 256 steps.
    """
    network = random_network(14, 30, np.random.default_rng(0))
    shown = drawn_relations(network, (1,) * 14, None, SeededRandom(1))
    beats = 0

    def beat() -> None:
        nonlocal beats
        beats += 1

    done = arranged(shown.together, 20_000, beat=beat)
    assert done.steps > 10 * 256
    assert beats >= done.steps // 256 + done.splits
    for left in (0, 1, beats // 2):
        told = 0

        def tell(_: float, stage: str, left: int = left) -> None:
            nonlocal told
            told += stage == "placing vertices on levels"
            if told > left:
                raise Cancelled

        asked = params(epsilon_e=None, search_budget=20_000)
        with pytest.raises(Cancelled):
            run(network, asked, "paper", context(on_progress=tell))
        assert told == left + 1


def test_pictures_are_of_the_publication() -> None:
    from algorithms.path_publishing.levelled_graph import layout_of, off_path
    from tacit.paths.published import read

    drawn = pictures.plots_of(off_path(SIX), layout_of(off_path(SIX)))
    assert names_drawn("path-publishing", drawn) == ["edges", "levels"]
    degrees = pictures.plots_of(off_path(line(61)))
    assert names_drawn("path-publishing", degrees) == ["degrees"]
    odd = NetworkPath.of(["$a_{$", "$b^$"], [["$a_{$", "$b^$"]], ["$a_{$", "$b^$"])
    both = pictures.plots_of(off_path(odd), layout_of(off_path(odd)))
    assert len(names_drawn("path-publishing", both)) == 2
    labels = read(ran("randomized").files[0].content)
    assert names_drawn("path-publishing", pictures.plots_of(labels)) == ["labels"]
    assert pictures.plots_of(read(ran("sealed").files[0].content)) == ()


def test_the_report_of_a_levelled_graph() -> None:
    """Spec: path-publishing, section 9: nothing is verified."""
    report = preview(params(epsilon_v="1"), "paper")
    (held,) = report.verified
    assert (held.model, held.epsilon, held.delta) == ("none", "inf", "1")
    assert report.claimed is not None
    assert float(report.claimed.epsilon or 0) == pytest.approx(2.693147, abs=1e-6)
    assert report.charged is not None
    assert report.charged.outside_budget
    assert report.charged.epsilon is None
    assert float(report.details["g_only_delta"]) == pytest.approx(0.622459, abs=1e-6)
    assert len(report.source_defects) >= 5
    assert price_of(report, "path-edge", seeded=False).kind == "outside"
    plain = preview(params(epsilon_v=None, epsilon_e="2"), "paper").claimed
    assert plain is not None
    assert plain.epsilon == "2.69314718056"
    assert preview(params(epsilon_e=None), "paper").claimed is None


@pytest.mark.parametrize(
    ("name", "changes", "unit", "epsilon"),
    [
        ("complement", {}, "path-edge", "0"),
        ("complement", {"epsilon_dir": "1/2"}, "path-edge", "0.5"),
        ("randomized", {}, "vertex-pair", "3"),
        ("randomized", {"epsilon_dir": "1/2"}, "vertex-pair", "3.5"),
    ],
    ids=["complement", "told", "randomized", "randomized-told"],
)
def test_what_is_verified_is_charged(
    name: str, changes: dict[str, Any], unit: str, epsilon: str
) -> None:
    stance, values = MODES[name]
    report = preview(params(**(values | changes)), stance)
    held = report.verified[0]
    assert (held.model, held.privacy_unit, held.epsilon, held.delta) == (
        "pure-dp",
        unit,
        epsilon,
        "0",
    )
    assert report.charged is not None
    assert (report.charged.privacy_unit, report.charged.epsilon) == (unit, epsilon)


def test_the_report_of_sealed_paths() -> None:
    stance, values = MODES["sealed"]
    report = preview(params(**values), stance)
    assert report.verified[0].model == "computational"
    assert report.verified[0].epsilon is None
    assert report.privacy_unit is None
    assert price_of(report, "path-edge", seeded=False).kind == "free"


def test_the_epsilon_of_the_integers_is_stated() -> None:
    stance, values = MODES["randomized"]
    report = preview(params(**values), stance)
    assert 2.99999999 < float(report.details["epsilon_of_threshold"]) <= 3
    rates = report.error["estimated_success"] if report.error else []
    assert [item["share"] for item in rates] == ["0.80", "0.81", "0.70"]
    outside = preview(params(mode="randomized", epsilon="0.5"), "sound").error
    assert outside is not None
    assert {item["share"] for item in outside["estimated_success"]} == {None}
