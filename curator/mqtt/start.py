"""The settings as a connection: mappings and device table read, everything wired."""

from __future__ import annotations

from common.service.metrics import ServiceMetrics
from curator.errors import BadMapping
from curator.localtime import zone_named
from curator.mqtt.connection import Connection
from curator.mqtt.intake import MessageIntake
from curator.mqtt.mapping import load, load_devices, routes
from curator.service import Service


def connection(service: Service, metrics: ServiceMetrics) -> Connection:
    """Not started yet. Raises BadMapping for files and zones that cannot be used."""
    settings = service.settings
    try:
        zone = None if settings.mqtt_timezone is None else zone_named(settings.mqtt_timezone)
    except ValueError as error:
        raise BadMapping(f"TACIT_MQTT_TIMEZONE {error}") from None
    intake = MessageIntake(
        service.intake,
        service.clock,
        routes(load(settings.mqtt_mappings), settings.mqtt_site),
        dict(load_devices(settings.mqtt_devices)),
        settings.mqtt_site,
        zone,
        settings.max_items,
        metrics,
    )
    return Connection(settings, intake, metrics)
