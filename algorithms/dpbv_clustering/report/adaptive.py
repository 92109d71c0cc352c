"""The report of `grid-core` by the plan of k-means. Spec: dpbv-clustering, section 3.10."""

from __future__ import annotations

from algorithms.dpbv_clustering.parameters import Parameters
from algorithms.dpbv_clustering.report.parts import ROWS_ARE_PUBLIC, Released, assembled, pure_line
from tacit.noise import sampler_delta
from tacit.report.model import NoiseStatement, PrivacyReport, SensitivityStatement

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
