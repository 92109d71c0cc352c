"""The data of the reproductions of the thesis's chapter 7, and that a seed fixes a run."""

from __future__ import annotations

import pytest

from simulation.experiments.kmeans_data import dataset, datasets
from simulation.populations import shared_data


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
