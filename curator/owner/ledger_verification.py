"""Verifies the ledger of a process against a checkpoint that was kept elsewhere, for its operator.

A checkpoint is a number of rows and a hash over them, each row's over the one before it. It has no
key: anyone who can write to this database can make another chain, but not one with the kept hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from fastapi import Query as Parameter

from common.bodies import LARGEST
from common.runtime.clock import epoch_microseconds
from common.store.transactions import Transaction
from common.web.openapi import api_router
from curator.store import history
from curator.store.outbox import stored_aborts
from curator.web import DatabasePart, Operator
from tacit.accounting.charges import abort_credit
from tacit.answers.budget import BrokenRow, LedgerVerification
from tacit.crypto.sealing import length_prefixed
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import RoundDescriptor

_LABEL: Final = b"tacit curator ledger v1"
START: Final = hashlib.sha256(_LABEL).digest()
"""The hash of a ledger without rows."""


@dataclass(frozen=True)
class Verification:
    """`rows` and `head` of the whole ledger; `broken`: a row that is wrong (from 1), and why."""

    rows: int
    head: bytes
    broken: tuple[int, str] | None


async def verify(transaction: Transaction, kept: tuple[int, bytes] | None) -> Verification:
    """Check every row; `kept`: the rows and the head of a checkpoint."""
    unearned = {
        row.id
        for row in await history.credited(transaction)
        if not _earned(row.descriptor, row.aborts)
    }
    rows, head, broken = 0, START, None
    covered = START
    async for row in history.ledger(transaction):
        rows, head = rows + 1, _next(head, row)
        if kept is not None and rows == kept[0]:
            covered = head
        if row.id in unearned and broken is None:
            broken = (rows, "it was credited, and no signed statements earn that")
    if kept is not None and kept[0] > rows:
        broken = (rows + 1, f"the tail is missing: the checkpoint has {kept[0]} rows")
    elif kept is not None and kept[1] != covered:
        broken = (kept[0], "the rows up to here are not those of the checkpoint")
    return Verification(rows, head, broken)


def _earned(descriptor: str | None, aborts: str | None) -> bool:
    if descriptor is None:  # reports, or a contribution that is gone
        return False
    statement = Signed[RoundDescriptor].model_validate_json(descriptor).statement
    return abort_credit(statement, stored_aborts(aborts))


def _next(head: bytes, row: Sequence[object]) -> bytes:
    return hashlib.sha256(length_prefixed(head, *map(_bytes, row))).digest()


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, datetime):
        value = epoch_microseconds(value)
    return b"" if value is None else str(value).encode()


router = api_router()


@router.get(
    "/v1/ledger/verification",
    tags=["owner"],
    summary="Look at every row of this process's ledger, also at a checkpoint that was kept",
)
async def verify_ledger(
    _: Operator,
    database: DatabasePart,
    seq: Annotated[
        int | None,
        Parameter(ge=0, le=LARGEST, description="The rows of a checkpoint that you kept."),
    ] = None,
    head: Annotated[
        str | None, Parameter(pattern="^[0-9a-f]{64}$", description="Its hash.")
    ] = None,
) -> LedgerVerification:
    kept = None if seq is None or head is None else (seq, bytes.fromhex(head))
    async with database.reading() as transaction:
        outcome = await verify(transaction, kept)
    broken = None
    if outcome.broken is not None:
        broken = BrokenRow(row=outcome.broken[0], reason=outcome.broken[1])
    return LedgerVerification(
        verified=broken is None, rows=outcome.rows, head=outcome.head.hex(), broken=broken
    )
