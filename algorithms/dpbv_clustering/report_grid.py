"""The privacy reports of the grids: noisy counts, and one cell of each record."""

from __future__ import annotations

from fractions import Fraction

from algorithms.dpbv_clustering.grid import laplace_deviation
from algorithms.dpbv_clustering.parameters import Parameters
from algorithms.dpbv_clustering.report_parts import (
    ROWS_ARE_PUBLIC,
    Released,
    assembled,
    charge_of,
    coin,
    pure_line,
)
from common.encoders.dpbv_clustering import Flip
from common.models.base import format_exact
from common.models.report import (
    MechanismStatement,
    NoiseStatement,
    PrivacyReport,
    SensitivityStatement,
)
from common.noise import sampler_delta
from common.report.figures import amount


def grid_core_report(
    params: Parameters, per_axis: int, dimension: int, *, reproducible: bool
) -> PrivacyReport:
    """Counts with discrete Laplace noise of scale 2 / epsilon."""
    epsilon = params.epsilon
    scale = 2 / epsilon
    cells = per_axis**dimension
    lines = [
        pure_line("replace", epsilon, ("the number of rows is public",)),
    ]
    if params.cells_per_axis is not None:
        lines.append(
            pure_line(
                "add-remove",
                epsilon / 2,
                ("cells_per_axis was declared, so that nothing follows from the number of rows",),
            )
        )
    released = Released(tuple(lines), epsilon, Fraction(0))
    return assembled(
        "sound",
        MechanismStatement(name="grid-core", parameters={"cells_per_axis": per_axis}),
        released,
        neighbouring="replace",
        sensitivity=(SensitivityStatement(value="2", norm="l1", source="declared"),),
        charged=charge_of(released),
        noise=(
            NoiseStatement(
                layer="count", distribution="discrete-laplace", scale=amount(scale), draws=cells
            ),
        ),
        sampler=sampler_delta(cells, epsilon),
        public_parameters=("grid and bounds", ROWS_ARE_PUBLIC),
        error={"sd_of_a_count": laplace_deviation(scale)},
        details={"cells": cells, "data_dependent_leaks": []},
        reproducible=reproducible,
        evaluation=params.evaluate,
    )


def grid_ldp_report(
    params: Parameters, per_axis: int, dimension: int, *, reproducible: bool
) -> PrivacyReport:
    """Optimised unary encoding of one cell."""
    flip = Flip.of_epsilon(params.epsilon)
    released = Released(
        (pure_line("any-two-values", params.epsilon, ()),), params.epsilon, Fraction(0)
    )
    quotient = float(flip.probability * (1 - flip.probability)) ** 0.5
    return assembled(
        "sound",
        MechanismStatement(name="grid-ldp", parameters={"cells_per_axis": per_axis}),
        released,
        charged=charge_of(released),
        noise=(coin(flip, "every other cell"), coin(None, "the own cell")),
        public_parameters=("grid and bounds", ROWS_ARE_PUBLIC, "flip probabilities"),
        error={"sd_of_a_share_times_sqrt_rows": quotient / (0.5 - float(flip.probability))},
        details={
            "cells": per_axis**dimension,
            "flip_probability": format_exact(flip.probability),
            "data_dependent_leaks": [],
        },
        reproducible=reproducible,
        evaluation=params.evaluate,
    )
