"""A store that came back from a backup: which rounds and collections it must not answer again.

Its debits and noise since the copy was made are lost, and fresh noise for the same readings could
be averaged with the lost one. Spec: aggregation, section 6, step 3; keys, section 6.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from common.agreement import CLOCK_SKEW
from common.models.base import format_instant
from curator.errors import OpenedBeforeRestore, RestoredRecently


@dataclass(frozen=True)
class Restore:
    """When this store was last restored, if ever, and how long it takes part in nothing then."""

    at: datetime | None
    quiet: timedelta

    def check(self, opened: datetime, now: datetime) -> None:
        """Raises OpenedBeforeRestore for what may have been answered before: nothing that was is
        dated later than a clock's error after it. Raises RestoredRecently while quiet."""
        if self.at is None:
            return
        if opened <= self.at + min(CLOCK_SKEW, self.quiet):
            raise OpenedBeforeRestore
        if now < self.at + self.quiet:
            raise RestoredRecently(extra={"until": format_instant(self.at + self.quiet)})
