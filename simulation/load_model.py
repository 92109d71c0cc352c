"""Synthetic household meters: kWh per 15 minutes, with the statistics of real Swiss ones.

Fitted to 400 households of the data set `elcons_15min` (ResidentialEnergyConsumption, Hopf,
Weigert, Weinig, Staake; University of Bamberg, CC BY-SA 4.0), weeks 44 to 50 of a year; the figures
below are its published statistics, no reading of it is here. A meter is

    level_i * profile(hour) * day_ij * exp(sigma g_ij - sigma^2/2), zeroed with probability 5.4 %

with a log-normal level (seven-week totals: mu 7.414, sigma 0.977), the mean profile of the hours,
a log-normal factor per day, and a Gaussian g that is the sum of a habit, the same every day, and an
AR(1). Values are rounded to 0.001 kWh and capped at 120. Met: mean, quartiles, share of zeros, and
the median meter's correlations at 15 minutes and at a day, each within a fifth (a test measures).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.randomness import SeededRandom

INTERVALS_PER_DAY: Final = 96
FITTED_INTERVALS: Final = 7 * 672
LEVEL_MU: Final = 7.4135
LEVEL_SIGMA: Final = 0.9773
ZERO_SHARE: Final = 0.0544
LAG_ONE: Final = 0.82
HABIT_SHARE: Final = 0.66
DAY_SIGMA: Final = 0.2
NOISE_SIGMA: Final = 0.8
CAP_KWH: Final = 120.0
HOUR_KWH: Final = (
    *(2.5838, 2.8463, 2.9715, 2.8842, 2.6681, 2.2653, 2.1084, 1.9171),
    *(2.0446, 2.0525, 1.8073, 1.8189, 1.7527, 1.6715, 1.6865, 1.7796),
    *(1.6432, 1.4513, 2.1294, 2.3872, 2.1087, 1.5921, 1.8655, 2.3697),
)


def household_load(meters: int, days: int, source: SeededRandom) -> NDArray[np.float64]:
    """Readings of `meters` households over whole days, (meters, 96 days) kWh per 15 minutes."""
    generator = source.generator
    count = days * INTERVALS_PER_DAY
    level = np.exp(generator.normal(LEVEL_MU, LEVEL_SIGMA, (meters, 1))) / FITTED_INTERVALS
    hours = np.asarray(HOUR_KWH)
    profile = np.tile(np.repeat(hours / hours.mean(), 4), days)
    day = np.exp(generator.normal(-(DAY_SIGMA**2) / 2, DAY_SIGMA, (meters, days)))
    habit = np.tile(_autoregression(meters, INTERVALS_PER_DAY, generator), days)
    wave = np.sqrt(HABIT_SHARE) * habit
    wave += np.sqrt(1 - HABIT_SHARE) * _autoregression(meters, count, generator)
    load = level * profile * np.repeat(day, INTERVALS_PER_DAY, axis=1)
    load *= np.exp(NOISE_SIGMA * wave - NOISE_SIGMA**2 / 2)
    load[generator.random((meters, count)) < ZERO_SHARE] = 0
    return np.asarray(np.round(np.minimum(load, CAP_KWH), 3), np.float64)


def _autoregression(rows: int, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Standard Gaussian AR(1) rows."""
    wave = generator.normal(size=(rows, count))
    wave[:, 1:] *= np.sqrt(1 - LAG_ONE**2)
    for step in range(1, count):
        wave[:, step] += LAG_ONE * wave[:, step - 1]
    return wave
