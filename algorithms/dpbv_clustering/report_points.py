"""The privacy report of noisy points."""

from __future__ import annotations

import math
from fractions import Fraction

from algorithms.dpbv_clustering.parameters import Parameters
from algorithms.dpbv_clustering.report_parts import (
    ROWS_ARE_PUBLIC,
    Released,
    assembled,
    charge_of,
    pure_line,
)
from common.encoders.dpbv_clustering_cells import POINT_STEPS, point_scale
from common.models.report import (
    MechanismStatement,
    NoiseStatement,
    PrivacyReport,
    SensitivityStatement,
)
from common.noise import sampler_delta
from common.report.figures import amount


def points_report(params: Parameters, dimension: int, *, reproducible: bool) -> PrivacyReport:
    """Every coordinate with discrete Laplace noise."""
    released = Released(
        (pure_line("any-two-values", params.epsilon, ()),), params.epsilon, Fraction(0)
    )
    scale = point_scale(dimension, params.epsilon)
    return assembled(
        "sound",
        MechanismStatement(name="laplace-points", parameters={"steps": POINT_STEPS}),
        released,
        sensitivity=(
            SensitivityStatement(
                value=amount(dimension * POINT_STEPS), norm="l1", source="declared"
            ),
        ),
        charged=charge_of(released),
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
