"""The privacy report of each sound method of dpbv-clustering that takes no bits: noisy counts of a
grid, one cell of each record, noisy points."""

from __future__ import annotations

import math

from algorithms.dpbv_clustering.grid import laplace_deviation
from algorithms.dpbv_clustering.parameters import Method, Parameters
from algorithms.dpbv_clustering.report.parts import (
    ROWS_ARE_PUBLIC,
    Released,
    assembled,
    coin,
    pure_line,
)
from tacit.encoders.dpbv_clustering.cells import POINT_STEPS, point_scale
from tacit.encoders.dpbv_clustering.encoder import Flip
from tacit.noise import sampler_delta
from tacit.report.figures import amount
from tacit.report.model import NoiseStatement, PrivacyReport, SensitivityStatement
from tacit.wire import format_exact


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
