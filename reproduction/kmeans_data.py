"""The six data sets of the thesis's chapter 7: real where there is a copy, else generated.

Spec: kmeans, section 7.1, with the generators' figures. Seed 42 for the pictures and the
life-science components.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from algorithms.kmeans.paper import normalised
from tacit.encoders.kmeans import Floats

SEED: Final = 42
BIRCH2_RECORDS: Final = 12_000
HOUSE_RECORDS: Final = 1_837
IMAGE_RECORDS: Final = 34_112
LIFESCI_RECORDS: Final = 26_733
_HOUSE_DRAWS: Final = 60_000
_TAIL_FREEDOM: Final = 5

S1_CLUSTERS: Final = (
    (606606, 573414, 34691, 31638, 0.06, 300),
    (802872, 321024, 14976, 32816, 0.96, 316),
    (417800, 787002, 30407, 28792, 0.26, 314),
    (822668, 732514, 26276, 30698, -0.28, 318),
    (852676, 157387, 25807, 26659, 0.16, 325),
    (337808, 562236, 32409, 19757, 0.52, 326),
    (167401, 348039, 25886, 29608, -0.05, 334),
    (618402, 398283, 35088, 30021, 0.03, 338),
    (244655, 847642, 32061, 30458, 0.02, 341),
    (321325, 161694, 37643, 34054, -0.02, 342),
    (140637, 558355, 38064, 26934, -0.12, 347),
    (508183, 175523, 27667, 28781, 0.43, 349),
    (397979, 404839, 29830, 27041, 0.14, 350),
    (858781, 547483, 30193, 33077, 0.04, 350),
    (670516, 863003, 30496, 32240, 0.08, 350),
)
"""Mean x, mean y, sd x, sd y, correlation, records."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """points (n, d) scaled to [0, 1] by their own extremes; `provenance` in words."""

    name: str
    clusters: int
    points: Floats
    provenance: str
    stand_in: bool = False


# ------------------------------------------------------------------------------------- generators


def s1_like(seed: int = SEED) -> Floats:
    """15 Gaussians in [0, 10^6]^2, (5000, 2)."""
    generator = np.random.default_rng(seed)
    parts = []
    for x, y, spread_x, spread_y, correlation, count in S1_CLUSTERS:
        mixed = correlation * spread_x * spread_y
        covariance = [[spread_x**2, mixed], [mixed, spread_y**2]]
        parts.append(generator.multivariate_normal([x, y], covariance, count))
    return np.clip(np.concatenate(parts), 0, 1e6)


def birch2_like(seed: int = SEED) -> Floats:
    """12,000 of 100 clusters along a sine curve, (12000, 2)."""
    generator = np.random.default_rng(seed)
    place = generator.integers(0, 100, BIRCH2_RECORDS)
    x = 53155 + 9512.18 * place
    y = 43653 + 37850 * np.sin(0.25133 * place + 0.2511)
    drawn = np.stack((x, y), axis=1) + generator.normal(0, 1511, (BIRCH2_RECORDS, 2))
    return np.clip(drawn, 0, (1e6, 1e5))


def _picture(generator: np.random.Generator, count: int, luminance: float, colour: float) -> Floats:
    """Colours of a picture of three materials, whole numbers 0..255, (count, 3)."""
    component = generator.choice(3, count, p=(0.34, 0.38, 0.28))
    light = np.array((62.0, 128.0, 196.0))[component] + generator.normal(0, luminance, count)
    offsets = np.array(((8, -2, -10), (-12, 2, 16), (6, 0, -8)))[component]
    drawn = light[:, None] + offsets + generator.normal(0, colour, (count, 3))
    pixels: Floats = np.clip(np.rint(drawn), 0, 255)
    return pixels


def image_like(seed: int = SEED) -> Floats:
    """(34112, 3)."""
    return _picture(np.random.default_rng(seed), IMAGE_RECORDS, 21, 7)


def house_like(seed: int = SEED) -> Floats:
    """Distinct colours at 5 bits, (1837, 3)."""
    generator = np.random.default_rng(seed)
    distinct = np.unique(_picture(generator, _HOUSE_DRAWS, 34, 15) // 8, axis=0)
    return distinct[generator.choice(len(distinct), HOUSE_RECORDS, replace=False)]


def lifesci_like(seed: int = SEED) -> Floats:
    """Ten components with heavy tails, (26733, 10)."""
    generator = np.random.default_rng(seed)
    component = generator.choice(3, LIFESCI_RECORDS, p=(0.5, 0.3, 0.2))
    means = np.zeros((3, 10))
    means[:, :3] = 1.07 * np.array(((-1.2, 0.3, 0), (1, 0.9, 0.2), (1.4, -1.6, 0.4)))
    tails = generator.standard_t(_TAIL_FREEDOM, (LIFESCI_RECORDS, 10))
    drawn: Floats = means[component] + 0.9 * tails / np.sqrt(np.arange(1, 11))
    return drawn


# ------------------------------------------------------------------------------------------ files


def _table(path: Path, columns: int) -> Floats:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return np.loadtxt(file, delimiter=",", skiprows=1, usecols=range(columns), ndmin=2)


def iris_values() -> Floats | None:
    """The 150 measurements in cm, (150, 4), where scikit-learn, which ships them, is installed."""
    try:
        from sklearn.datasets import load_iris
    except ImportError:
        return None
    return np.asarray(load_iris().data, np.float64)


def iris(_folder: Path | None = None) -> Dataset | None:
    """Iris; None where scikit-learn is not installed: there is no stand-in."""
    values = iris_values()
    if values is None:
        return None
    return Dataset("Iris", 3, normalised(values)[0], "Iris, 150 x 4, as scikit-learn ships it")


@lru_cache(maxsize=16)
def dataset(name: str, folder: Path | None) -> Dataset | None:
    """The data set of this name, from the folder of real data where it holds a copy."""
    if name == "Iris":
        return iris()
    file, columns, clusters, stand_in = _SETS[name]
    path = None if folder is None or file is None else folder / file
    if path is not None and path.exists():
        values, words = _table(path, columns), f"{name}: {path.name}"
        if name == "Birch2":
            values = np.random.default_rng(SEED).permutation(values)[:BIRCH2_RECORDS]
            words += f", the first {BIRCH2_RECORDS:,} rows after a shuffle with seed {SEED}"
    else:
        values, words = stand_in(), f"{name}: generated with the public figures of the data set"
    made_up = path is None or not path.exists()
    return Dataset(name, clusters, normalised(values)[0], words, made_up)


_SETS: Final[dict[str, tuple[str | None, int, int, Callable[[], Floats]]]] = {
    "House": ("house.csv.xz", 3, 3, house_like),
    "S1": ("s1.csv.xz", 2, 15, s1_like),
    "Birch2": ("birch2.csv.xz", 2, 5, birch2_like),
    "Image": (None, 3, 3, image_like),
    "Lifesci": (None, 10, 3, lifesci_like),
}
NAMES: Final = ("Iris", *_SETS)


def datasets(folder: Path | None, names: tuple[str, ...] = NAMES) -> tuple[Dataset, ...]:
    """All that are to be had, in the thesis's order."""
    found = (dataset(name, folder) for name in names)
    return tuple(each for each in found if each is not None)
