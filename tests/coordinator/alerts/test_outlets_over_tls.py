"""Notifications over real TLS: a web server, and the mail server aiosmtpd with STARTTLS and a
password, with certificates of an authority of their own. Nothing is sent to one that cannot prove
who it is."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import Message as Mail
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope
from pydantic import SecretStr

from cli.services.config import Authority
from coordinator.alerts.conditions import ConditionKind
from coordinator.alerts.outlets import Message, NotDelivered, outlets_of, signature
from coordinator.settings import CoordinatorSettings
from coordinator.store.notifications import Event, NotificationRow
from tacit.report.statements import is_loopback
from tests.coordinator.alerts.receivers import Web

KEY = "webhook-key-0123456789-abcdefghij"
NOW = datetime(2026, 3, 1, 2, 30, tzinfo=UTC)
ROW = NotificationRow("row-1", ConditionKind.AGGREGATOR_AWAY.value, "aggregator-2", "Away", NOW)
MESSAGE = Message("night", Event.BEGAN, ROW)


class Mailbox:
    """Keeps what it takes. `login`: the name and password that were given."""

    def __init__(self) -> None:
        self.mails: list[Mail] = []
        self.login: tuple[bytes, bytes] | None = None

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:
        assert session.ssl is not None
        assert isinstance(envelope.content, bytes)
        self.mails.append(message_from_bytes(envelope.content))
        return "250 taken"

    def authenticated(self, server: Any, session: Any, *given: Any) -> AuthResult:
        assert session.ssl is not None  # no password before TLS
        data = given[-1]
        self.login = (data.login, data.password)
        return AuthResult(success=data.password == b"p@ss", handled=False)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority.make("of the receivers", 30)
    (tmp_path / "ca").mkdir()
    made.save(tmp_path / "ca")
    return made


def shown(
    authority: Authority, folder: Path, host: str = "127.0.0.1", starts: datetime | None = None
) -> ssl.SSLContext:
    """What a receiver shows: a certificate for this host."""
    certificate, key = authority.issue([host], 2, starts)
    (folder / "shown.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "shown.pem")
    return context


@asynccontextmanager
async def serving(
    mailbox: Mailbox, context: ssl.SSLContext | None, host: str = "127.0.0.1"
) -> AsyncIterator[int]:
    """A mail server that shows this, or has no TLS; its port."""
    with_tls = context is not None

    def connection() -> SMTP:
        return SMTP(
            mailbox,
            tls_context=context,
            require_starttls=with_tls,
            auth_required=with_tls,
            authenticator=mailbox.authenticated,
        )

    server = await asyncio.get_running_loop().create_server(connection, host, 0)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


def settings(folder: Path, **given: Any) -> CoordinatorSettings:
    return CoordinatorSettings(
        tls_authority=folder / "ca" / "authority.pem",
        notify_webhook_key=SecretStr(KEY),
        notify_from="tacit@example.org",
        notify_to=("night@example.org",),
        **given,
    )


def wrong_certificates(authority: Authority, folder: Path) -> Iterator[tuple[str, ssl.SSLContext]]:
    """By what is wrong with them."""
    yield "another authority", shown(Authority.make("another", 30), folder)
    yield "another host", shown(authority, folder, "mail.example.org")
    yield "ended", shown(authority, folder, starts=datetime.now(UTC) - timedelta(days=4))


async def test_a_webhook_over_https_is_signed_and_only_its_own_receiver_gets_it(
    tmp_path: Path, authority: Authority
) -> None:
    async def sent_to(context: ssl.SSLContext) -> Web:
        web = Web()
        async with await asyncio.start_server(web.answer, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            url = SecretStr(f"https://127.0.0.1:{port}/hook")
            [outlet] = outlets_of(settings(tmp_path, notify_webhook_url=url))
            try:
                await outlet.send(MESSAGE, NOW)
            finally:
                taken.append(web)
        return web

    taken: list[Web] = []
    web = await sent_to(shown(authority, tmp_path))
    [(headers, body)] = web.requests
    assert headers["tacit-signature"] == signature(KEY, headers["tacit-timestamp"], body)
    for wrong, context in wrong_certificates(authority, tmp_path):
        with pytest.raises(NotDelivered, match=r"certificate|mismatch|match") as refused:
            await sent_to(context)
        assert taken[-1].requests == [], wrong
        assert "hook" not in str(refused.value)


async def test_mail_goes_by_starttls_with_its_password_and_to_no_other_server(
    tmp_path: Path, authority: Authority
) -> None:
    def outlet(port: int, password: str = "p%40ss") -> Any:
        url = SecretStr(f"smtp://tacit:{password}@127.0.0.1:{port}")
        [made] = outlets_of(settings(tmp_path, notify_smtp_url=url))
        return made

    mailbox = Mailbox()
    async with serving(mailbox, shown(authority, tmp_path)) as port:
        await outlet(port).send(MESSAGE, NOW)
        assert mailbox.login == (b"tacit", b"p@ss")
        [mail] = mailbox.mails
        assert mail["To"] == "night@example.org"
        assert mail["Subject"] == "[night] aggregator_away began: aggregator-2"
        with pytest.raises(NotDelivered, match="SMTPAuthenticationError 535"):
            await outlet(port, "wrong").send(MESSAGE, NOW)
    mailbox.login = None
    for wrong, context in wrong_certificates(authority, tmp_path):
        async with serving(mailbox, context) as port:
            with pytest.raises(NotDelivered, match="SSLCertVerificationError"):
                await outlet(port).send(MESSAGE, NOW)
        assert mailbox.login is None, wrong
    assert len(mailbox.mails) == 1


async def test_a_mail_server_elsewhere_without_tls_gets_neither_password_nor_mail(
    tmp_path: Path, authority: Authority
) -> None:
    """Someone between the two could have taken STARTTLS out of what the server offers."""
    mailbox, name = Mailbox(), socket.gethostname()
    assert not is_loopback(f"smtp://{name}")  # whatever its address
    async with serving(mailbox, None, socket.gethostbyname(name)) as port:
        url = SecretStr(f"smtp://tacit:p%40ss@{name}:{port}")
        [outlet] = outlets_of(settings(tmp_path, notify_smtp_url=url))
        with pytest.raises(NotDelivered, match="SMTPNotSupportedError"):
            await outlet.send(MESSAGE, NOW)
    assert (mailbox.login, mailbox.mails) == (None, [])
