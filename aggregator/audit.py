"""The audit of this aggregator's noise, for its operator, and the screening of contributions.

Spec: budget, section 4. First the pure steps: what is kept of a local round (`sharing: none`),
where this aggregator opens every noisy contribution y = f + Z. Then the audit in operation: each
committed local round adds to its sums, in the transaction of its commitment, and operators request
looks at them. Last the route.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Annotated, Final

import numpy as np
from fastapi import Query as Parameter
from numpy.typing import NDArray

from aggregator.context import Aggregator, AggregatorPart
from aggregator.pieces.intake import ROUNDS_LOCK
from aggregator.store import noise_audit as store
from aggregator.store.noise_audit import FamilyRow, LookRow, Named
from aggregator.web import Operator
from common.store.database import exclusive
from common.store.transactions import Transaction
from common.web.openapi import api_router
from tacit.accounting.screening import NoiseAudit, Reason, Verdict, far_values, rounds_to_tell
from tacit.answers import registry as answers
from tacit.query.functions import parts
from tacit.query.mechanisms import LaplacePlan, curator_plan
from tacit.query.query import Query
from tacit.query.terms import Mechanism, Stance
from tacit.wire import format_exact, format_instant

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Records = NDArray[np.void]

FIRST_PARTS: Final = 4
"""At most this many parts are audited: all parts of a function, except for vectors of many
blocks."""
FAR_ALPHA: Final = 1e-3
"""The probability that an honest deployment ever has a value classified as far (see
`unexplained`)."""
CHUNK: Final = 4096
"""Curators of one record array in the store (115 kB)."""
RECORD: Final = np.dtype(
    [
        ("rounds", "<u4"),
        ("far", "<u4"),
        ("unexplained", "<f4"),
        ("cosines", "<f8"),
        ("sines", "<f8"),
    ]
)
"""One curator of one family. `far`: rounds in which its value was classified as far; `unexplained`:
its largest distance in ring units beyond what noise explains."""

CANNOT: Final = (
    "The audit cannot tell missing noise from data that varies by the noise scale or more, and "
    "then says nothing; it cannot see noise that is drawn but known to others, noise that is "
    "smaller by a little, or noise left out in coordinates that are not audited; and it can say "
    "nothing of rounds with shared contributions, where no one sees a single value. A far value "
    "may be a true one. A proposal is a question: only an operator turns it into flagged or "
    "non_compliant."
)


@dataclass(frozen=True)
class Audited:
    """One audited value of a contribution: its coordinate, its part, its noise scale."""

    place: int
    part: str
    scale: Fraction


def audited(query: Query) -> tuple[Audited, ...]:
    """Which values of a query's contributions are audited; none if an audit would not be sound."""
    if query.mechanism is not Mechanism.LOCAL or query.stance is not Stance.SOUND:
        return ()
    plan = curator_plan(query)
    assert isinstance(plan, LaplacePlan)
    places = accumulate(plan.dimensions, initial=0)
    values = zip(parts(query), plan.scales, places, strict=False)
    return tuple(Audited(place, part.name, scale) for part, scale, place in values)[:FIRST_PARTS]


@dataclass(frozen=True)
class Noisy:
    """The audited values of one round: roster numbers (n,), rising, and values (n, audited)."""

    numbers: Ints
    values: Ints


class Listener:
    """Collects the audited values that a pass over the pieces of a local round opens."""

    def __init__(self, items: Sequence[Audited]) -> None:
        self._places = [item.place for item in items]
        self._numbers: list[Ints] = []
        self._values: list[Ints] = []

    def __call__(self, numbers: Ints, words: Words) -> None:
        """`words`: (n, d) opened words of the curators of these numbers."""
        if self._places:
            self._numbers.append(numbers.astype(np.int64))
            self._values.append(words[:, self._places].view(np.int64))

    def heard(self) -> Noisy:
        """All collected values, in the order of roster numbers."""
        if not self._numbers:
            return Noisy(np.zeros(0, np.int64), np.zeros((0, len(self._places)), np.int64))
        numbers = np.concatenate(self._numbers)
        order = np.argsort(numbers)
        return Noisy(numbers[order], np.concatenate(self._values)[order])


def unexplained(values: Ints, scale: Fraction, screen: int) -> Floats:
    """(n,) ring units by which a value exceeds what noise explains; 0 where it does not.

    `screen`: the number of this screening, 1, 2, ... over all rounds and parts; it is done at
    `FAR_ALPHA / (screen (screen + 1))`, so that over all screenings an honest deployment (every
    true value within six robust deviations of its round) has any far value with probability at
    most `FAR_ALPHA`.
    """
    if screen < 1:
        raise ValueError("screenings are counted from 1")
    excess = np.zeros(values.size)
    alpha = FAR_ALPHA / (screen * (screen + 1))
    for proposal in far_values(values, np.full(values.size, float(scale)), alpha):
        figures = proposal.figures
        excess[proposal.curator] = figures["distance"] - figures["explained_by_noise"]
    return excess


def chunks_of(numbers: Ints) -> Iterator[tuple[int, slice]]:
    """The chunks that rising roster numbers lie in, and which of the numbers lie in each."""
    chunks, starts = np.unique(numbers // CHUNK, return_index=True)
    ends = [*starts[1:].tolist(), numbers.size]
    for chunk, start, end in zip(chunks.tolist(), starts.tolist(), ends, strict=True):
        yield chunk, slice(start, end)


def empty() -> Records:
    """A chunk of curators without any observed value."""
    return np.zeros(CHUNK, RECORD)


def with_round(
    records: Records, scale: Fraction, places: Ints, values: Ints, far: Floats
) -> Records:
    """A chunk with one more round: (m,) places in the chunk, values, and `unexplained` of them."""
    was_invited = np.zeros(records.size, np.bool_)
    was_invited[places] = True
    placed = np.zeros(records.size, np.int64)
    placed[places] = values
    audit = audit_of(records, scale).plus(placed, was_invited)
    result = records.copy()
    result["rounds"], result["cosines"], result["sines"] = audit.rounds, audit.cosines, audit.sines
    result["far"][places] += far > 0
    result["unexplained"][places] = np.maximum(result["unexplained"][places], far)
    return result


def audit_of(records: Records, scale: Fraction) -> NoiseAudit:
    """The sums of these records as a `NoiseAudit`."""
    one = NoiseAudit.of_scales([scale])
    return NoiseAudit(
        np.repeat(one.period, records.size),
        np.repeat(one.phi, records.size),
        records["rounds"].astype(np.int64),
        records["cosines"].astype(np.float64),
        records["sines"].astype(np.float64),
    )


def joined(audits: Sequence[NoiseAudit]) -> NoiseAudit:
    """All rows of several audits as one, which alpha is divided by."""
    none = NoiseAudit.of_scales([])
    every = [none, *audits]
    return NoiseAudit(
        np.concatenate([item.period for item in every]),
        np.concatenate([item.phi for item in every]),
        np.concatenate([item.rounds for item in every]),
        np.concatenate([item.cosines for item in every]),
        np.concatenate([item.sines for item in every]),
    )


# --- the audit in operation ----------------------------------------------------------------------
#
# A round is added in the transaction of its commitment, which happens once, so neither a crash nor
# a repeated request adds it twice. A round that is aborted later stays: its noise was seen. Looks
# are numbered and durable before they are answered, because alpha is divided among them; a request
# that finds nothing new at the same alpha repeats the newest look and spends nothing. (A restore
# from a backup loses later looks together with the rounds that they covered.)

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
            stored = await store.chunks(transaction, family, [chunk for chunk, _ in some])
            written = await asyncio.to_thread(
                _written, stored, some, item.scale, noisy.numbers, values, far
            )
            await store.put_chunks(
                transaction,
                family,
                {chunk: body for chunk, body in written.items() if chunk not in stored},
                {chunk: body for chunk, body in written.items() if chunk in stored},
            )


def _written(
    stored: dict[int, bytes],
    spans: Sequence[tuple[int, slice]],
    scale: Fraction,
    numbers: Ints,
    values: Ints,
    far: Floats,
) -> dict[int, bytes]:
    written = {}
    for chunk, here in spans:
        body = stored.get(chunk)
        records = empty() if body is None else np.frombuffer(body, RECORD)
        places = numbers[here] - chunk * CHUNK
        added = with_round(records, scale, places, values[here], far[here])
        written[chunk] = added.tobytes()
    return written


# --- a look by the operator ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Family:
    """A family with the records of all curators that were seen: numbers (n,), records (n,)."""

    row: FamilyRow
    numbers: Ints
    records: Records


async def look(aggregator: Aggregator, alpha: float) -> answers.NoiseAudit:
    """A look at all families: the proposed curators, with figures, from public parameters and
    noisy sums."""
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, ROUNDS_LOCK)
        look_row = await _numbered(transaction, aggregator, alpha)
        families = [await _family(transaction, row) for row in await store.families(transaction)]
    return await _proposed(aggregator, look_row, alpha, families)


async def _numbered(transaction: Transaction, aggregator: Aggregator, alpha: float) -> LookRow:
    """This look's number: a new one unless nothing changed since the newest look."""
    last, screened = await store.last_look(transaction), await store.screened(transaction)
    if last is not None and (last.alpha, last.screened) == (repr(alpha), screened):
        return last
    number = 1 if last is None else last.number + 1
    look_row = LookRow(number, aggregator.clock.now(), repr(alpha), screened)
    await store.add_look(transaction, look_row)
    return look_row


async def _family(transaction: Transaction, row: FamilyRow) -> _Family:
    numbers, records = [np.zeros(0, np.int64)], [np.zeros(0, RECORD)]
    chunks = await store.chunk_numbers(transaction, row.key)
    for start in range(0, len(chunks), AT_ONCE):
        some = await store.chunks(transaction, row.key, chunks[start : start + AT_ONCE])
        for chunk, body in sorted(some.items()):
            stored = np.frombuffer(body, RECORD)
            seen_places = np.flatnonzero(stored["rounds"])
            numbers.append(seen_places + chunk * CHUNK)
            records.append(stored[seen_places])
    return _Family(row, np.concatenate(numbers), np.concatenate(records))


async def _proposed(
    aggregator: Aggregator, look_row: LookRow, alpha: float, families: Sequence[_Family]
) -> answers.NoiseAudit:
    audit = joined([audit_of(family.records, family.row.scale) for family in families])
    verdict = await asyncio.to_thread(audit.verdict, alpha, look_row.number)
    ends = np.cumsum([0, *(family.numbers.size for family in families)])
    silent, far = [], []
    for family, first, last in zip(families, ends[:-1], ends[1:], strict=True):
        flagged = np.flatnonzero(verdict.flagged[first:last])
        silent += [(family, int(row), int(first)) for row in flagged]
        far += [(family, int(row)) for row in np.flatnonzero(family.records["far"])]
    listed_silent, listed_far = silent[:NAMED], far[:NAMED]
    numbers = {int(family.numbers[row]) for family, row, _ in listed_silent}
    numbers |= {int(family.numbers[row]) for family, row in listed_far}
    async with aggregator.database.reading() as transaction:
        names = await store.named(transaction, sorted(numbers))
    return answers.NoiseAudit(
        alpha=alpha,
        look=answers.NoiseLook(
            number=look_row.number,
            time=format_instant(look_row.time),
            alpha_each=verdict.alpha_each,
        ),
        tests=int(audit.period.size),
        families=[
            _shown_family(family, first, audit.phi, verdict)
            for family, first in zip(families, ends[:-1], strict=True)
        ],
        proposed=answers.NoiseProposals(silent=len(silent), far=len(far)),
        proposals=[
            *(
                _silent(family, row, first + row, verdict, names)
                for family, row, first in listed_silent
            ),
            *(_far(family, row, names) for family, row in listed_far),
        ],
        cannot=CANNOT,
    )


def _shown_family(
    family: _Family, first: int, phi: NDArray[np.float64], verdict: Verdict
) -> answers.NoiseFamily:
    seen_count = family.numbers.size
    characteristic = float(phi[first]) if seen_count else None
    return answers.NoiseFamily(
        part=family.row.part,
        scale=format_exact(family.row.scale),
        rounds=family.row.rounds,
        curators=int(seen_count),
        characteristic=characteristic,
        rounds_to_tell=None
        if characteristic is None
        else rounds_to_tell(verdict.alpha_each, characteristic),
    )


def _silent(
    family: _Family, row: int, at: int, verdict: Verdict, names: dict[int, Named]
) -> answers.NoiseProposal:
    figures = {
        "rounds": int(family.records["rounds"][row]),
        "strength": float(verdict.strength[at]),
        "threshold": float(verdict.threshold[at]),
    }
    return _proposal(family, row, names, SILENT, figures)


def _far(family: _Family, row: int, names: dict[int, Named]) -> answers.NoiseProposal:
    record = family.records[row]
    figures = {
        "rounds": int(record["rounds"]),
        "far_rounds": int(record["far"]),
        "unexplained_scales": float(record["unexplained"]) / float(family.row.scale),
    }
    return _proposal(family, row, names, Reason.FAR_VALUE.value, figures)


def _proposal(
    family: _Family, row: int, names: dict[int, Named], reason: str, figures: dict[str, float]
) -> answers.NoiseProposal:
    number = int(family.numbers[row])
    whose = names.get(number)
    return answers.NoiseProposal(
        number=number,
        curator=None if whose is None else whose.curator,
        party=None if whose is None else whose.party,
        left=None if whose is None else whose.left,
        reason=reason,
        part=family.row.part,
        scale=format_exact(family.row.scale),
        figures=figures,
    )


Alpha = Annotated[
    float,
    Parameter(
        ge=1e-200,  # it is divided by curators and looks, and must not become zero
        lt=1,
        description=(
            "The probability, in (0, 1), that an honest deployment ever has a proposal for "
            "missing noise: it is divided among all curators and all looks. Of several, the "
            "largest counts."
        ),
    ),
]


router = api_router()


@router.get(
    "/v1/audit/noise",
    tags=["audit"],
    summary="Curators that may add no noise, or whose values are outliers: proposals only",
)
async def audit_noise(
    aggregator: AggregatorPart,
    _: Operator,
    alpha: Alpha = 0.05,
) -> answers.NoiseAudit:
    return await look(aggregator, alpha)
