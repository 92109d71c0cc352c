"""Outcomes of federated jobs, computed in processes apart within the limits of a job.

What curators sent decides how long it takes, and one that lies may ask for hours: meanwhile the
service answers, other jobs go on, and this one can be cancelled.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from algorithms import catalogue
from algorithms.contract import Collected, Outcome, SequentialContext, Stance
from common.runtime.compute_processes import Apart
from coordinator.settings import CoordinatorSettings
from tacit.protocol.federation import Report
from tacit.randomness import NoiseSource


class Computing:
    """The computations in progress, by job; `ended` is called at the end of each."""

    def __init__(self, settings: CoordinatorSettings, ended: Callable[[], None]) -> None:
        self._apart = Apart(seconds=settings.job_wall_s, memory_bytes=settings.job_memory_bytes)
        self._ended = ended
        self._tasks: dict[str, asyncio.Task[Outcome]] = {}

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._tasks

    def begin(self, job_id: str, work: Callable[..., Outcome], *arguments: Any) -> None:
        """Compute a job's outcome, by a function of this module."""
        task = asyncio.create_task(self._apart.run(work, *arguments), name="compute")
        self._tasks[job_id] = task
        task.add_done_callback(lambda _task: self._ended())

    def outcome(self, job_id: str) -> Outcome | None:
        """A job's outcome, once, or its error; None while it is computed."""
        if not self._tasks[job_id].done():
            return None
        return self._tasks.pop(job_id).result()

    def keep_only(self, running: Iterable[str]) -> None:
        """End the computations of all other jobs, which were cancelled, or ended by another
        replica."""
        for job_id in self._tasks.keys() - set(running):
            task = self._tasks.pop(job_id)
            if not task.cancel():
                task.exception()  # it has ended, and nobody asks for it any more

    async def stop(self) -> None:
        """End every computation; the next start begins them again."""
        tasks = list(self._tasks.values())
        self.keep_only(())
        await asyncio.gather(*tasks, return_exceptions=True)
        self._apart.close()


# --- in the process apart ------------------------------------------------------------------------


def released(algorithm: str, state: Any) -> Outcome:
    """The outcome of a job by rounds, from the state after its last sum."""
    rounds = catalogue.find(algorithm).rounds
    assert rounds is not None
    return rounds.release(state)


def aggregated(
    algorithm: str,
    params: str,
    stance: Stance,
    columns: tuple[str, ...],
    stored: Sequence[tuple[str, int, str]],
    offered: int,
) -> Outcome:
    """The outcome of a job by reports. stored: (curator, record, report) in order."""
    contract = catalogue.find(algorithm)
    assert contract.reports is not None
    reports = [
        (user, Report.model_validate_json(text))
        for user, (_, of_user) in enumerate(itertools.groupby(stored, key=lambda row: row[:2]))
        for *_, text in of_user
    ]
    collected = Collected(reports, offered, columns)
    parameters = contract.params.model_validate_json(params)
    return contract.reports.aggregate(parameters, stance, collected, _WithoutNoise())


class _WithoutNoise(SequentialContext):
    """The context of an aggregation: the reports have their noise already."""

    def noise(self, stage: str, block: int = 0) -> NoiseSource:  # noqa: ARG002
        """There is none."""
        raise AssertionError("reports are perturbed already")
