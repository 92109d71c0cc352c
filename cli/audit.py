"""`tacit audit`: who may pollute a deployment (proposals, which the operator decides on), and
whether a ledger was altered."""

from __future__ import annotations

import json
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.context import (
    DEFAULT_HOME,
    Answer,
    Home,
    Target,
    TextTable,
    Token,
    at_coordinator,
    at_target,
    console,
    fail,
    printed,
    read_json,
    say,
    tabled,
)
from cli.formatting import amount, verified
from cli.services.deployment import trusted
from tacit import Client

app = typer.Typer(
    no_args_is_help=True,
    help="Who may pollute sums: proposals that change nothing by themselves. Ledgers against "
    "checkpoints stored elsewhere.",
)

Json = dict[str, Any]
CHECKPOINT = "tacit.ledger-checkpoint/1"


class Service(StrEnum):
    COORDINATOR = "coordinator"
    CURATOR = "curator"


@app.command("noise")
@printed
def noise(
    aggregator: Annotated[
        str | None,
        typer.Option(
            help="The aggregator: its URL (with --token), or its id in the deployment of --home "
            "(default: its first)."
        ),
    ] = None,
    alpha: Annotated[
        float,
        typer.Option(help="Probability of ever suspecting an honest deployment of missing noise."),
    ] = 0.05,
    home: Home = DEFAULT_HOME,
    token: Token = None,
) -> Answer:
    """Which curators add too little noise, or are outliers, in local rounds. A look spends
    alpha, unless nothing is new since the last."""
    with _aggregator(aggregator, home, token) as client:
        response = client.get("/v1/audit/noise", alpha=alpha)
    return Answer(response, lambda: _print_noise(response))


@app.command("curators")
@at_coordinator
def curators(
    client: Client,
    alpha: Annotated[
        float,
        typer.Option(help="Chance of suspecting anyone, if rounds are missed at random."),
    ] = 0.001,
) -> Answer:
    """Which curators declare outlying bounds, or miss more rounds than chance explains."""
    response = client.get("/v1/budget/proposals", alpha=alpha)
    return Answer(response, lambda: _print_curators(response))


@app.command("pages")
@at_target
def pages(
    target: Target,
    service: Annotated[
        Service, typer.Argument(help="coordinator or curator.")
    ] = Service.COORDINATOR,
) -> Answer:
    """The newest 100 actions on a service's pages."""
    with target.curator() if service is Service.CURATOR else target.coordinator() as client:
        response = list(islice(client.audit(), 100))
    columns = ["at", "token_id", "action", "object", "outcome"]
    rows = [[action[name] for name in columns] for action in response]
    return tabled(response, "On pages", columns, rows)


@app.command("ledger")
@at_target
def ledger(
    target: Target,
    service: Annotated[Service, typer.Argument(help="coordinator or curator.")],
    write: Annotated[
        Path | None,
        typer.Option(help="Write a checkpoint to this new file, to store elsewhere."),
    ] = None,
    check: Annotated[
        Path | None, typer.Option(help="Check that the ledger still contains this checkpoint.")
    ] = None,
) -> Answer:
    """Check every row of a ledger, and write or compare a checkpoint. Exit code 1 if it is broken.

    The hash chain has no key outside the database that it protects. Anyone who can write there can
    rewrite all of it, or truncate it: only a checkpoint stored elsewhere reveals that.
    """
    if write is not None and write.exists():
        fail(f"{write} exists already; a checkpoint is a new file")
    checkpoint = {} if check is None else _checkpoint(check, service)
    with target.curator() if service is Service.CURATOR else target.coordinator() as client:
        look = client.ledger.verify if service is Service.CURATOR else client.budget.verify
        outcome = look(**checkpoint)
    if write is not None and outcome["verified"]:
        document = {
            "format": CHECKPOINT,
            "ledger": service.value,
            "rows": outcome["rows"],
            "head": outcome["head"],
        }
        write.write_text(json.dumps(document, indent=2) + "\n")
    return verified(outcome)


def _checkpoint(path: Path, service: Service) -> Json:
    document = read_json(str(path))
    if not isinstance(document, dict) or document.get("format") != CHECKPOINT:
        raise ValueError(f"{path}: is not a checkpoint")
    if document.get("ledger") != service:
        raise ValueError(f"{path}: is of the {document.get('ledger')}'s ledger")
    return {"seq": document.get("rows"), "head": document.get("head")}


def _aggregator(named: str | None, home: Home, token: str | None) -> Client:
    """A client of the aggregator with this URL, or this id in the deployment."""
    if named is not None and "://" in named:
        return Client(named, token, verify=trusted(named))
    services = Target(home).deployment().aggregators
    chosen = next((item for item in services if named in (None, item.id)), None)
    if chosen is None:
        names = ", ".join(item.id for item in services)
        fail(f"no aggregator {named} in {home}: one of {names}, or a URL with --token")
    return chosen.client()


def _print_noise(response: Json) -> None:
    look = response["look"]
    say(
        f"look {look['number']} at alpha {amount(response['alpha'])}: {response['tests']} tests at "
        f"{look['alpha_each']:.2g} each"
    )
    if not response["families"]:
        console.print("no local round of the sound stance was committed here yet")
    for family in response["families"]:
        say(
            f"noise of the {family['part']} (scale {amount(family['scale'])} ring units): "
            f"{family['curators']} curators, rounds so far: {family['rounds']}; one that adds "
            f"nothing to a constant value is told at this look after {family['rounds_to_tell']}"
        )
    _print_proposals(response, response["cannot"])


def _print_curators(response: Json) -> None:
    screened = response["screened"]
    say(
        f"declared bounds of {screened['declaring']} curators, attendance at {screened['rounds']} "
        f"released rounds (alpha {amount(screened['alpha'])})"
    )
    _print_proposals(response, response["sentence"])


def _print_proposals(response: Json, sentence: str) -> None:
    rows = [
        [
            item["curator"] or f"number {item['number']}",
            ": ".join(text for text in (item["reason"], _about(item)) if text),
            ", ".join(
                f"{name.replace('_', ' ')} {amount(value)}"
                for name, value in item["figures"].items()
            ),
        ]
        for item in response["proposals"]
    ]
    if rows:
        console.print(TextTable("Proposals", ["curator", "reason", "figures"], rows))
    total = sum(response["proposed"].values())
    console.print(f"{total} proposed{'' if len(rows) == total else f', {len(rows)} shown'}")
    say(f"[dim]{sentence}[/dim]")


def _about(item: Json) -> str:
    named = item.get("field") or item.get("part")
    return "" if named is None else str(named).replace("_", " ")
