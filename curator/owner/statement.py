"""What a curator's owner may see, and nobody else: budget, contributions, counts of readings.

What each answer was asked, how well it is hidden, and why a contribution counted no reading. Counts
of readings used and clamped depend on data; they are answered to the curator's own token and to the
operator alone.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Row

from common.principals import Principal, Scope
from common.runtime.clock import epoch_microseconds
from common.store.transactions import Transaction
from curator import ledger
from curator.errors import ForeignCurator, UnknownAnswer, UnknownCurator
from curator.ledger import Charge, Debit, format_charge, presence_bits, statement_of, worst_instant
from curator.policy import Policy, agreed
from curator.store import accounts, history, outbox
from curator.store import parties as party_store
from curator.store import readings as store
from curator.store import reports as report_store
from curator.store.outbox import State
from curator.store.parties import CuratorRow, PartyRow
from tacit.accounting.scenarios import Scenario, assumption
from tacit.crypto.signing import Signed
from tacit.protocol.federation import Descriptor, column_name
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.messages import REFUSED_BY_PROOF
from tacit.query.functions import reading_dimension, reads_vectors
from tacit.query.query import Query
from tacit.query.terms import Layer, Mechanism, PrivacyUnit
from tacit.report.model import VerifiedStatement
from tacit.report.queries import verified_statements
from tacit.units import DIMENSIONS, UNITS
from tacit.wire import Instant, WireModel, encode_binary, format_exact, format_instant

SHOWN: Final = 100
"""Debits of a statement: the newest."""
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


async def budget(
    transaction: Transaction, row: CuratorRow, party: PartyRow, default: Policy, now: datetime
) -> dict[str, Any]:
    """The ledger statement: per unit, per period and lifetime, columns (e) and (d), the rows."""
    policies = agreed(default, row.policy, row.owner_policy)
    public = [name for name in policies[0].public_columns if name in policies[-1].public_columns]
    position = row.key - party.first_key
    units: dict[str, Any] = {}
    for unit in PrivacyUnit:
        debits = await accounts.list_debits(transaction, party.id, unit)
        limits = policies[0].limits(unit).meet(policies[-1].limits(unit))
        found = statement_of(debits, position, now, policies[0].period_s, limits)
        if unit is PrivacyUnit.RECORD:
            found["worst_instant"] = worst_instant(debits, position)
        shown = [item for item in debits if item.over(position, 1)[0]][-SHOWN:]
        paid = [item.contribution for item in shown if item.contribution is not None]
        texts = await history.descriptors(transaction, paid)
        found["debits"] = [_debit(item, texts.get(item.contribution or 0)) for item in shown]
        units[unit.value] = found
    return {
        "curator": row.id,
        "party": party.id,
        "public_columns": public,
        "units": units,
    }


async def debits(
    transaction: Transaction,
    row: CuratorRow,
    party: PartyRow,
    unit: PrivacyUnit,
    before: int | None,
    limit: int,
) -> tuple[list[dict[str, Any]], int | None]:
    """A page of a curator's debits in one unit, newest first, and where the next page starts."""
    position = row.key - party.first_key
    found = await accounts.debits_of(transaction, party.id, unit, position, before, limit)
    paid = [item.contribution for _, item in found if item.contribution is not None]
    texts = await history.descriptors(transaction, paid)
    items = [_debit(item, texts.get(item.contribution or 0)) for _, item in found]
    return items, found[-1][0] if len(found) == limit else None


class AskedReports(WireModel):
    """A job that asked for noisy reports; `reports`: how many this curator made, with all their
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
    found = await report_store.asked_of(transaction, party.id, row.key, before, limit)
    items = []
    for collection, made in found:
        signed = Signed[Descriptor].model_validate_json(collection.descriptor)
        asked = signed.statement
        items.append(
            AskedReports(
                job=asked.job,
                algorithm=asked.algorithm,
                stance=asked.stance,
                columns=tuple(map(column_name, asked.columns)),
                label=asked.label,
                opened=asked.opened,
                deadline=asked.deadline,
                state=collection.state.value,
                reports=made,
                refused_because=collection.ground,
            )
        )
    return items, found[-1][0].job if len(found) == limit else None


def _debit(item: Debit, text: str | None) -> dict[str, Any]:
    descriptor = None if text is None else _descriptor(text)
    return {
        "round": None if descriptor is None else descriptor.round,
        "assumes": NOTHING if descriptor is None else _assumption(descriptor),
        "made": format_instant(item.made),
        "window": item.window.model_dump(mode="json"),
        **_charge(item.charge),
        "credited": item.credited,
    }


def _charge(charge: Charge) -> dict[str, str]:
    return {
        "status": "verified" if charge.verified else "unverified",
        **format_charge(charge),
    }


def _descriptor(text: str) -> RoundDescriptor:
    return Signed[RoundDescriptor].model_validate_json(text).statement


def _assumption(descriptor: RoundDescriptor) -> str:
    """Under which the figure of a round's debit holds."""
    ids = [entry.id for entry in descriptor.aggregators]
    return assumption(descriptor.query, ids, descriptor.operators)


async def contribution(
    transaction: Transaction, row: CuratorRow, party: PartyRow, round_id: str
) -> dict[str, Any]:
    """One answer, with who would have to work together to learn what. Raises UnknownAnswer."""
    answer, signed = await answered(transaction, row, party, round_id)
    descriptor = signed.statement
    lines = verified(descriptor.query, descriptor.operators)
    return answer | {
        "verified": [line.model_dump(mode="json", exclude_none=True) for line in lines],
        "aggregators": [
            {
                "id": entry.id,
                "operator": entry.operator,
                "url": entry.url,
                "fingerprint": entry.fingerprint.hex(),
            }
            for entry in descriptor.aggregators
        ],
    }


async def answered(
    transaction: Transaction, row: CuratorRow, party: PartyRow, round_id: str
) -> tuple[dict[str, Any], Signed[RoundDescriptor]]:
    """One answer as the history tells it, and the round as it was asked. Raises UnknownAnswer."""
    found = await history.of_round(transaction, party.id, round_id)
    if found is None:
        raise UnknownAnswer
    [answer] = (await contributions(transaction, row, party, found.id + 1, 1))[0]
    return answer, Signed[RoundDescriptor].model_validate_json(found.descriptor)


async def contributions(
    transaction: Transaction, row: CuratorRow, party: PartyRow, after: int | None, limit: int
) -> tuple[list[dict[str, Any]], int | None]:
    """The curator's history, newest first, and where the next page starts."""
    found = await history.history(transaction, party.id, after, limit)
    ids = [item.id for item in found]
    position = row.key - party.first_key
    debits, refusals = await history.spans_over(transaction, ids, position)
    states = await outbox.delivery_states(transaction, ids)
    problems = await outbox.problems_of(transaction, ids)
    items = [
        _contribution(item, position, debits.get(item.id), refusals.get(item.id, []))
        | {"delivery": states.get(item.id, {}), "problems": problems.get(item.id, [])}
        for item in found
    ]
    for item, answer in zip(found, items, strict=True):
        if answer.get("readings", {}).get("used") == 0:
            because = await unusable(transaction, _descriptor(item.descriptor), row.key)
            answer["readings"]["note"] = f"contributed nothing usable, because {because}"
    return items, ids[-1] if len(ids) == limit else None


def _contribution(
    item: Row[Any], position: int, debit: Row[Any] | None, refusals: list[Row[Any]]
) -> dict[str, Any]:
    descriptor = _descriptor(item.descriptor)
    query = descriptor.query
    taken = (
        debit is not None and presence_bits(debit.presence, debit.length)[position - debit.offset]
    )
    grounds = [
        {"name": r.name, "detail": r.detail, "figures": json.loads(r.figures)}
        for r in refusals
        if presence_bits(r.members, r.length)[position - r.offset]
    ]
    # Of an expired round the grounds are gone: who is not in what was delivered has refused.
    refused = grounds or (item.expired is not None and item.state == State.DELIVERED)
    answer: dict[str, Any] = {
        "round": item.round,
        "query": descriptor.query_id,
        "query_name": query.name,
        "query_hash": encode_binary(query.digest()),
        "descriptor_hash": encode_binary(descriptor.digest()),
        "function": query.function.value,
        "mechanism": query.mechanism.value,
        "stance": query.stance.value,
        "privacy_unit": query.privacy_unit.value,
        "asked": asked(query),
        "window": descriptor.window.model_dump(mode="json"),
        "state": "refused" if refused and not taken else item.state,
        "send_at": format_instant(item.send_at),
        "finished": None if item.finished is None else format_instant(item.finished),
        "outcome": item.outcome,
        "expired": None if item.expired is None else format_instant(item.expired),
        "contributed": bool(taken),
        "refused_because": grounds,
        "credited": item.credited is not None,
    }
    if taken and debit is not None:
        used, clamped = _usage(debit, position)
        charged = {unit: _charge(accounts.charge_in(debit, unit)) for unit in PrivacyUnit}
        answer["declared"] = {
            "assumes": _assumption(descriptor),
            **charged[query.privacy_unit],
            "guess": promised(query, descriptor.operators).guess,
        }
        answer["charged"] = {unit.value: figures for unit, figures in charged.items()}
        answer["readings"] = {"used": used, "clamped": clamped}
        if debit.refused is not None:
            answer["refused_by_proof"] = {
                "reasons": debit.refused.split(", "),
                "detail": REFUSED_BY_PROOF,
            }
    return answer


def _usage(row: Row[Any], position: int) -> tuple[int, int]:
    bits = presence_bits(row.presence, row.length)
    if not bits[position - row.offset]:
        return 0, 0
    rank = int(bits[: position - row.offset].sum())
    return int(ledger.unpack_run_lengths(row.used)[rank]), int(
        ledger.unpack_run_lengths(row.clamped)[rank]
    )


async def reading_counts(
    transaction: Transaction, row: CuratorRow, party: PartyRow
) -> dict[str, Any]:
    """The outcomes of the curator's readings."""
    position = row.key - party.first_key
    usage = [
        _usage(span, position)
        for span in await history.usage_spans(transaction, party.id, position)
    ]
    return {
        "curator": row.id,
        "accepted": row.accepted,
        "duplicates": row.duplicates,
        "conflicts": row.conflicts,
        "rejected": row.rejected,
        "refreshed_after_contribution": row.refreshed,
        "contributed": sum(used for used, _ in usage),
        "clamped": sum(clamped for _, clamped in usage),
    }


# What an answer was asked, in words that its owner knows, and how well it is hidden.


@lru_cache(maxsize=256)  # an owner's history has few queries, and each costs some milliseconds
def verified(query: Query, operators: tuple[str, ...]) -> tuple[VerifiedStatement, ...]:
    """Who would have to work together to learn what: rows a to e, whoever else takes part."""
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


def asked(query: Query) -> dict[str, Any]:
    """What of the readings is asked for; `bounds`: to which each is cut."""
    return {
        "register": query.register_name,
        "unit": query.unit,
        "bounds": [format_exact(bound) for bound in query.bounds],
        "min_participants": query.min_participants,
        "noise_by": _noise_by(query),
    }


# Why a contribution counted no reading of a curator: compares the store with the request.
#
# The reason depends on data, so it is visible only to the curator's owner.


async def unusable(transaction: Transaction, descriptor: RoundDescriptor, curator: int) -> str:
    """The reason, as the end of a sentence; `curator` is its key."""
    query, name = descriptor.query, descriptor.query.register_name
    if query.job is not None:
        return "there is no record of what the job asks for"
    base = UNITS[query.unit].base
    key = await store.register_key(transaction, name, base)
    if key is None:
        bases = await store.register_bases(transaction, name)
        if not bases:
            return f"no reading of {name} was ever stored"
        kept = " and ".join(DIMENSIONS[each] for each in bases)
        return f"{name} is kept as {kept}, and the query asks for {DIMENSIONS[base]}"
    window = descriptor.window
    start, end = epoch_microseconds(window.start), epoch_microseconds(window.end)
    found = await store.lengths(transaction, key, curator, start, end)
    if not found:
        return f"there is no reading of {name} in the window"
    wanted = reading_dimension(query) if reads_vectors(query) else None
    if wanted in found:
        return f"the readings of {name} in the window came after the contribution was made"
    asked = "numbers" if wanted is None else f"vectors of {wanted}"
    return f"the readings of {name} in the window are not the {asked} that the query asks for"
