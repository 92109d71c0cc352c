"""The privacy report of each sound method of dpbv-clustering that takes no bits."""

from __future__ import annotations

from algorithms.dpbv_clustering.parameters import Method, Parameters
from algorithms.dpbv_clustering.report_grid import grid_core_report, grid_ldp_report
from algorithms.dpbv_clustering.report_points import points_report
from common.models.report import PrivacyReport


def sound_report(
    params: Parameters, method: Method, per_axis: int, *, reproducible: bool
) -> PrivacyReport:
    """Of the methods that take no bits."""
    assert params.bounds is not None
    dimension = len(params.bounds)
    match method:
        case "grid-core":
            return grid_core_report(params, per_axis, dimension, reproducible=reproducible)
        case "grid-ldp":
            return grid_ldp_report(params, per_axis, dimension, reproducible=reproducible)
        case "laplace-points":
            return points_report(params, dimension, reproducible=reproducible)
        case _:
            raise ValueError("bits have a plan")
