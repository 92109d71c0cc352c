"""Calls about the coordinator's budget ledger: bounds, limits, events, forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from tacit.client.exchange import (
    Json,
    Request,
    Steps,
    Stream,
    creating,
    get,
    json_of,
    operation,
    pages,
    shown_of,
    stream,
)
from tacit.client.result_objects import Budget as Spent


def _budget(*, query_id: str | None = None, delta: str | None = None) -> Steps[Spent]:
    """The global bounds that the sources claim, and what really holds for what was released."""
    return shown_of(Spent, get("/v1/budget", {"query_id": query_id, "delta": delta}))


def _curator_budget(curator: str) -> Steps[Json]:
    """One curator at the coordinator: its status and what it spent."""
    return json_of(get(f"/v1/budget/curators/{curator}"))


def _budget_events(curator: str | None = None) -> Stream[Json]:
    """The ledger, row by row; of one curator if named."""
    return pages("/v1/budget/events", "events", {"curator": curator})


def _record_event(event: Json, *, key: str | None = None) -> Steps[Json]:
    """Report events of curators or their data (`joined`, `left`, `refreshed`, ...)."""
    return json_of(creating("/v1/budget/events", event, key or uuid4().hex))


def _verify_budget(*, seq: int | None = None, head: str | None = None) -> Steps[Json]:
    """Have the coordinator verify every row of its ledger, including one whose hash you kept."""
    return json_of(get("/v1/budget/verification", {"seq": seq, "head": head}))


def _budget_limits() -> Steps[Json]:
    """The limits of the deployment."""
    return json_of(get("/v1/budget/limits"))


def _set_budget_limits(limits: Sequence[Json], *, curator: str | None = None) -> Steps[Json]:
    """Limit what every curator, or one, spends; an empty list lifts the limits."""
    path = "/v1/budget/limits" if curator is None else f"/v1/budget/curators/{curator}/limits"
    return json_of(Request("PUT", path, {"limits": list(limits)}, repeatable=True))


def _preview_cost(plan: Json) -> Steps[Json]:
    """A round's cost and whether it would be admitted: {"query_id" or "query", "window"}."""
    return json_of(Request("POST", "/v1/budget/preview", plan, repeatable=True))


def _forecast_budget(schedule: Json) -> Steps[Json]:
    """The composed guarantee of a schedule, per day, month and year."""
    return json_of(Request("POST", "/v1/budget/forecast", schedule, repeatable=True))


def _budget_history(
    *,
    unit: str = "curator",
    scenario: str = "assumed",
    period_s: int | None = None,
    since: str | None = None,
    until: str | None = None,
    step_s: int | None = None,
) -> Steps[Json]:
    """What the worst curator had spent, step by step of time: RFC 3339 times, by default from the
    first round until now in 60 steps."""
    asked = {"unit": unit, "scenario": scenario, "period_s": period_s, "step_s": step_s}
    return json_of(get("/v1/budget/history", {**asked, "from": since, "to": until}))


def _budget_outlook(schedules: Json | None = None) -> Steps[Json]:
    """How long each limit lasts under the schedules that are running, or planned ones:
    {"queries": [{"query_id" or "query", "period_s"}], "days", "limits"}."""
    return json_of(Request("POST", "/v1/budget/outlook", schedules or {}, repeatable=True))


def _round_charges(round_id: str) -> Steps[Json]:
    """Whom a round charges here, against what its parties say they debited."""
    return json_of(get(f"/v1/budget/rounds/{round_id}"))


def _proposals(*, alpha: float | None = None) -> Steps[Json]:
    """Curators that an operator may want to examine, according to the ledger."""
    return json_of(get("/v1/budget/proposals", {"alpha": alpha}))


def _ledger_seals() -> Stream[Json]:
    """The ledger's head of each day, as the coordinator sealed it (`tacit.protocol.trust` checks
    one)."""
    return pages("/v1/budget/seals", "seals")


class Budget:
    """The public ledger of the coordinator."""

    budget = operation(_budget)
    curator_budget = operation(_curator_budget)
    budget_events = stream(_budget_events)
    record_event = operation(_record_event)
    verify_budget = operation(_verify_budget)
    ledger_seals = stream(_ledger_seals)
    budget_limits = operation(_budget_limits)
    set_budget_limits = operation(_set_budget_limits)
    preview_cost = operation(_preview_cost)
    forecast_budget = operation(_forecast_budget)
    budget_history = operation(_budget_history)
    budget_outlook = operation(_budget_outlook)
    round_charges = operation(_round_charges)
    proposals = operation(_proposals)
