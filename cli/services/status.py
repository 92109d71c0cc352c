"""`tacit status`: a deployment on one screen, and what is wrong with it."""

from __future__ import annotations

from typing import Any, Final

from cli.context import Answer, Target, TextTable, at_target, console, say
from cli.services.deployment import ServiceAddress, once, why_not_ready
from tacit import Client

IN_READINESS: Final = ("aggregator_away", "ledger_broken")
"""Conditions that the coordinator's readiness says too."""


@at_target
def status(target: Target) -> Answer:
    """Services, aggregators, last and next round, and what is wrong; exit code 1 for that.

    With --url the coordinator there and its aggregators.
    """
    found = status_of(target)
    return Answer(found, lambda: _show(found), 1 if found["wrong"] else 0)


def services_of(target: Target) -> tuple[ServiceAddress, ...]:
    """Those of the deployment, the coordinator first; with --url that one alone."""
    if target.url is None:
        return target.deployment().services
    return (ServiceAddress("coordinator", "coordinator", target.url, ""),)


def status_of(target: Target) -> dict[str, Any]:
    """What `tacit status` prints."""
    seen = [_seen(service) for service in services_of(target)]
    found: dict[str, Any] = {
        "services": seen,
        "aggregators": [],
        "last": None,
        "next": None,
        "conditions": [],
    }
    wrong = [problem for item in seen for problem in item["problems"]]
    if seen[0]["version"] is not None:  # the coordinator is first
        with target.coordinator() as client:
            found |= _work(client)
    wrong += [
        f"{item['id']}: {item['problem']}"
        for item in found["aggregators"]
        if not item["reachable"] and not any(text.startswith(f"{item['id']}: ") for text in wrong)
    ]
    wrong += [
        item["sentence"] for item in found["conditions"] if item["condition"] not in IN_READINESS
    ]
    return {**found, "wrong": wrong}


def _seen(service: ServiceAddress) -> dict[str, Any]:
    """What a service says of itself; `version` is None if it is not ready."""
    shown: dict[str, Any] = {"id": service.id, "url": service.url, "version": None}
    reason = why_not_ready(service)
    if reason is not None:
        return {**shown, "problems": [reason]}
    with once(service) as client:
        checks = client.get("/readyz")["checks"]
        shown["version"] = client.get("/healthz")["version"]
    problems = [f"{service.id}: {text}" for text in checks.values() if text != "ok"]
    return {**shown, "problems": problems}


def _work(client: Client) -> dict[str, Any]:
    """The coordinator's aggregators and rounds, and what needs an operator there."""
    last = next(iter(client.rounds.list(newest_first=True)), None)
    schedules = client.budget.outlook()["schedules"]
    coming = min(schedules, key=lambda item: item["next"], default=None)
    return {
        "aggregators": [dict(item) for item in client.aggregators.list(health=True)],
        "last": None if last is None else dict(last),
        "conditions": [dict(item) for item in client.notifications.conditions()],
        "next": None if coming is None else {key: coming[key] for key in ("name", "next")},
    }


def _show(found: dict[str, Any]) -> None:
    services = [
        [item["id"], item["url"], item["version"] or "not ready"] for item in found["services"]
    ]
    console.print(TextTable("Services", ["service", "address", "version"], services))
    aggregators = [
        [item["id"], item["operator"], "answers" if item["reachable"] else "does not answer"]
        for item in found["aggregators"]
    ]
    if aggregators:
        console.print(TextTable("Aggregators", ["id", "operator", "now"], aggregators))
    last, coming = found["last"], found["next"]
    lines = [
        "Last round: none"
        if last is None
        else f"Last round: {last['query']}, {last['state']}, opened {last['opened']}",
        "Next round: none is scheduled"
        if coming is None
        else f"Next round: {coming['name']}, {coming['next']}",
        *(["Wrong:"] if found["wrong"] else ["Nothing is wrong."]),
        *(f"- {problem}" for problem in found["wrong"]),
    ]
    say("\n".join(lines), markup=False)
