"""Answers about what needs an operator, and the messages that were sent about it."""

from __future__ import annotations

from typing import Literal

from tacit.answers.base import Answer, Time


class PresentCondition(Answer):
    """Something that needs an operator now. `subject`: what it concerns; `runbook`: the section
    of the documentation with the remedy."""

    condition: str
    subject: str
    sentence: str
    runbook: str


class PresentConditions(Answer):
    """All of them, the most urgent first."""

    conditions: list[PresentCondition]


class NotificationDelivery(Answer):
    """A message to one outlet. `due`: when it is tried next; without `due` and `delivered` it
    was given up. `problem`: of the last attempt that failed."""

    event: Literal["began", "ended", "test"]
    outlet: str
    attempts: int
    due: Time | None
    delivered: Time | None
    problem: str | None


class Notification(Answer):
    """A condition with its start and end, as it was when it began, and the messages about it."""

    id: str
    condition: str
    subject: str
    sentence: str
    began: Time
    ended: Time | None
    deliveries: list[NotificationDelivery]


class ListOfNotifications(Answer):
    """The newest first."""

    notifications: list[Notification]


class TestOfNotifications(Answer):
    """What became of a message to each outlet."""

    deliveries: list[NotificationDelivery]
