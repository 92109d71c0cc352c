"""What a federated job by rounds asks and learns, as functions of its stored rows.

Spec: jobs, "Federated jobs".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from algorithms import catalogue
from algorithms.contract import FederatedRounds, PrivacyScope
from coordinator.jobs.federated.preparation import plan_from
from coordinator.jobs.federated.queries import JobPlan, noise_share, step_of_sum
from coordinator.store.job_steps import StepRow
from coordinator.store.jobs import JobRow
from tacit.encoders.sums import RecordSum, length
from tacit.encoders.sums import read as read_sum
from tacit.protocol.federation import AbortedAttempt, FederatedStep, Federation
from tacit.query.functions import parts
from tacit.query.query import Query


@dataclass(frozen=True)
class Asking:
    """A sum to be asked; aborted: the attempts before."""

    asked: RecordSum
    aborted: tuple[AbortedAttempt, ...] = ()


@dataclass(frozen=True)
class Matter:
    """What does not change during a job."""

    rounds: FederatedRounds
    params: Any
    scope: PrivacyScope
    plan: JobPlan

    @property
    def federation(self) -> Federation:
        """Which curators it asks, and under which assumptions."""
        return self.plan.federation


def matter_of(job: JobRow, steps: Sequence[StepRow]) -> Matter:
    """terms are those of its first step, once there is one."""
    algorithm = catalogue.find(job.algorithm)
    assert algorithm.rounds is not None
    assert job.federation is not None
    params = algorithm.params.model_validate_json(job.params)
    federation = Federation.model_validate_json(job.federation)
    plan = plan_from(job.id, job.algorithm, job.stance, job.params, federation)
    if algorithm.rounds.universe is not None:
        plan = replace(plan, universe=algorithm.rounds.universe(params))
    if steps:
        plan = replace(plan, terms=FederatedStep.model_validate_json(steps[0].document).terms)
    return Matter(algorithm.rounds, params, algorithm.rounds.scope(params), plan)


def first_state(matter: Matter) -> Any:
    """The first state, planned for the noise of this federation's rounds."""
    names, rounds = matter.federation.names, matter.rounds
    asked = rounds.next_sum(rounds.first(matter.params, names, Fraction(1)))
    assert asked is not None
    _, query = step_of_sum(matter.plan, 1, asked, matter.scope)
    return rounds.first(matter.params, names, noise_share(query, matter.scope))


def next_sums(matter: Matter, state: Any) -> Sequence[RecordSum]:
    """What is asked next, in rounds that are open at once; none at the end."""
    rounds = matter.rounds
    if rounds.next_sums is not None:
        return rounds.next_sums(state)
    asked = rounds.next_sum(state)
    return () if asked is None else (asked,)


def asked_in(row: StepRow) -> RecordSum:
    """What a step asks."""
    step = FederatedStep.model_validate_json(row.document)
    return read_sum(step.algorithm, step.sum)


def absorbed(matter: Matter, state: Any, row: StepRow, query: Query, result: str) -> Any:
    """The state with a step's released sum."""
    asked, found = asked_in(row), json.loads(result)
    words: list[int] = []
    for part in parts(query):
        words += [int(Fraction(text) / part.value) for text in found[part.name]]
    opened = np.array(words, np.int64)
    assert len(opened) == length(asked)
    return matter.rounds.absorb(state, asked, asked.restored(opened))
