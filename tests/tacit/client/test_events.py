"""Server-sent events of a job: as they come, over a lost connection, and closed when not wanted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tacit.client.client import AsyncClient, Client
from tacit.client.exchange import Retry
from tacit.client.problems import NoAnswer, NotFinished, Problem

DEBITED: dict[str, Any] = {"event": "job_debited", "data": {"epsilon": "1"}}
QUICK = Retry(pause_factor=0.0)


def job(progress: float, state: str = "running") -> dict[str, Any]:
    return {"event": "job", "data": {"state": state, "progress": progress}}


def told(*events: dict[str, Any]) -> bytes:
    return b"".join(
        f"event: {each['event']}\ndata: {json.dumps(each['data'])}\n\n".encode() for each in events
    )


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Pieces of a stream; None: the connection is lost."""

    def __init__(self, *pieces: bytes | None) -> None:
        self.pieces, self.closed = pieces, False

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if piece is None:
                raise httpx.ReadError("lost")
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


class Server(httpx.MockTransport):
    """Answers with one body after the other."""

    def __init__(self, *bodies: Body) -> None:
        self.left = list(bodies)
        super().__init__(self.answer)

    def answer(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/jobs/a/events"
        if not self.left:
            return httpx.Response(404, json={"type": "urn:tacit:problem:unknown_job", "title": "-"})
        return httpx.Response(200, stream=self.left.pop(0))


async def both(*pieces: tuple[bytes | None, ...], stop: int | None = None) -> list[Any]:
    """What both clients give; up to `stop` events."""
    found: list[list[Any]] = []
    bodies = [Body(*each) for each in pieces]
    with Client("http://a", transport=Server(*bodies), retry=QUICK) as client:
        events = client.jobs.events("a")
        found.append([event for _, event in zip(range(stop or 99), events, strict=False)])
        events.close()  # type: ignore[attr-defined]
    assert all(body.closed for body in bodies)
    bodies = [Body(*each) for each in pieces]
    async with AsyncClient("http://a", transport=Server(*bodies), retry=QUICK) as again:
        found.append([])
        stream = again.jobs.events("a")
        async for event in stream:
            found[1].append(event)
            if len(found[1]) == stop:
                break
        await stream.aclose()  # type: ignore[attr-defined]
    assert all(body.closed for body in bodies)
    assert found[0] == found[1]
    return found[0]


async def test_events_are_items_as_they_come_whatever_pieces_they_come_in() -> None:
    whole = told(job(0.1), DEBITED) + b": still there\n\n" + told(job(1, "succeeded"))
    expected = [job(0.1), DEBITED, job(1, "succeeded")]
    assert await both((whole,)) == expected
    assert await both(tuple(whole[at : at + 1] for at in range(len(whole)))) == expected


async def test_after_a_lost_connection_nothing_is_told_twice() -> None:
    """The service begins again with the ledger's entries, and the job as it is now."""
    first = (told(DEBITED, job(0.1)), told(job(0.5))[:-3], None)
    second = (told(DEBITED, job(0.5), job(1, "succeeded")),)
    assert await both(first, second) == [DEBITED, job(0.1), job(0.5), job(1, "succeeded")]


async def test_who_wants_no_more_closes_the_connection() -> None:
    assert await both((told(job(0.1)), told(job(0.2)), None), stop=1) == [job(0.1)]


def test_errors() -> None:
    with Client("http://a", transport=Server(), retry=QUICK) as client, pytest.raises(Problem):
        next(client.jobs.events("a"))
    lost = [Body(None) for _ in range(9)]
    with (
        Client("http://a", transport=Server(*lost), retry=QUICK) as client,
        pytest.raises(NoAnswer),
    ):
        next(client.jobs.events("a"))
    late = Body(told(job(0.1)))
    with (
        Client("http://a", transport=Server(late), retry=QUICK) as client,
        pytest.raises(NotFinished, match="job a is not finished after 0 s"),
    ):
        next(client.jobs.events("a", timeout_s=0))
