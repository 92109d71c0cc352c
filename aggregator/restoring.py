"""A start from a backup: the store forgot what happened since, so nothing of it may go on.

Whoever restores a backup stops all processes of the aggregator, restores the database, and puts a
file `<data_dir>/restored` there (any content). The next start aborts every round that is not
released, destroys all private epoch keys and makes a new one for the present epoch; then it removes
the file. A start that dies in between begins again. Of no round that it aborts it says "never
frozen": the round may have been frozen, or released, after the backup.

Aborting alone would not do: a round that was opened, committed to or even released after the backup
is unknown to the restored store. Its descriptor, shown again, would draw fresh noise and sign a
second manifest for the same pieces; their difference could bare a curator (spec: aggregation,
section 6). Without the old keys no such descriptor is accepted and no such piece opens.

Not undone here: sets of curators whose sums were opened since the backup are not known here any
more, so that only the other aggregators still compare with them (`aggregator.differencing`).
Parties that enrolled since the backup enrol again, and those that left since then have to be
revoked again.
"""

from __future__ import annotations

from aggregator import rounds
from aggregator.context import Aggregator
from aggregator.intake import Intake
from common.service.logs import get_logger

MARKER = "restored"
REASON = "restored from a backup"
_logger = get_logger("tacit.aggregator.restoring")


async def recover(aggregator: Aggregator, intake: Intake) -> bool:
    """Do what a restored aggregator must, if this store was restored; whether it was."""
    marker = aggregator.settings.data_dir / MARKER
    if not marker.exists():
        return False
    aborted = await rounds.abort_unreleased(aggregator, intake, REASON)
    await aggregator.keyring.renew()
    await aggregator.erasure.erase()
    aggregator.forget_rounds()
    _logger.warning("restored_from_backup", rounds_aborted=aborted)
    marker.unlink(missing_ok=True)
    return True
