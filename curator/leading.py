"""The work of the leading process of a curator service, on behalf of all its processes.

The leader participates in rounds and is connected to the meters' broker. The others accept
readings, enrol parties and answer; if the leader ends, one of them continues from the stored state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.store.leader import Leader
from curator.participation.expiry import Expiry
from curator.participation.loop import Participation

if TYPE_CHECKING:
    from curator.mqtt.connection import Connection


class Active:
    """The leader's part of a service. Without `participate`, it joins no round by itself."""

    def __init__(
        self,
        participation: Participation,
        expiry: Expiry,
        meters: Connection | None,
        *,
        participate: bool,
    ) -> None:
        self._participation, self._expiry, self._meters = participation, expiry, meters
        self._participate = participate

    async def start(self) -> None:
        """Begin."""
        if self._participate:
            self._participation.start()
        self._expiry.start()
        if self._meters is not None:
            self._meters.start()

    async def stop(self) -> None:
        """End; the next start continues from the stored state, here or elsewhere."""
        if self._meters is not None:
            await self._meters.stop()
        await self._expiry.stop()
        await self._participation.stop()


async def connected(leader: Leader, meters: Connection) -> str | None:
    """For `/readyz`: only the leader keeps a connection to the broker."""
    return await meters.check() if leader.leads else None
