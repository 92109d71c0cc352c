"""MQTT messages as readings: stored many in one transaction, or answered with a dead letter.

A device sends for itself only: the topic names it. `MessageIntake` uses the intake that HTTP uses
and returns after the commit: only then may the messages be acknowledged to the broker.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from common.bodies import JSON
from common.principals import Principal, Scope
from common.runtime.clock import Clock, epoch_microseconds
from common.runtime.logs import describe, get_logger
from common.runtime.telemetry import ServiceMetrics
from common.store.failures import store_failed
from common.web.problems import TYPE_PREFIX
from common.web.wire import NDJSON
from curator.errors import BadItem, UnknownCurator
from curator.files.units_and_local_time import LocalTimes
from curator.intake.intake import Answer, Intake, Status, together
from curator.intake.reading import Doubled, items_of, load_json
from curator.intake.senml import SENML_CBOR, SENML_JSON, items_of_senml
from curator.mqtt.mapping import RECEIVED, ReadingRule, Route, TopicRule
from tacit.errors import DomainError, Invalid
from tacit.wire import format_instant

LETTER: Final = "tacit.dead-letter/1"
LISTED: Final = 100
"""Refused items that a letter lists; all are counted."""
MAX_TEXT: Final = 200
MAX_DIGITS: Final = 12
"""Seconds since 1970 with more are no time that a reading can have."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Message:
    """A message as received. `received` in microseconds since 1970."""

    topic: str
    payload: bytes
    received: int
    content_type: str = ""
    correlation: bytes | None = None


@dataclass(frozen=True)
class Letter:
    """A dead letter, with the reason that is counted."""

    topic: str
    payload: bytes
    reason: str
    correlation: bytes | None = None


def raw_items(
    message: Message, rule: TopicRule, device: str, zone: ZoneInfo | None, max_items: int
) -> list[Any]:
    """The raw items of a message, as `Intake` takes them; empty if it has no reading for us.

    An item that is refused before it is parsed is returned as a `BadItem`. Raises NotReadings,
    TooManyItems or BadItem for a message without any item.
    """
    if rule.payload == "readings":
        form = NDJSON if message.content_type in (NDJSON, "application/jsonl") else JSON
        return [_own(raw, device) for raw in items_of(message.payload, form, max_items)]
    if rule.payload == "senml":
        form = SENML_JSON if message.payload.lstrip()[:1] == b"[" else SENML_CBOR
        return items_of_senml(
            message.payload, form, max_items, message.received, kind=rule.kind, device=device
        )
    if rule.payload == "text":
        text = _text(message.payload)
        if text in rule.ignore:
            return []
        return [
            _item(reading, device, text, _milliseconds(message.received))
            for reading in rule.readings
        ]
    return _pointed(message, rule, device, zone)


def _pointed(message: Message, rule: TopicRule, device: str, zone: ZoneInfo | None) -> list[Any]:
    try:
        content = load_json(message.payload)
    except ValueError:
        raise BadItem("the payload is not JSON") from None
    values = [
        (reading, value)
        for reading in rule.readings
        if (value := _at(content, reading.value or "")) is not None
        and not isinstance(value, dict | list)  # of several phases, for which there are other rules
        and value not in rule.ignore
    ]
    if not values:
        return []
    received = _milliseconds(message.received)

    def time_of(pointer: str) -> Any:
        if pointer == RECEIVED:
            return received
        time = _at(content, pointer)
        if rule.time_unit == "s" and isinstance(time, Decimal) and time.adjusted() < MAX_DIGITS:
            return (time * 1000).to_integral_value(ROUND_FLOOR)
        return _with_offset(time, zone)

    return [
        _item(reading, device, value, time_of(reading.time or rule.time))
        for reading, value in values
    ]


def _own(raw: Any, device: str) -> Any:
    if not isinstance(raw, dict):
        return raw
    if raw.get("device", device) != device:
        return BadItem("is another device than the topic's", pointer="/device")
    return {**raw, "device": device}


def _item(rule: ReadingRule, device: str, value: Any, time: Any) -> dict[str, Any]:
    item = {
        "device": device + rule.channel,
        "register": rule.register_name,
        "unit": rule.unit,
        "kind": rule.kind.value,
        "time": time,
        "value": value,
    }
    return item if rule.rollover is None else {**item, "rollover": rule.rollover}


def _text(payload: bytes) -> str:
    if len(payload) > MAX_TEXT:
        raise BadItem("the payload is no number")
    text = payload.decode("utf-8", "replace").strip()
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1].strip() if quoted else text


def _milliseconds(microseconds: int) -> Decimal:
    return Decimal(microseconds // 1000)


def _at(content: Any, pointer: str) -> Any:
    """The value at a JSON pointer, or None. Raises BadItem if the path passes a repeated field."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(content, Doubled):
            raise BadItem("a field is given twice")
        if isinstance(content, dict):
            content = content.get(name)
        elif isinstance(content, list) and name.isdecimal() and int(name) < len(content):
            content = content[int(name)]
        else:
            return None
    return content


def _with_offset(time: Any, zone: ZoneInfo | None) -> Any:
    """A stamp without an offset, interpreted in the zone of the settings; any other unchanged."""
    if zone is None or not isinstance(time, str):
        return time
    try:
        wall = datetime.fromisoformat(time)
    except ValueError:
        return time
    if wall.tzinfo is not None:
        return time
    try:
        moment = LocalTimes(zone).resolve(wall)
    except BadItem as error:
        raise BadItem(error.detail, pointer="/time") from None
    return format_instant(_EPOCH + timedelta(microseconds=moment))


def letter_of(
    message: Message, to: str, refused: Sequence[Answer] | DomainError, items: int
) -> Letter:
    """The dead letter of a message of which items, or all, were refused."""
    document: dict[str, Any] = {
        "format": LETTER,
        "topic": message.topic,
        "received": format_instant(_EPOCH + timedelta(microseconds=message.received)),
    }
    if isinstance(refused, DomainError):
        reason = refused.name
        document |= {
            "type": TYPE_PREFIX + reason,
            "detail": refused.detail,
            "pointer": refused.pointer,
        }
    else:
        reason = refused[0].problem or Status.REJECTED.value
        document |= {
            "type": TYPE_PREFIX + reason,
            "items": items,
            "refused": len(refused),
            "errors": [_error(answer) for answer in refused[:LISTED]],
        }
    return Letter(to, json.dumps(document).encode(), reason, message.correlation)


def _error(answer: Answer) -> dict[str, Any]:
    error = {
        "index": answer.index,
        "status": answer.status.value,
        "type": TYPE_PREFIX + (answer.problem or ""),
        "detail": answer.detail,
        "pointer": answer.pointer,
    }
    return {**error, "errors": list(answer.errors)} if answer.errors else error


DEVICE: Final = frozenset({Scope.DEVICE})
REFUSED: Final = frozenset({Status.REJECTED, Status.CONFLICT})
_logger = get_logger("tacit.curator.mqtt")


class Unprocessable(Invalid):
    name = "unprocessable_message"
    title = "The message could not be processed"


@dataclass(frozen=True)
class _Sent:
    """The items of one message, from a caller that acts for one curator."""

    raws: list[Any]
    caller: Principal


class MessageIntake:
    """Stores batches of messages. `devices` maps devices to curators with other names."""

    def __init__(
        self,
        intake: Intake,
        clock: Clock,
        routes: Sequence[Route],
        devices: dict[str, str],
        site: str,
        zone: ZoneInfo | None,
        max_items: int,
        metrics: ServiceMetrics,
    ) -> None:
        self._intake, self._clock, self._routes = intake, clock, routes
        self._devices, self._site, self._zone = devices, site, zone
        self._max_items = max_items
        self._messages = metrics.counter(
            "mqtt_messages",
            "MQTT messages by outcome (accepted, ignored, refused) and the problem's name.",
            ("outcome", "reason"),
        )

    @property
    def filters(self) -> list[str]:
        """The topic filters to subscribe to."""
        return list(dict.fromkeys(route.filter for route in self._routes))

    def now(self) -> int:
        """Microseconds since 1970."""
        return epoch_microseconds(self._clock.now())

    async def take(self, messages: Sequence[Message]) -> list[Letter]:
        """Store valid messages, durably; returns dead letters for the others. Raises what the
        store raises when it fails: then nothing may be acknowledged."""
        await self._intake.look()
        sent = [self._sent(message) for message in messages]
        good = [item for item in sent if isinstance(item, _Sent)]
        answers = iter(await self._store(good))
        letters = []
        for message, item in zip(messages, sent, strict=True):
            refused: DomainError | list[Answer] | None
            if isinstance(item, _Sent):
                outcome = next(answers)
                refused = outcome if isinstance(outcome, DomainError) else _refused(outcome)
            else:
                refused = item
            size = len(item.raws) if isinstance(item, _Sent) else 0
            letters += self._settled(message, refused, size)
        return letters

    def _settled(
        self, message: Message, refused: DomainError | list[Answer] | None, size: int
    ) -> list[Letter]:
        if refused is None or refused == []:
            outcome = "ignored" if refused is None else "accepted"
            self._messages.labels(outcome, "").inc()
            return []
        letter = letter_of(message, self._dead_topic(message.topic), refused, size)
        self._messages.labels("refused", letter.reason).inc()
        return [letter]

    def _dead_topic(self, topic: str) -> str:
        _, device = self._route(topic)
        return f"tacit/v1/{self._site}/{device}/dead"

    def _route(self, topic: str) -> tuple[Route | None, str]:
        for route in self._routes:
            device = route.device(topic)
            if device is not None:
                return route, device
        return None, ""

    def _sent(self, message: Message) -> _Sent | DomainError | None:
        """The items of a message, one error for the whole message, or None if no rule matches."""
        route, device = self._route(message.topic)
        if route is None:
            return None
        try:
            raws = raw_items(message, route.rule, device, self._zone, self._max_items)
            return _Sent(raws, self._caller(device)) if raws else None
        except DomainError as error:
            return error
        except Exception as error:
            if store_failed(error):  # no memory: it says nothing about the message
                raise
            _logger.error("message_unreadable", **describe(error))
            return Unprocessable()

    def _caller(self, device: str) -> Principal:
        """The device's curator: by the table, by its own name, or the only one hosted."""
        hosted = self._intake.hosted
        curator = self._devices.get(device)
        if curator is None:
            curator = device if hosted.curator(device) is not None else hosted.only
        if curator is None or hosted.curator(curator) is None:
            raise UnknownCurator("the device belongs to no curator that is hosted here")
        return Principal("mqtt", DEVICE, curator)

    async def _store(self, sent: Sequence[_Sent]) -> list[list[Answer] | DomainError]:
        if not sent:
            return []
        try:
            return list(
                await together(self._intake, [(message.raws, message.caller) for message in sent])
            )
        except Exception as error:
            if store_failed(error):
                raise
            _logger.error("messages_unprocessable", **describe(error))
            if len(sent) == 1:
                return [Unprocessable()]
        # One message that cannot be stored must not hold up the others: each by itself.
        return [(await self._store([item]))[0] for item in sent]


def _refused(answers: Sequence[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.status in REFUSED]
