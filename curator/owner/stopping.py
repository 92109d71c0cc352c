"""Stop: a curator, or all of a process, take part in nothing more until they are started again.

An owner and an operator each stop for themselves, and each takes back only its own: a curator takes
part while neither of them, nor the process, has stopped. A stop beats every policy.

Spec: console, section 6.6.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from common.store.transactions import Transaction
from common.web.auth import Principal
from common.web.tokens import Scope
from curator.owner import statement
from curator.store import stops
from tacit.wire import WireModel, format_instant


class Stop(WireModel):
    """`stopped`: whether to take part in nothing from now on."""

    stopped: bool


async def of_process(transaction: Transaction) -> dict[str, Any]:
    """Whether all curators of this process are stopped, and since when."""
    since = await stops.process(transaction)
    return {"stopped": since is not None, "since": _instant(since)}


async def of_curator(
    transaction: Transaction, curator_id: str, caller: Principal
) -> dict[str, Any]:
    """Whether a curator is stopped, and by whom since when.

    Raises ForeignCurator, UnknownCurator.
    """
    row, _ = await statement.find(transaction, curator_id, caller)
    by = {
        "owner": row.stopped_by_owner,
        "operator": row.stopped_by_operator,
        "process": await stops.process(transaction),
    }
    return {
        "curator": row.id,
        "stopped": any(by.values()),
        "by": {who: _instant(since) for who, since in by.items()},
    }


async def set_curator(
    transaction: Transaction, curator_id: str, caller: Principal, asked: Stop, now: datetime
) -> dict[str, Any]:
    """Set the caller's own stop. Raises ForeignCurator, UnknownCurator."""
    row, _ = await statement.find(transaction, curator_id, caller)
    by_owner = not caller.has(Scope.OPERATOR)
    since = now if asked.stopped else None
    await stops.set_curator(transaction, row.key, since, by_owner=by_owner)
    return await of_curator(transaction, curator_id, caller)


async def set_process(transaction: Transaction, asked: Stop, now: datetime) -> dict[str, Any]:
    """Stop all curators of this process, or start them again; what each was stopped by stays."""
    await stops.set_process(transaction, now if asked.stopped else None)
    return await of_process(transaction)


def _instant(since: datetime | None) -> str | None:
    return None if since is None else format_instant(since)
