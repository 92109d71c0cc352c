"""Counters in a file: each total goes through the intake of single readings, many together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from common.web.auth import Principal
from curator.files.progress import Progress
from curator.intake.intake import Intake, Status

TOGETHER: Final = 5000


async def take_counters(
    intake: Intake,
    caller: Principal,
    progress: Progress,
    rows: Sequence[tuple[int, dict[str, Any]]],
    report: Callable[[int, str], None],
) -> None:
    """Store rows of (line, raw item) and count their outcomes; `report` receives the line of each
    rejected row, and the reason."""
    for begin in range(0, len(rows), TOGETHER):
        lot = rows[begin : begin + TOGETHER]
        answers = await intake.take([raw for _, raw in lot], caller)
        for (line, _), answer in zip(lot, answers, strict=True):
            match answer.status:
                case Status.ACCEPTED:
                    progress.accepted += 1
                case Status.DUPLICATE:
                    progress.duplicates += 1
                case Status.CONFLICT:
                    progress.conflicts += 1
                case Status.REJECTED:
                    progress.rejected_at_intake += 1
                    report(line, answer.detail or "cannot be stored")
