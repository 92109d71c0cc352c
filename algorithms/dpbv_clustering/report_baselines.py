"""What the baselines of dpbv-clustering are worth (spec: dpbv-clustering, section 6)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from algorithms.dpbv_clustering.baselines import gaussian_epsilon
from algorithms.dpbv_clustering.parameters import Parameters
from common.models.base import format_exact
from common.report.figures import amount, delta_amount


def baseline_figures(params: Parameters) -> dict[str, Any]:
    """The true guarantees of the baselines, were their noisy records released."""
    figures: dict[str, Any] = {}
    if "kmeans" in params.baselines:
        figures["kmeans"] = {"model": "none"}
    if "adp" in params.baselines and params.bounds is not None:
        diameter = math.sqrt(sum((high - low) ** 2 for low, high in params.bounds))
        at = params.delta or Fraction(1, 10**6)
        figures["adp"] = {
            "sigma": format_exact(params.adp_sigma),
            "l2_diameter": diameter,
            "epsilon": amount(
                Fraction(gaussian_epsilon(_below(at), float(params.adp_sigma), diameter))
            ),
            "delta": delta_amount(at),
            "condition": "for real-valued noise; floating point protects less",
        }
    if "rsp" in params.baselines:
        figures["rsp"] = {
            "model": "none",
            "reason": "one linear map for all records: known pairs invert it",
        }
    return figures


def _below(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, 0.0)
