"""Trajectories like those of the source's experiments, which are not public.

Spec: trajectory-kcl, section 5: route templates, of which each person takes one with dropped and
changed points. A model without concentration on routes is useless, and so is this generator's
`noise` at 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from algorithms.datasets.trajectories import Attribute, Trajectories
from tacit.randomness import SeededRandom

ATTRIBUTE: Final = "attribute"


@dataclass(frozen=True)
class Routes:
    """What `routes_like` needs.

    blocks: locations; hours: slots; routes: templates; mean: of a template's length, which is
    geometric, from 2 to `longest`; drop, noise: chances that a point is omitted, or placed
    elsewhere; zipf: of the popularity of routes; sensitive of `values` values are sensitive and
    taken with chance `share` together.
    """

    records: int
    blocks: int
    hours: int
    routes: int
    mean: float
    drop: float
    noise: float
    zipf: float
    share: float
    values: int
    sensitive: int
    longest: int | None = None

    @property
    def sensitive_values(self) -> tuple[tuple[str, str], ...]:
        """As the job's parameter has them."""
        return tuple((ATTRIBUTE, str(value)) for value in range(self.sensitive))


def city(records: int = 80_000, *, noise: float = 0.005, longest: int | None = None) -> Routes:
    """Like City80K; `noise` .005 (easy) or .03 (hard)."""
    return Routes(records, 26, 24, 300, 6.5, 0.1, noise, 0.8, 0.2, 5, 1, longest)


def metro(records: int = 462_483, *, longest: int | None = None) -> Routes:
    """Like STM460K."""
    return Routes(records, 68, 48, 3000, 3.4, 0.05, 0.004, 0.8, 0.25, 24, 6, longest)


def routes_like(routes: Routes, source: SeededRandom) -> Trajectories:
    """Draw the table."""
    draw = source.generator
    longest = min(routes.longest or routes.hours, routes.hours)
    lengths = np.clip(draw.geometric(1 / routes.mean, routes.routes), 2, longest)
    hours = np.zeros((routes.routes, longest), np.int64)
    for route, length in enumerate(lengths.tolist()):
        window = min(2 * length, routes.hours)
        start = draw.integers(0, routes.hours - window + 1)
        hours[route, :length] = start + np.sort(draw.choice(window, length, replace=False))
    popular = 1 / np.arange(1, routes.blocks + 1)
    popular /= popular.sum()
    blocks = draw.choice(routes.blocks, (routes.routes, longest), p=popular)
    weights = np.arange(1, routes.routes + 1, dtype=float) ** -routes.zipf
    taken = draw.choice(routes.routes, routes.records, p=weights / weights.sum())
    owner = np.repeat(np.arange(routes.records), lengths[taken])
    first = np.repeat(np.cumsum(lengths[taken]) - lengths[taken], lengths[taken])
    place = np.arange(owner.size) - first
    visited, when = blocks[taken[owner], place], hours[taken[owner], place]
    changed = draw.random(owner.size) < routes.noise
    visited[changed] = draw.choice(routes.blocks, int(changed.sum()), p=popular)
    kept = draw.random(owner.size) >= routes.drop
    offsets = np.zeros(routes.records + 1, np.int64)
    np.cumsum(np.bincount(owner[kept], minlength=routes.records), out=offsets[1:])
    return Trajectories(
        offsets,
        when[kept].astype(np.float64),
        visited[kept].astype(np.int32),
        tuple(f"b{block:02d}" for block in range(routes.blocks)),
        (_attribute(routes, draw),),
    )


def _attribute(routes: Routes, draw: np.random.Generator) -> Attribute:
    others = routes.values - routes.sensitive
    codes = np.where(
        draw.random(routes.records) < routes.share,
        draw.integers(0, routes.sensitive, routes.records),
        routes.sensitive + draw.integers(0, others, routes.records),
    )
    names = tuple(str(value) for value in range(routes.values))
    return Attribute(ATTRIBUTE, names, codes.astype(np.int32))
