"""One MQTT message as its readings, and the dead letter that states why some were refused.

A device sends for itself only: the topic names it, and a payload that names another is refused.
A dead letter names the rule that was broken and its place; it repeats no payload, as anyone who may
read that topic can read it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from common.web.problems import TYPE_PREFIX
from common.web.wire import JSON, NDJSON
from curator.errors import BadItem
from curator.files.localtime import LocalTimes
from curator.intake.intake import Answer, Status
from curator.intake.reading import items_of, load_json
from curator.mqtt.mapping import RECEIVED, ReadingRule, TopicRule
from tacit.errors import DomainError
from tacit.wire import format_instant

LETTER: Final = "tacit.dead-letter/1"
LISTED: Final = 100
"""Refused items that a letter lists; all are counted."""
MAX_TEXT: Final = 200
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
    """What goes to the dead-letter topic, and the reason that is counted."""

    topic: str
    payload: bytes
    reason: str
    correlation: bytes | None = None


def raw_items(
    message: Message, rule: TopicRule, device: str, zone: ZoneInfo | None, max_items: int
) -> list[Any]:
    """The raw items of a message, as `Intake` takes them; none where it holds no reading of ours.

    An item that is refused before it is parsed is returned as a `BadItem`. Raises NotReadings,
    TooManyItems or BadItem for a message without any item.
    """
    if rule.payload == "readings":
        form = NDJSON if message.content_type in (NDJSON, "application/jsonl") else JSON
        return [_own(raw, device) for raw in items_of(message.payload, form, max_items)]
    if rule.payload == "text":
        text = _text(message.payload)
        if text in rule.ignore:
            return []
        return [
            _item(each, device, text, _milliseconds(message.received)) for each in rule.readings
        ]
    return _pointed(message, rule, device, zone)


def _pointed(message: Message, rule: TopicRule, device: str, zone: ZoneInfo | None) -> list[Any]:
    try:
        content = load_json(message.payload)
    except ValueError:
        raise BadItem("the payload is not JSON") from None
    values = [
        (each, value)
        for each in rule.readings
        if (value := _at(content, each.value or "")) is not None and value not in rule.ignore
    ]
    if not values:
        return []
    time: Any = _milliseconds(message.received)
    if rule.time != RECEIVED:
        time = _with_offset(_at(content, rule.time), zone)
    return [_item(each, device, value, time) for each, value in values]


def _own(raw: Any, device: str) -> Any:
    if not isinstance(raw, dict):
        return raw
    if raw.get("device", device) != device:
        return BadItem("is another device than the topic's", pointer="/device")
    return {**raw, "device": device}


def _item(rule: ReadingRule, device: str, value: Any, time: Any) -> dict[str, Any]:
    item = {
        "device": device,
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
    return payload.decode("utf-8", "replace").strip()


def _milliseconds(microseconds: int) -> Decimal:
    return Decimal(microseconds // 1000)


def _at(content: Any, pointer: str) -> Any:
    """What a JSON pointer points to, or nothing."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(content, dict):
            content = content.get(name)
        elif isinstance(content, list) and name.isdecimal() and int(name) < len(content):
            content = content[int(name)]
        else:
            return None
    return content


def _with_offset(time: Any, zone: ZoneInfo | None) -> Any:
    """A stamp without an offset, read in the zone of the settings; any other as it is."""
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
    return {
        "index": answer.index,
        "status": answer.status.value,
        "type": TYPE_PREFIX + (answer.problem or ""),
        "detail": answer.detail,
        "pointer": answer.pointer,
    }
