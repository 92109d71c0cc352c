"""The measurements under Tables 5.3 and 5.4 and Figures 5.2 to 5.4: noise against budget.

Spec: budget, section 6. With every curator at the same epsilon,

    MAE = | mean_r (|G_r| - |L_r|) |,   L_r = sum over curators of Laplace(D_i / epsilon),
    G_r = Laplace(D_X / epsilon_global),

epsilon_global = epsilon (MaxEpsilon) or max_i |U| D_i / f(x_i) epsilon (ThisWork), both from
`tacit.accounting.bounds`; N = 100,000 rounds as in the thesis. Table 5.4 compares mean |L_r| with
the same where every curator uses the global sensitivity (SumEpsilon).

The measure shows how similar two noises are, and nothing about privacy: separate rows state the
verified guarantee. Figure 5.4 adds `distributed`, which hides all of a curator's readings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from reproduction.baselines import (
    Floats,
    Layers,
    expected_absolute,
    local_laplace,
    sampling_error,
    total_noise,
)
from reproduction.experiment import Row, Run, sampled
from reproduction.stand_in_data import (
    ELECTRICITY_INSTANTS,
    ELECTRICITY_LARGEST_READING,
    electricity_like,
)
from simulation.populations import LARGEST_RATING, MOVIELENS, MOVIELENS_FILMS, Marginals, movielens
from tacit.accounting.bounds import (
    CuratorFigures,
    Disclosed,
    LocalFigures,
    Name,
    SourceBounds,
    aggregate,
    local_figures,
    source_bounds,
)
from tacit.accounting.loss.rounding import Draws

REPETITIONS: Final = 100_000
EPSILONS: Final = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)

NOTES: Final = (
    "The headers of Tables 5.3 and 5.4 (x 10^-8, x 10^-4) are read as: multiply by 10^8 and 10^4.",
    "A tolerance is four standard errors, of the mean drawn here and of the source's, that of "
    "100,000 rounds; plus half a unit of the printed figure's last place.",
    "The data of ElectricityLoadDiagrams are not here. The stand-in meets the four figures that "
    "the tables fix, so its entries are a consistency check of the tables and no independent "
    "reproduction; its curator figure (largest total over largest reading) means nothing.",
    "A smaller MAE says that two noises are alike, not that a budget is right. `unconditional` "
    "bounds the loss of neither a reading nor a curator. Of sums the sensitivities D_i are "
    "private maxima: no guarantee is verified for their releases. Of counts D_i = 1: epsilon holds "
    "for one reading of a curator that keeps another. `distributed` with the global sensitivity "
    "hides all readings of a curator while no more than t_s aggregators collude.",
)


@dataclass(frozen=True)
class Dataset:
    """One data set and function of the tables.

    global_sensitivity: what SumEpsilon's curators use, readings times the largest reading.
    resolution: of `distributed`, in the unit of the readings. unit: in words, for plots.
    """

    name: str
    unit: str
    marginals: Marginals
    global_sensitivity: Fraction
    resolution: Fraction
    stand_in: bool

    @cached_property
    def _figures(self) -> tuple[SourceBounds, LocalFigures]:
        """At epsilon 1 for everybody; all of them grow in proportion."""
        found = self.marginals
        sums = aggregate(
            CuratorFigures(
                Fraction(1),
                Fraction(most),
                Fraction(total),
                Disclosed(Fraction(most), Fraction(total), count),
            )
            for count, total, most in zip(
                found.counts.tolist(), found.totals.tolist(), found.largest.tolist(), strict=True
            )
        )
        return source_bounds(sums), local_figures(sums)

    @property
    def bounds(self) -> SourceBounds:
        """The sources' three bounds at epsilon 1."""
        return self._figures[0]

    @property
    def verified(self) -> LocalFigures:
        """The verified guarantee at epsilon 1."""
        return self._figures[1]

    def local(self, epsilon: int) -> Layers:
        """The curators' noise, L."""
        return local_laplace(self.marginals.largest, Fraction(epsilon))

    def global_noise(self, bound: Name, epsilon: int) -> Layers:
        """The noise of the global budget, G."""
        value = self.bounds.named(bound).value
        assert value is not None
        return (Draws(self.marginals.largest_total / (value * epsilon), 1),)

    def sum_epsilon(self, epsilon: int) -> Layers:
        """The curators' noise at the global sensitivity."""
        return (Draws(self.global_sensitivity / epsilon, self.marginals.curators),)


SCHEMES: Final[dict[str, Name]] = {"MaxEpsilon": "max_epsilon", "ThisWork": "unconditional"}


def datasets(run: Run) -> tuple[Dataset, Dataset, Dataset]:
    """MovieLens summed and counted, and the stand-in for ElectricityLoadDiagrams."""
    ratings = movielens(run.data, run.source("movielens")).marginals()
    made_up = ratings.name != MOVIELENS
    meters = electricity_like(run.source("electricity"))
    return (
        Dataset(
            "ML summation",
            "stars",
            ratings,
            Fraction(MOVIELENS_FILMS * LARGEST_RATING),
            Fraction(1, 100),
            made_up,
        ),
        Dataset(
            "ML counting",
            "ratings",
            ratings.counting(),
            Fraction(MOVIELENS_FILMS),
            Fraction(1, 100),
            made_up,
        ),
        Dataset(
            "ELD summation (stand-in)",
            "kW, summed",
            meters,
            Fraction(ELECTRICITY_INSTANTS * ELECTRICITY_LARGEST_READING),
            Fraction(1000),
            True,
        ),
    )


# ------------------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Measured:
    """A value from drawn noise, its expectation and standard error, and how often drawn."""

    value: float
    expected: float
    error: float
    repetitions: int

    def row(self, name: str, printed: str, factor: float, *, stand_in: bool) -> Row:
        """Against a printed figure; of a stand-in against what is to be expected of it."""
        if stand_in:
            text = f"{name} (printed {printed})"
            return sampled(text, self.expected, "recomputed", self.value, self.error, stand_in=True)
        decimals = len(printed.partition(".")[2])
        both = self.error * math.sqrt(1 + self.repetitions / REPETITIONS)
        rounding = 0.5 * 10**-decimals * factor
        return sampled(
            name, float(printed) * factor, "printed", self.value, both, rounding=rounding
        )


def differences(run: Run, data: Dataset, epsilon: int) -> dict[str, Measured]:
    """The MAE by scheme: how far mean |G| is from mean |L|, over the same rounds.

    Spec: budget, section 6.
    """
    repetitions = run.effort.repetitions(REPETITIONS)

    def mean(part: str, layers: Layers) -> Measured:
        drawn = total_noise(layers, run.source(data.name, part, epsilon), repetitions)
        return _mean_absolute(drawn, layers)

    inner = mean("L", data.local(epsilon))
    found = {}
    for scheme, bound in SCHEMES.items():
        outer = mean(scheme, data.global_noise(bound, epsilon))
        expected = abs(outer.expected - inner.expected)
        spread = math.hypot(outer.error, inner.error)
        found[scheme] = Measured(abs(outer.value - inner.value), expected, spread, repetitions)
    return found


def _mean_absolute(noise: Floats, layers: Layers) -> Measured:
    expected, count = expected_absolute(layers), len(noise)
    error = expected * sampling_error(layers, count)
    return Measured(float(np.abs(noise).mean()), expected, error, count)


def injected(run: Run, data: Dataset, scheme: str, layers: Layers, epsilon: int) -> Measured:
    """Mean |L| of a scheme, drawn in floating point as the sources draw it."""
    repetitions = run.effort.repetitions(REPETITIONS)
    source = run.source(data.name, scheme, epsilon)
    return _mean_absolute(total_noise(layers, source, repetitions), layers)


def all_differences(
    run: Run, data: Dataset, first: float, last: float
) -> dict[str, dict[int, Measured]]:
    """Scheme, then epsilon; progress from `first` to `last`."""
    found: dict[str, dict[int, Measured]] = {scheme: {} for scheme in SCHEMES}
    for done, epsilon in enumerate(EPSILONS, 1):
        for scheme, measured in differences(run, data, epsilon).items():
            found[scheme][epsilon] = measured
        run.progress(first + (last - first) * done / len(EPSILONS))
    return found


def all_injections(run: Run, data: Dataset) -> dict[str, dict[int, Measured]]:
    plan: dict[str, Callable[[int], Layers]] = {
        "SumEpsilon": data.sum_epsilon,
        "ThisWork": data.local,
    }
    return {
        scheme: {
            epsilon: injected(run, data, scheme, layers(epsilon), epsilon) for epsilon in EPSILONS
        }
        for scheme, layers in plan.items()
    }


def provenance(chosen: tuple[Dataset, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(data.marginals.provenance for data in chosen))
