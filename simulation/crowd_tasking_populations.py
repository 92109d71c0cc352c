"""Users and readings for the reproductions of the book's chapter 12, generated.

Spec: crowd-tasking, section 5 ("Data"). The source's own recordings were never published. Nothing
here is a real person's reading; iris comes with scikit-learn.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.tables import UserSeries
from algorithms.datasets.texts import Texts
from tacit.randomness import SeededRandom

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HEART_BOUNDS: Final = (50.0, 150.0)
DECLARED_WIDTH: Final = 100.0
OBSERVED_WIDTH: Final = 34.323
"""The range of a heart rate that Figure 12.3 needs: observed, not declared."""
SKIN: Final = 1_500
_PERSISTENCE: Final = 0.98


def heart_rates(users: int, rounds: int, source: SeededRandom) -> Floats:
    """(users, T) beats a minute: a level N(72, 6) for each user, an autoregression (0.98, unit
    innovations, stationary), 8 sin of a period U(150, 400) rounds, clipped to 50..150."""
    generator = source.generator
    level = generator.normal(72, 6, (users, 1))
    state = generator.normal(0, 1 / math.sqrt(1 - _PERSISTENCE**2), users)
    wandering = np.empty((users, rounds))
    for number, shock in enumerate(generator.normal(size=(rounds, users))):
        state = _PERSISTENCE * state + shock
        wandering[:, number] = state
    period = generator.uniform(150, 400, (users, 1))
    phase = generator.uniform(0, 2 * math.pi, (users, 1))
    swing = 8 * np.sin(2 * math.pi * np.arange(rounds) / period + phase)
    return np.asarray(np.clip(level + wandering + swing, *HEART_BOUNDS), np.float64)


def heart_series(users: int, rounds: int, source: SeededRandom) -> UserSeries:
    """The same as a data set of kind `user-series`."""
    values = heart_rates(users, rounds, source)
    return UserSeries(
        ("heart_rate",),
        Texts.of(range(users)).repeated(rounds),
        np.tile(np.arange(1, rounds + 1), users),
        values.reshape(-1, 1),
    )


def waypoints(users: int, rounds: int, source: SeededRandom) -> Floats:
    """(users, T, 2) places in a square of 100 by 100: straight to a random place, then the next;
    a leg takes 20 to 120 rounds."""
    generator = source.generator
    paths = np.empty((users, rounds, 2))
    for user in range(users):
        here, number = generator.uniform(0, 100, 2), 0
        while number < rounds:
            there, leg = generator.uniform(0, 100, 2), int(generator.integers(20, 121))
            steps = (np.arange(1, leg + 1) / leg)[: rounds - number, None]
            paths[user, number : number + leg] = here + steps * (there - here)
            here, number = there, number + leg
    return paths


def user_limits(source: SeededRandom) -> tuple[Fraction, ...]:
    """epsilon_u of the 20 participants of Figure 12.11: 9 U(20,30), 3 U(15,20), 8 U(5,15)."""
    generator = source.generator
    drawn = np.concatenate(
        [generator.uniform(20, 30, 9), generator.uniform(15, 20, 3), generator.uniform(5, 15, 8)]
    )
    return tuple(Fraction(round(limit * 1000) + 1, 1000) for limit in drawn.tolist())


def balance_scale() -> tuple[Floats, Ints]:
    """The full factorial 1..5 of weight and distance on both sides: 625 rows, classes by
    sign(w1 d1 - w2 d2): 288 left, 49 balanced, 288 right."""
    places = np.array(np.meshgrid(*[np.arange(1, 6)] * 4, indexing="ij")).reshape(4, -1).T
    lean = np.sign(places[:, 0] * places[:, 1] - places[:, 2] * places[:, 3])
    return places.astype(np.float64), np.asarray(lean + 1, np.int64)


def two_activities(source: SeededRandom, count: int = SKIN) -> tuple[Floats, Ints]:
    """(count, 3) accelerations of two activities, half each: Gaussians of the spec."""
    half = count // 2
    generator = source.generator
    one = generator.normal((2, 6, 6), 1.2, (half, 3))
    other = generator.normal((-5, 2, 7), (2.5, 2.5, 2.0), (count - half, 3))
    labels = np.repeat([0, 1], [half, count - half]).astype(np.int64)
    return np.concatenate([one, other]), labels


def iris() -> tuple[Floats, Ints]:
    """Fisher's iris: 150 rows of 4 lengths, 3 classes."""
    from sklearn.datasets import load_iris

    found = load_iris()
    return np.asarray(found.data, np.float64), np.asarray(found.target, np.int64)
