"""Receivers of notifications on loopback: a web server, and a mail server of the standard library's
sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_string
from email.message import Message

Request = tuple[dict[str, str], bytes]


class Web:
    """Takes POSTs. `status`: what it answers."""

    def __init__(self) -> None:
        self.status = 204
        self.requests: list[Request] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value
            for name, _, value in (line.partition(": ") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append(({"request": head[0], **headers}, body))
        writer.write(f"HTTP/1.1 {self.status} x\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()


class Post:
    """Takes mail from one user. `refuses`: what it answers to a sender instead."""

    def __init__(self) -> None:
        self.refuses: bytes | None = None
        self.mails: list[Message] = []
        self.logins: list[str] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 test\r\n")
        while line := await reader.readline():
            word = line.split()[0].upper()
            if word == b"EHLO":
                writer.write(b"250-test\r\n250 AUTH PLAIN\r\n")
            elif word == b"AUTH":
                self.logins.append(line.split()[2].decode())
                writer.write(b"235 in\r\n")
            elif word == b"MAIL" and self.refuses:
                writer.write(self.refuses + b"\r\n")
            elif word == b"DATA":
                writer.write(b"354 go on\r\n")
                text = (await reader.readuntil(b"\r\n.\r\n")).decode()
                self.mails.append(
                    message_from_string(text.removesuffix("\r\n.\r\n").replace("\r\n", "\n"))
                )
                writer.write(b"250 taken\r\n")
            elif word == b"QUIT":
                writer.write(b"221 bye\r\n")
                break
            else:
                writer.write(b"250 ok\r\n")
        await writer.drain()
        writer.close()


@asynccontextmanager
async def receivers() -> AsyncIterator[tuple[Web, Post]]:
    """Both, listening."""
    web, post = Web(), Post()
    async with (
        await asyncio.start_server(web.answer, "127.0.0.1", 0) as pages,
        await asyncio.start_server(post.answer, "127.0.0.1", 0) as mail,
    ):
        web.url = f"http://127.0.0.1:{pages.sockets[0].getsockname()[1]}/hook?to=operators"
        post.url = f"smtp://tacit:p%40ss@127.0.0.1:{mail.sockets[0].getsockname()[1]}"
        yield web, post
