"""Where notifications are sent: a webhook, and e-mail through a mail server.

The body of a webhook is signed: HMAC-SHA-256 with the shared key over the timestamp, a point and
the body. A receiver compares it, refuses old timestamps, and takes a message (`id` and `event`)
once: one whose answer was lost is sent again.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import smtplib
import ssl
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from common.runtime.tls import public_trust
from common.web.client import NoAnswer, ServiceRequest, TcpTransport, distrusted
from coordinator.alerts.conditions import RUNBOOK, ConditionKind, runbook
from coordinator.settings import CoordinatorSettings
from coordinator.store.notifications import Event, NotificationRow
from tacit.report.statements import is_loopback
from tacit.wire import format_instant

TIMEOUT_S: Final = 10.0
TEST: Final = "test"
"""The kind of a notification that an operator asked for."""


@dataclass(frozen=True)
class Message:
    """A notification as it is sent."""

    deployment: str
    event: Event
    row: NotificationRow

    @property
    def runbook(self) -> str:
        """The section of the documentation that says what to do."""
        return RUNBOOK if self.row.kind == TEST else runbook(ConditionKind(self.row.kind))

    @property
    def body(self) -> bytes:
        """Its JSON, the same at each attempt."""
        row = self.row
        return json.dumps(
            {
                "id": row.id,
                "event": self.event.value,
                "deployment": self.deployment,
                "condition": row.kind,
                "subject": row.subject,
                "sentence": row.sentence,
                "began": format_instant(row.began),
                "ended": None
                if self.event is Event.BEGAN or row.ended is None
                else format_instant(row.ended),
                "runbook": self.runbook,
            }
        ).encode()


class NotDelivered(Exception):
    """An attempt failed; the text says why, without an address or a password."""


class Outlet(Protocol):
    """Something that takes messages."""

    @property
    def name(self) -> str:
        """The kind of it, by which messages are stored."""

    async def send(self, message: Message, now: datetime) -> None:
        """One attempt. Raises NotDelivered."""


def signature(key: str, timestamp: str, body: bytes) -> str:
    """The header `Tacit-Signature` of a request."""
    signed = timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Webhook:
    """Sends a signed POST; any status from 200 to 299 takes the message."""

    url: str
    key: str
    trust: ssl.SSLContext
    name: str = "webhook"

    async def send(self, message: Message, now: datetime) -> None:
        timestamp = str(int(now.timestamp()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "tacit",
            "Tacit-Timestamp": timestamp,
            "Tacit-Signature": signature(self.key, timestamp, message.body),
        }
        transport = TcpTransport(self.trust)
        try:
            answer = await transport.send(
                ServiceRequest("POST", self.url, headers, message.body, TIMEOUT_S)
            )
        except NoAnswer as error:
            raise NotDelivered(distrusted(error) or str(error)) from None
        finally:
            await transport.aclose()
        if not 200 <= answer.status < 300:
            raise NotDelivered(f"status {answer.status}")


@dataclass(frozen=True)
class Mail:
    """Sends an e-mail to all addresses through one server."""

    url: str
    sender: str
    recipients: tuple[str, ...]
    trust: ssl.SSLContext
    name: str = "email"

    async def send(self, message: Message, now: datetime) -> None:
        try:
            await asyncio.to_thread(self._send, self._written(message, now))
        except (OSError, smtplib.SMTPException) as error:
            code = f" {error.smtp_code}" if isinstance(error, smtplib.SMTPResponseException) else ""
            raise NotDelivered(f"{type(error).__name__}{code}") from None

    def _written(self, message: Message, now: datetime) -> EmailMessage:
        row, mail = message.row, EmailMessage()
        mail["From"], mail["To"] = self.sender, ", ".join(self.recipients)
        mail["Date"] = now
        mail["Message-ID"] = f"<{row.id}.{message.event}@tacit>"
        mail["Subject"] = f"[{message.deployment}] {row.kind} {message.event}: {row.subject}"
        lines = [row.sentence, "", f"Began: {format_instant(row.began)}"]
        if message.event is Event.ENDED and row.ended is not None:
            lines.append(f"Ended: {format_instant(row.ended)}")
        mail.set_content("\n".join([*lines, f"What to do: {message.runbook}", ""]))
        return mail

    def _send(self, mail: EmailMessage) -> None:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme == "smtps":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                host, parts.port or 465, timeout=TIMEOUT_S, context=self.trust
            )
        else:
            server = smtplib.SMTP(host, parts.port or 587, timeout=TIMEOUT_S)
        with server:
            if parts.scheme == "smtp":
                server.ehlo()
                if server.has_extn("starttls") or not is_loopback(self.url):
                    server.starttls(context=self.trust)
            if parts.username is not None:
                server.login(unquote(parts.username), unquote(parts.password or ""))
            server.send_message(mail)


def outlets_of(settings: CoordinatorSettings) -> tuple[Outlet, ...]:
    """The outlets in the settings. They trust the system's certificate authorities and the
    deployment's own."""
    if settings.notify_webhook_url is None and settings.notify_smtp_url is None:
        return ()
    trust = public_trust(settings.tls_authority)
    outlets: list[Outlet] = []
    if settings.notify_webhook_url is not None:
        assert settings.notify_webhook_key is not None
        url = settings.notify_webhook_url.get_secret_value()
        outlets.append(Webhook(url, settings.notify_webhook_key.get_secret_value(), trust))
    if settings.notify_smtp_url is not None:
        url = settings.notify_smtp_url.get_secret_value()
        outlets.append(Mail(url, settings.notify_from, settings.notify_to, trust))
    return tuple(outlets)
