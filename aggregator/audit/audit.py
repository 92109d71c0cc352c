"""The noise audit in operation: each committed local round adds to its sums; operators request
looks at them.

Spec: budget, section 4. A round is added in the transaction of its commitment, which happens once:
neither a crash nor a repeated request adds it twice, and what is added was opened anyway. A round
that is aborted after that stays included: its noise was seen.

Looks are numbered and durable before they are answered, because alpha is divided among them. A
request that finds nothing new at the same alpha repeats the newest look and spends nothing. (An
aggregator restored from a backup loses both the later looks and the rounds that they covered.)

It only proposes: nothing here changes what a curator may do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aggregator.audit.noise_audit import (
    CANNOT,
    CHUNK,
    RECORD,
    Audited,
    Floats,
    Ints,
    Noisy,
    Records,
    audit_of,
    chunks_of,
    empty,
    joined,
    unexplained,
    with_round,
)
from aggregator.context import Aggregator
from aggregator.pieces.intake import ROUNDS_LOCK
from aggregator.store import noise_audit as store
from aggregator.store.noise_audit import FamilyRow, LookRow, Named
from common.store.database import exclusive
from common.store.transactions import Transaction
from tacit.accounting.noise_audit import Verdict, rounds_to_tell
from tacit.accounting.screening import Reason
from tacit.wire import format_exact, format_instant

NAMED: Final = 1000
"""At most this many proposals are listed; all are counted."""
AT_ONCE: Final = 64
"""Chunks that are in memory while a round is added."""
SILENT: Final = "shows less noise than compliant noise may"


# --- a round is added ----------------------------------------------------------------------------


async def add_round(transaction: Transaction, items: Sequence[Audited], noisy: Noisy) -> None:
    """Add a round's audited values, inside the transaction of its commitment."""
    if not noisy.numbers.size:
        return
    before = await store.screened(transaction)
    for column, item in enumerate(items):
        values = noisy.values[:, column]
        far = await asyncio.to_thread(unexplained, values, item.scale, before + column + 1)
        family = await store.count_round(transaction, item.part, item.scale)
        spans = list(chunks_of(noisy.numbers))
        for start in range(0, len(spans), AT_ONCE):
            some = spans[start : start + AT_ONCE]
            known = await store.chunks(transaction, family, [chunk for chunk, _ in some])
            written = await asyncio.to_thread(
                _written, known, some, item.scale, noisy.numbers, values, far
            )
            await store.put_chunks(
                transaction,
                family,
                {chunk: body for chunk, body in written.items() if chunk not in known},
                {chunk: body for chunk, body in written.items() if chunk in known},
            )


def _written(
    known: dict[int, bytes],
    spans: Sequence[tuple[int, slice]],
    scale: Fraction,
    numbers: Ints,
    values: Ints,
    far: Floats,
) -> dict[int, bytes]:
    written = {}
    for chunk, here in spans:
        body = known.get(chunk)
        records = empty() if body is None else np.frombuffer(body, RECORD)
        places = numbers[here] - chunk * CHUNK
        added = with_round(records, scale, places, values[here], far[here])
        written[chunk] = added.tobytes()
    return written


# --- an operator looks ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Family:
    """A family with the records of all curators that were seen: numbers (n,), records (n,)."""

    row: FamilyRow
    numbers: Ints
    records: Records


async def look(aggregator: Aggregator, alpha: float) -> dict[str, Any]:
    """A look at all families: the proposed curators, with figures. Computed from public parameters
    and noisy sums."""
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, ROUNDS_LOCK)
        taken = await _numbered(transaction, aggregator, alpha)
        found = [await _family(transaction, row) for row in await store.families(transaction)]
    return await _proposed(aggregator, taken, alpha, found)


async def _numbered(transaction: Transaction, aggregator: Aggregator, alpha: float) -> LookRow:
    """This look's number: a new one unless nothing changed since the newest look."""
    last, screened = await store.last_look(transaction), await store.screened(transaction)
    if last is not None and (last.alpha, last.screened) == (repr(alpha), screened):
        return last
    number = 1 if last is None else last.number + 1
    taken = LookRow(number, aggregator.clock.now(), repr(alpha), screened)
    await store.add_look(transaction, taken)
    return taken


async def _family(transaction: Transaction, row: FamilyRow) -> _Family:
    numbers, records = [np.zeros(0, np.int64)], [np.zeros(0, RECORD)]
    known = await store.chunk_numbers(transaction, row.key)
    for start in range(0, len(known), AT_ONCE):
        some = await store.chunks(transaction, row.key, known[start : start + AT_ONCE])
        for chunk, body in sorted(some.items()):
            held = np.frombuffer(body, RECORD)
            seen = np.flatnonzero(held["rounds"])
            numbers.append(seen + chunk * CHUNK)
            records.append(held[seen])
    return _Family(row, np.concatenate(numbers), np.concatenate(records))


async def _proposed(
    aggregator: Aggregator, taken: LookRow, alpha: float, found: Sequence[_Family]
) -> dict[str, Any]:
    audit = joined([audit_of(family.records, family.row.scale) for family in found])
    verdict = await asyncio.to_thread(audit.verdict, alpha, taken.number)
    ends = np.cumsum([0, *(family.numbers.size for family in found)])
    silent, far = [], []
    for family, first, last in zip(found, ends[:-1], ends[1:], strict=True):
        flagged = np.flatnonzero(verdict.flagged[first:last])
        silent += [(family, int(row), int(first)) for row in flagged]
        far += [(family, int(row)) for row in np.flatnonzero(family.records["far"])]
    listed_silent, listed_far = silent[:NAMED], far[:NAMED]
    numbers = {int(family.numbers[row]) for family, row, _ in listed_silent}
    numbers |= {int(family.numbers[row]) for family, row in listed_far}
    async with aggregator.database.reading() as transaction:
        names = await store.named(transaction, sorted(numbers))
    return {
        "alpha": alpha,
        "look": {
            "number": taken.number,
            "time": format_instant(taken.time),
            "alpha_each": verdict.alpha_each,
        },
        "tests": int(audit.period.size),
        "families": [
            _shown_family(family, first, audit.phi, verdict)
            for family, first in zip(found, ends[:-1], strict=True)
        ],
        "proposed": {"silent": len(silent), "far": len(far)},
        "proposals": [
            *(
                _silent(family, row, first + row, verdict, names)
                for family, row, first in listed_silent
            ),
            *(_far(family, row, names) for family, row in listed_far),
        ],
        "cannot": CANNOT,
    }


def _shown_family(
    family: _Family, first: int, phi: NDArray[np.float64], verdict: Verdict
) -> dict[str, Any]:
    seen = family.numbers.size
    return {
        "part": family.row.part,
        "scale": format_exact(family.row.scale),
        "rounds": family.row.rounds,
        "curators": int(seen),
        "characteristic": float(phi[first]) if seen else None,
        "rounds_to_tell": rounds_to_tell(verdict.alpha_each, float(phi[first])) if seen else None,
    }


def _silent(
    family: _Family, row: int, at: int, verdict: Verdict, names: dict[int, Named]
) -> dict[str, Any]:
    return _proposal(family, row, names, SILENT) | {
        "figures": {
            "rounds": int(family.records["rounds"][row]),
            "strength": float(verdict.strength[at]),
            "threshold": float(verdict.threshold[at]),
        }
    }


def _far(family: _Family, row: int, names: dict[int, Named]) -> dict[str, Any]:
    record = family.records[row]
    return _proposal(family, row, names, Reason.FAR_VALUE.value) | {
        "figures": {
            "rounds": int(record["rounds"]),
            "far_rounds": int(record["far"]),
            "unexplained_scales": float(record["unexplained"]) / float(family.row.scale),
        }
    }


def _proposal(family: _Family, row: int, names: dict[int, Named], reason: str) -> dict[str, Any]:
    number = int(family.numbers[row])
    whose = names.get(number)
    return {
        "number": number,
        "curator": None if whose is None else whose.curator,
        "party": None if whose is None else whose.party,
        "left": None if whose is None else whose.left,
        "reason": reason,
        "part": family.row.part,
        "scale": format_exact(family.row.scale),
    }
