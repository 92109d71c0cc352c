"""The reproductions of the thesis's chapter 7: they come out, and they can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulation.experiments import kmeans_convergence, kmeans_data, kmeans_quality
from simulation.experiments.experiment import QUICK, Effort, Run
from simulation.experiments.kmeans_data import NAMES, dataset, datasets
from simulation.experiments.registry import experiment
from simulation.populations import shared_data
from tests.simulation.runs import wrong_rows

IDS = ("fig-7.7", "fig-7.8", "fig-7.9", "fig-7.10")
SMALL = Effort("small", 20)


def small_sets(folder: Path | None, names: tuple[str, ...] = NAMES) -> Any:
    return tuple(each for each in datasets(folder, names) if each.name in ("House", "S1"))


@pytest.mark.parametrize(
    "name", [IDS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in IDS[1:])]
)
@pytest.mark.slow
def test_an_experiment_comes_out(name: str) -> None:
    told: list[float] = []
    outcome = experiment(name).run(Run(QUICK, None, progress=told.append))
    assert wrong_rows(outcome) == []
    assert told == sorted(told)
    assert told[-1] == 1
    assert [plot.name for plot in outcome.plots] == [name]
    assert outcome.data
    assert outcome.notes


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_an_experiment_comes_out_on_real_data(name: str) -> None:
    """With little effort; `make reproduce` takes half an hour for these four in full."""
    folder = shared_data()
    if folder is None or not (folder / "s1.csv.xz").exists():
        pytest.skip("the shared data are not beside this clone")
    assert wrong_rows(experiment(name).run(Run(QUICK, folder))) == []


def test_real_data_are_read_where_they_are() -> None:
    folder = shared_data()
    if folder is None or not (folder / "s1.csv.xz").exists():
        pytest.skip("the shared data are not beside this clone")
    shapes = {each.name: (each.points.shape, each.clusters) for each in datasets(folder)}
    assert shapes["House"] == ((1837, 3), 3)
    assert shapes["S1"] == ((5000, 2), 15)
    assert shapes["Birch2"] == ((12000, 2), 5)
    birch2 = dataset("Birch2", folder)
    assert birch2 is not None
    assert "shuffle with seed 42" in birch2.provenance


def test_generated_data_say_so_and_have_the_sizes_of_the_table() -> None:
    found = {each.name: each for each in datasets(None)}
    sizes = {"House": (1837, 3), "S1": (5000, 2), "Birch2": (12_000, 2)}
    sizes |= {"Image": (34_112, 3), "Lifesci": (26_733, 10)}
    for name, shape in sizes.items():
        assert found[name].points.shape == shape
        assert "generated" in found[name].provenance
        assert found[name].points.min() == 0
        assert found[name].points.max() == 1


def test_a_strategy_that_takes_longer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmeans_convergence, "datasets", small_sets)
    monkeypatch.setattr(kmeans_convergence, "iterations", lambda passes, _strategy: 3 * passes)
    missed = wrong_rows(kmeans_convergence.figure_7_9(Run(SMALL)))
    assert any(name.startswith("House: ratio") for name in missed)


def test_centres_that_miss_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmeans_convergence, "datasets", small_sets)
    monkeypatch.setattr(kmeans_convergence, "_MATCH", -1.0)
    missed = wrong_rows(kmeans_convergence.figure_7_8(Run(SMALL)))
    assert any("at least 84%" in name for name in missed)


def test_a_sound_form_that_is_no_better_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def anywhere(data: kmeans_data.Dataset, _epsilon: object, seed: int) -> Any:
        return np.random.default_rng(seed).random((data.clusters, data.points.shape[1]))

    monkeypatch.setattr(kmeans_quality, "datasets", small_sets)
    monkeypatch.setattr(kmeans_quality, "sound_centres", anywhere)
    missed = wrong_rows(kmeans_quality.figure_7_7(Run(SMALL)))
    assert "S1: the sound form costs least of all at epsilon 0.1 a step" in missed
    assert any(name.startswith("S1, sound: cost over Lloyd's") for name in missed)


def test_a_seed_fixes_everything() -> None:
    data = dataset("S1", None)
    assert data is not None
    one, again, other = (
        kmeans_convergence.converge(Run(SMALL, seed=seed), data, "prior", 0.5) for seed in (1, 1, 2)
    )
    assert np.array_equal(one.counts, again.counts)
    assert not np.array_equal(one.counts, other.counts)
