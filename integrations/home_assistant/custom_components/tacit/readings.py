"""Readings of meters on their way to the curator.

A total is kept until the curator has answered, also over a restart. Sending one twice is safe: the
curator knows it by device, register and time.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from homeassistant.const import STATE_UNAVAILABLE, STATE_UNKNOWN
from homeassistant.core import Event, HomeAssistant, State, callback
from homeassistant.helpers.event import async_track_state_change_event, async_track_time_interval
from homeassistant.helpers.storage import Store

from .const import AT_ONCE, DOMAIN, MOST_WAITING, SEND_EVERY
from .curator import Curator, CuratorUnreachable, TokenRefused

_LOGGER = logging.getLogger(__name__)
UNITS = ("Wh", "kWh", "MWh")
TOTALS = ("total", "total_increasing")
SAVE_AFTER_S = 10.0


def reading_of(state: State | None) -> dict[str, Any] | None:
    """A meter's state as a reading of a counter; None if it is none."""
    if state is None or state.state in (STATE_UNKNOWN, STATE_UNAVAILABLE):
        return None
    if state.attributes.get("unit_of_measurement") not in UNITS:
        return None
    if state.attributes.get("state_class") not in TOTALS:
        return None
    try:
        float(state.state)
    except ValueError:
        return None
    return {
        "device": state.entity_id,
        "register": "energy_import",
        "time": state.last_updated.isoformat(),
        "value": state.state,
        "unit": state.attributes["unit_of_measurement"],
        "kind": "total_increasing",
    }


class Readings:
    """Waiting readings of one house."""

    def __init__(
        self, hass: HomeAssistant, curator: Curator, meters: list[str], entry_id: str
    ) -> None:
        self._hass, self._curator, self._meters = hass, curator, meters
        self._store: Store[list[dict[str, Any]]] = Store(hass, 1, f"{DOMAIN}.{entry_id}")
        self._waiting: list[dict[str, Any]] = []
        self._sending = False
        self.accepted = 0
        self.refused = 0

    @property
    def waiting(self) -> int:
        """How many were not answered yet."""
        return len(self._waiting)

    async def start(self) -> list[Any]:
        """Listen to the meters; what ends it."""
        self._waiting = await self._store.async_load() or []
        for meter in self._meters:
            self._take(self._hass.states.get(meter))
        return [
            async_track_state_change_event(self._hass, self._meters, self._changed),
            async_track_time_interval(self._hass, self.send, SEND_EVERY),
        ]

    async def stop(self) -> None:
        """Keep what waits."""
        await self._store.async_save(self._waiting)

    @callback
    def _changed(self, event: Event) -> None:
        self._take(event.data.get("new_state"))

    def _take(self, state: State | None) -> None:
        reading = reading_of(state)
        if reading is None:
            return
        self._waiting.append(reading)
        del self._waiting[:-MOST_WAITING]
        self._store.async_delay_save(lambda: self._waiting, SAVE_AFTER_S)

    async def send(self, _: datetime | None = None) -> None:
        """Send what waits; what is not answered waits on."""
        if self._sending:
            return
        self._sending = True
        try:
            while some := self._waiting[:AT_ONCE]:
                answers = await self._curator.send(some)
                bad = sum(answer["status"] in ("conflict", "rejected") for answer in answers)
                self.accepted += len(answers) - bad
                self.refused += bad
                answered = {id(reading) for reading in some}
                self._waiting = [item for item in self._waiting if id(item) not in answered]
                self._store.async_delay_save(lambda: self._waiting, SAVE_AFTER_S)
        except CuratorUnreachable as error:
            _LOGGER.debug("readings wait: %s", error)
        except TokenRefused:
            _LOGGER.warning("the curator refuses the token: readings wait")
        finally:
            self._sending = False
