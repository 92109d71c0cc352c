"""The question of a federated job's round: fetched, and checked against the round's descriptor.

Spec: kmeans, section 6.1, step 2. The descriptor's query holds the hash of the step, and its blocks
and epsilon must be those that follow from the step: noise scales come from this curator's own
knowledge of the sums, never from the caller. A job keeps its plan, and requests no step twice.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError

from common.runtime.clock import Clock
from common.store.database import exclusive
from common.store.transactions import Database
from curator.errors import StepRefused
from curator.parties.peers import Peers
from curator.records.records import Question
from curator.store import records as store
from curator.store.parties import PartyRow
from curator.store.records import JobRow
from tacit.encoders import sums
from tacit.protocol.federation import ALWAYS, FederatedStep, step_of
from tacit.protocol.round import RoundDescriptor
from tacit.query.query import Query
from tacit.query.words import Stance
from tacit.randomness import SEED_BYTES

KEPT: Final = 32


@dataclass
class Steps:
    """The steps of the jobs that this process participates in."""

    database: Database
    peers: Peers
    clock: Clock
    _found: OrderedDict[bytes, Question] = field(default_factory=OrderedDict)

    async def of(self, descriptor: RoundDescriptor, party: PartyRow) -> Question | None:
        """The round's question; None where it belongs to no job's step.

        Raises StepRefused; PeerUnavailable or ProblemReceived where the step cannot be fetched.
        """
        query = descriptor.query
        name = step_of(query)
        if name is None:
            return None
        digest = query.digest()
        if digest not in self._found:
            assert query.job is not None
            text = await self.peers.step(
                party.coordinator_url, party.coordinator_token or "", query.job, name.step
            )
            self._found[digest] = await self._checked(descriptor, text)
            while len(self._found) > KEPT:
                self._found.popitem(last=False)
        return self._found[digest]

    async def _checked(self, descriptor: RoundDescriptor, text: bytes) -> Question:
        query = descriptor.query
        try:
            step = FederatedStep.model_validate_json(text)
            asked = sums.read(step.algorithm, step.sum)
            _check(query, step, asked)
        except (ValidationError, sums.SumRefused) as error:
            reason = str(error) if isinstance(error, sums.SumRefused) else "the step is malformed"
            raise StepRefused(reason) from None
        if isinstance(step.columns[0], str) and descriptor.window != ALWAYS:
            raise StepRefused("rows of a table have no time: the window must cover all of it")
        seed = await self._noted(step, query)
        return Question(step.columns, asked, seed)

    async def _noted(self, step: FederatedStep, query: Query) -> bytes:
        """The job's seed; its plan and its steps are compared with those seen before."""
        digest = query.digest()
        async with self.database.begin() as transaction:
            await exclusive(transaction, "federated jobs")
            row = await store.job(transaction, step.job)
            if row is None:
                seed, now = os.urandom(SEED_BYTES), self.clock.now()
                new = JobRow(step.job, step.algorithm, step.plan, step.step, digest, seed, now)
                await store.add_job(transaction, new)
                return seed
            if (row.plan, row.algorithm) != (step.plan, step.algorithm):
                raise StepRefused("the job's plan is another one than before")
            if step.step < row.step or (step.step == row.step and digest != row.query_hash):
                raise StepRefused("the job asks a step twice")
            if step.step > row.step:
                await store.note_step(transaction, step.job, step.step, digest)
            return row.seed


def _check(query: Query, step: FederatedStep, asked: sums.RecordSum) -> None:
    """Raises SumRefused where the query is not that of the step."""
    if step.name != query.name or step.job != query.job:
        raise sums.SumRefused("the step is not the one that the query names")
    if query.stance is not Stance.SOUND:
        raise sums.SumRefused("a job's rounds are sound")
    if len(step.columns) != asked.columns:
        raise sums.SumRefused("the sum takes another number of columns")
    if query.every_record and not isinstance(step.columns[0], str):
        raise sums.SumRefused("a statistic changes with one reading: it is not one record alone")
    sums.check_query(query, asked)
