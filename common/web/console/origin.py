"""Which requests are a form of our own page, and how often a sign-in may fail.

Cookies do not tell ports apart, and neither does SameSite: another service on this host is "same
site". So every POST needs the form's secret *and* the word of the browser that it comes from this
very origin. Spec: console, sections 1 and 3.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict, deque
from typing import Final

from starlette.requests import Request

from common.runtime.clock import Clock
from tacit.errors import Forbidden, TooMany

FAILURES: Final = 5
_WITHIN_S: Final = 60.0
_ADDRESSES: Final = 4096


class AnotherOrigin(Forbidden):
    """The request is not from a page of this console."""

    name = "another_origin"
    title = "This form was not sent from a page of this console"


class TooManyAttempts(TooMany):
    """So many sign-ins failed from one address that the next has to wait."""

    name = "too_many_attempts"
    title = "Too many sign-ins failed: wait a little"
    retryable_by_default = True


def require_own_origin(request: Request) -> None:
    """Raise AnotherOrigin unless the browser says that the request is from this origin."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        own = site == "same-origin"
    else:  # a browser from before that header
        origin = request.headers.get("origin", "")
        own = origin == f"{request.url.scheme}://{request.headers.get('host', '')}"
    if not own:
        raise AnotherOrigin


def require_secret(expected: str, given: object) -> None:
    """Raise AnotherOrigin unless a form carries its session's secret."""
    if not isinstance(given, str) or not hmac.compare_digest(expected.encode(), given.encode()):
        raise AnotherOrigin


class Failures:
    """Failed sign-ins by address, of the last minute; in memory of this process alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raise TooManyAttempts, with the seconds to wait, after `FAILURES` in a minute."""
        times, now = self._times.get(address), self._clock.monotonic()
        if times is None or len(times) < FAILURES:
            return
        wait_s = times[0] + _WITHIN_S - now
        if wait_s > 0:
            raise TooManyAttempts(retry_after_s=int(wait_s) + 1)

    def add(self, address: str) -> None:
        """Count one more."""
        times = self._times.setdefault(address, deque(maxlen=FAILURES))
        times.append(self._clock.monotonic())
        self._times.move_to_end(address)
        while len(self._times) > _ADDRESSES:
            self._times.popitem(last=False)
