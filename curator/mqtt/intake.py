"""Messages of many devices into the store, in one transaction, by the intake that HTTP uses.

Returns after the commit: only then may the messages be acknowledged to the broker. Counted are
messages, by their outcome and the name of the problem; never readings, and never a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from common.runtime.clock import Clock, epoch_microseconds
from common.runtime.logs import describe, get_logger
from common.runtime.metrics import ServiceMetrics
from common.store.failures import store_failed
from common.web.auth import Principal
from common.web.tokens import Scope
from curator.errors import UnknownCurator
from curator.intake.batching import together
from curator.intake.intake import Answer, Intake, Status
from curator.mqtt.mapping import Route
from curator.mqtt.messages import Letter, Message, letter_of, raw_items
from tacit.errors import DomainError, Invalid

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
    """Takes lots of messages. `devices` maps devices to curators where names do not."""

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
        """Store what is good, durably; the letters of what is not. Raises what the store raises
        when it fails: then nothing may be acknowledged."""
        await self._intake.look()
        sent = [self._sent(message) for message in messages]
        good = [item for item in sent if isinstance(item, _Sent)]
        answers = iter(await self._store(good))
        letters = []
        for message, item in zip(messages, sent, strict=True):
            refused: DomainError | list[Answer] | None
            if isinstance(item, _Sent):
                found = next(answers)
                refused = found if isinstance(found, DomainError) else _refused(found)
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
        """The items of a message, what is wrong with all of it, or nothing if it is not ours."""
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
        """Whose the device is: by the table, by its own name, or the only one hosted."""
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
            return list(await together(self._intake, [(each.raws, each.caller) for each in sent]))
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
