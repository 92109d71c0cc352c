"""Where a step stands among a job's questions, and that no path spends more than the job's epsilon.

Spec: federated-counting, section 6.2. From questions alone, so a refusal tells nothing private.
Parts of one question, and a part that is asked again after a round that opened nothing, are one
question: it is counted once, on paths and in what records spend. A part that is asked a second time
begins a question of its own, whatever name it is given.

The theorem needs that the sum along a path stays within epsilon, not that a group is asked once: a
group may be asked again while the sum allows it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from hashlib import sha256

from common.store.transactions import Transaction
from curator.errors import PathOverspent
from curator.store import job_paths as store
from curator.store.job_paths import PathRow
from tacit.encoders.count_paths import NoSuchPaths, PathSpends
from tacit.encoders.count_sums import CountSum
from tacit.encoders.sums import RecordSum
from tacit.protocol.federation import FederatedStep, JobTerms


@dataclass(frozen=True)
class Standing:
    """A step among the questions of its job. `row`: with this step in it; `spends`: what the paths
    spend before; `known`: of the question that was asked last, and no repeat of it."""

    row: PathRow
    spends: PathSpends
    known: bool


def _question(step: FederatedStep, asked: RecordSum) -> bytes:
    """Identifies a question, whichever part of it is asked."""
    document = dict(step.sum)
    if isinstance(asked, CountSum):
        document.pop("first", None)
    columns = [json.loads(step.model_dump_json(include={"columns"}))]
    return sha256(json.dumps([columns, document], sort_keys=True).encode()).digest()


async def standing(
    transaction: Transaction,
    step: FederatedStep,
    asked: RecordSum,
    round_id: str,
    undone: Collection[str],
) -> Standing:
    """Where a step stands; undone: rounds that opened nothing."""
    question = await asyncio.to_thread(_question, step, asked)
    first = asked.first if isinstance(asked, CountSum) else 0
    row = await store.find(transaction, step.job)
    if row is not None and row.question == question:
        before = row.rounds.get(first)
        if before is None or before == round_id or before in undone:
            rounds = {**row.rounds, first: round_id}
            return Standing(replace(row, rounds=rounds), PathSpends(), known=True)
    spends = PathSpends() if row is None else PathSpends.unpacked(row.spends)
    found = PathRow(step.job, question, step.step, {first: round_id}, b"")
    return Standing(found, spends, known=False)


async def note(
    transaction: Transaction, place: Standing, asked: RecordSum, terms: JobTerms
) -> None:
    """Remember a step. Raises PathOverspent, and remembers nothing then."""
    row = place.row
    if not place.known:
        row = replace(row, spends=await asyncio.to_thread(_within, place.spends, asked, terms))
    await store.put(transaction, row)


def _within(spends: PathSpends, asked: RecordSum, terms: JobTerms) -> bytes:
    try:
        after = after_sum(spends, asked)
    except NoSuchPaths as error:
        raise PathOverspent(str(error)) from None
    if after.most > terms.epsilon:
        raise PathOverspent("the job's questions spend more along a path than its terms say")
    return after.packed()


def after_sum(spends: PathSpends, asked: RecordSum) -> PathSpends:
    """What paths spend with a question more; sums over rows of numbers have no paths. Raises
    NoSuchPaths."""
    return asked.after(spends) if isinstance(asked, CountSum) else spends.with_loose(asked.epsilon)
