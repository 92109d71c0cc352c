"""Predictable crowd sensing: what a device does to its own readings, in integers.

Spec: crowd-tasking, sections 2, 3.1, 3.2 and 4. A reading has k coordinates; each is clamped to its
bounds and put on a public grid of `steps` steps, then noise is added. Up to three parts, each a
discrete Laplace P(z) proportional to e^(-|z| / scale) in every coordinate:

    Y   fresh in every round
    G   permanent: drawn once for the life of a task
    L   dynamic: from one round to the next kept with probability `persistence`, else drawn again
        (the whole vector at once)

Two readings differ by at most `steps` in a coordinate, so scale = k steps / epsilon gives epsilon
for a reading, and scale = steps / epsilon gives epsilon for each of its coordinates: k epsilon.

A device keeps `Device` for the life of a task, encrypted. A retry sends the stored numbers again;
a device that has lost its state leaves the task: a second permanent part, or a second noise for one
reading, could be averaged with the first.

The central form calls the same functions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.noise import SCALE_LIMIT, AliasTable, Bernoulli, DiscreteLaplace
from tacit.noise.alias import WEIGHT_BITS
from tacit.randomness import NoiseSource
from tacit.wire import format_exact

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Component: TypeAlias = Literal["Y", "G", "L"]
Number = TypeVar("Number", np.int64, np.float64)

MOST_STEPS: Final = 1 << 24
FARTHEST: Final = 60
"""Noise scales beyond the bounds; three parts pass that with probability below 1e-23."""
_FORMAT: Final = "tacit.crowd-tasking-device/1"


class Left(Exception):
    """The device has left the task: its state is lost, or belongs to another task."""


class RoundPassed(Exception):
    """A later round was already reported; this earlier one can no longer be."""


@dataclass(frozen=True)
class ReadingGrid:
    """Where readings of k coordinates lie: public, the same for every device.

    `lower`, `upper`: (k,) in the sensor's unit; `steps` of the grid in each coordinate.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    steps: int

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper) or not self.lower:
            raise ValueError("a reading has two bounds in every coordinate")
        for low, high in zip(self.lower, self.upper, strict=True):
            if not (low < high and math.isfinite(high - low)):
                raise ValueError("a lower bound lies below its upper one, both finite")
        if not isinstance(self.steps, int) or not 1 <= self.steps <= MOST_STEPS:
            raise ValueError(f"a grid has between 1 and {MOST_STEPS} steps")

    @property
    def dimension(self) -> int:
        """k."""
        return len(self.lower)

    @property
    def step(self) -> Floats:
        """(k,) one step in the sensor's unit."""
        width = np.array(self.upper) - np.array(self.lower)
        return np.asarray(width / self.steps, np.float64)

    def quantise(self, readings: Floats) -> Ints:
        """(n, k) readings, clamped, in steps 0..`steps` above the lower bound."""
        inside = np.clip(readings, self.lower, self.upper)
        placed = np.rint((inside - np.array(self.lower)) / self.step).astype(np.int64)
        return np.asarray(np.clip(placed, 0, self.steps), np.int64)

    def decode(self, reports: NDArray[np.int64] | Floats) -> Floats:
        """(n, k) reports, or means of some, in the sensor's unit: post-processing."""
        return np.asarray(np.array(self.lower) + reports * self.step, np.float64)

    def document(self) -> dict[str, Any]:
        """As JSON without floating-point numbers."""
        return {
            "lower": [repr(value) for value in self.lower],
            "upper": [repr(value) for value in self.upper],
            "steps": self.steps,
        }


@dataclass(frozen=True)
class Perturbation(ReadingGrid):
    """How readings become reports by added noise: `scale` of every part's noise, in steps;
    `persistence` of the part L."""

    scale: Fraction
    components: tuple[Component, ...]
    persistence: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.scale <= SCALE_LIMIT:
            raise ValueError(f"a noise scale lies above 0 and is at most {SCALE_LIMIT} steps")
        if not self.components or not set(self.components) <= {"Y", "G", "L"}:
            raise ValueError("noise has at least one of the parts Y, G and L")
        if len(set(self.components)) != len(self.components):
            raise ValueError("a part is named once")
        if not 0 <= self.persistence <= 1:
            raise ValueError("a probability lies between 0 and 1")

    @property
    def epsilon(self) -> Fraction:
        """Of the values of one reading."""
        return self.dimension * self.steps / self.scale

    @property
    def fresh(self) -> bool:
        """Whether one part of the noise is new in every round."""
        return "Y" in self.components or ("L" in self.components and self.persistence == 0)

    def document(self) -> dict[str, Any]:
        """As JSON without floating-point numbers."""
        return {
            **super().document(),
            "scale": format_exact(self.scale),
            "components": list(self.components),
            "persistence": format_exact(self.persistence),
        }

    def numbers(
        self, users: Ints, rounds: Ints, readings: Floats, source: NoiseSource
    ) -> list[list[int]]:
        """The numbers of each report; rows sorted by user and round."""
        noisy = perturb(self, users, rounds, self.quantise(readings), source)
        listed: list[list[int]] = noisy.tolist()
        return listed

    def refusal(self, values: Sequence[int]) -> str | None:
        """Why a report is refused. Noisy values beyond the bounds are expected; those that no
        honest device would send in a lifetime are refused."""
        if len(values) != self.dimension:
            return f"a report has {self.dimension} numbers"
        beyond = math.ceil(FARTHEST * self.scale)
        if not all(-beyond <= value <= self.steps + beyond for value in values):
            return f"a number lies more than {FARTHEST} noise scales beyond the bounds"
        return None

    def draw(self, source: NoiseSource, count: int) -> Ints:
        """(count, k) noise of one part."""
        drawn = DiscreteLaplace(self.scale).draw(source, count * self.dimension)
        return drawn.reshape(count, self.dimension)


def perturb(
    plan: Perturbation, users: Ints, rounds: Ints, quantised: Ints, source: NoiseSource
) -> Ints:
    """(n, k) reports of quantised readings (n, k); `users`, `rounds` (n,) sorted by both."""
    noise = series_noise(
        plan.components,
        users,
        rounds,
        lambda count: plan.draw(source, count),
        lambda count: Bernoulli(plan.persistence).draw(source, count),
    )
    return quantised + noise


def series_noise(
    components: Sequence[Component],
    users: Ints,
    rounds: Ints,
    draw: Callable[[int], NDArray[Number]],
    coins: Callable[[int], Bools],
) -> NDArray[Number]:
    """(n, k) noise of readings sorted by user and round, as Algorithm 2 adds it up.

    `draw(count)`: (count, k) of one part; `coins(count)`: (count,) true where L is kept. Rounds
    between two readings of a user count: L moves on in them. The first L of a user is drawn here,
    whichever round it is (kept or not, its law is the same). Raises ValueError for rows that are
    not sorted.
    """
    count = users.size
    first = np.ones(count, np.bool_)
    first[1:] = users[1:] != users[:-1]
    gaps = np.ones(count, np.int64)
    gaps[1:] = rounds[1:] - rounds[:-1]
    gaps[first] = 1
    if count and ((np.diff(users) < 0).any() or (gaps < 1).any()):
        raise ValueError("rows are sorted by user and round")
    parts = []
    if "Y" in components:
        parts.append(draw(count))
    if "G" in components:
        parts.append(draw(int(first.sum()))[np.cumsum(first) - 1])
    if "L" in components:
        redrawn = first | ~_kept(gaps, coins)
        latest = np.maximum.accumulate(np.where(redrawn, np.arange(count), 0))
        parts.append(draw(count)[latest])
    noise = parts[0]
    for part in parts[1:]:
        noise += part
    return noise


def _kept(gaps: Ints, coins: Callable[[int], Bools]) -> Bools:
    """Whether L outlived each gap (rounds, at least 1): one coin a round."""
    if not gaps.size:
        return np.zeros(0, np.bool_)
    starts = np.cumsum(gaps) - gaps
    return np.asarray(np.logical_and.reduceat(coins(int(gaps.sum())), starts), np.bool_)


@dataclass(frozen=True)
class Device:
    """What a device keeps for the lifetime of a task. Secret: anyone who reads it can subtract G
    and L.

    `task`: the descriptor's hash; `round`: the last one reported (0: none); `permanent`,
    `dynamic`: (k,) each; `sent`: the numbers of every round, which a retry repeats.
    """

    task: str
    round: int
    permanent: tuple[int, ...]
    dynamic: tuple[int, ...]
    sent: MappingProxyType[int, tuple[int, ...]]

    def to_bytes(self) -> bytes:
        """For encrypted storage."""
        state = {
            "format": _FORMAT,
            "task": self.task,
            "round": self.round,
            "permanent": self.permanent,
            "dynamic": self.dynamic,
            "sent": {str(number): values for number, values in self.sent.items()},
        }
        return json.dumps(state, sort_keys=True, separators=(",", ":")).encode()


def join(plan: Perturbation, task: str, source: NoiseSource) -> Device:
    """The state of a device that joins a task: its own draws, shared with no other task."""
    permanent, dynamic = plan.draw(source, 2).tolist()
    return Device(task, 0, tuple(permanent), tuple(dynamic), MappingProxyType({}))


def resume(stored: bytes | None, task: str) -> Device:
    """The stored state of this task. Raises Left if it is missing: it must never be drawn again."""
    if stored is None:
        raise Left("the state of this task is lost: a device leaves rather than draw it again")
    state = json.loads(stored)
    if state.get("format") != _FORMAT or state.get("task") != task:
        raise Left("the stored state belongs to another task")
    sent = {int(number): tuple(values) for number, values in state["sent"].items()}
    return Device(
        task,
        state["round"],
        tuple(state["permanent"]),
        tuple(state["dynamic"]),
        MappingProxyType(sent),
    )


def report(
    plan: Perturbation, device: Device, number: int, reading: Sequence[float], source: NoiseSource
) -> tuple[Device, tuple[int, ...]]:
    """The state to store *before* sending, and the k numbers of this round's report.

    The same round again gives the same numbers, whatever the reading. Raises RoundPassed for an
    earlier round that has none, ValueError for a reading of another shape or not finite.
    """
    if number in device.sent:
        return device, device.sent[number]
    if number <= device.round:
        raise RoundPassed("a later round was reported already")
    values = np.array([reading], np.float64)
    if values.shape != (1, plan.dimension) or not np.isfinite(values).all():
        raise ValueError("a reading has one finite number for each coordinate")
    noisy = plan.quantise(values)[0]
    dynamic = device.dynamic
    if "Y" in plan.components:
        noisy += plan.draw(source, 1)[0]
    if "G" in plan.components:
        noisy += np.array(device.permanent, np.int64)
    if "L" in plan.components:
        coins = Bernoulli(plan.persistence).draw(source, number - device.round)
        if not coins.all():
            dynamic = tuple(plan.draw(source, 1)[0].tolist())
        noisy += np.array(dynamic, np.int64)
    sent = tuple(noisy.tolist())
    sent_values = MappingProxyType({**device.sent, number: sent})
    return replace(device, round=number, dynamic=dynamic, sent=sent_values), sent


def admits(limit: Fraction, cost: Fraction, left: Fraction | None = None) -> bool:
    """Whether a user joins: the task costs at most its own limit, and at most what is left in
    its ledger (None: it has none). Costs of tasks are added in full."""
    return limit >= cost and (left is None or left >= cost)


LABEL_GRAIN: Final = 1 << 32


def truth_probability(epsilon: Fraction, classes: int) -> Fraction:
    """How often a label of `classes` is reported truthfully: at most e^eps / (e^eps + classes - 1).

    Rounded down to a multiple of 2^-32 (at least the 1 / classes of pure guessing), so that the
    ratio of any two probabilities is at most e^epsilon. What is rounded, upwards, is how often it
    is not: beyond an epsilon of about 22 that is 2^-32, never 0.
    """
    if classes < 2 or epsilon <= 0:
        raise ValueError("at least two classes, and an epsilon above 0")
    odds = math.exp(min(float(epsilon), 40.0))
    wrong = math.ceil((classes - 1) / (odds + classes - 1) * (1 + 1e-12) * LABEL_GRAIN)
    return max(1 - Fraction(wrong, LABEL_GRAIN), Fraction(1, classes))


def respond(labels: Ints, classes: int, epsilon: Fraction, source: NoiseSource) -> Ints:
    """Randomised response on labels 0..classes-1 (n,): true with `truth_probability`, else one of
    the others, each as likely (to 2^-126)."""
    truly = Bernoulli(truth_probability(epsilon, classes)).draw(source, labels.size)
    total = 1 << WEIGHT_BITS
    weights = [total // (classes - 1)] * (classes - 1)
    weights[0] += total - sum(weights)
    alias = AliasTable.from_weights(weights) if classes > 2 else None
    shift = np.ones(labels.size, np.int64)
    if alias is not None:
        shift += alias.draw(source, labels.size)
    return np.asarray(np.where(truly, labels, (labels + shift) % classes), np.int64)
