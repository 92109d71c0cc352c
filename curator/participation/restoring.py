"""A store restored from a backup: which rounds and collections it must not answer again.

Its debits and noise since the copy was made are lost, and fresh noise for the same readings could
be averaged with the lost one. Spec: aggregation, section 6, step 3; keys, section 6.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.transactions import Database
from curator.errors import OpenedBeforeRestore, RestoredRecently
from curator.settings import CuratorSettings
from curator.store import parties as store
from tacit.protocol.round.agreement import CLOCK_SKEW
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.wire import format_instant

RESTORED: Final = "restored_at"
"""The fact of the store that holds when it was restored."""
MARKER: Final = "restored"
_logger = get_logger("tacit.curator")


@dataclass(frozen=True)
class Restore:
    """When this store was last restored, if ever, and how long it then participates in nothing."""

    at: datetime | None
    quiet: timedelta

    def check(self, opened: datetime, now: datetime) -> None:
        """Raise OpenedBeforeRestore for a descriptor that may have been answered before: no such
        descriptor is dated later than the restore plus a clock's error. Raises RestoredRecently
        in the quiet time."""
        if self.at is None:
            return
        self.check_after(opened)
        if now < self.at + self.quiet:
            raise RestoredRecently(extra={"until": format_instant(self.at + self.quiet)})

    def check_round(self, descriptor: RoundDescriptor) -> None:
        """The same for a round. No quiet time is needed: its aggregator itself states that a
        seal key was made after the restore, which no earlier descriptor can have."""
        for moment in (descriptor.opened, *(entry.seal.made for entry in descriptor.aggregators)):
            self.check_after(moment)

    def check_after(self, moment: datetime) -> None:
        """Raise OpenedBeforeRestore if this store may be older than its answers at that time."""
        if self.at is not None and moment <= self.at + min(CLOCK_SKEW, self.quiet):
            raise OpenedBeforeRestore


async def find_restore(database: Database, settings: CuratorSettings, clock: Clock) -> Restore:
    """When this store was last restored from a backup.

    The operator who restores creates the file `<data_dir>/restored`; the next start records the
    time. Rounds opened before it are refused: a debit and its sealed bytes may have been lost,
    and fresh noise would allow averaging.
    """
    marker = settings.data_dir / MARKER
    async with database.begin() as transaction:
        if marker.exists():
            await store.put_fact(transaction, RESTORED, format_instant(clock.now()))
            _logger.warning("restored_from_backup")
        text = await store.fact(transaction, RESTORED)
    marker.unlink(missing_ok=True)
    at = None if text is None else datetime.fromisoformat(text)
    return Restore(at, timedelta(seconds=settings.restore_quiet_s))
