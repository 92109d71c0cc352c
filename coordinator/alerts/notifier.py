"""Sends each condition to the outlets once when it begins and once when it ends.

What began is stored with its messages before anything is sent, so that a restart neither forgets
nor repeats it; a message is tried again until it is taken or a day has passed. One process of a
coordinator does this at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from common.runtime.clock import Clock, uuid7
from common.runtime.logs import get_logger
from common.runtime.tasks import Repeating
from common.store.database import exclusive
from common.store.leader import Leader
from common.store.transactions import Database
from coordinator.alerts.conditions import Condition, Conditions
from coordinator.alerts.outlets import TEST, Message, NotDelivered, Outlet
from coordinator.errors import NoOutlet
from coordinator.store import notifications as store
from coordinator.store.notifications import DeliveryRow, Event, NotificationRow

LOOK_S: Final = 15.0
GONE: Final = timedelta(minutes=2)
"""A condition that is not seen for this long has ended: what comes and goes is one condition."""
FIRST_PAUSE: Final = timedelta(seconds=15)
LONGEST_PAUSE: Final = timedelta(minutes=15)
"""The pause after a failed attempt doubles up to this: no message waits longer for an outlet that
works again."""
GIVEN_UP: Final = timedelta(days=1)
KEPT: Final = timedelta(days=400)
LOCK: Final = "notifications"
_log = get_logger("tacit.notifications")


class Notifier(Repeating):
    """Compares the conditions with those that are stored, and delivers what is due."""

    def __init__(
        self,
        database: Database,
        conditions: Conditions,
        outlets: Sequence[Outlet],
        deployment: str,
        clock: Clock,
    ) -> None:
        super().__init__("notifications", _log, LOOK_S, first_s=LOOK_S)
        self._leader = Leader(database, "notifications", _nothing, _nothing)
        self._database, self._conditions, self._clock = database, conditions, clock
        self._outlets, self._deployment = outlets, deployment

    async def start_leading(self) -> None:
        """Start, and compare once this process leads."""
        await self._leader.start()
        self.start()

    async def stop(self) -> None:
        """Stop; the next start, in any process, continues with what is stored."""
        await super().stop()
        await self._leader.stop()

    async def look(self) -> None:
        """Compare, then deliver."""
        if not self._leader.leads:
            return
        await self._conditions.look_at_certificates()
        await self._compare(await self._conditions.present())
        await self._deliver()

    async def test(self) -> list[DeliveryRow]:
        """Send a message to every outlet, once, and record the outcome. Raises NoOutlet."""
        if not self._outlets:
            raise NoOutlet
        now = self._clock.now()
        sentence = "This is a test: notifications of this deployment arrive here"
        row = NotificationRow(str(uuid7(self._clock)), TEST, "test", sentence, now, ended=now)
        messages = [replace(message, due=None) for message in self._messages(row, Event.TEST, now)]
        async with self._database.begin() as transaction:
            await store.add(transaction, row, messages)
        tried_deliveries = []
        for outlet, message in zip(self._outlets, messages, strict=True):
            tried = await self._attempt(outlet, message, row)
            tried_deliveries.append(await self._record(replace(tried, due=None)))
        return tried_deliveries

    def _messages(self, row: NotificationRow, event: Event, now: datetime) -> list[DeliveryRow]:
        """One to each outlet, due now."""
        return [DeliveryRow(row.id, event, outlet.name, now, due=now) for outlet in self._outlets]

    async def _compare(self, conditions: Sequence[Condition]) -> None:
        """Store what began and what ended, each with its messages."""
        now = self._clock.now()
        condition_of = {
            (condition.kind.value, condition.subject): condition for condition in conditions
        }
        async with self._database.reading() as transaction:
            rows = await store.present(transaction)
        if {
            (row.kind, row.subject) for row in rows if row.absent is None
        } == condition_of.keys() and all(row.absent is None for row in rows):
            return
        async with self._database.begin() as transaction:
            await exclusive(transaction, LOCK)
            row_of = {(row.kind, row.subject): row for row in await store.present(transaction)}
            for key, condition in condition_of.items():
                row = row_of.get(key)
                if row is None:
                    row = NotificationRow(str(uuid7(self._clock)), *key, condition.text, now)
                    await store.add(transaction, row, self._messages(row, Event.BEGAN, now))
                    _log.warning("condition_began", condition=row.kind, subject=row.subject)
                elif row.absent is not None:
                    await store.set_absent(transaction, row.id, None)
            for key in row_of.keys() - condition_of.keys():
                row = row_of[key]
                if row.absent is None:
                    await store.set_absent(transaction, row.id, now)
                elif now - row.absent >= GONE:
                    await store.end(transaction, row, self._messages(row, Event.ENDED, now))
                    _log.info("condition_ended", condition=row.kind, subject=row.subject)
            await store.drop_before(transaction, now - KEPT)

    async def _deliver(self) -> None:
        """Deliver every message that is due, in order; those behind one that fails wait with it."""
        now = self._clock.now()
        for outlet in self._outlets:
            async with self._database.reading() as transaction:
                waiting = await store.waiting(transaction, outlet.name)
            for delivery, row in waiting:
                if delivery.due is None or delivery.due > now:
                    break
                tried = await self._record(await self._attempt(outlet, delivery, row))
                if tried.delivered is None:
                    break

    async def _attempt(
        self, outlet: Outlet, delivery: DeliveryRow, row: NotificationRow
    ) -> DeliveryRow:
        now = self._clock.now()
        attempts = delivery.attempts + 1
        try:
            await outlet.send(Message(self._deployment, delivery.event, row), now)
        except NotDelivered as error:
            _log.warning("notification_not_delivered", outlet=outlet.name, problem=str(error))
            return replace(
                delivery,
                attempts=attempts,
                due=_next(delivery.made, attempts, now),
                problem=str(error)[:200],
            )
        return replace(delivery, attempts=attempts, due=None, delivered=now)

    async def _record(self, tried: DeliveryRow) -> DeliveryRow:
        async with self._database.begin() as transaction:
            await store.record(transaction, tried)
        return tried


def _next(made_at: datetime, attempts: int, now: datetime) -> datetime | None:
    """When a message is tried again; None for one that is given up."""
    pause = min(FIRST_PAUSE * 2 ** min(attempts - 1, 10), LONGEST_PAUSE)
    return None if now - made_at >= GIVEN_UP else now + pause


async def _nothing() -> None:
    """There is nothing to begin or end: each pass of the task checks whether this process leads."""
