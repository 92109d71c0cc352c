"""What one process of a curator service does for all of them, while it leads.

It takes part in rounds and listens to the meters' broker. The others take readings, enrol parties
and answer; should the leader end, one of them goes on from what is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.service.leader import Leader
from curator.service import Service

if TYPE_CHECKING:
    from curator.mqtt.connection import Connection


class Active:
    """The leader's part of a service."""

    def __init__(self, service: Service, meters: Connection | None) -> None:
        self._service, self._meters = service, meters

    async def start(self) -> None:
        """Begin."""
        if self._service.settings.participate:
            self._service.participation.start()
        if self._meters is not None:
            self._meters.start()

    async def stop(self) -> None:
        """End; what is stored goes on at the next start, here or elsewhere."""
        if self._meters is not None:
            await self._meters.stop()
        await self._service.participation.stop()


async def connected(leader: Leader, meters: Connection) -> str | None:
    """For `/readyz`: only who leads keeps a connection to the broker."""
    return await meters.check() if leader.leads else None
