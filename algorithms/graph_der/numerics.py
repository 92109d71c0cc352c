"""What draws in floating point add to epsilon and delta.

Spec: graph-der, section 3.3, step 6. A choice from R weights by the inverse of their running sums:
each weight and the total have a small *relative* error, which goes to epsilon; each step of the
sums and the uniform number have an *absolute* error of some units of rounding, which makes unlikely
outcomes wrong by any factor and can only go to delta. An edge meets one split at each depth and one
arrangement.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.datasets.edge_list import MAX_EDGES
from algorithms.graph_der.hypergeometric import CUT_MASS
from algorithms.graph_der.parameters import Parameters
from algorithms.graph_der.settings import LIMIT_LINES, Plan
from tacit.noise import DRAW_DISTANCE, sampler_delta

RELATIVE: Final = Fraction(1, 10**10)
"""Error of one probability, unless the scores are large enough for a larger rounding error."""
HIGHEST: Final = 26
"""Above any tree's height."""
_ROUNDING: Final = Fraction(1, 1 << 53)
_WIDEST: Final = 1 << 18
"""Numbers of kept edges that are weighed at most."""


@dataclass(frozen=True)
class Slack:
    """What is added."""

    epsilon: Fraction
    delta: Fraction


def slack_of(params: Parameters, plan: Plan | None) -> Slack:
    """Of a run; a bound for any graph while the plan is not known."""
    height = HIGHEST if plan is None else plan.height
    lines = LIMIT_LINES if plan is None else plan.grid.blocks + 1
    most = MAX_EDGES if plan is None else min(MAX_EDGES, plan.grid.size)
    # score times cells is at most the edges: an exponent is off by a few roundings of this
    exponent = params.epsilon * params.shares[1] * most / (2 * params.k)
    relative = max(RELATIVE, 8 * _ROUNDING * exponent / max(1, height))
    splits = height * 6 * lines * _ROUNDING
    extended = Fraction(float(np.finfo(np.longdouble).eps))
    arrangement = 3 * _WIDEST * extended + Fraction(CUT_MASS)
    per_distance = sampler_delta(1, params.epsilon / params.k) / DRAW_DISTANCE
    counts = sampler_delta(2 * (height + 1), params.epsilon / params.k)
    delta = min(Fraction(1), counts + per_distance * (splits + arrangement))
    return Slack(2 * relative * (height + 1), delta)
