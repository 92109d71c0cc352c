"""Tacit: a house's energy readings go to its own curator, and what it gave away comes back."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from homeassistant.config_entries import ConfigEntry
from homeassistant.const import CONF_TOKEN, CONF_URL, Platform
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import ConfigEntryAuthFailed
from homeassistant.helpers.aiohttp_client import async_get_clientsession
from homeassistant.helpers.update_coordinator import DataUpdateCoordinator, UpdateFailed

from .const import CONF_CURATOR, CONF_METERS, DOMAIN, STATEMENT_EVERY
from .curator import Curator, CuratorUnreachable, TokenRefused
from .readings import Readings

PLATFORMS = [Platform.SENSOR]
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Given:
    """What the curator says of this house: its statement, and the newest questions."""

    budget: dict[str, Any]
    contributions: list[dict[str, Any]]


@dataclass(frozen=True)
class House:
    """The parts of one configured house."""

    readings: Readings
    given: DataUpdateCoordinator[Given]


async def async_setup_entry(hass: HomeAssistant, entry: ConfigEntry) -> bool:
    """Begin to send readings and to show what was given."""
    curator = Curator(
        async_get_clientsession(hass),
        entry.data[CONF_URL],
        entry.data[CONF_TOKEN],
        entry.data[CONF_CURATOR],
    )

    async def ask() -> Given:
        try:
            return Given(await curator.budget(), await curator.contributions())
        except TokenRefused:
            raise ConfigEntryAuthFailed("the curator refuses the token") from None
        except CuratorUnreachable as error:
            raise UpdateFailed(str(error)) from None

    coordinator = DataUpdateCoordinator(
        hass, _LOGGER, name=DOMAIN, update_method=ask, update_interval=STATEMENT_EVERY
    )
    await coordinator.async_config_entry_first_refresh()
    readings = Readings(hass, curator, entry.data[CONF_METERS], entry.entry_id)
    for end in await readings.start():
        entry.async_on_unload(end)
    hass.data.setdefault(DOMAIN, {})[entry.entry_id] = House(readings, coordinator)
    await hass.config_entries.async_forward_entry_setups(entry, PLATFORMS)
    return True


async def async_unload_entry(hass: HomeAssistant, entry: ConfigEntry) -> bool:
    """End it; readings that wait are kept."""
    if not await hass.config_entries.async_unload_platforms(entry, PLATFORMS):
        return False
    house: House = hass.data[DOMAIN].pop(entry.entry_id)
    await house.readings.stop()
    return True
