"""What the plain and the compiled kernel of suppression take and give.

Spec: trajectory-kcl, sections 3.3 and 7.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from algorithms.datasets.trajectories import Codes, Ints
from algorithms.trajectory_kcl.incidence import State
from algorithms.trajectory_kcl.table import Flags


class Scores(NamedTuple):
    """Of asked local operations: minimal violating sequences gained, instances and maximal
    frequent sequences lost, validity."""

    gains: Ints
    instances: Ints
    frequent: Ints
    valid: Flags


class Changes(NamedTuple):
    """Sequences that an operation touched, ascending: minimal violating ones that are gone, those
    that lost records, maximal frequent ones that are lost."""

    gone: Codes
    shrunk: Codes
    lost: Codes


class Kernel(Protocol):
    """Scores and operations on a state."""

    state: State

    def rows(self, minimal: int) -> Codes:
        """The records that still have a minimal violating sequence."""
        ...

    def score(self, pairs: Codes, minimals: Codes) -> Scores:
        """Local operations: each pair in the records of its minimal violating sequence."""
        ...

    def apply(self, pair: int, rows: Codes) -> Changes:
        """Suppress a pair in these records, all of which have it."""
        ...
