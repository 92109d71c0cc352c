"""`tacit status`: a deployment on one screen, and what is wrong with it; `tacit notifications`: the
messages about what needs an operator.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Final

import typer

from cli.context import Answer, Target, TextTable, at_coordinator, at_target, console, say
from cli.services.deployment import ServiceAddress, once, why_not_ready
from tacit import Client

IN_READINESS: Final = ("aggregator_away", "ledger_broken")
"""Conditions that the coordinator's readiness says too."""


@at_target
def status(target: Target) -> Answer:
    """Services, aggregators, last and next round, and problems; exit code 1 if there is one.

    With --url the coordinator there and its aggregators.
    """
    state = status_of(target)
    return Answer(state, lambda: _show(state), 1 if state["wrong"] else 0)


def services_of(target: Target) -> tuple[ServiceAddress, ...]:
    """The services of the deployment, the coordinator first; with --url only that one."""
    if target.url is None:
        return target.deployment().services
    return (ServiceAddress("coordinator", "coordinator", target.url, ""),)


def status_of(target: Target) -> dict[str, Any]:
    """What `tacit status` prints."""
    seen_services = [_seen(service) for service in services_of(target)]
    state: dict[str, Any] = {
        "services": seen_services,
        "aggregators": [],
        "last": None,
        "next": None,
        "conditions": [],
    }
    wrong = [problem for item in seen_services for problem in item["problems"]]
    if seen_services[0]["version"] is not None:  # the coordinator is first
        with target.coordinator() as client:
            state |= _work(client)
    wrong += [
        f"{item['id']}: {item['problem']}"
        for item in state["aggregators"]
        if not item["reachable"] and not any(text.startswith(f"{item['id']}: ") for text in wrong)
    ]
    wrong += [
        item["sentence"] for item in state["conditions"] if item["condition"] not in IN_READINESS
    ]
    return {**state, "wrong": wrong}


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


def _show(state: dict[str, Any]) -> None:
    services = [
        [item["id"], item["url"], item["version"] or "not ready"] for item in state["services"]
    ]
    console.print(TextTable("Services", ["service", "address", "version"], services))
    aggregators = [
        [item["id"], item["operator"], "answers" if item["reachable"] else "does not answer"]
        for item in state["aggregators"]
    ]
    if aggregators:
        console.print(TextTable("Aggregators", ["id", "operator", "now"], aggregators))
    last, coming = state["last"], state["next"]
    lines = [
        "Last round: none"
        if last is None
        else f"Last round: {last['query']}, {last['state']}, opened {last['opened']}",
        "Next round: none is scheduled"
        if coming is None
        else f"Next round: {coming['name']}, {coming['next']}",
        *(["Wrong:"] if state["wrong"] else ["Nothing is wrong."]),
        *(f"- {problem}" for problem in state["wrong"]),
    ]
    say("\n".join(lines), markup=False)


notifications_app = typer.Typer(
    no_args_is_help=True,
    help="Messages about what needs an operator, by webhook and e-mail.",
)


@notifications_app.command("test")
@at_coordinator
def test(client: Client) -> Answer:
    """Send a message to every outlet now; exit code 1 if one did not take it."""
    sent_test = client.notifications.send_test()
    failed = [delivery for delivery in sent_test["deliveries"] if delivery["delivered"] is None]
    lines = [f"{delivery['outlet']}: {_outcome(delivery)}" for delivery in sent_test["deliveries"]]
    return Answer(sent_test, lambda: say("\n".join(lines), markup=False), 1 if failed else 0)


@notifications_app.command("list")
@at_coordinator
def list_notifications(
    client: Client,
    limit: Annotated[int, typer.Option(min=1, help="How many, from the newest.")] = 20,
) -> Answer:
    """What needed an operator, the newest first, and the outcome of each message."""
    conditions = [dict(condition) for condition in islice(client.notifications.list(), limit)]
    rows = [
        [
            condition["began"],
            condition["ended"] or "lasts",
            condition["sentence"],
            "; ".join(
                f"{sent['outlet']} {sent['event']}: {_outcome(sent)}"
                for sent in condition["deliveries"]
            ),
        ]
        for condition in conditions
    ]
    table = TextTable("Notifications", ["began", "ended", "what", "messages"], rows)
    return Answer(conditions, lambda: console.print(table))


def _outcome(delivery: Any) -> str:
    if delivery["delivered"] is not None:
        return "delivered"
    state = "given up" if delivery["due"] is None else f"next attempt {delivery['due']}"
    return f"{delivery['problem'] or 'not tried yet'} ({state})"
