"""The member sets of frozen rounds, whose sums they open; one row for each of their scopes."""

from __future__ import annotations

from typing import Final

from sqlalchemy import or_

from common.store.released_sets import ReleasedSets
from coordinator.store.tables import frozen_sets, rounds
from tacit.protocol.round.descriptor import RoundState

FROZEN: Final = ReleasedSets(
    frozen_sets,
    frozen_sets.c.round_id,
    (
        rounds.c.id == frozen_sets.c.round_id,
        or_(rounds.c.state != RoundState.ABORTED.value, rounds.c.commitments.is_not(None)),
    ),
)
"""Those of rounds that ended before any aggregator was asked to reveal do not count: their sums
were never opened."""
