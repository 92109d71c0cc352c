"""Why a contribution counted no reading of a curator: compares the store with the request.

The reason depends on data, so it is visible only to the curator's owner.
"""

from __future__ import annotations

from common.runtime.clock import epoch_microseconds
from common.store.transactions import Transaction
from curator.store import readings as store
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.functions import reading_dimension, reads_vectors
from tacit.units import DIMENSIONS, UNITS


async def unusable(transaction: Transaction, descriptor: RoundDescriptor, curator: int) -> str:
    """The reason, as the end of a sentence; `curator` is its key."""
    query, name = descriptor.query, descriptor.query.register_name
    if query.job is not None:
        return "there is no record of what the job asks for"
    base = UNITS[query.unit].base
    key = await store.register_key(transaction, name, base)
    if key is None:
        bases = await store.register_bases(transaction, name)
        if not bases:
            return f"no reading of {name} was ever stored"
        kept = " and ".join(DIMENSIONS[each] for each in bases)
        return f"{name} is kept as {kept}, and the query asks for {DIMENSIONS[base]}"
    window = descriptor.window
    start, end = epoch_microseconds(window.start), epoch_microseconds(window.end)
    found = await store.lengths(transaction, key, curator, start, end)
    if not found:
        return f"there is no reading of {name} in the window"
    wanted = reading_dimension(query) if reads_vectors(query) else None
    if wanted in found:
        return f"the readings of {name} in the window came after the contribution was made"
    asked = "numbers" if wanted is None else f"vectors of {wanted}"
    return f"the readings of {name} in the window are not the {asked} that the query asks for"
