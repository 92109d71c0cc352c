"""The settings as a connection: mappings and device table read, everything wired."""

from __future__ import annotations

from common.runtime.clock import Clock
from common.runtime.metrics import ServiceMetrics
from curator.errors import BadMapping
from curator.files.localtime import zone_named
from curator.intake.intake import Intake
from curator.mqtt.connection import Connection
from curator.mqtt.intake import MessageIntake
from curator.mqtt.mapping import load, load_devices, routes
from curator.settings import CuratorSettings


def connection(
    settings: CuratorSettings, intake: Intake, clock: Clock, metrics: ServiceMetrics
) -> Connection:
    """Not started yet. Raises BadMapping for files and zones that cannot be used."""
    try:
        zone = None if settings.mqtt_timezone is None else zone_named(settings.mqtt_timezone)
    except ValueError as error:
        raise BadMapping(f"TACIT_MQTT_TIMEZONE {error}") from None
    messages = MessageIntake(
        intake,
        clock,
        routes(load(settings.mqtt_mappings), settings.mqtt_site),
        dict(load_devices(settings.mqtt_devices)),
        settings.mqtt_site,
        zone,
        settings.max_items,
        metrics,
    )
    return Connection(settings, messages, metrics)
