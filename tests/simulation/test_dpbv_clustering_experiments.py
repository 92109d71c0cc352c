"""The data of the reproductions of the DPBV paper are as stated."""

from __future__ import annotations

import numpy as np

from simulation.experiments.dpbv_clustering_tables import digits, shapes
from simulation.experiments.experiment import QUICK, Run


def test_the_digits_are_those_of_the_source() -> None:
    values, labels = digits()
    assert values.shape == (1797, 64)
    assert (values.min(), values.max()) == (0, 16)
    assert len(np.unique(labels)) == 10


def test_the_stand_ins_have_the_stated_sizes() -> None:
    groups, path, moons = shapes(Run(QUICK))
    assert np.bincount(groups.labels).tolist() == [170, 34, 273, 102, 130, 45, 34]
    assert np.bincount(path.labels).tolist() == [110, 97, 93]
    assert np.bincount(moons.labels).tolist() == [200, 200]
    for each in (groups, path, moons):
        assert each.values.min() == 0
        assert each.values.max() == 50
