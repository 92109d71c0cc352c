"""Long polls: a resource each time it changes, until it is finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from typing import Any, Final, TypeVar

import httpx

from tacit.client.exchange import Item, Json, Request, Steps, Stream
from tacit.client.problems import NotFinished

POLL_S: Final = 20.0
"""How long one request waits for a change."""

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
