"""A task with all choices fixed: the noise, its budget, and the cost per unit.

Spec: crowd-tasking, sections 2, 3.4, 3.5 and 4. Everything here is public and decided before any
reading is touched. Budgets are exact rationals; a budget solved from a tolerated error is rounded
up (the error stays below), one solved from a total is rounded down.

Verified guarantee (values clamped and put on the grid; Z of Algorithm 2):

- reading: with a part that is fresh every round (Y; L with p = 0), or one round only, epsilon for
  any two values of one reading: the other parts are averaged over.
- level: with a permanent part (G; L with p = 1) two series that differ by one constant vector in
  every round are epsilon-indistinguishable: map the permanent part to itself minus the constant.
- user: any two series of T readings, T times the reading's epsilon, or less with a delta: the
  rounds given the lasting parts are independent mechanisms of pure epsilon each.
- Without a fresh part two rounds reveal the difference of two readings, whatever epsilon is.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Final

import numpy as np

from algorithms.contract import MethodNeedsSound, Stance
from algorithms.crowd_tasking.parameters import MOST_EPSILON, Parameters, Part, ReportKind
from algorithms.crowd_tasking.prediction import (
    NORMAL_95,
    Floats,
    Predicted,
    average_bound,
    average_deviation,
    average_error,
    epsilon_for_average,
    histogram_error,
    mean_shift,
    shift_bound,
    subset_error,
)
from tacit.accounting.randomised_response import delta_of_responses, response_epsilon, total_epsilon
from tacit.encoders.crowd_tasking import Perturbation, ReadingGrid, truth_probability
from tacit.encoders.crowd_tasking_bounded import (
    Subset,
    SubsetReports,
    Window,
    WindowReports,
    best_window,
)
from tacit.errors import Invalid
from tacit.noise import SCALE_LIMIT
from tacit.randomness import PublicRandom

BOUND_DELTA: Final = 0.05
"""The chance with which the source's bounds may fail, where they are shown."""

_MICRO: Final = 10**6
_BISECTIONS: Final = 40
_LEAST: Final = 1e-6


class BadTask(Invalid):
    """Parameters that do not go together; `field` names the one to change."""

    name = "bad_parameter"
    title = "The parameters do not go together"

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}", pointer=f"/params/{field}")
        self.field, self.reason = field, reason


@dataclass(frozen=True)
class UnitCost:
    """What a task costs one unit: (epsilon, delta); epsilon None: no guarantee."""

    epsilon: Fraction | None
    delta: Fraction = Fraction(0)


@dataclass(frozen=True)
class Task:
    """A task, resolved. `epsilon`: of one reading's values, or with `per_coordinate` of one
    coordinate of it (the source's eps_a). `on_devices`: curators report; else one coordinator
    has the readings. `report`: how a reading is perturbed."""

    params: Parameters
    stance: Stance
    components: tuple[Part, ...]
    per_coordinate: bool
    epsilon: Fraction
    on_devices: bool = False
    report: ReportKind = "laplace"

    @property
    def exact(self) -> bool:
        """Whether readings are clamped and the noise is in integers. The source's own mechanism
        has neither and is only simulated."""
        return self.stance == "sound" or self.on_devices

    @cached_property
    def grid(self) -> ReadingGrid:
        """Bounds and steps of readings."""
        sensor = self.params.sensor
        return ReadingGrid(
            tuple(coordinate.lower for coordinate in sensor.coordinates),
            tuple(coordinate.upper for coordinate in sensor.coordinates),
            sensor.steps,
        )

    @cached_property
    def perturbation(self) -> Perturbation:
        """The exact mechanism of report `laplace`."""
        grid = self.grid
        scale = grid.steps / self.coordinate_epsilon
        return Perturbation(
            grid.lower, grid.upper, grid.steps, scale, self.components, self.params.p
        )

    @cached_property
    def windows(self) -> WindowReports:
        """The exact mechanism of report `window`."""
        law, grid = self.window, self.grid
        epsilon = self.coordinate_epsilon
        return WindowReports(grid.lower, grid.upper, grid.steps, epsilon, law.reach, law.mixed)

    @cached_property
    def subsets(self) -> SubsetReports:
        """The exact mechanism of report `subset`."""
        grid, edges = self.grid, self.params.bucket_edges
        epsilon, size = self.coordinate_epsilon, self.subset.size
        return SubsetReports(grid.lower, grid.upper, grid.steps, epsilon, edges, size)

    @property
    def mechanism(self) -> Perturbation | WindowReports | SubsetReports:
        """The exact mechanism of the task's report."""
        match self.report:
            case "laplace":
                return self.perturbation
            case "window":
                return self.windows
            case "subset":
                return self.subsets

    @property
    def parts(self) -> int:
        """c, the number of parts of the noise."""
        return len(self.components)

    @property
    def coordinate_epsilon(self) -> Fraction:
        """The budget of one coordinate of one reading."""
        return self.epsilon if self.per_coordinate else self.epsilon / self.params.dimension

    @property
    def window(self) -> Window:
        """The mechanism of one coordinate; report `window`."""
        return best_window(self.coordinate_epsilon)

    @property
    def subset(self) -> Subset:
        """Of the histogram's coordinate, which is the only one; report `subset`."""
        return Subset.of(self.coordinate_epsilon, len(self.params.bucket_edges) - 1)

    @property
    def scales(self) -> Floats:
        """(k,) b of one part in the sensor's unit; of windows that of a Laplace part with the same
        variance."""
        if self.report == "window":
            half = self.window.deviation() / 2
            return np.array(self.params.widths) * half / math.sqrt(2)
        return np.array(self.params.widths) / float(self.coordinate_epsilon)

    @property
    def values_epsilon(self) -> Fraction:
        """The epsilon of the values of one reading together."""
        return self.coordinate_epsilon * self.params.dimension

    @property
    def label_epsilon(self) -> Fraction:
        """Of one label; 0 where none is sent, or labels are public."""
        if self.params.aggregate != "CLS" or self.params.label_epsilon is None:
            return Fraction(0)
        return self.params.label_epsilon

    @property
    def labels_in_clear(self) -> bool:
        """Whether labels are sent unchanged."""
        return self.params.aggregate == "CLS" and self.params.label_epsilon is None

    @property
    def fresh(self) -> bool:
        """Whether one part is drawn again in every round."""
        return "Y" in self.components or ("L" in self.components and self.params.p == 0)

    @property
    def permanent(self) -> bool:
        """Whether one part of the noise is drawn only once."""
        return "G" in self.components or ("L" in self.components and self.params.p == 1)

    # ------------------------------------------------------------------------------- what it costs

    @property
    def reading(self) -> UnitCost:
        """Any two values of one reading of one round (and its label, if that is perturbed)."""
        if not (self.fresh or self.params.rounds == 1):
            return UnitCost(None, Fraction(1))
        return UnitCost(self.values_epsilon + self.label_epsilon)

    @property
    def level(self) -> UnitCost:
        """Two series that differ by one constant in every round, labels alike."""
        if self.permanent:
            return UnitCost(self.values_epsilon)
        if not (self.fresh or self.params.rounds == 1):
            return UnitCost(None, Fraction(1))
        return UnitCost(self.params.rounds * self.values_epsilon)

    @property
    def user_pure(self) -> UnitCost:
        """The epsilon between any two series of one user."""
        one = self.reading
        return one if one.epsilon is None else UnitCost(self.params.rounds * one.epsilon)

    @cached_property
    def user(self) -> UnitCost:
        """The same at the task's delta, where it is smaller."""
        one, delta = self.reading, self.params.delta
        if one.epsilon is None or delta == 0 or self.params.rounds == 1:
            return self.user_pure
        total = total_epsilon(self.params.rounds, one.epsilon, delta)
        asked_total = self.params.epsilon  # a total that was requested is not passed by a rounding
        if asked_total is not None and asked_total < total:
            enough = delta_of_responses(self.params.rounds, one.epsilon, asked_total) <= delta
            total = asked_total if enough else total
        pure = self.params.rounds * one.epsilon
        return UnitCost(total, delta) if _worth(total, pure) else UnitCost(pure)

    @property
    def cost(self) -> UnitCost:
        """The cost per unit that the task names."""
        match self.params.privacy_unit:
            case "reading":
                return self.reading
            case "level":
                return self.level
            case "user":
                return self.user

    @property
    def asked_of_users(self) -> Fraction:
        """The figure compared with a user's limit epsilon_u: eps_a; for the unit user its total."""
        total = self.user.epsilon
        if self.params.privacy_unit == "user" and total is not None:
            return total
        return self.epsilon

    # ---------------------------------------------------------------------------- what to expect

    def predicted(self, n: int) -> Predicted:
        """The error with n users who report: AVG and CLS per coordinate, its largest; HIST share.

        CLS: `mean` is E ||noise||_2, `bound` is Theorem 12.5's.
        """
        widest = float(self.scales.max())
        match self.params.aggregate:
            case "AVG" if self.report == "window":
                deviation = average_deviation(n, widest, 1)
                mean = deviation * math.sqrt(2 / math.pi)
                return Predicted(mean, NORMAL_95 * deviation, None)
            case "HIST" if self.report == "subset":
                source = PublicRandom(self.params.prediction_seed)
                return subset_error(n, self.reference, self.subset, source)
            case "AVG":
                total = average_bound(n, 1.0, self.params.dimension, self.parts, BOUND_DELTA)
                return Predicted(
                    average_error(n, widest, self.parts),
                    NORMAL_95 * average_deviation(n, widest, self.parts),
                    None if total is None else total * float(self.scales.mean()),
                )
            case "HIST":
                place = self.params.histogram_place
                return histogram_error(
                    n,
                    self.reference,
                    np.array(self.params.bucket_edges),
                    float(self.scales[place]),
                    self.parts,
                    PublicRandom(self.params.prediction_seed),
                    BOUND_DELTA,
                )
            case "CLS":
                bound = shift_bound(widest, self.params.dimension, self.parts, BOUND_DELTA)
                mean = widest * mean_shift(self.params.dimension, self.parts)
                return Predicted(mean, bound, bound)

    @property
    def reference(self) -> Floats:
        """(m,) the public guess of the bucket shares."""
        if self.params.reference is not None:
            weights = np.array(self.params.reference)
            return np.asarray(weights / weights.sum(), np.float64)
        count = len(self.params.bucket_edges) - 1
        return np.full(count, 1 / count)

    @property
    def label_truth(self) -> Fraction | None:
        """Probability that a label is reported truthfully; None if labels are not perturbed."""
        if not self.label_epsilon:
            return None
        assert self.params.classes is not None
        return truth_probability(self.label_epsilon, len(self.params.classes))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the task, hex, which every device must have: the descriptor's hash."""
        public = {
            "algorithm": "crowd-tasking",
            "stance": self.stance,
            "params": self.params.model_dump(
                mode="json", exclude={"evaluate", "epsilon_limits", "report"}
            ),
            "components": self.components,
            "epsilon": f"{self.epsilon.numerator}/{self.epsilon.denominator}",
            "per_coordinate": self.per_coordinate,
        }
        if self.report != "laplace":
            public["report"] = self.report
        text = json.dumps(public, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


def resolve(params: Parameters, stance: Stance, *, on_devices: bool = False) -> Task:
    """The task with defaults filled in and its budget solved. Raises BadTask."""
    per_coordinate = (params.sensitivity or _usual(params, stance)) == "per-coordinate"
    components = params.components or _usual_components(params, stance)
    bare = params.label_epsilon is None and not params.labels_are_public
    if stance == "sound" and params.aggregate == "CLS" and bare:
        raise BadTask("labels_are_public", "labels are declared public or given label_epsilon")
    kinds = _kinds(params, stance, components)

    def with_budget(epsilon: Fraction, report: ReportKind) -> Task:
        return Task(params, stance, components, per_coordinate, epsilon, on_devices, report)

    if params.epsilon is None:
        solved = [with_budget(_solved(partial(with_budget, report=kind)), kind) for kind in kinds]
        task = min(solved, key=lambda solution: solution.epsilon)
    else:
        epsilon = params.epsilon
        if params.privacy_unit == "user":
            if not _any_fresh(components, params):
                raise BadTask("components", "without a part fresh every round no user is protected")
            epsilon = response_epsilon(params.rounds, params.epsilon, params.delta)
            if not _worth(params.epsilon, params.rounds * epsilon):
                epsilon = params.epsilon / params.rounds
        usable = [with_budget(epsilon, kind) for kind in kinds]
        task = _drawable(usable[0])
        if len(usable) > 1:
            task = min(usable, key=lambda solution: solution.predicted(params.n).mean)
    return _drawable(task)


def _drawable(task: Task) -> Task:
    """The same. Raises BadTask for noise beyond what is drawn."""
    if task.params.sensor.steps / task.coordinate_epsilon > SCALE_LIMIT:
        raise BadTask("epsilon", f"its noise is beyond {SCALE_LIMIT} steps; take fewer steps")
    return task


def _kinds(
    params: Parameters, stance: Stance, components: tuple[Part, ...]
) -> tuple[ReportKind, ...]:
    """The possible reports: the named one, or those that `auto` compares by their forecasts, the
    preferred one first. From public choices only. Raises BadTask, MethodNeedsSound."""
    if params.report not in (None, "laplace") and stance == "paper":
        raise MethodNeedsSound("the source has laplace alone", pointer="/params/report")
    bounded = stance == "sound" and components == ("Y",) and params.privacy_unit != "level"
    fitting: ReportKind = "laplace"
    if bounded and params.aggregate == "AVG":
        fitting = "window"
    if bounded and params.aggregate == "HIST" and params.dimension == 1:
        fitting = "subset"
    kinds_asked = params.report or "auto"
    if kinds_asked == "auto":
        return ("subset", "laplace") if fitting == "subset" else (fitting,)
    if kinds_asked not in ("laplace", fitting):
        raise BadTask(
            "report",
            "window is for AVG, subset for HIST of one coordinate; both with the part Y alone "
            "and another unit than level",
        )
    return (kinds_asked,)


def _worth(total: Fraction, pure: Fraction) -> bool:
    """Whether to accept a delta: it must save at least a hundredth of epsilon."""
    return total * 100 < pure * 99


def _usual(params: Parameters, stance: Stance) -> str:
    return "l1" if stance == "sound" or params.privacy_unit == "user" else "per-coordinate"


def _usual_components(params: Parameters, stance: Stance) -> tuple[Part, ...]:
    if stance == "paper":
        return ("Y", "G", "L")
    return ("Y", "G") if params.privacy_unit == "level" else ("Y",)


def _any_fresh(components: tuple[Part, ...], params: Parameters) -> bool:
    return "Y" in components or ("L" in components and params.p == 0) or params.rounds == 1


def _solved(with_budget: Callable[[Fraction], Task]) -> Fraction:
    """The least budget that meets `max_error`, rounded up to a millionth. Raises BadTask."""
    most = with_budget(Fraction(MOST_EPSILON))
    params = most.params
    assert params.max_error is not None
    if _error_of(most) > params.max_error:
        raise BadTask("max_error", f"not within reach at epsilon {MOST_EPSILON}{_needed(most)}")
    if params.aggregate != "HIST" and most.report == "laplace":  # as 1 / epsilon
        exact = MOST_EPSILON * _error_of(most) / params.max_error
        return Fraction(max(1, math.ceil(exact * _MICRO)), _MICRO)
    low, high = _LEAST, float(MOST_EPSILON)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _error_of(with_budget(Fraction(middle))) > params.max_error:
            low = middle
        else:
            high = middle
    return Fraction(math.ceil(high * _MICRO), _MICRO)


def _error_of(task: Task) -> float:
    """What `max_error` limits, with all users wanted."""
    params = task.params
    if task.report == "window":
        return task.predicted(params.n).mean
    if params.aggregate == "AVG":
        factor = 1 if task.per_coordinate else params.dimension
        epsilon = epsilon_for_average(1.0, params.n, max(params.widths), task.parts) * factor
        return epsilon / float(task.epsilon)
    mean = task.predicted(params.n).mean
    if params.aggregate == "CLS":
        assert params.d_avg is not None
        return mean / params.d_avg
    return mean


def _needed(task: Task) -> str:
    """How many users would suffice, in words; averages only (the other errors do not vanish with
    n)."""
    if task.params.aggregate != "AVG":
        return ""
    assert task.params.max_error is not None
    ratio = _error_of(task) / task.params.max_error
    return (
        f" with n = {task.params.n}: about {math.ceil(task.params.n * ratio**2)} users are needed"
    )
