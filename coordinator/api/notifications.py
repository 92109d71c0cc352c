"""Routes of what needs an operator: the conditions of now, and the notifications about them."""

from __future__ import annotations

from fastapi import Request, Response

from common.web.openapi import api_router
from common.web.paging import PageQuery
from coordinator.alerts.conditions import Condition, runbook
from coordinator.services import Services
from coordinator.store import notifications as store
from coordinator.store.notifications import DeliveryRow, NotificationRow
from coordinator.web import Operator, link_next, time_text
from tacit.answers.notifications import (
    ListOfNotifications,
    Notification,
    NotificationDelivery,
    PresentCondition,
    PresentConditions,
    TestOfNotifications,
)
from tacit.wire import format_instant

router = api_router()


@router.get("/v1/conditions", tags=["service"], summary="What needs an operator now")
async def get_conditions(services: Services, _: Operator) -> PresentConditions:
    present_conditions = await services.conditions.present()
    return PresentConditions(conditions=[_condition(condition) for condition in present_conditions])


@router.get(
    "/v1/notifications",
    tags=["service"],
    summary="What needed an operator, the newest first, and the messages about it",
)
async def list_notifications(
    request: Request, response: Response, services: Services, _: Operator, page: PageQuery
) -> ListOfNotifications:
    async with services.database.reading() as transaction:
        rows = await store.page(transaction, page.after_text(), page.limit)
    link_next(request, response, page, [row for row, _ in rows], "id")
    return ListOfNotifications(notifications=[_notification(*row) for row in rows])


@router.post(
    "/v1/notifications/test",
    tags=["service"],
    summary="Send a message to every outlet now, once",
)
async def send_test(services: Services, _: Operator) -> TestOfNotifications:
    tried = await services.notifier.test()
    return TestOfNotifications(deliveries=[_delivery(delivery) for delivery in tried])


def _condition(condition: Condition) -> PresentCondition:
    return PresentCondition(
        condition=condition.kind.value,
        subject=condition.subject,
        sentence=condition.text,
        runbook=runbook(condition.kind),
    )


def _notification(row: NotificationRow, deliveries: list[DeliveryRow]) -> Notification:
    return Notification(
        id=row.id,
        condition=row.kind,
        subject=row.subject,
        sentence=row.sentence,
        began=format_instant(row.began),
        ended=time_text(row.ended),
        deliveries=[_delivery(delivery) for delivery in deliveries],
    )


def _delivery(row: DeliveryRow) -> NotificationDelivery:
    return NotificationDelivery(
        event=row.event.value,
        outlet=row.outlet,
        attempts=row.attempts,
        due=time_text(row.due),
        delivered=time_text(row.delivered),
        problem=row.problem,
    )
