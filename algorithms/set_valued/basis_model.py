"""Records by length and by which of the commonest items they have, from noisy counts.

The law over the 2^k cells of a basis begins with independent items and is changed, by iterative
scaling, where noisy counts of pairs, triples and so on show clearly that it is wrong: what noise
may be stays independent. Post-processing. Spec: set-valued, section 10.

Sources: N. Li, W. Qardaji, D. Su, J. Cao, "PrivBasis", VLDB 2012; W. Deming, F. Stephan, 1940.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.set_valued.lengths import SIZES
from algorithms.set_valued.margins import Basis
from algorithms.set_valued.records import superset_sums

Floats = NDArray[np.float64]

_CLEAR: Final = 2.5
"""Standard deviations from which on a count of a set changes the law."""
_MOST_SETS: Final = 200
"""Of one size, those that are clearest."""
_ROUNDS: Final = 12
_TABLE_ROUNDS: Final = 15


def independent(chances: Floats, records: Floats, most_others: int) -> Floats:
    """Records by length and cell (64, 2^k) if items are independent: chances (64, k) by length;
    records (64,). No cell has more items than its length, or too few for `most_others` more."""
    table = np.ones((SIZES.size, 1))
    for place in range(chances.shape[1]):
        chance = chances[:, place : place + 1]
        table = np.concatenate((table * (1 - chance), table * chance), axis=1)
    inside = np.bitwise_count(np.arange(table.shape[1]))
    table[(inside > SIZES[:, None]) | (inside < SIZES[:, None] - most_others)] = 0
    total = table.sum(axis=1)
    scale = np.divide(records, total, out=np.zeros(total.size), where=total > 0)
    result: Floats = table * scale[:, None]
    return result


def fitted_cells(start: Floats, basis: Basis, single: Floats) -> Floats:
    """Records of each cell (2^k,): those of `start`, scaled until each item has `single` (k,)
    records, and the sets that stand out of the noise what was counted of them."""
    total, k = float(start.sum()), basis.chosen.size
    sizes = np.bitwise_count(np.arange(start.size)).astype(np.int64)
    counted = superset_sums(basis.cells.astype(np.float64))
    deviation = basis.deviation * 2.0 ** ((k - sizes) / 2)
    bits = 1 << np.arange(k)
    single = np.clip(single, 0, total)
    count_of = dict(zip(bits.tolist(), single.tolist(), strict=True))
    cells = _scaled(start, count_of)
    for size in range(2, k + 1):
        known = superset_sums(cells)
        off = np.abs(counted - known) / deviation
        clear = np.flatnonzero((sizes == size) & (off > _CLEAR))
        clear = clear[np.argsort(-off[clear], kind="stable")[:_MOST_SETS]]
        if not clear.size:
            continue
        for mask in clear.tolist():
            most = float(single[(mask & bits) > 0].min())
            count_of[mask] = min(max(float(counted[mask]), 0.0), most)
        cells = _scaled(cells, count_of)
    return cells


def _scaled(cells: Floats, targets: dict[int, float]) -> Floats:
    """Iterative scaling: the records with all items of a set, and those without, in turn."""
    cells, total = cells.copy(), float(cells.sum())
    every = np.arange(cells.size)
    inside = {mask: np.flatnonzero((every & mask) == mask) for mask in targets}
    for _ in range(_ROUNDS):
        for mask, target in reversed(targets.items()):  # single items last: they are known best
            places = inside[mask]
            part = cells[places]
            mass = float(part.sum())
            if not 0 < mass < total:
                continue
            cells *= (total - target) / (total - mass)
            cells[places] = part * (target / mass)
    return cells


def by_length(table: Floats, records: Floats, cells: Floats, single: Floats) -> Floats:
    """The table (64, 2^k), scaled to these records of each length, with each item and, as far as
    lengths allow, of each cell."""
    table = table.copy()
    used = np.flatnonzero(records)
    part = table[used]
    every = np.arange(cells.size)
    inside = [every >> bit & 1 == 1 for bit in range(single.size)]
    for step in range(2 * _TABLE_ROUNDS):
        columns = part.sum(axis=0)
        target_columns = cells if step < _TABLE_ROUNDS else columns.copy()
        if step >= _TABLE_ROUNDS:
            for place, target in zip(inside, single.tolist(), strict=True):
                mass, total = float(target_columns[place].sum()), float(target_columns.sum())
                if 0 < mass < total and target < total:
                    target_columns *= np.where(
                        place, target / mass, (total - target) / (total - mass)
                    )
        part = part * _ratio(target_columns, columns)
        part = part * _ratio(records[used], part.sum(axis=1))[:, None]
    table[used] = part
    return table


def _ratio(target: Floats, present: Floats) -> Floats:
    return np.divide(target, present, out=np.zeros(present.size), where=present > 0)
