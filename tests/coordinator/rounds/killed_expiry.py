"""Expires the rounds of a coordinator's database, one by one, and says after each how many."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime

from common.store.database import open_database
from coordinator.store import expiry

LATER = datetime(2100, 1, 1, tzinfo=UTC)


async def main(url: str) -> None:
    """Until it is killed, or none is left."""
    database = open_database(url)
    while True:
        async with database.begin() as transaction:
            if not await expiry.expire(transaction, LATER, LATER, spared=0, limit=1):
                break
            print("expiring", flush=True)
        print("expired", flush=True)
    await database.dispose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
