"""The connection to the broker: a persistent session, explicit acknowledgements, reconnection.

     receive -> store (commit) -> publish dead letters -> acknowledge

`BrokerClient` is aiomqtt with two functions that its public interface (2.5) lacks: acknowledge
later, and read no more than fits. `connection` builds it all from the settings.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import aiomqtt
from aiomqtt import MqttCodeError, MqttError, ProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from common.runtime.clock import Clock, zone_named
from common.runtime.logs import describe, get_logger
from common.runtime.telemetry import ServiceMetrics
from common.runtime.tls import trust
from curator.errors import BadMapping
from curator.intake.intake import Intake
from curator.mqtt.mapping import load, load_devices, routes
from curator.mqtt.messages import Letter, Message, MessageIntake
from curator.settings import CuratorSettings
from tacit.backoff import backoff


class BrokerClient(aiomqtt.Client):
    """A client that acknowledges explicitly, and stops reading beyond `most_waiting` messages."""

    def __init__(self, most_waiting: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._client.manual_ack_set(True)
        self._most_waiting = most_waiting
        self._bounded, self._paused = True, False

    def acknowledge(self, message: aiomqtt.Message) -> None:
        """Acknowledge a message: the broker forgets it."""
        self._client.ack(message.mid, message.qos)

    def waiting(self, most: int) -> list[aiomqtt.Message]:
        """The messages received so far, without waiting."""
        count = min(most, self._queue.qsize())
        messages = [self._queue.get_nowait() for _ in range(count)]
        self._resume()
        return messages

    @contextmanager
    def answers(self) -> Iterator[None]:
        """While an answer of the broker is awaited, messages before it are read."""
        self._bounded = False
        self._resume()
        try:
            yield
        finally:
            self._bounded = True

    def _full(self) -> bool:
        return self._bounded and self._queue.qsize() > self._most_waiting

    def _on_socket_open(self, client: Any, userdata: Any, sock: Any) -> None:
        super()._on_socket_open(client, userdata, sock)
        # In place of the reader that was just asked for.
        self._loop.call_soon_threadsafe(self._loop.add_reader, sock.fileno(), self._readable)

    def _readable(self) -> None:
        """Read until nothing is left, or capacity is used up."""
        try:
            while True:
                self._client.loop_read()
                sock = self._client.socket()
                if sock is None:
                    return
                if self._full():
                    self._paused = True
                    self._loop.remove_reader(sock.fileno())
                    return
                # TLS may hold decoded bytes for which no event comes.
                if not getattr(sock, "pending", int)():
                    return
        except Exception as error:
            if not self._disconnected.done():
                self._disconnected.set_exception(error)

    def _resume(self) -> None:
        sock = self._client.socket()
        if not self._paused or sock is None or self._full():
            return
        self._paused = False
        self._loop.add_reader(sock.fileno(), self._readable)
        self._loop.call_soon(self._readable)


# The order of steps keeps every reading:
#
#     receive -> store (commit) -> publish dead letters -> acknowledge
#
# The broker keeps what is not acknowledged and sends it again to the same session, so a curator
# that stops at any arrow loses nothing; what was stored already is then a duplicate. A broker that
# sends more than `receive_maximum` unacknowledged messages is not read until there is capacity.

STOP_S: Final = 10.0
MOST_DOUBLINGS: Final = 16
LETTERS_AT_ONCE: Final = 10
REFUSED: Final = 0x80
"""Reason codes from here on are refusals (MQTT 5, section 2.4)."""
NO_RETAINED: Final = 2
"""Retained messages are not sent at subscription: each connection would give them a new time."""
_logger = get_logger("tacit.curator.mqtt")


class SubscriptionRefused(Exception):
    """The broker does not let this client read a topic filter."""


class Connection:
    """Serves the broker of the settings until it is stopped."""

    def __init__(
        self, settings: CuratorSettings, intake: MessageIntake, metrics: ServiceMetrics
    ) -> None:
        self._settings, self._intake = settings, intake
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._tls = _tls(settings)
        self._failures = 0
        self._connected = metrics.gauge("mqtt_connected", "Whether the broker is connected.")
        self._connections = metrics.counter(
            "mqtt_connections", "Attempts to connect to the broker, by outcome.", ("outcome",)
        )
        self._letters = metrics.counter(
            "mqtt_dead_letters", "Dead letters by whether the broker took them.", ("outcome",)
        )
        self._up = False

    def start(self) -> None:
        """Begin to serve, in the background; also again after `stop`."""
        self._stopping.clear()
        self._task = asyncio.create_task(self._serve())

    async def stop(self) -> None:
        """Finish and acknowledge the current messages, and disconnect; the session stays."""
        self._stopping.set()
        if self._task is None:
            return
        done, _ = await asyncio.wait({self._task}, timeout=STOP_S)
        if not done:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def check(self) -> str | None:
        """For `/readyz`."""
        return None if self._up else "the MQTT broker is not connected"

    async def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._session()
            except Exception as error:
                details = {"attempt": self._failures, "reason": _reason(error)}
                _logger.warning("broker_lost", **details, **describe(error))
                self._connections.labels("lost" if self._up else "failed").inc()
            finally:
                self._set(False)
            if self._stopping.is_set():
                return
            pause = backoff(min(self._failures, MOST_DOUBLINGS))
            self._failures += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    def _set(self, up: bool) -> None:
        self._up = up
        self._connected.set(int(up))

    async def _session(self) -> None:
        async with self._client() as client:
            options = SubscribeOptions(qos=1, noLocal=True, retainHandling=NO_RETAINED)
            with client.answers():
                codes = await client.subscribe([(name, options) for name in self._intake.filters])
            if any(_code(code) >= REFUSED for code in codes):
                raise SubscriptionRefused
            self._connections.labels("connected").inc()
            self._set(True)
            _logger.info("broker_connected", filters=len(self._intake.filters))
            while not self._stopping.is_set():
                await self._take(client, await self._lot(client))
                self._failures = 0

    def _client(self) -> BrokerClient:
        settings = self._settings
        password = settings.mqtt_password
        properties = _properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = settings.mqtt_session_expiry_s
        properties.ReceiveMaximum = settings.mqtt_receive_maximum
        assert settings.mqtt_host is not None
        return BrokerClient(
            settings.mqtt_receive_maximum,
            hostname=settings.mqtt_host,
            port=settings.mqtt_port,
            identifier=settings.mqtt_client_id,
            username=settings.mqtt_user,
            password=None if password is None else password.get_secret_value(),
            protocol=ProtocolVersion.V5,
            clean_start=False,
            properties=properties,
            keepalive=settings.mqtt_keepalive_s,
            tls_context=self._tls,
            max_concurrent_outgoing_calls=LETTERS_AT_ONCE,
        )

    async def _lot(self, client: BrokerClient) -> list[aiomqtt.Message]:
        """The next messages; empty when it is time to stop. Raises MqttError when the connection
        is lost."""
        most = self._settings.mqtt_batch_messages
        first = asyncio.ensure_future(anext(client.messages))
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({first, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not first.done():
                first.cancel()
        if not first.done():
            return []
        lot = [first.result(), *client.waiting(most - 1)]
        if len(lot) < most and self._settings.mqtt_batch_wait_s > 0:
            await asyncio.sleep(self._settings.mqtt_batch_wait_s)
            lot += client.waiting(most - len(lot))
        return lot

    async def _take(self, client: BrokerClient, lot: Sequence[aiomqtt.Message]) -> None:
        if not lot:
            return
        received = self._intake.now()
        letters = await self._intake.take([_message(message, received) for message in lot])
        if letters:
            with client.answers():
                await asyncio.gather(*(self._send(client, letter) for letter in letters))
        for message in lot:
            client.acknowledge(message)

    async def _send(self, client: BrokerClient, letter: Letter) -> None:
        """Publish dead letters; one that the broker refuses is counted and delays no reading."""
        properties = _properties(PacketTypes.PUBLISH)
        properties.ContentType = "application/json"
        if letter.correlation is not None:
            properties.CorrelationData = letter.correlation
        try:
            await client.publish(letter.topic, letter.payload, qos=1, properties=properties)
        except (MqttError, ValueError) as error:
            self._letters.labels("failed").inc()
            _logger.warning("dead_letter_failed", **describe(error))
        else:
            self._letters.labels("sent").inc()


def _reason(error: Exception) -> str:
    """The broker's reason code, such as "Not authorized"; it has nothing private."""
    return str(error.rc) if isinstance(error, MqttCodeError) else ""


def _properties(packet: int) -> Any:
    return Properties(packet)  # type: ignore[no-untyped-call]


def _code(code: int | ReasonCode) -> int:
    return code if isinstance(code, int) else int(code.value)


def _message(message: aiomqtt.Message, received: int) -> Message:
    properties = message.properties
    payload = message.payload
    return Message(
        topic=str(message.topic),
        payload=payload if isinstance(payload, bytes) else str(payload).encode(),
        received=received,
        content_type=str(getattr(properties, "ContentType", "")),
        correlation=getattr(properties, "CorrelationData", None),
    )


def _tls(settings: CuratorSettings) -> ssl.SSLContext | None:
    if not settings.mqtt_tls:
        return None
    return trust(settings.mqtt_tls_authority, settings.mqtt_tls_certificate, settings.mqtt_tls_key)


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
