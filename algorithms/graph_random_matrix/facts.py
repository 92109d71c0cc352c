"""What is public after a run, for its report. Spec: graph-random-matrix, section 9."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from algorithms.graph_random_matrix.publication import Release

NAME: Final = "graph-random-matrix"
PLACES: Final = (1, 2, 4, 8, 16)
"""Eigenvectors, from 1, that a forecast speaks of."""


@dataclass(frozen=True)
class Facts:
    """What is public after a run. release: None unless a matrix was published."""

    vertices: int
    declared: bool
    release: Release | None
    signal_below_noise: bool = False
    values_above_noise: int = 0
