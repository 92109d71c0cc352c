"""What needed an operator, from when to when, and what became of each message about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import delete, insert, select, update

from common.store.transactions import Transaction
from coordinator.store.tables import deliveries, notifications


class Event(StrEnum):
    BEGAN = "began"
    ENDED = "ended"
    TEST = "test"


@dataclass(frozen=True)
class NotificationRow:
    """`absent`: since when the condition is no longer seen; `ended`: set once that has lasted."""

    id: str
    kind: str
    subject: str
    sentence: str
    began: datetime
    absent: datetime | None = None
    ended: datetime | None = None


@dataclass(frozen=True)
class DeliveryRow:
    """A message to one outlet. `due`: when it is tried next, None for never again; `problem`: of
    the last attempt that failed."""

    notification: str
    event: Event
    outlet: str
    made: datetime
    attempts: int = 0
    due: datetime | None = None
    delivered: datetime | None = None
    problem: str | None = None


async def present(transaction: Transaction) -> list[NotificationRow]:
    """Those that have not ended."""
    rows = await transaction.execute(
        select(notifications).where(notifications.c.ended.is_(None)).order_by(notifications.c.id)
    )
    return [NotificationRow(*row) for row in rows]


async def add(
    transaction: Transaction, row: NotificationRow, messages: Sequence[DeliveryRow]
) -> None:
    """A notification with its first messages."""
    await transaction.execute(insert(notifications).values(vars(row)))
    await _add_deliveries(transaction, messages)


async def set_absent(transaction: Transaction, row_id: str, absent: datetime | None) -> None:
    """Since when its condition is not seen; None: it is seen."""
    await transaction.execute(
        update(notifications).where(notifications.c.id == row_id).values(absent=absent)
    )


async def end(
    transaction: Transaction, row: NotificationRow, messages: Sequence[DeliveryRow]
) -> None:
    """End the notification at the time when its condition was first not seen; with its last
    messages."""
    await transaction.execute(
        update(notifications).where(notifications.c.id == row.id).values(ended=row.absent)
    )
    await _add_deliveries(transaction, messages)


async def _add_deliveries(transaction: Transaction, messages: Sequence[DeliveryRow]) -> None:
    for row in messages:
        await transaction.execute(insert(deliveries).values(vars(row)))


async def waiting(
    transaction: Transaction, outlet: str
) -> list[tuple[DeliveryRow, NotificationRow]]:
    """The messages that an outlet has not taken yet, the oldest first."""
    rows = await transaction.execute(
        select(deliveries, notifications)
        .join(notifications, notifications.c.id == deliveries.c.notification)
        .where(deliveries.c.due.is_not(None), deliveries.c.outlet == outlet)
        .order_by(deliveries.c.made, deliveries.c.notification)
    )
    return [(_delivery(row[:8]), NotificationRow(*row[8:])) for row in rows]


async def record(transaction: Transaction, row: DeliveryRow) -> None:
    """The outcome of an attempt."""
    await transaction.execute(
        update(deliveries)
        .where(
            deliveries.c.notification == row.notification,
            deliveries.c.event == row.event,
            deliveries.c.outlet == row.outlet,
        )
        .values(attempts=row.attempts, due=row.due, delivered=row.delivered, problem=row.problem)
    )


async def page(
    transaction: Transaction, before: str | None, limit: int
) -> list[tuple[NotificationRow, list[DeliveryRow]]]:
    """The newest first, each with its messages."""
    chosen = select(notifications).order_by(notifications.c.id.desc()).limit(limit)
    if before is not None:
        chosen = chosen.where(notifications.c.id < before)
    rows = [NotificationRow(*row) for row in await transaction.execute(chosen)]
    found = await transaction.execute(
        select(deliveries)
        .where(deliveries.c.notification.in_([row.id for row in rows]))
        .order_by(deliveries.c.made, deliveries.c.outlet)
    )
    sent: dict[str, list[DeliveryRow]] = {}
    for delivery in map(_delivery, found):
        sent.setdefault(delivery.notification, []).append(delivery)
    return [(row, sent.get(row.id, [])) for row in rows]


async def drop_before(transaction: Transaction, before: datetime) -> None:
    """Forget what ended before."""
    old = select(notifications.c.id).where(notifications.c.ended < before)
    await transaction.execute(delete(deliveries).where(deliveries.c.notification.in_(old)))
    await transaction.execute(delete(notifications).where(notifications.c.ended < before))


def _delivery(row: Sequence[object]) -> DeliveryRow:
    notification, event, *rest = row
    return DeliveryRow(str(notification), Event(str(event)), *rest)  # type: ignore[arg-type]
