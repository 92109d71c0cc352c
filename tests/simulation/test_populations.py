"""Populations have the statistics that they say, and read what a table holds."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.populations import (
    MOVIELENS_FILE,
    Population,
    movielens,
    movielens_like,
    read_csv,
    shared_data,
)
from tacit.randomness import SeededRandom

BOUNDS = (Fraction(0), Fraction(5))
SEEDS = range(5)


def of_readings(*readings: list[int]) -> Population:
    return Population(
        "small",
        np.array([len(each) for each in readings], np.int64),
        np.array([value for each in readings for value in each], np.int64),
        "1",
        BOUNDS,
        10,
        Fraction(1),
        "a test",
    )


@given(st.lists(st.lists(st.integers(-50, 50), max_size=5), min_size=1, max_size=8))
def test_totals_and_maxima_are_those_of_each_curator(readings: list[list[int]]) -> None:
    population = of_readings(*readings)
    assert population.curators == len(readings)
    assert population.totals().tolist() == [sum(each) for each in readings]
    assert population.largest().tolist() == [max(each, default=0) for each in readings]
    assert population.total() == sum(map(sum, readings))
    for place, each in enumerate(readings):
        assert population.readings_of(place).tolist() == each


def test_a_population_is_consistent_and_cannot_be_changed() -> None:
    population = of_readings([1, 2], [3])
    with pytest.raises(ValueError, match="read-only"):
        population.values[0] = 9
    for counts, values, bounds, message in (
        ([1], [1, 2], BOUNDS, "add up"),
        ([3, -1], [1, 2], BOUNDS, "add up"),
        ([1], [np.nan], BOUNDS, "finite"),
        ([1], [1], (Fraction(5), Fraction(0)), "bounds rise"),
    ):
        with pytest.raises(ValueError, match=message):
            Population(
                "x", np.array(counts), np.array(values), "1", bounds, 1, Fraction(1), "a test"
            )


def test_marginals_of_the_worked_example() -> None:
    marginals = of_readings([1, 2, 3, 4], [5, 6, 7, 8], [1, 1, 1, 27]).marginals()
    assert marginals.totals.tolist() == [10, 26, 30]
    assert marginals.largest.tolist() == [4, 8, 27]
    assert (marginals.largest_total, marginals.largest_ratio()) == (30, Fraction(27, 30))
    counted = marginals.counting()
    assert counted.totals.tolist() == [4, 4, 4]
    assert (counted.largest_total, counted.largest_ratio()) == (4, Fraction(1, 4))


def check_movielens(population: Population) -> None:
    """Spec: budget, section 6 (the statistics)."""
    marginals = population.marginals()
    assert population.curators == 943
    assert int(population.counts.sum()) == 100_000
    assert (population.counts.min(), population.counts.max()) == (20, 737)
    assert marginals.largest_total == 2087
    assert np.unique_counts(marginals.largest).values.tolist() == [3, 4, 5]
    assert np.unique_counts(marginals.largest).counts.tolist() == [1, 14, 928]
    assert marginals.largest_ratio() == Fraction(5, 56)
    assert 1 <= population.values.min() < population.values.max() == 5
    assert float(population.total()) / 100_000 == pytest.approx(3.53, abs=0.15)
    quartiles = np.quantile(population.counts, [0.25, 0.5, 0.75])
    assert quartiles == pytest.approx([33, 65, 148], rel=0.1)


def test_movielens_generated() -> None:
    for seed in SEEDS:
        check_movielens(movielens_like(SeededRandom(seed)))


def test_movielens_from_the_published_marginals() -> None:
    folder = shared_data()
    if folder is None or not (folder / MOVIELENS_FILE).exists():
        pytest.skip("the shared data are not beside this clone")
    population = movielens(folder, SeededRandom(1))
    check_movielens(population)
    assert population.total() == 6_110 + 2 * 11_370 + 3 * 27_145 + 4 * 34_174 + 5 * 21_201
    assert (population.counts[0], population.totals()[0]) == (737, 1352)


WIDE = "meter,t0,t1,t2\na,0.5,1.25,\nb,nonsense,-3,inf\nc,,,\n"
LONG = "when,who,kwh\n1,a,0.5\n1,b,-3\n2,a,1.25\n2,a,NaN\n"
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".csv": lambda text: text,
    ".csv.xz": lzma.compress,
}


@pytest.mark.parametrize("ending", PACK)
def test_a_wide_table(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"meters{ending}"
    path.write_bytes(PACK[ending](WIDE.encode()))
    found = read_csv(path, unit="kWh", bounds=BOUNDS, resolution=Fraction(1, 1000))
    assert found.counts.tolist() == [2, 1, 0]
    assert found.values.tolist() == [0.5, 1.25, -3]
    assert (found.max_readings, found.unit) == (2, "kWh")
    assert "6 cells" in found.provenance


def test_a_long_table(tmp_path: Path) -> None:
    path = tmp_path / "meters.csv"
    path.write_text(LONG)
    found = read_csv(
        path,
        unit="kWh",
        bounds=BOUNDS,
        resolution=Fraction(1, 1000),
        layout="long",
        curator_column="who",
        value_column="kwh",
    )
    assert found.counts.tolist() == [2, 1]
    assert found.readings_of(0).tolist() == [0.5, 1.25]
    with pytest.raises(ValueError, match="no column curator"):
        read_csv(path, unit="1", bounds=BOUNDS, resolution=Fraction(1), layout="long")


@pytest.mark.parametrize(
    ("text", "total", "curators"),
    [
        ("m1,1.5,x\n", None, 0),
        ("\ufeffid,1\nm1,6\n", 6, 1),
        ("m,0,1,2\nm1,6,7,8\n", 21, 1),
        ('note,"a,\n9"\n"m,1",1_000\n"m,1",2\n', 2, 1),
        ("meter,t,t\nm1,1,2\n", None, 0),
    ],
)
def test_no_meter_is_lost_as_a_header(
    tmp_path: Path, text: str, total: int | None, curators: int
) -> None:
    path = tmp_path / "meters.csv"
    path.write_text(text, encoding="utf-8", newline="")
    if total is None:
        with pytest.raises(ValueError, match=r"line [12]"):
            read_csv(path, unit="kWh", bounds=BOUNDS, resolution=Fraction(1))
        return
    found = read_csv(path, unit="kWh", bounds=BOUNDS, resolution=Fraction(1))
    assert (found.total(), found.curators) == (total, curators)
