"""What is in a curator's store, for tests that look at times and not at sums."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import text

from common.store.transactions import Database
from common.web.dependencies import part_of
from tests.curator.conftest import Site


async def rows(s: Site, register: str = "energy_import") -> list[tuple[str, datetime, int]]:
    """Device, moment and nano-units of every reading of a register, in the order of time."""
    statement = text(
        "SELECT d.id, r.time, r.quantity FROM reading r JOIN device d ON d.key = r.device "
        'JOIN register g ON g.key = r.register WHERE g.name = :name ORDER BY r."time", d.id'
    )
    async with part_of(s.app, Database).reading() as transaction:
        found = (await transaction.execute(statement, {"name": register})).all()
    return [(str(d), datetime.fromtimestamp(t / 1e6, UTC), int(q)) for d, t, q in found]
