"""NDJSON of records that have a time: `{"items": ["home"], "time": "2026-05-01T08:00:00Z"}`.

Spec: federated-counting, section 5. All records of a file have a time or none has.
"""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.records.reading import BYTE_ORDER_MARK, MalformedRow, TooManyRows, text_lines
from tacit.records.transactions import MAX_RECORDS

Ints = NDArray[np.int64]

FIELDS: Final = {"items", "time"}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(instant: datetime) -> int:
    """Since the beginning of 1970."""
    return (instant - EPOCH) // _MICROSECOND


def split(content: bytes) -> tuple[bytes, Ints | None]:
    """The lists of a file, a line each, and the time of each record in microseconds since 1970;
    None for a file of lists alone. Raises MalformedRow, which names the line; TooManyRows."""
    if not content.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{"):
        return content, None
    lines: list[str] = []
    times: list[int] = []
    for row, line in text_lines(io.BytesIO(content)):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise MalformedRow(row, "not JSON") from None
        if not isinstance(record, dict) or set(record) != FIELDS:
            raise MalformedRow(row, "an object of items and time, as in the first line")
        if len(lines) >= MAX_RECORDS:
            raise TooManyRows(f"a dataset has at most {MAX_RECORDS} records")
        times.append(_time(record["time"], row))
        lines.append(json.dumps(record["items"]))
    return "\n".join(lines).encode(), np.array(times, np.int64)


def _time(value: Any, row: int) -> int:
    try:
        found = datetime.fromisoformat(value)
        if found.utcoffset() is None:
            raise ValueError
        return microseconds(found)
    except (TypeError, ValueError, OverflowError):
        raise MalformedRow(row, "time is an RFC 3339 time with an offset") from None
