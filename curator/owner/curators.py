"""The curators of a process: what is left of their budgets, who is silent or stopped, and how many.

Spec: console, section 7, rows 14 and 15.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from common.runtime.clock import epoch_microseconds, from_epoch_microseconds
from common.store.transactions import Transaction
from curator.ledger.ledger import INFINITE, LIFETIME, Bits
from curator.owner.policies import holding
from curator.policy import Policy
from curator.store import accounts, flow, stops
from curator.store import parties as store
from curator.store.parties import CuratorRow
from tacit.accounting.amounts import MICRO
from tacit.query.words import PrivacyUnit
from tacit.wire import Exact, Instant, WireModel

SILENT: Final = timedelta(days=1)
"""Without a reading of any time as late as this."""
_NO_LIMIT: Final = -1


class Filter(StrEnum):
    """Which curators a list has."""

    OUT_OF_BUDGET = "out_of_budget"
    WITHOUT_BOUND = "without_bound"
    SILENT = "silent"
    STOPPED = "stopped"
    OWN_POLICY = "own_policy"


class Listed(WireModel):
    """A curator of a list. `left`: epsilon that its readings together may still cost in the period
    of now, None without a limit; `without_bound`: whether some answer has no proven bound."""

    id: str
    party: str
    left: Exact | None
    limit: Exact | None
    without_bound: bool
    accepted: Annotated[int, Field(ge=0)]
    last_reading: Instant | None
    stopped: bool
    own_policy: bool


class Summary(WireModel):
    """How many curators a process has, and how many of them a list of each `Filter` would have."""

    curators: int
    out_of_budget: int
    without_bound: int
    silent: int
    stopped: int
    own_policy: int
    silent_s: int = int(SILENT.total_seconds())


@dataclass(frozen=True)
class Standing:
    """All curators of a process, by key: columns of one element each. `left` and `limit` in
    micro-epsilon of the unit `curator`, -1 without a limit."""

    left: NDArray[np.int64]
    limit: NDArray[np.int64]
    flags: Mapping[Filter, Bits]

    @property
    def summary(self) -> Summary:
        """Counts."""
        counts = {name.value: int(bits.sum()) for name, bits in self.flags.items()}
        return Summary(curators=len(self.left), **counts)


async def standing(transaction: Transaction, default: Policy, now: datetime) -> Standing:
    """Of all curators; a million of them take some arrays of 8 MB."""
    count = await store.hosted_curators(transaction)
    left, limit = (np.full(count, _NO_LIMIT, np.int64) for _ in range(2))
    flags = {name: np.zeros(count, np.bool_) for name in Filter}
    for party in await store.list_parties(transaction):
        span = slice(party.first_key, party.first_key + party.curators)
        whole = (0, party.curators)
        for policy, members in await holding(transaction, party, default, *whole):
            most = policy.limits(PrivacyUnit.CURATOR).period.epsilon
            if most is None:
                continue
            spent = await accounts.totals(transaction, party.id, policy.period_s, now, whole)
            allowed = int(most * MICRO)
            rest = np.maximum(allowed - spent.epsilon, 0)
            stricter = members & ((limit[span] == _NO_LIMIT) | (rest < left[span]))
            left[span][stricter] = rest[stricter]
            limit[span][stricter] = allowed
        ever = await accounts.totals(transaction, party.id, LIFETIME, now, whole)
        flags[Filter.WITHOUT_BOUND][span] = ever.epsilon >= INFINITE
        flags[Filter.STOPPED][span] = await stops.members(
            transaction, party.first_key, party.curators
        )
    flags[Filter.OUT_OF_BUDGET] = left == 0
    flags[Filter.SILENT] = np.ones(count, np.bool_)
    heard = await flow.sent_since(transaction, epoch_microseconds(now - SILENT))
    flags[Filter.SILENT][heard] = False
    own = await store.own_policies(transaction, 0, count)
    flags[Filter.OWN_POLICY][[key for key, *_ in own]] = True
    return Standing(left, limit, flags)


@dataclass(frozen=True)
class Asked:
    """Which curators a list is to have: whose name begins so, and of one `Filter`; `after`: the key
    of the last one of the page before."""

    prefix: str = ""
    only: Filter | None = None
    after: int = -1
    limit: int = 50


async def page(
    transaction: Transaction, found: Standing, asked: Asked
) -> tuple[list[Listed], int, int | None]:
    """The curators of a page, in the order of their enrolment, how many there are in all, and the
    key after which the next page begins."""
    chosen = np.ones(len(found.left), np.bool_) if asked.only is None else found.flags[asked.only]
    if asked.prefix:
        named = np.zeros(len(chosen), np.bool_)
        named[await store.keys_by_prefix(transaction, asked.prefix)] = True
        chosen = chosen & named
    keys = np.flatnonzero(chosen)
    here = keys[keys > asked.after][: asked.limit].tolist()
    rows = await store.curators_by_key(transaction, here)
    newest = await flow.newest_of(transaction, here)
    items = [_listed(row, found, newest.get(row.key)) for row in rows]
    return items, len(keys), here[-1] if len(here) == asked.limit else None


def _listed(row: CuratorRow, found: Standing, newest_us: int | None) -> Listed:
    left, limit = int(found.left[row.key]), int(found.limit[row.key])
    return Listed(
        id=row.id,
        party=row.party,
        left=None if limit == _NO_LIMIT else Fraction(left, MICRO),
        limit=None if limit == _NO_LIMIT else Fraction(limit, MICRO),
        without_bound=bool(found.flags[Filter.WITHOUT_BOUND][row.key]),
        accepted=row.accepted,
        last_reading=None if newest_us is None else from_epoch_microseconds(newest_us),
        stopped=bool(found.flags[Filter.STOPPED][row.key]),
        own_policy=bool(found.flags[Filter.OWN_POLICY][row.key]),
    )
