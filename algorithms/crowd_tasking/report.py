"""The privacy report of a task. Spec: crowd-tasking, section 9; jobs, "Privacy report"."""

from __future__ import annotations

from dataclasses import replace
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np

from algorithms.contract import by_error, with_verdict
from algorithms.crowd_tasking.parameters import Unit
from algorithms.crowd_tasking.prediction import centred_change
from algorithms.crowd_tasking.task import BOUND_DELTA, Task, UnitCost
from tacit.encoders.crowd_tasking_bounded import UNIT
from tacit.noise import sampler_delta
from tacit.report.builder import ADD_SAMPLER_DELTA, NO_FIGURE, ReportBuilder, pure_dp
from tacit.report.figures import amount, delta_amount, epsilon_amount
from tacit.report.model import (
    Charge,
    Claim,
    NoiseStatement,
    PrivacyReport,
    SensitivityStatement,
    VerifiedStatement,
)

NAME: Final = "crowd-tasking"

PUBLICATIONS: Final = {
    "window": "optimal pieces: Zheng, Mishra and Hu, arXiv 2505.15483; two points: Duchi et al., "
    "2018; their mixture: Wang et al., 2019",
    "subset": "subset selection: Ye and Barg, 2018",
}

SOURCE_ANE: Final = {1: 1.268, 2: 0.578, 3: 0.377, 4: 0.283, 5: 0.218}
"""Column means of Table 12.1; beyond 5 about 1.13 / epsilon."""
_BEYOND: Final = 1.13

_UP: Final = Context(prec=12, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_DOWN: Final = Context(prec=12, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)

_ADVERSARY: Final = {
    False: "anyone who receives the result, together with all other users",
    True: "the coordinator together with all other curators",
}
_FLOAT: Final = (
    "the noise is floating-point and readings are not clamped, as in the source: no statement"
)
_NO_FRESH: Final = (
    "no part of the noise is fresh in every round: two rounds reveal the difference of two readings"
)
_ANE: Final = (
    "The source's risk figure (ANE) overstates protection: an outsider who knows the population's "
    "mean, and no report at all, is already closer to the readings than the source's attacks at "
    "small epsilon. The evaluation of a simulated job sets the two side by side."
)
_PARTS: Final = (
    "The permanent and the dynamic part do not lower epsilon; three parts triple the variance. "
    "Value protection by the permanent part is the unit level; trend protection by the dynamic "
    "part has no worst-case statement."
)
_PER_COORDINATE: Final = (
    "Theorem 12.1 takes the L1 diameter of a reading for sigma; the source's experiments scaled "
    "each coordinate by its own range: k epsilon for a reading of k coordinates."
)
_UNCLAMPED: Final = "The source has no clamp: its sensitivity is not bounded."
_SAME_LABELS: Final = "class labels are the same on both sides: they are public, sent as they are"
_UNCHARGED: Final = (
    "The stance paper debits no figure, though devices clamp and draw exact noise: the ledger of "
    "every curator that participates is without a finite total from then on."
)
_PER_READING: Final = "Epsilon is per reading: over T rounds a user is protected at T epsilon."


def privacy_report(
    task: Task, *, joined: int | None = None, evaluated: bool = False
) -> PrivacyReport:
    """The report of a task: a preview, or with `joined` users a result's."""
    params, paper = task.params, task.stance == "paper"
    cost = task.cost
    library = "tacit.accounting.randomised_response"
    unit = params.privacy_unit
    builder = ReportBuilder(NAME, library, task.stance, unit, "any-two-values")
    claim = "unit: one reading of one user in one round"
    return builder.report(
        "salus",
        _mechanism(task),
        sensitivity=_sensitivity(task),
        claimed=None
        if "Y" not in task.components
        else Claim(**pure_dp(task.epsilon), theorem="12.1", text=claim),
        verified=_verified(task, builder),
        charged=Charge(
            ledger="curators" if task.on_devices else "dataset",
            privacy_unit=unit,
            epsilon=None if paper else epsilon_amount(cost.epsilon),
            delta=None if paper else delta_amount(cost.delta),
            outside_budget=paper,
        ),
        noise=_noise(task),
        sampler_delta=_sampler_delta(task) if task.exact else None,
        method="sum of pure epsilons; exact composition of randomised responses",
        public_parameters=(
            "sensor, bounds, grid, n, T, components, p, buckets and classes are public and chosen "
            "without the readings",
            "who participates and in which rounds",
        ),
        post_processing=(
            "averages, histograms and classifiers are computed from noisy reports alone; one set "
            "of reports may serve several of them at no further cost",
        ),
        not_protected=_not_protected(task),
        source_defects=_defects(task),
        voided_by=(
            "a second draw of the permanent part, or of the noise of one reading",
            "bounds, buckets or epsilon chosen after looking at the readings",
        ),
        assumptions=_assumptions(task),
        caveats=_caveats(task, cost),
        evaluation_attached=evaluated,
        error=_error(task, params.n if joined is None else joined),
        details=_details(task),
    )


def _defects(task: Task) -> tuple[str, ...]:
    if task.stance == "paper":
        return (_UNCLAMPED, _PER_COORDINATE, _PER_READING, _PARTS, _ANE)
    return (_PER_COORDINATE,) if task.per_coordinate and task.params.dimension > 1 else ()


def _mechanism(task: Task) -> dict[str, Any]:
    return {
        "components": list(task.components),
        "p": amount(task.params.p),
        "scale_per_coordinate": {
            coordinate.name: _float_up(scale)
            for coordinate, scale in zip(task.params.sensor.coordinates, task.scales, strict=True)
        },
        "sampler": "exact-integer" if task.exact else "float",
        "steps": task.params.sensor.steps,
        "epsilon_per_coordinate": amount(task.coordinate_epsilon),
    }


def _sensitivity(task: Task) -> tuple[SensitivityStatement, ...]:
    if not task.exact:
        part = "no clamp: not bounded; the noise is scaled to the declared range"
        return (SensitivityStatement(source="data-dependent", part=part),)
    if task.report != "laplace":
        part = "any two values of one reading: weights of a report are E or 2^40, E <= 2^40 e^eps"
        return (SensitivityStatement(source="declared", part=part),)
    steps = task.params.sensor.steps
    return (
        SensitivityStatement(
            value=amount(steps * task.params.dimension),
            source="declared",
            part=f"one reading, in grid steps: {steps} in each coordinate",
        ),
    )


def _verified(task: Task, builder: ReportBuilder) -> tuple[VerifiedStatement, ...]:
    scenario = "coordinator and all other curators" if task.on_devices else "recipient"
    rounds = task.params.rounds
    labels = (_SAME_LABELS,) if task.labels_in_clear else ()
    shift = ("two series differ by one constant vector in every round, after clamp and grid",)
    most = (f"at most {rounds} readings, one a round",)
    listed: list[tuple[Unit, UnitCost, tuple[str, ...]]] = [
        ("reading", task.reading, labels),
        ("level", task.level, (*shift, *labels)),
        ("user", task.user_pure, (*most, *labels)),
    ]
    if task.user != task.user_pure:
        listed.append(("user", task.user, (*most, *labels)))
    if not task.exact:
        would = task.reading.epsilon
        text = "" if would is None else f"; with both it would be {amount(would)} for a reading"
        return tuple(
            builder.line(
                None, None, NO_FIGURE, scenario=scenario, privacy_unit=unit, reason=_FLOAT + text
            )
            for unit in ("reading", "level", "user")
        )
    return tuple(
        builder.line(
            unit,
            _ADVERSARY[task.on_devices],
            {
                "model": "none"
                if cost.epsilon is None
                else "approximate-dp"
                if cost.delta
                else "pure-dp",
                "epsilon": epsilon_amount(cost.epsilon),
                "delta": delta_amount(cost.delta),
            },
            scenario=scenario,
            privacy_unit=unit,
            conditions=conditions,
            reason=_NO_FRESH if cost.epsilon is None else None,
        )
        for unit, cost, conditions in listed
    )


def _bounded(task: Task) -> tuple[NoiseStatement, ...]:
    """The report for reports that are not Laplace."""
    if task.report == "window":
        law = task.window
        part = f"each coordinate: a window (w = {law.reach}, M = {law.half}), or two points"
        chance = Fraction(law.odds, law.odds + UNIT)
    else:
        held = task.subset
        part = f"{held.size} of {held.buckets} buckets; the probability is the own one's"
        chance = held.own
    statement = NoiseStatement(
        layer="curator",
        distribution=task.report,
        part=part,
        probability=amount(chance),
        sampler="exact-integer",
    )
    return (statement,)


def _noise(task: Task) -> tuple[NoiseStatement, ...]:
    if task.report != "laplace":
        return _bounded(task)
    kinds = {"Y": "fresh in every round", "G": "drawn once", "L": "kept with probability p"}
    stated = [
        NoiseStatement(
            layer="curator",
            distribution="discrete-laplace" if task.exact else "laplace",
            part=f"{part}: {kinds[part]}",
            scale=amount(task.perturbation.scale) if task.exact else None,
            sampler="exact-integer" if task.exact else "float",
        )
        for part in task.components
    ]
    if (truth := task.label_truth) is not None:
        stated.append(
            NoiseStatement(
                layer="curator",
                distribution="randomised-response",
                part="label",
                probability=amount(truth),
            )
        )
    return tuple(stated)


def _sampler_delta(task: Task) -> str | None:
    """Of one user's draws in the whole task, at the epsilon of the unit."""
    epsilon = task.cost.epsilon
    if epsilon is None:
        return None
    if task.report != "laplace":  # coins and whole numbers are drawn without any distance
        return "0"
    per_round = ("Y" in task.components) + ("L" in task.components)
    draws = task.params.dimension * (per_round * task.params.rounds + ("G" in task.components))
    draws += task.params.rounds * bool(task.label_epsilon)
    return amount(min(sampler_delta(draws, epsilon), Fraction(1)))


def _not_protected(task: Task) -> tuple[str, ...]:
    sentences = [
        "Participation: who joined and in which rounds is visible, and joining shows that the "
        "user's own limit epsilon_u is at least the task's epsilon.",
        "Timing and size of reports.",
    ]
    if task.labels_in_clear:
        sentences.append("Class labels are sent as they are.")
    if task.params.aggregate == "CLS":
        sentences.append(
            "d_avg, the mean distance of classes, where it was taken from private readings"
        )
    if task.params.privacy_unit != "user" and task.params.rounds > 1:
        sentences.append(
            "What several readings of one user show together, beyond the line for user."
        )
    return tuple(sentences)


def _assumptions(task: Task) -> tuple[str, ...]:
    sentences = ["The device clamps and samples honestly." if task.on_devices else _CENTRAL]
    sentences.append("One report a round; a retry repeats the stored numbers.")
    if task.permanent or "L" in task.components:
        sentences.append("Lasting parts of the noise are kept, secret, for the life of the task.")
    if task.params.labels_are_public and task.params.aggregate == "CLS":
        sentences.append(
            _OWNERS_LABELS if task.on_devices else "Class labels were declared public."
        )
    return tuple(sentences)


_OWNERS_LABELS: Final = (
    "Class labels come from a column that its owner declared public: a curator participates "
    "only if its own policy says so."
)
_CENTRAL: Final = (
    "The coordinator holds the readings and is trusted with them; the noise is drawn as devices "
    "would."
)


def _caveats(task: Task, cost: UnitCost) -> tuple[str, ...]:
    sentences = [
        "Tasks add up: the same readings used for two tasks are protected at the sum of their "
        "epsilons."
    ]
    if task.stance == "sound":
        sentences.append(_ANE)
    elif task.on_devices:
        sentences.append(_UNCHARGED)
    if task.exact:
        sentences.append(ADD_SAMPLER_DELTA)
        if cost.epsilon is None:
            sentences.append("NO PRIVACY for the unit of this task.")
    return tuple(sentences)


def _error(task: Task, n: int) -> dict[str, Any]:
    stated: dict[str, Any] = {"n_joined": n, "aggregate": task.params.aggregate}
    if task.exact:
        stated["grid_half_step"] = _float_up(float(task.grid.step.max()) / 2)
    if n < 1:
        return stated
    predicted = task.predicted(n)
    stated["predicted_mean_error"] = _float_up(predicted.mean)
    stated["predicted_95"] = _float_up(predicted.point_95)
    stated["source_bound"] = None if predicted.bound is None else _float_up(predicted.bound)
    stated["source_bound_fails_with"] = amount(Fraction(str(BOUND_DELTA)))
    stated["basis"] = {
        "AVG": "mean of one round, the widest coordinate; the bound is on the L1 error of all",
        "HIST": "half the L1 distance of bucket shares, from the public reference",
        "CLS": "L2 distance by which a report moves; the 95 % point is the source's bound",
    }[task.params.aggregate]
    stated = _with_verdict(stated, task, predicted.mean)
    if task.report == "subset":
        stated["deviation_of_an_empty_bucket"] = _float_up(task.subset.deviation(n))
    elif task.params.aggregate == "HIST":
        coordinate = float(task.scales[task.params.histogram_place])
        edges = task.params.bucket_edges
        width = edges[1] - edges[0]
        stated["centred_change"] = {
            "one part": _float_up(centred_change(width, coordinate, 1)),
            "as run": _float_up(centred_change(width, coordinate, task.parts)),
        }
    return stated


def _with_verdict(stated: dict[str, Any], task: Task, mean_error: float) -> dict[str, Any]:
    widths = np.array(task.params.widths)
    compared, of = {
        "AVG": (float(widths.max()) / 2, "half the range"),
        "HIST": (0.5, "a distance of a half"),
        "CLS": (float(np.linalg.norm(widths)) / 2, "half the range"),
    }[task.params.aggregate]
    relative = mean_error / compared
    figure = f"the expected error is {relative:.2g} of {of}"
    return with_verdict(stated, by_error(relative), figure)


def _details(task: Task) -> dict[str, Any]:
    user, pure = task.user, task.user_pure
    reading = task.reading.epsilon
    lines = {
        "reading": {"epsilon": epsilon_amount(reading), "delta": delta_amount(task.reading.delta)},
        "level": epsilon_amount(task.level.epsilon) if task.permanent else None,
        "user": {
            "T": task.params.rounds,
            "pure": epsilon_amount(pure.epsilon),
            "epsilon": epsilon_amount(user.epsilon),
            "delta": delta_amount(user.delta),
        },
    }
    risk: dict[str, Any] = {
        "prior_only": None,
        "best_attack": None,
        "attack_name": None,
        "source_ane": amount(Fraction(source_ane(float(task.epsilon)))),
        "note": "prior_only and best_attack need the true readings: see the evaluation",
    }
    if reading is not None and task.exact:
        odds = _UP.next_plus(_UP.exp(_UP.divide(reading.numerator, reading.denominator)))
        risk["odds_factor"] = _text(odds)
        risk["test_error_floor"] = _text(_DOWN.divide(Decimal(1), _UP.add(1, odds)))
    return {
        "verified": lines if task.exact else None,
        "sensitivity": {
            "kind": "per-coordinate" if task.per_coordinate else "l1",
            "value": _float_up(float(sum(task.params.widths))),
            "clamped": task.exact,
        },
        "tasks_composed": 1,
        "ledger": {"cap": None, "spent": None},
        "risk": risk,
        "method": _method(task),
        "epsilon_asked_of_users": amount(task.asked_of_users),
        "descriptor": task.digest,
    }


def _method(task: Task) -> dict[str, Any]:
    """How a reading is reported, by which rule, and the forecasts of the other methods."""
    params = task.params
    described: dict[str, Any] = {
        "asked": params.report or ("laplace" if task.stance == "paper" else "auto"),
        "chosen": task.report,
        "rule": "AVG: window; HIST of one coordinate: subset unless its forecast is worse than "
        "laplace's; CLS, the unit level and other parts than Y: laplace",
    }
    if task.report == "laplace":
        return described
    tasks = {kind: replace(task, report=kind) for kind in ("laplace", task.report)}
    described |= {
        "forecast_mean_error": {
            kind: _float_up(other.predicted(params.n).mean) for kind, other in tasks.items()
        },
        "not_of_the_source": True,
        "publication": PUBLICATIONS[task.report],
    }
    if task.report == "window":
        law = task.window
        described |= {
            "reach": law.reach,
            "half": law.half,
            "windows_of_all": f"{law.mixed}/{1 << 32}",
            "deviation_of_a_reading_on_1": _float_up(law.deviation()),
        }
    else:
        described |= {"buckets": task.subset.buckets, "reported": task.subset.size}
    return described


def source_ane(epsilon: float) -> float:
    """The value in the source's Table 12.1 at this epsilon, as the mean over its sensors."""
    if epsilon >= max(SOURCE_ANE):
        return _BEYOND / epsilon
    if epsilon <= 1:
        return SOURCE_ANE[1] / epsilon
    below = int(epsilon)
    part = epsilon - below
    return SOURCE_ANE[below] * (1 - part) + SOURCE_ANE[below + 1] * part


def _float_up(value: float) -> str:
    """Seven digits of a predicted figure, rounded up."""
    return amount(Fraction(value), Context(prec=7, rounding=ROUND_CEILING))


def _text(value: Decimal) -> str:
    return f"{value:.6e}" if value.adjusted() > 15 or value.adjusted() < -7 else str(value)
