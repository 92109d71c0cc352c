"""What is refused, and where."""

from __future__ import annotations

from tacit.errors import Invalid, TooLarge


class BadFanout(Invalid):
    """Outside its range."""

    name = "bad_fanout"
    title = "The fan-out is not valid"


class BadEta(Invalid):
    """Outside its range."""

    name = "bad_eta"
    title = "The expected number of false survivors is not valid"


class PartitionCap(TooLarge):
    """More partitions than the job allows. The number is a function of the noisy transcript."""

    name = "partition_cap"
    title = "Too many partitions survive"

    def __init__(self, limit: int, expected: str) -> None:
        super().__init__(f"more than {limit} partitions. {expected}".strip())


class RowCap(TooLarge):
    """More released rows than the job allows."""

    name = "row_cap"
    title = "Too many rows would be released"

    def __init__(self, limit: int, expected: str) -> None:
        super().__init__(f"more than {limit} released rows. {expected}".strip())
