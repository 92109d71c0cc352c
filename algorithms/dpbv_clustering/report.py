"""The privacy reports of the sound methods without bits: noisy counts of a grid, one cell of each
record, noisy points, and `grid-core` by the plan of k-means; and what all reports share.

Spec: dpbv-clustering, section 3.10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import Stance
from algorithms.dpbv_clustering.grid import laplace_deviation
from algorithms.dpbv_clustering.parameters import Method, Parameters
from tacit.encoders.dpbv_clustering.encoder import Flip
from tacit.encoders.dpbv_clustering.sums import POINT_STEPS, point_scale
from tacit.noise import sampler_delta
from tacit.report.builder import NOTHING_HOLDS, ReportBuilder, pure_dp
from tacit.report.figures import amount, delta_amount, epsilon_amount
from tacit.report.model import (
    Charge,
    Neighbouring,
    NoiseStatement,
    PrivacyReport,
    SensitivityStatement,
    VerifiedStatement,
)
from tacit.wire import format_exact

NAME: Final = "dpbv-clustering"
SCENARIO: Final = "recipient"
ROWS_ARE_PUBLIC: Final = "the number of rows"
OUTSIDE: Final = Charge(ledger="dataset", privacy_unit="record", outside_budget=True)
BUILDER: Final = ReportBuilder(
    NAME, "tacit tacit.accounting.randomised_response", "sound", "record", "any-two-values"
)

_ASSUMPTIONS: Final = (
    "one release per record: what each release loses adds up",
    "a record is one row: a person with several rows is protected that many times less",
    "coins and noise come from a generator that nobody can predict",
)


@dataclass(frozen=True)
class Released:
    """What the lines of a report state about a release. epsilon None: infinite."""

    lines: tuple[VerifiedStatement, ...]
    epsilon: Fraction | None
    delta: Fraction = Fraction(0)

    @property
    def charge(self) -> Charge:
        """What the data set's ledger is charged for a record."""
        return Charge(
            ledger="dataset",
            privacy_unit="record",
            epsilon=epsilon_amount(self.epsilon),
            delta=delta_amount(self.delta),
        )


def nothing(reason: str) -> Released:
    """The line for an adversary against whom nothing is protected."""
    line = BUILDER.line(SCENARIO, None, NOTHING_HOLDS, reason=reason)
    return Released((line,), None, Fraction(1))


def pure_line(
    epsilon: Fraction, neighbouring: Neighbouring = "any-two-values", *conditions: str
) -> VerifiedStatement:
    """A record's line with delta 0."""
    return BUILDER.line(
        SCENARIO, None, pure_dp(epsilon), neighbouring=neighbouring, conditions=conditions
    )


def coin(flip: Flip | None, part: str) -> NoiseStatement:
    """A coin per bit; None is a fair one."""
    probability = Fraction(1, 2) if flip is None else flip.probability
    return NoiseStatement(
        layer="bit",
        part=part,
        distribution="randomised-response",
        probability=amount(probability),
    )


def assembled(
    stance: Stance,
    mechanism: str,
    parameters: dict[str, Any],
    released: Released,
    *,
    reproducible: bool,
    evaluation: bool,
    neighbouring: Neighbouring = "any-two-values",
    sampler: Fraction = Fraction(0),
    **fields: Any,
) -> PrivacyReport:
    """A report of these parts; a seeded generator voids it. `fields`: others of a report."""
    seeded = ("the generator is seeded: the output can be repeated, hence nothing is private",)
    unit = released.lines[0].privacy_unit
    builder = replace(BUILDER, stance=stance, unit=unit, neighbouring=neighbouring)
    return builder.report(
        mechanism,
        parameters,
        verified=released.lines,
        charged=OUTSIDE if builder.paper or reproducible else released.charge,
        sampler_delta=delta_amount(sampler),
        sampler_epsilon="0",
        method="exact profile of independent randomised responses; closed forms otherwise; rounded "
        "up",
        post_processing=("distances, labels, centres and plots are made of the release",),
        not_protected=("that a record is in the data",) if neighbouring == "any-two-values" else (),
        voided_by=seeded if reproducible else (),
        assumptions=_ASSUMPTIONS,
        reproducible=reproducible,
        evaluation_attached=evaluation,
        **fields,
    )


# The privacy report of each sound method of dpbv-clustering that takes no bits: noisy counts of a
# grid, one cell of each record, noisy points.


def sound_report(
    params: Parameters, method: Method, per_axis: int, *, reproducible: bool
) -> PrivacyReport:
    """Of the methods that take no bits. Raises ValueError for the one that does."""
    assert params.bounds is not None
    dimension = len(params.bounds)
    match method:
        case "grid-core":
            return grid_core_report(params, per_axis, dimension, reproducible=reproducible)
        case "grid-ldp":
            return _grid_ldp_report(params, per_axis, dimension, reproducible=reproducible)
        case "laplace-points":
            return _points_report(params, dimension, reproducible=reproducible)
        case _:
            raise ValueError("bits have a plan")


def grid_core_report(
    params: Parameters, per_axis: int, dimension: int, *, reproducible: bool
) -> PrivacyReport:
    """Counts with discrete Laplace noise of scale 2 / epsilon."""
    epsilon = params.epsilon
    scale = 2 / epsilon
    cells = per_axis**dimension
    lines = [pure_line(epsilon, "replace", "the number of rows is public")]
    if params.cells_per_axis is not None:
        declared = "cells_per_axis was declared, so that nothing follows from the number of rows"
        lines.append(pure_line(epsilon / 2, "add-remove", declared))
    return assembled(
        "sound",
        "grid-core",
        {"cells_per_axis": per_axis},
        Released(tuple(lines), epsilon),
        neighbouring="replace",
        sensitivity=(SensitivityStatement(value="2", source="declared"),),
        noise=(
            NoiseStatement(
                layer="count", distribution="discrete-laplace", scale=amount(scale), draws=cells
            ),
        ),
        sampler=sampler_delta(cells, epsilon),
        public_parameters=("grid and bounds", ROWS_ARE_PUBLIC),
        error={
            "basis": "the noise alone, of the count of a cell. Masses and centres of clusters are "
            "of the cells that stand out of it: what the others hold is missing from them",
            "sd_of_a_count": laplace_deviation(scale),
        },
        details={"cells": cells, "data_dependent_leaks": []},
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


def _grid_ldp_report(
    params: Parameters, per_axis: int, dimension: int, *, reproducible: bool
) -> PrivacyReport:
    """Optimised unary encoding of one cell."""
    flip = Flip.of_epsilon(params.epsilon)
    quotient = float(flip.probability * (1 - flip.probability)) ** 0.5
    return assembled(
        "sound",
        "grid-ldp",
        {"cells_per_axis": per_axis},
        Released((pure_line(params.epsilon),), params.epsilon),
        noise=(coin(flip, "every other cell"), coin(None, "the own cell")),
        public_parameters=("grid and bounds", ROWS_ARE_PUBLIC, "flip probabilities"),
        error={
            "basis": "the noise alone, of the share of rows in an empty cell. Masses and centres "
            "of clusters are of the cells that stand out of it: what the others hold is missing",
            "sd_of_a_share_times_sqrt_rows": quotient / (0.5 - float(flip.probability)),
        },
        details={
            "cells": per_axis**dimension,
            "flip_probability": format_exact(flip.probability),
            "data_dependent_leaks": [],
        },
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


def _points_report(params: Parameters, dimension: int, *, reproducible: bool) -> PrivacyReport:
    """Every coordinate with discrete Laplace noise."""
    scale = point_scale(dimension, params.epsilon)
    return assembled(
        "sound",
        "laplace-points",
        {"steps": POINT_STEPS},
        Released((pure_line(params.epsilon),), params.epsilon),
        sensitivity=(
            SensitivityStatement(value=amount(dimension * POINT_STEPS), source="declared"),
        ),
        noise=(
            NoiseStatement(
                layer="coordinate",
                distribution="discrete-laplace",
                scale=amount(scale),
                draws=dimension,
            ),
        ),
        sampler=sampler_delta(dimension, params.epsilon),
        public_parameters=("bounds", ROWS_ARE_PUBLIC),
        error={"sd_of_a_coordinate_over_its_range": math.sqrt(2) * float(scale) / POINT_STEPS},
        details={"data_dependent_leaks": []},
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


_MOST_DRAWS = 200_000
"""Coordinates with noise, at most: both histograms and a zone round of 256 clusters."""


def adaptive_report(
    params: Parameters, *, reproducible: bool, over_curators: bool = False
) -> PrivacyReport:
    """From the parameters alone: the plan, which the number of rows or its hint decides, is in the
    result."""
    size = "n_hint" if over_curators else ROWS_ARE_PUBLIC
    lines = [pure_line(params.epsilon, "replace", f"{size} is public")]
    if over_curators:
        declared = "n_hint was declared, so that nothing follows from the number of rows"
        lines.append(pure_line(params.epsilon / 2, "add-remove", declared))
    method = {
        "asked": params.grid or "auto",
        "chosen": "adaptive",
        "rule": "adaptive for kcluster, at most 6 columns and no cells_per_axis; over curators if "
        "n_hint is given",
        "not_of_the_source": True,
    }
    return assembled(
        "sound",
        "grid-core",
        {"grid": "adaptive"},
        Released(tuple(lines), params.epsilon),
        neighbouring="replace",
        sensitivity=(
            SensitivityStatement(value="2", source="declared", part="counts of cells"),
            SensitivityStatement(source="public-output", part="offsets of a zone"),
        ),
        noise=(
            NoiseStatement(
                layer="count", part="counts, offsets, distances", distribution="discrete-laplace"
            ),
        ),
        sampler=sampler_delta(_MOST_DRAWS, params.epsilon),
        public_parameters=("bounds", size),
        error={"basis": "as that of kmeans at half the epsilon; its preview names the figures"},
        details={"method": method, "data_dependent_leaks": []},
        reproducible=reproducible,
        evaluation=params.evaluate,
    )
