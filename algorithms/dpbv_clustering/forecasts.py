"""What each method of dpbv-clustering is expected to be off by, with its verdict.

Of public numbers alone. Spec: dpbv-clustering, section 3.10; utility, section 1.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import by_error, by_size, with_verdict, without_verdict
from algorithms.dpbv_clustering.distances import Decoder
from algorithms.dpbv_clustering.grid import grid_of, plan_of
from algorithms.dpbv_clustering.parameters import BadParameter, BitPlan, Parameters
from algorithms.kmeans.parameters import FEDERATED_CELLS
from algorithms.kmeans.report import error_of_centres
from tacit.encoders.dpbv_clustering import most_differing

NO_UTILITY: Final = "no_utility_expected"


def even_distance(params: Parameters, dimension: int) -> float:
    """Of k even centres, over the range of an attribute."""
    assert params.k is not None
    return float(params.k ** (-1 / dimension))


def with_verdict_of_grid(
    error: dict[str, Any],
    params: Parameters,
    per_axis: int,
    dimension: int,
    deviation: float,
    rows: int | None,
) -> dict[str, Any]:
    """The forecast with its verdict; deviation: of the count of a cell.

    An even cluster of k has the mean count of its cells, each of which adds its noise and is
    known to half a cell.
    """
    if rows is None:
        return by_size(error, deviation, "the number of records in a cell")
    cells = per_axis**dimension
    if params.clusterer == "dbscan":
        relative = deviation * cells / max(rows, 1)
        figure = f"a cell's count errs by {relative:.2g} of the mean count"
        return with_verdict(error, by_error(relative), figure)
    assert params.k is not None
    share = max(rows, 1) / params.k
    noise = deviation * math.sqrt(max(cells / params.k, 1) / 12) / share
    half_cell = 1 / (2 * per_axis * even_distance(params, dimension))
    relative = math.hypot(noise, half_cell)
    figure = (
        f"a centre's coordinate errs by {relative:.2g} of the distance of {params.k} even centres"
    )
    return with_verdict(error, by_error(relative), figure)


def error_of_plan(params: Parameters, noise_share: Fraction | None) -> dict[str, Any]:
    """As that of kmeans, at half the epsilon for stored rows, by the hint of their number."""
    if params.n_hint is None:
        return without_verdict({}, "needs n_hint before a run, or the number of rows")
    most = {} if noise_share is None else {"max_cells": FEDERATED_CELLS}
    try:
        plan = plan_of(params, params.n_hint, noise_share, **most)
    except BadParameter as problem:
        return without_verdict({}, problem.detail)
    return error_of_centres(params.n_hint, grid_of(params, plan), plan, None)


def bit_error(plan: BitPlan) -> dict[str, Any]:
    """Predicted standard deviation of a decoded distance at t, and whether it is still useful."""
    deviations, useless = [], False
    for code in plan.codes:
        decoder = Decoder.of(code, plan.flip)
        middle = min(code.half_window, code.upper - code.lower)
        deviation = math.sqrt(decoder.variance(middle))
        deviations.append(deviation)
        useless = useless or deviation > code.upper - code.lower
    return {
        "predicted_sd_distance": max(deviations),
        "warning": NO_UTILITY if useless else None,
    }


def error_of_bits(params: Parameters, plan: BitPlan) -> dict[str, Any]:
    """The forecast with its verdict: standard deviation of the number of flips among the bits in
    which the middles of two even clusters differ (or two records the radius apart), over half of
    what that number is expected to differ by."""
    widest = max(plan.codes, key=lambda code: code.upper - code.lower)
    if params.clusterer == "dbscan":
        assert params.dbscan_radius is not None
        distance, name = params.dbscan_radius, "two records the radius apart"
    else:
        distance = (widest.upper - widest.lower) * even_distance(params, len(plan.codes))
        name = f"two of {params.k} even clusters"
    differing, flipped = most_differing(widest, distance), float(plan.flip.probability)
    noise = 2 * math.sqrt(flipped * (1 - flipped) * differing)
    signal = (1 - 2 * flipped) * differing
    relative = noise / signal if signal else math.inf
    figure = f"the noise of a record's bits is {relative:.2g} of what tells {name} from each other"
    return with_verdict(bit_error(plan), by_error(relative), figure)
