"""The readings that curators hold in a round: a population, after its events.

Readings become the whole nano-units in which a curator service stores them; they lie in the window
at even distances, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulation.populations import Population
from tacit.query.fixedpoint import round_half_even
from tacit.query.functions import Readings
from tacit.query.query import Query
from tacit.query.words import Coordinates, Function
from tacit.sets import Bits
from tacit.units import MAX_QUANTITY, NANO, UNITS

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Store:
    """A population as a curator service would hold it: `quantity` in nano-units of the base unit,
    those of curator i from `starts[i]` on, `counts[i]` of them."""

    counts: Ints
    starts: Ints
    quantity: Ints

    @classmethod
    def of(cls, population: Population) -> Store:
        """Raises ValueError for a reading that no service could store."""
        factor = UNITS[population.unit].factor * NANO
        values = population.values
        if float(np.abs(values).max(initial=0)) * float(factor) > MAX_QUANTITY:
            raise ValueError("a reading is larger than any that is stored")
        if values.dtype == np.int64:
            assert factor.denominator == 1
            quantity = values * int(factor)
        else:
            # A decimal of a few digits times a power of ten: the nearest integer is the exact one.
            quantity = np.rint(values * float(factor)).astype(np.int64)
        counts = population.counts.astype(np.int64)
        return cls(counts, np.cumsum(counts) - counts, np.asarray(quantity, np.int64))


def readings(query: Query, store: Store, rows: Ints, lying: Bits) -> Readings:
    """What curators report: those of `rows` (b,), or m readings at the upper bound by liars (b,).

    Raises ValueError for a query that sums vectors as sent: a population has single readings.
    """
    if query.function is Function.VECTOR_SUM and query.coordinates is Coordinates.VALUES:
        raise ValueError("a simulated population has single readings: use coordinates slots")
    counts = np.where(lying, query.max_readings, store.counts[rows])
    owner = np.repeat(np.arange(rows.size), counts)
    place = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
    if lying.any():
        honest = ~lying[owner]
        highest = round_half_even(query.bounds[1] * UNITS[query.unit].factor * NANO)
        quantity = np.full(owner.size, highest, np.int64)
        quantity[honest] = store.quantity[store.starts[rows][owner[honest]] + place[honest]]
    else:
        quantity = store.quantity[store.starts[rows][owner] + place]
    return Readings(rows.size, owner, quantity, (place << 32) // np.maximum(counts[owner], 1))


def check_unit(query: Query, population: Population) -> None:
    """Raise ValueError unless query and population have the same base unit."""
    if UNITS[query.unit].base != UNITS[population.unit].base:
        raise ValueError(f"a query in {query.unit} over readings in {population.unit}")
