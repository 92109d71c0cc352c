"""Readings that arrive, or are corrected, after their window was contributed to a round.

Earlier sums stay as released: the change is in none of them, and gives no budget back. It is
counted, and visible only to the curator's owner, because it depends on data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from common.runtime.clock import epoch_microseconds, from_epoch_microseconds
from common.store.transactions import Transaction
from curator.ledger.ledger import presence_bits
from curator.store import history
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import RoundDescriptor

Ints = NDArray[np.int64]


@lru_cache(maxsize=256)
def _register(descriptor: str) -> str:
    signed = Signed[RoundDescriptor].model_validate_json(descriptor)
    return signed.statement.query.register_name


async def after_release(
    transaction: Transaction,
    register: str,
    times: Sequence[int] | Ints,
    owners: Sequence[int] | Ints,
) -> Counter[int]:
    """How many of these readings are in a window that their curator has contributed before.

    `times`: microseconds since 1970; `owners`: curator keys, one each.
    """
    if not len(times):
        return Counter()
    at, keys = np.array(times, np.int64), np.array(owners, np.int64)
    first, last = (from_epoch_microseconds(int(value)) for value in (at.min(), at.max()))
    late = np.zeros(at.size, np.bool_)
    for row in await history.contributed_spans(transaction, first, last):
        if _register(row.descriptor) != register:
            continue
        place = keys - (row.first_key + row.offset)
        start, end = epoch_microseconds(row.window_start), epoch_microseconds(row.window_end)
        inside = (at >= start) & (at < end) & (place >= 0) & (place < row.length)
        present = presence_bits(row.presence, row.length)
        late[inside] |= present[place[inside]]
    found, counts = np.unique(keys[late], return_counts=True)
    return Counter(dict(zip(found.tolist(), counts.tolist(), strict=True)))
