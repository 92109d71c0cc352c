"""What only a curator's owner may see: budget, contributions, counts of readings.

What each answer was asked, how well it is hidden, and why a contribution counted no reading. Counts
of readings used and clamped depend on data; they are answered to the curator's own token and to the
operator alone.

For the operator: verifies the ledger of a process against a checkpoint kept elsewhere, a number of
rows and a hash over them, each row's over the one before it. It has no key: anyone who can write to
this database can make another chain, but not one with the kept hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import Depends
from fastapi import Query as Parameter
from sqlalchemy import Row

from common.bodies import LARGEST
from common.principals import Principal, Scope
from common.runtime.clock import epoch_microseconds
from common.store.transactions import Database, Transaction
from common.web.openapi import api_router
from curator import ledger
from curator.errors import ForeignCurator, UnknownAnswer, UnknownCurator
from curator.ledger import Charge, Debit, format_charge, presence_bits, statement_of, worst_instant
from curator.policy import Policy, agreed
from curator.store import accounts, history, outbox
from curator.store import parties as party_store
from curator.store import readings as store
from curator.store import reports as report_store
from curator.store.outbox import State, stored_aborts
from curator.store.parties import CuratorRow, PartyRow
from curator.web import CuratorId, DatabasePart, Operator, Owner
from tacit.accounting.amounts import UNVERIFIED
from tacit.accounting.charges import abort_credit
from tacit.accounting.scenarios import Scenario, assumption
from tacit.answers import curator as answers
from tacit.answers.base import Answer
from tacit.answers.budget import BrokenRow, LedgerVerification
from tacit.answers.curator import (
    AskedFor,
    DeclaredCharge,
    GivenContribution,
    NamedAggregator,
    OwnBudget,
    ReadingCounts,
    ReadingsUsed,
    RecordStatement,
    RefusalReason,
    RefusedProof,
    StatedCharge,
    UnitCharges,
    Units,
    UnitStatement,
    WholeContribution,
)
from tacit.answers.rounds import Span
from tacit.crypto.sealing import length_prefixed
from tacit.crypto.signing import Signed
from tacit.protocol.federation import Descriptor, column_name
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.messages import REFUSED_BY_PROOF
from tacit.query.encoding import MILLION
from tacit.query.fields import Window
from tacit.query.functions import reading_dimension, reads_vectors
from tacit.query.query import Query
from tacit.query.terms import Layer, Mechanism, PrivacyUnit
from tacit.report.model import VerifiedStatement
from tacit.report.queries import verified_statements
from tacit.units import DIMENSIONS, UNITS
from tacit.wire import Instant, WireModel, encode_binary, format_exact, format_instant

Whole = TypeVar("Whole", bound=Answer)
SHOWN: Final = 100
"""Debits of a statement: the newest."""
UNBOUNDED: Final = Charge.of(UNVERIFIED, UNVERIFIED)
"""What a sum without noise tells: no figure bounds it, and it is in no sum of a ledger."""
NOTHING: Final = "nothing of anybody else: reports have all their noise before they leave"


async def find(
    transaction: Transaction, curator_id: str, caller: Principal
) -> tuple[CuratorRow, PartyRow]:
    """The curator and its party, if the caller may see it."""
    if not caller.has(Scope.OPERATOR) and caller.subject != curator_id:
        raise ForeignCurator
    row = await party_store.curator(transaction, curator_id)
    if row is None:
        raise UnknownCurator
    party = await party_store.party(transaction, row.party)
    assert party is not None
    return row, party


@dataclass(frozen=True)
class OwnCurator:
    """A curator as its owner, or an operator, sees it. Both contexts yield a transaction, the
    curator and its party, and raise ForeignCurator or UnknownCurator."""

    id: str
    caller: Principal
    database: Database

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[tuple[Transaction, CuratorRow, PartyRow]]:
        """To read."""
        async with self.database.reading() as transaction:
            yield transaction, *await find(transaction, self.id, self.caller)

    @asynccontextmanager
    async def changing(
        self, *, large: bool = False
    ) -> AsyncIterator[tuple[Transaction, CuratorRow, PartyRow]]:
        """To write."""
        async with self.database.begin(large=large) as transaction:
            yield transaction, *await find(transaction, self.id, self.caller)

    async def find(self) -> tuple[CuratorRow, PartyRow]:
        """The curator and its party."""
        async with self.reading() as (_, row, party):
            return row, party


async def _own_curator(curator_id: CuratorId, caller: Owner, database: DatabasePart) -> OwnCurator:
    return OwnCurator(curator_id, caller, database)


OwnCuratorPart = Annotated[OwnCurator, Depends(_own_curator)]


async def budget(
    transaction: Transaction, row: CuratorRow, party: PartyRow, default: Policy, now: datetime
) -> OwnBudget:
    """The ledger statement: per unit, per period and lifetime, columns (e) and (d), the rows."""
    policies = agreed(default, row.policy, row.owner_policy)
    public = [name for name in policies[0].public_columns if name in policies[-1].public_columns]
    position = row.key - party.first_key
    units: dict[str, UnitStatement] = {}
    for unit in PrivacyUnit:
        debits = await accounts.list_debits(transaction, party.id, unit)
        limits = policies[0].limits(unit).meet(policies[-1].limits(unit))
        shown = [item for item in debits if item.over(position, 1)[0]][-SHOWN:]
        paid = [item.contribution for item in shown if item.contribution is not None]
        texts = await history.descriptors(transaction, paid)
        rows = [_debit(item, texts.get(item.contribution or 0)) for item in shown]
        stated = statement_of(debits, position, now, policies[0].period_s, limits, rows)
        units[unit.value] = stated
        if unit is PrivacyUnit.RECORD:
            units[unit.value] = extended(
                RecordStatement, stated, worst_instant=worst_instant(debits, position)
            )
    free = [
        item.contribution
        for item in debits
        if item.contribution is not None
        and not item.charge.epsilon_all
        and not item.credited
        and item.over(position, 1)[0]
    ]
    return OwnBudget(
        curator=row.id,
        party=party.id,
        public_columns=public,
        exact_answers=await history.count_exact(transaction, free),
        units=Units.model_validate(units),
    )


async def debits(
    transaction: Transaction,
    row: CuratorRow,
    party: PartyRow,
    unit: PrivacyUnit,
    before: int | None,
    limit: int,
) -> tuple[list[answers.Debit], int | None]:
    """A page of a curator's debits in one unit, newest first, and where the next page starts."""
    position = row.key - party.first_key
    rows = await accounts.debits_of(transaction, party.id, unit, position, before, limit)
    paid = [item.contribution for _, item in rows if item.contribution is not None]
    texts = await history.descriptors(transaction, paid)
    items = [_debit(item, texts.get(item.contribution or 0)) for _, item in rows]
    return items, rows[-1][0] if len(rows) == limit else None


class AskedReports(WireModel):
    """A job that asked for noisy reports; `reports`: how many this curator made, with their
    noise; `refused_because`: on which ground its party made none."""

    job: str
    algorithm: str
    stance: str
    columns: tuple[str, ...]
    label: str | None
    opened: Instant
    deadline: Instant
    state: str
    reports: int
    refused_because: str | None


async def reports(
    transaction: Transaction, row: CuratorRow, party: PartyRow, before: str | None, limit: int
) -> tuple[list[AskedReports], str | None]:
    """A page of the jobs that asked a curator for noisy reports, newest first, and where the next
    page starts."""
    collections = await report_store.asked_of(transaction, party.id, row.key, before, limit)
    items = []
    for collection, made in collections:
        signed = Signed[Descriptor].model_validate_json(collection.descriptor)
        descriptor = signed.statement
        items.append(
            AskedReports(
                job=descriptor.job,
                algorithm=descriptor.algorithm,
                stance=descriptor.stance,
                columns=tuple(map(column_name, descriptor.columns)),
                label=descriptor.label,
                opened=descriptor.opened,
                deadline=descriptor.deadline,
                state=collection.state.value,
                reports=made,
                refused_because=collection.ground,
            )
        )
    return items, collections[-1][0].job if len(collections) == limit else None


def _debit(item: Debit, text: str | None) -> answers.Debit:
    descriptor = None if text is None else _descriptor(text)
    charge = item.charge if descriptor is None else _told(descriptor.query, item.charge)
    return answers.Debit(
        round=None if descriptor is None else descriptor.round,
        assumes=NOTHING if descriptor is None else _assumption(descriptor),
        made=format_instant(item.made),
        window=_span(item.window),
        status=_status(charge),
        credited=item.credited,
        **format_charge(charge),
    )


def _told(query: Query, charge: Charge) -> Charge:
    """What an answer to a query reveals by itself, of which a ledger counts `charge`."""
    return charge if query.rule is None else UNBOUNDED


def _status(charge: Charge) -> Literal["verified", "unverified"]:
    return "verified" if charge.verified else "unverified"


def _span(window: Window) -> Span:
    return Span.model_validate(window.model_dump(mode="json"))


def extended(kind: type[Whole], answer: Answer, **more: object) -> Whole:
    """An answer as a derived model, with the additional fields."""
    return kind(**{name: getattr(answer, name) for name in answer.model_fields_set}, **more)


def _descriptor(text: str) -> RoundDescriptor:
    return Signed[RoundDescriptor].model_validate_json(text).statement


def _assumption(descriptor: RoundDescriptor) -> str:
    """The assumption under which the figure of a round's debit holds."""
    ids = [entry.id for entry in descriptor.aggregators]
    return assumption(descriptor.query, ids, descriptor.operators)


async def contribution(
    transaction: Transaction, row: CuratorRow, party: PartyRow, round_id: str
) -> WholeContribution:
    """One answer, and which parties would have to collude to learn what. Raises UnknownAnswer."""
    answer, signed = await answered(transaction, row, party, round_id)
    descriptor = signed.statement
    return extended(
        WholeContribution,
        answer,
        verified=[
            VerifiedStatement.model_validate_json(line.model_dump_json(exclude_none=True))
            for line in verified(descriptor.query, descriptor.operators)
        ],
        aggregators=[
            NamedAggregator(
                id=entry.id,
                operator=entry.operator,
                url=entry.url,
                fingerprint=entry.fingerprint.hex(),
            )
            for entry in descriptor.aggregators
        ],
    )


async def answered(
    transaction: Transaction, row: CuratorRow, party: PartyRow, round_id: str
) -> tuple[GivenContribution, Signed[RoundDescriptor]]:
    """One answer as in the history, and the round's signed descriptor. Raises UnknownAnswer."""
    stored = await history.of_round(transaction, party.id, round_id)
    if stored is None:
        raise UnknownAnswer
    [answer] = (await contributions(transaction, row, party, stored.id + 1, 1))[0]
    return answer, Signed[RoundDescriptor].model_validate_json(stored.descriptor)


async def contributions(
    transaction: Transaction, row: CuratorRow, party: PartyRow, after: int | None, limit: int
) -> tuple[list[GivenContribution], int | None]:
    """The curator's history, newest first, and where the next page starts."""
    rows = await history.history(transaction, party.id, after, limit)
    ids = [item.id for item in rows]
    position = row.key - party.first_key
    debits, refusals = await history.spans_over(transaction, ids, position)
    states = await outbox.delivery_states(transaction, ids)
    problems = await outbox.problems_of(transaction, ids)
    items = []
    for item in rows:
        charged = await _charged(transaction, item, row.key, position, debits.get(item.id))
        delivery = {"delivery": states.get(item.id, {}), "problems": problems.get(item.id, [])}
        items.append(_contribution(item, position, refusals.get(item.id, []), charged | delivery))
    return items, ids[-1] if len(ids) == limit else None


async def _charged(
    transaction: Transaction, item: Row[Any], curator: int, position: int, debit: Row[Any] | None
) -> dict[str, Any]:
    """What a curator's answer to a round cost, and which readings it used; empty if there was
    none. `curator`: its key; `position`: its index in its party."""
    if debit is None or not presence_bits(debit.presence, debit.length)[position - debit.offset]:
        return {}
    descriptor = _descriptor(item.descriptor)
    query = descriptor.query
    charges = {unit: _told(query, accounts.charge_in(debit, unit)) for unit in PrivacyUnit}
    declared = charges[query.privacy_unit]
    used, clamped = _usage(debit, position)
    kept = _kept(debit, position)
    note = {}
    if used == 0:
        because = await unusable(transaction, descriptor, curator)
        note["note"] = f"contributed nothing usable, because {because}"
    fields: dict[str, Any] = {
        "declared": DeclaredCharge(
            assumes=_assumption(descriptor),
            status=_status(declared),
            guess=promised(query, descriptor.operators).guess,
            **format_charge(declared),
        ),
        "charged": UnitCharges(
            **{
                unit.value: StatedCharge(status=_status(charge), **format_charge(charge))
                for unit, charge in charges.items()
            }
        ),
        "readings": ReadingsUsed(used=used, clamped=clamped, kept_share=kept, **note),
    }
    if debit.refused is not None:
        reasons = debit.refused.split(", ")
        fields["refused_by_proof"] = RefusedProof(reasons=reasons, detail=REFUSED_BY_PROOF)
    return fields


def _contribution(
    item: Row[Any], position: int, refusals: list[Row[Any]], more: dict[str, Any]
) -> GivenContribution:
    descriptor = _descriptor(item.descriptor)
    query = descriptor.query
    grounds = [
        RefusalReason(name=r.name, detail=r.detail, figures=json.loads(r.figures))
        for r in refusals
        if presence_bits(r.members, r.length)[position - r.offset]
    ]
    # Of an expired round the grounds are gone: who is not in what was delivered has refused.
    refused = grounds or (item.expired is not None and item.state == State.DELIVERED)
    contributed = "charged" in more
    return GivenContribution(
        round=item.round,
        query=descriptor.query_id,
        query_name=query.name,
        query_hash=encode_binary(query.digest()),
        descriptor_hash=encode_binary(descriptor.digest()),
        function=query.function.value,
        mechanism=query.mechanism.value,
        stance=query.stance.value,
        privacy_unit=query.privacy_unit.value,
        asked=asked(query),
        operators=sorted(set(descriptor.operators)),
        window=_span(descriptor.window),
        state="refused" if refused and not contributed else item.state,
        send_at=format_instant(item.send_at),
        finished=None if item.finished is None else format_instant(item.finished),
        outcome=item.outcome,
        expired=None if item.expired is None else format_instant(item.expired),
        contributed=contributed,
        refused_because=grounds,
        credited=item.credited is not None,
        **more,
    )


def _usage(row: Row[Any], position: int) -> tuple[int, int]:
    bits = presence_bits(row.presence, row.length)
    if not bits[position - row.offset]:
        return 0, 0
    rank = int(bits[: position - row.offset].sum())
    return int(ledger.unpack_run_lengths(row.used)[rank]), int(
        ledger.unpack_run_lengths(row.clamped)[rank]
    )


def _kept(row: Row[Any], position: int) -> str | None:
    """The share that was kept of a contribution that exceeded the bound on a window."""
    bits = presence_bits(row.presence, row.length)
    rank = int(bits[: position - row.offset].sum())
    millionths = int(ledger.unpack_run_lengths(row.kept)[rank])
    return None if millionths == MILLION else format_exact(Fraction(millionths, MILLION))


async def reading_counts(
    transaction: Transaction, row: CuratorRow, party: PartyRow
) -> ReadingCounts:
    """The outcomes of the curator's readings."""
    position = row.key - party.first_key
    usage = [
        _usage(span, position)
        for span in await history.usage_spans(transaction, party.id, position)
    ]
    return ReadingCounts(
        curator=row.id,
        accepted=row.accepted,
        duplicates=row.duplicates,
        conflicts=row.conflicts,
        rejected=row.rejected,
        refreshed_after_contribution=row.refreshed,
        contributed=sum(used for used, _ in usage),
        clamped=sum(clamped for _, clamped in usage),
    )


@lru_cache(maxsize=256)  # an owner's history has few queries, and each costs some milliseconds
def verified(query: Query, operators: tuple[str, ...]) -> tuple[VerifiedStatement, ...]:
    """Which parties would have to collude to learn what: rows a to e, for any other
    participants."""
    return verified_statements(query, operators=operators)


def promised(query: Query, operators: tuple[str, ...]) -> VerifiedStatement:
    """The row that the query promises (e)."""
    return next(line for line in verified(query, operators) if line.key == Scenario.ASSUMED)


def _noise_by(query: Query) -> str:
    """Who adds noise: "curator", "aggregators", "both" or "nobody"."""
    match query.mechanism, query.layer:
        case Mechanism.EXACT, _:
            return "nobody"
        case Mechanism.LOCAL, _:
            return "curator"
        case Mechanism.TWO_LAYER, _:
            return "both"
        case _, Layer.AGGREGATOR:
            return "aggregators"
        case _, Layer.CURATOR:
            return "curator"
    return "both"


def asked(query: Query) -> AskedFor:
    """What a query asks of the readings; `bounds`: to which each is clamped."""
    return AskedFor(
        purpose=query.purpose,
        register=query.register_name,
        unit=query.unit,
        bounds=[format_exact(bound) for bound in query.bounds],
        min_participants=query.min_participants,
        noise_by=_noise_by(query),
    )


# Why a contribution counted no reading. It depends on data, so only the curator's owner sees it.


async def unusable(transaction: Transaction, descriptor: RoundDescriptor, curator: int) -> str:
    """The reason, as the end of a sentence; `curator` is its key."""
    query, name = descriptor.query, descriptor.query.register_name
    if query.job is not None:
        return "there is no record that the job asks for"
    base = UNITS[query.unit].base
    key = await store.register_key(transaction, name, base)
    if key is None:
        bases = await store.register_bases(transaction, name)
        if not bases:
            return f"no reading of {name} was ever stored"
        units_kept = " and ".join(DIMENSIONS[base_unit].name for base_unit in bases)
        return f"{name} is kept as {units_kept}, and the query asks for {DIMENSIONS[base].name}"
    window = descriptor.window
    start, end = epoch_microseconds(window.start), epoch_microseconds(window.end)
    lengths = await store.lengths(transaction, key, curator, start, end)
    if not lengths:
        return f"there is no reading of {name} in the window"
    dimension = reading_dimension(query) if reads_vectors(query) else None
    if dimension in lengths:
        return f"the readings of {name} in the window came after the contribution was made"
    wanted_form = "numbers" if dimension is None else f"vectors of {dimension}"
    return f"the readings of {name} in the window are not the {wanted_form} that the query asks for"


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
    summary="Verify every row of this process's ledger, and optionally a checkpoint that you kept",
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
    pinned = None if seq is None or head is None else (seq, bytes.fromhex(head))
    async with database.reading() as transaction:
        outcome = await verify(transaction, pinned)
    broken = None
    if outcome.broken is not None:
        broken = BrokenRow(row=outcome.broken[0], reason=outcome.broken[1])
    return LedgerVerification(
        verified=broken is None, rows=outcome.rows, head=outcome.head.hex(), broken=broken
    )
