"""A start from a backup: the store lacks what happened since, so no stored round may continue.

To restore a backup, an operator stops all processes of the aggregator, restores the database, and
puts a file `<data_dir>/restored` there (any content). The next start aborts every round that is not
released, destroys all seal keys and makes new ones; then it removes the
file. If that start is interrupted, the next one repeats it. It states "never frozen" for none of
the rounds that it aborts: the round may have been frozen, or released, after the backup.

A database that knows fewer seal keys than the directory of their wrapping keys was put back without
the file: the same is done. Spec: keys, section 2.4.

Aborting alone is not enough: a round that was opened, committed to or even released after the
backup is unknown to the restored store. Its descriptor, sent again, would draw fresh noise and sign
a second manifest for the same pieces; their difference could expose a curator (spec: aggregation,
section 6). Without the old keys no such descriptor is accepted and no such piece can be opened.

Not recovered here: sets of curators whose sums were opened since the backup are no longer known
here, so only the other aggregators still compare with them (`aggregator.rounds.differencing`).
Parties that enrolled since the backup enrol again, and those that left since then have to be
revoked again.
"""

from __future__ import annotations

from aggregator.context import Aggregator
from aggregator.pieces.intake import Intake
from aggregator.rounds import state_machine
from common.runtime.logs import get_logger

MARKER = "restored"
REASON = "restored from a backup"
_logger = get_logger("tacit.aggregator.restoring")


async def recover(aggregator: Aggregator, intake: Intake) -> bool:
    """Take the steps above if this store was restored; whether it was."""
    marker = aggregator.settings.data_dir / MARKER
    if not marker.exists() and not await aggregator.seal_keyring.rolled_back():
        return False
    aborted = await state_machine.abort_unreleased(aggregator, intake, REASON)
    await aggregator.seal_keyring.renew()
    await aggregator.erasure.erase()
    aggregator.forget_rounds()
    _logger.warning("restored_from_backup", rounds_aborted=aborted)
    marker.unlink(missing_ok=True)
    return True
