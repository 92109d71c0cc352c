"""What a driver does and what it gives back: one interface for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulation.events import RoundEvents
from simulation.exact import Sums
from simulation.network import Network, Traffic
from simulation.populations import Population
from tacit.accounting.error import PartError
from tacit.protocol.round.descriptor import RoundState
from tacit.query.query import Query

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Outcome:
    """One round. Totals are (d,) signed ring units.

    `raw`: of the honest readings of everyone enrolled; `clamped`: the same, clamped. Then rounded,
    as all that follow: `truth` of everyone enrolled, `sent` of those that sent anything, `present`
    of the participants. `held`: of what the participants contributed, lies and all, before noise
    (None, as `present`, where who took part is not known to the driver). `dropouts` sent nothing,
    what `late` curators sent did not arrive everywhere in time. `opened`: the
    released total (None if the round aborted, for `reason`). `forecast`: the error that was to be
    expected from noise alone. `wall_s` and `cpu_s` are those of the round, `cpu_s` of all
    processes that the driver can see.
    """

    number: int
    state: RoundState
    reason: str | None
    enrolled: int
    participants: int
    dropouts: int
    late: int
    raw: Sums
    clamped: Sums
    truth: Ints
    sent: Ints
    present: Ints | None
    held: Ints | None
    opened: Ints | None
    forecast: tuple[PartError, ...]
    traffic: Traffic
    wall_s: float
    cpu_s: float


class Driver(Protocol):
    """Runs rounds of one query over a population, one after the other."""

    def run(
        self,
        query: Query,
        population: Population,
        rounds: int,
        events: Iterator[RoundEvents],
        network: Network,
    ) -> Iterator[Outcome]:
        """The outcomes of this many rounds, as they end."""
        ...
