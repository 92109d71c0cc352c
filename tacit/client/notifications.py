"""Calls about what needs an operator of a coordinator, and the messages that were sent about it."""

from __future__ import annotations

from tacit.answers import notifications as answers
from tacit.client.exchange import (
    C,
    Group,
    Request,
    Steps,
    Stream,
    answer_of,
    get,
    items_of,
    operation,
    pages_of,
    stream,
)


def _conditions() -> Steps[list[answers.PresentCondition]]:
    """What needs an operator now, the most urgent first."""
    return items_of(answers.PresentCondition, get("/v1/conditions"), "conditions")


def _notifications() -> Stream[answers.Notification]:
    """What needed an operator, the newest first, and the messages about it."""
    return pages_of(answers.Notification, "/v1/notifications", "notifications")


def _send_test() -> Steps[answers.TestOfNotifications]:
    """Send a message to every outlet now, once."""
    return answer_of(answers.TestOfNotifications, Request("POST", "/v1/notifications/test"))


class Notifications(Group[C]):
    """What needs an operator."""

    conditions = operation(_conditions)
    list = stream(_notifications)
    send_test = operation(_send_test)
