"""What a house gave away, as sensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from homeassistant.components.sensor import (
    SensorDeviceClass,
    SensorEntity,
    SensorEntityDescription,
    SensorStateClass,
)
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import EntityCategory
from homeassistant.core import HomeAssistant
from homeassistant.helpers.device_registry import DeviceEntryType, DeviceInfo
from homeassistant.helpers.entity_platform import AddEntitiesCallback
from homeassistant.helpers.update_coordinator import CoordinatorEntity, DataUpdateCoordinator
from homeassistant.util import dt as dt_util

from . import Given, House
from .const import CONF_CURATOR, DOMAIN

UNIT = "curator"
"""The unit of privacy that a house cares for: everything that it ever says."""
SHOWN = 5
NO_BOUND = ("inf", "infinite")
"""As services say it now, and as they did before."""


def _epsilon(text: str) -> Decimal | str:
    """A figure of the statement; `infinite` for what has no bound."""
    return "infinite" if text in NO_BOUND else Decimal(text)


def _spent(given: Given, when: str) -> Decimal | str:
    return _epsilon(given.budget["units"][UNIT][when]["epsilon"])


def _left(given: Given) -> Decimal | None:
    limit = given.budget["units"][UNIT]["limits"].get("period", {}).get("epsilon")
    if limit is None:
        return None
    spent = _spent(given, "period")
    return Decimal(limit) - spent if isinstance(spent, Decimal) else Decimal(0)


def _answered(given: Given) -> list[dict[str, Any]]:
    return [item for item in given.contributions if item["contributed"]]


def _last_answer(given: Given) -> datetime | None:
    times = [item["finished"] or item["send_at"] for item in _answered(given)]
    return dt_util.parse_datetime(max(times)) if times else None


@dataclass(frozen=True, kw_only=True)
class GivenDescription(SensorEntityDescription):
    """A sensor of the statement."""

    value: Callable[[Given], Any]


SENSORS = (
    GivenDescription(
        key="spent",
        translation_key="spent",
        icon="mdi:shield-lock-outline",
        value=lambda given: _spent(given, "period"),
    ),
    GivenDescription(key="left", translation_key="left", icon="mdi:shield-half-full", value=_left),
    GivenDescription(
        key="lifetime",
        translation_key="lifetime",
        icon="mdi:shield-lock",
        value=lambda given: _spent(given, "lifetime"),
    ),
    GivenDescription(
        key="answers",
        translation_key="answers",
        icon="mdi:comment-check-outline",
        state_class=SensorStateClass.TOTAL,
        value=lambda given: given.budget["units"][UNIT]["rounds"],
    ),
    GivenDescription(
        key="last_answer",
        translation_key="last_answer",
        device_class=SensorDeviceClass.TIMESTAMP,
        value=_last_answer,
    ),
)


async def async_setup_entry(
    hass: HomeAssistant, entry: ConfigEntry, add: AddEntitiesCallback
) -> None:
    """Add the sensors of a house."""
    house: House = hass.data[DOMAIN][entry.entry_id]
    add([*(GivenSensor(house.given, entry, sensor) for sensor in SENSORS), Waiting(house, entry)])


def _device(entry: ConfigEntry) -> DeviceInfo:
    return DeviceInfo(
        identifiers={(DOMAIN, entry.entry_id)},
        name=f"Tacit {entry.data[CONF_CURATOR]}",
        entry_type=DeviceEntryType.SERVICE,
    )


class GivenSensor(CoordinatorEntity[DataUpdateCoordinator[Given]], SensorEntity):
    """A figure of the curator's own statement."""

    _attr_has_entity_name = True
    entity_description: GivenDescription

    def __init__(
        self,
        given: DataUpdateCoordinator[Given],
        entry: ConfigEntry,
        description: GivenDescription,
    ) -> None:
        super().__init__(given)
        self.entity_description = description
        self._attr_unique_id = f"{entry.entry_id}_{description.key}"
        self._attr_device_info = _device(entry)

    @property
    def native_value(self) -> Any:
        """The figure."""
        return self.entity_description.value(self.coordinator.data)

    @property
    def extra_state_attributes(self) -> dict[str, Any] | None:
        """The newest questions, with the answers of this house."""
        if self.entity_description.key != "answers":
            return None
        newest = self.coordinator.data.contributions[:SHOWN]
        return {
            "questions": [
                {
                    "question": item["query_name"] or item["function"],
                    "about": [item["window"]["start"], item["window"]["end"]],
                    "answered": item["contributed"],
                    "refused_because": [ground["name"] for ground in item["refused_because"]],
                    "epsilon": item.get("declared", {}).get("epsilon"),
                }
                for item in newest
            ]
        }


class Waiting(SensorEntity):
    """How many readings the curator has not answered yet."""

    _attr_has_entity_name = True
    _attr_translation_key = "waiting"
    _attr_entity_category = EntityCategory.DIAGNOSTIC
    _attr_icon = "mdi:tray-full"

    def __init__(self, house: House, entry: ConfigEntry) -> None:
        self._readings = house.readings
        self._attr_unique_id = f"{entry.entry_id}_waiting"
        self._attr_device_info = _device(entry)

    @property
    def native_value(self) -> int:
        """Readings that wait."""
        return self._readings.waiting

    @property
    def extra_state_attributes(self) -> dict[str, int]:
        """What the curator said to those before."""
        return {"accepted": self._readings.accepted, "refused": self._readings.refused}
