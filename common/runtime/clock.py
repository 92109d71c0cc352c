"""Time as a parameter: a clock is passed in, and identifiers that sort by time are made from it.

Nothing outside this module asks the operating system what time it is.
"""

import os
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@runtime_checkable
class Clock(Protocol):
    """What a domain module may know about time."""

    def now(self) -> datetime:
        """The present, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards, for durations only."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        """The present, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()


class ManualClock:
    """A clock for tests and simulations that moves only when set or advanced."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        if start.tzinfo is None:
            raise ValueError("a clock needs an aware time")
        self._now = start.astimezone(UTC)
        self._monotonic = 0.0

    def now(self) -> datetime:
        """The time it was set to."""
        return self._now

    def monotonic(self) -> float:
        """The seconds it was advanced by."""
        return self._monotonic

    def advance(self, step: timedelta) -> None:
        """Move forward; a clock never goes back."""
        if step < timedelta(0):
            raise ValueError("a clock never goes back")
        self._now += step
        self._monotonic += step.total_seconds()


def epoch_microseconds(instant: datetime) -> int:
    """Microseconds since 1970 in UTC, exactly; refuses a naive time."""
    if instant.tzinfo is None:
        raise ValueError("a time without a zone has no meaning here")
    return (instant - EPOCH) // timedelta(microseconds=1)


def from_epoch_microseconds(microseconds: int) -> datetime:
    """The aware UTC time of `epoch_microseconds`."""
    return EPOCH + timedelta(microseconds=microseconds)


def zone_named(name: str) -> ZoneInfo:
    """A zone of the IANA database, such as Europe/Zurich. Raises ValueError for any other name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is not a zone of the IANA database") from None


def uuid7(clock: Clock | None = None) -> UUID:
    """A UUID version 7 (RFC 9562): 48 bits of milliseconds, 12 of their fraction, 62 random.

    Identifiers sort by time to a quarter of a microsecond (section 6.2, method 3). They are
    unique, not secret: never use one as a password.
    """
    microseconds = epoch_microseconds((clock or SystemClock()).now())
    milliseconds, rest = divmod(microseconds, 1000)
    fraction = rest * 4096 // 1000
    random = int.from_bytes(os.urandom(8), "big") & ((1 << 62) - 1)
    return UUID(
        int=(milliseconds & ((1 << 48) - 1)) << 80
        | 0x7 << 76
        | fraction << 64
        | 0b10 << 62
        | random
    )


def first_uuid7(instant: datetime) -> str:
    """A text that sorts before every UUID of version 7 made from this millisecond on, and after
    all earlier ones."""
    digits = f"{max(0, epoch_microseconds(instant) // 1000):012x}"
    return f"{digits[:8]}-{digits[8:]}"
