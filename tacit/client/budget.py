"""Calls about the coordinator's budget ledger: bounds, limits, events, forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import tacit
from tacit import answers
from tacit.answers.base import Answer
from tacit.client.exchange import (
    C,
    Group,
    Json,
    Steps,
    Stream,
    answer_of,
    creating,
    get,
    operation,
    pages_of,
    repeatable,
    stream,
)


def _budget(*, query_id: str | None = None, delta: str | None = None) -> Steps[tacit.Budget]:
    """The global bounds that the sources claim, and the verified guarantee of what was released."""
    return answer_of(tacit.Budget, get("/v1/budget", {"query_id": query_id, "delta": delta}))


def _curator_budget(curator: str) -> Steps[answers.budget.CuratorBudget]:
    """One curator at the coordinator: its status and what it spent."""
    return answer_of(answers.budget.CuratorBudget, get(f"/v1/budget/curators/{curator}"))


def _budget_events(curator: str | None = None) -> Stream[answers.budget.LedgerEvent]:
    """The ledger, row by row; of one curator if named."""
    return pages_of(answers.budget.LedgerEvent, "/v1/budget/events", "events", {"curator": curator})


def _record_event(event: Json, *, key: str | None = None) -> Steps[answers.budget.LedgerEvents]:
    """Report events of curators or their data (`joined`, `left`, `refreshed`, ...)."""
    return answer_of(
        answers.budget.LedgerEvents, creating("/v1/budget/events", event, key or uuid4().hex)
    )


def _verify_budget(
    *, seq: int | None = None, head: str | None = None
) -> Steps[answers.budget.LedgerVerification]:
    """Have the coordinator verify every row of its ledger, including one whose hash you kept."""
    return answer_of(
        answers.budget.LedgerVerification,
        get("/v1/budget/verification", {"seq": seq, "head": head}),
    )


def _budget_limits() -> Steps[answers.budget.Limits]:
    """The limits of the deployment."""
    return answer_of(answers.budget.Limits, get("/v1/budget/limits"))


def _set_budget_limits(
    limits: Sequence[Json], *, curator: str | None = None
) -> Steps[answers.budget.Limits]:
    """Limit what every curator, or one, may spend; an empty list removes the limits."""
    path = "/v1/budget/limits" if curator is None else f"/v1/budget/curators/{curator}/limits"
    return answer_of(answers.budget.Limits, repeatable("PUT", path, {"limits": list(limits)}))


def _preview_cost(plan: Json) -> Steps[answers.budget.BudgetPreview]:
    """A round's cost and whether it would be admitted: {"query_id" or "query", "window"}."""
    return answer_of(answers.budget.BudgetPreview, repeatable("POST", "/v1/budget/preview", plan))


def _forecast_budget(schedule: Json) -> Steps[answers.budget.BudgetForecast]:
    """The composed guarantee of a schedule, per day, month and year."""
    return answer_of(
        answers.budget.BudgetForecast, repeatable("POST", "/v1/budget/forecast", schedule)
    )


def _budget_history(
    *,
    unit: str = "curator",
    scenario: str = "assumed",
    period_s: int | None = None,
    since: str | None = None,
    until: str | None = None,
    step_s: int | None = None,
) -> Steps[Answer]:
    """What the worst curator had spent, step by step of time: RFC 3339 times, by default from the
    first round until now in 60 steps."""
    parameters = {"unit": unit, "scenario": scenario, "period_s": period_s, "step_s": step_s}
    return answer_of(Answer, get("/v1/budget/history", {**parameters, "from": since, "to": until}))


def _budget_outlook(schedules: Json | None = None) -> Steps[Answer]:
    """How long each limit lasts under the schedules that are running, or planned ones:
    {"queries": [{"query_id" or "query", "period_s"}], "days", "limits"}."""
    return answer_of(Answer, repeatable("POST", "/v1/budget/outlook", schedules or {}))


def _round_charges(round_id: str) -> Steps[answers.budget.DebitDifferences]:
    """Whom a round charges here, against what its parties say they debited."""
    return answer_of(answers.budget.DebitDifferences, get(f"/v1/budget/rounds/{round_id}"))


def _proposals(*, alpha: float | None = None) -> Steps[answers.budget.BudgetProposals]:
    """Curators that an operator may want to examine, according to the ledger."""
    return answer_of(answers.budget.BudgetProposals, get("/v1/budget/proposals", {"alpha": alpha}))


def _ledger_seals() -> Stream[Answer]:
    """The ledger's head of each day, as the coordinator sealed it (`tacit.protocol.trust` checks
    one)."""
    return pages_of(Answer, "/v1/budget/seals", "seals")


class Budget(Group[C]):
    """The public ledger of the coordinator."""

    get = operation(_budget)
    curator = operation(_curator_budget)
    events = stream(_budget_events)
    record_event = operation(_record_event)
    verify = operation(_verify_budget)
    seals = stream(_ledger_seals)
    limits = operation(_budget_limits)
    set_limits = operation(_set_budget_limits)
    preview = operation(_preview_cost)
    forecast = operation(_forecast_budget)
    history = operation(_budget_history)
    outlook = operation(_budget_outlook)
    round_charges = operation(_round_charges)
    proposals = operation(_proposals)
