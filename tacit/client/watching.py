"""Long polls: a resource each time it changes, until it is finished."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container
from typing import Any, Final, TypeVar

import httpx

from tacit.client.exchange import Item, Json, NextLine, Pause, Request, Steps, Stream
from tacit.client.problems import NoAnswer, NotFinished
from tacit.pauses import backoff

POLL_S: Final = 20.0
"""How long one request waits for a change."""
MOST_LOST: Final = 5
"""Connections in a row that end a stream of events without telling anything new."""

T = TypeVar("T")
S = TypeVar("S", bound=dict[str, Any])


def watch(
    path: str,
    subject: str,
    finished: Container[str],
    timeout_s: float,
    *,
    kind: Callable[[Json], S],
    only_finished: bool = False,
) -> Stream[S]:
    """What is at a path each time it changes, up to one whose `state` is finished.

    `only_finished`: a service that can is asked to tell of no change but that. Raises NotFinished,
    which names the subject, if that takes longer than the timeout.
    """
    end = time.monotonic() + timeout_s
    tag = ""
    while True:
        left = end - time.monotonic()
        if left <= 0:
            raise NotFinished(f"{subject} is not finished after {timeout_s:.0f} s")
        wait_s = min(POLL_S, left)
        answer: httpx.Response = yield Request(
            "GET",
            path,
            params={"wait_s": wait_s} | ({"finished": "true"} if only_finished else {}),
            headers={"If-None-Match": tag},
            repeatable=True,
            wait_s=wait_s,
        )
        if answer.status_code == 304:
            continue
        tag = answer.headers.get("etag", "")
        state = kind(answer.json())
        yield Item(state)
        if state["state"] in finished:
            return


def events(path: str, subject: str, timeout_s: float) -> Stream[Json]:
    """Server-sent events at a path, `{"event": its name, "data": its JSON}`, until the service
    closes the stream. Where the connection is lost it is made again, and what was told before is
    passed over: the service tells a subject's history from its start, and then how it is now.
    Raises NotFinished, which names the subject, after the timeout, and NoAnswer."""
    end = time.monotonic() + timeout_s
    seen: list[Json] = []
    lost = 0
    while True:
        answer: httpx.Response = yield Request(
            "GET", path, repeatable=True, wait_s=POLL_S, streamed=True
        )
        known = list(seen)
        name, data = "message", ""
        try:
            while (line := (yield NextLine(answer))) is not None:
                if time.monotonic() > end:
                    raise NotFinished(f"{subject} is not finished after {timeout_s:.0f} s")
                field, _, value = line.partition(":")
                if field == "event":
                    name = value.strip()
                elif field == "data":
                    data += value.strip()
                elif not line and data:
                    event = {"event": name, "data": json.loads(data)}
                    name, data = "message", ""
                    if event in known:
                        known.remove(event)
                    else:
                        seen.append(event)
                        lost = 0
                        yield Item(event)
            return
        except httpx.TransportError as error:
            if (lost := lost + 1) > MOST_LOST:
                raise NoAnswer(f"{subject}: the connection was lost {lost} times") from error
            yield Pause(backoff(lost))


def last(items: Stream[T], progress: Callable[[T], object] | None = None) -> Steps[T]:
    """The last item of a stream; `progress` is told each. Raises ValueError for one without."""
    found: Item[T] | None = None
    reply = None
    while True:
        try:
            step = items.send(reply)
        except StopIteration:
            if found is None:
                raise ValueError("a stream without items has no last one") from None
            return found.value
        if isinstance(step, Item):
            found, reply = step, None
            if progress is not None:
                progress(step.value)
        else:
            reply = yield step
