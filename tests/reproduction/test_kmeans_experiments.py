"""The data of the reproductions of the thesis's chapter 7, and that a seed fixes a run."""

from __future__ import annotations

import pytest

from reproduction.kmeans_data import dataset, datasets
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
