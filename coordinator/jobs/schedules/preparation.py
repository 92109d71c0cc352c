"""Validates a schedule of federated jobs, including the first query of its first run, and prices
it.

Spec: jobs, "Federated jobs"; aggregation, section 2. Every run is an ordinary job over the window
of its period: a request that no job could make is refused here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from common.runtime.clock import Clock, uuid7
from coordinator.jobs.federated.preparation import Asked
from coordinator.jobs.submission import Submission
from coordinator.models.job import JobRequest
from coordinator.queries import periods
from coordinator.store.job_schedules import JobScheduleRow
from tacit.accounting.costs import Cost
from tacit.accounting.forecast_runs import forecast_runs
from tacit.errors import Invalid
from tacit.protocol.federation import Federation
from tacit.query.fields import Schedule
from tacit.report.figures import delta_amount, epsilon_amount
from tacit.report.model import Charge, PrivacyReport
from tacit.wire import LAST_YEAR


@dataclass(frozen=True)
class PreparedSchedule:
    """A schedule that may begin or be previewed; `report`: of one run."""

    request: JobRequest
    schedule: Schedule
    report: PrivacyReport


def federation_of(request: JobRequest) -> tuple[Federation, Schedule]:
    """What a scheduled job asks of curators, and when. Raises Invalid if it is not scheduled."""
    if request.federation is None:
        raise Invalid("a schedule asks curators: it needs a federation", pointer="/federation")
    if request.federation.schedule is None:
        raise Invalid("first_start and period_s are needed", pointer="/federation/schedule")
    return request.federation, request.federation.schedule


def run_request(request: JobRequest, period: int) -> JobRequest:
    """The ordinary job of a period. Raises Invalid beyond the years of an instant."""
    federation, schedule = federation_of(request)
    try:
        window = periods.window(schedule, period)
    except ValueError:
        reason = f"the first period ends after the year {LAST_YEAR}"
        raise Invalid(reason, pointer="/federation/schedule/first_start") from None
    return request.model_copy(update={"federation": federation.over(window)})


async def prepare(submission: Submission, request: JobRequest) -> PreparedSchedule:
    """Make every check that needs no curator; nothing is stored."""
    _, schedule = federation_of(request)
    asked = await submission.prepare(run_request(request, 0))
    assert isinstance(asked, Asked)
    report = asked.report
    changes = {
        "subject": report.subject.model_copy(update={"id": "preview"}),
        # Every run has its own descriptor.
        "details": {name: item for name, item in report.details.items() if name != "descriptor"},
    }
    return PreparedSchedule(request, schedule, report.model_copy(update=changes))


def begun(prepared: PreparedSchedule, clock: Clock) -> JobScheduleRow:
    """A new schedule, from its first period on."""
    return JobScheduleRow(
        id=str(uuid7(clock)),
        request=prepared.request.model_dump_json(exclude_none=True),
        preview=prepared.report.model_dump_json(),
        next_period=0,
        problem=None,
        created=clock.now(),
        stopped=None,
    )


def forecast(report: PrivacyReport, schedule: Schedule) -> dict[str, Any]:
    """What a day, a month and a year of runs cost, as JSON; `report`: of one of them."""
    charged = report.charged
    return {
        "composition": "basic",
        "privacy_unit_of_a_run": None if charged is None else charged.privacy_unit,
        "horizons": [
            {
                "horizon": row.horizon,
                "days": row.days,
                "runs": row.runs,
                "record": _shown(row.record),
                "curator": _shown(row.curator),
            }
            for row in forecast_runs(_cost(charged), schedule.period_s)
        ],
    }


def _cost(charged: Charge | None) -> Cost:
    """The cost of one run; infinite if its charge has no figure."""
    if charged is None or charged.epsilon in (None, "inf") or charged.delta is None:
        return Cost(None, None)
    return Cost(Fraction(str(charged.epsilon)), Fraction(str(charged.delta)))


def _shown(cost: Cost) -> dict[str, str]:
    return {"epsilon": epsilon_amount(cost.epsilon), "delta": delta_amount(cost.delta)}
