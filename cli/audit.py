"""`tacit audit`: who may pollute a deployment. Proposals for an operator, who decides."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.context import (
    DEFAULT_HOME,
    AsJson,
    Home,
    Target,
    Token,
    Url,
    console,
    fail,
    plain_errors,
    show,
    table,
)
from cli.deployment import trusted
from cli.words import amount
from tacit import Client

app = typer.Typer(
    no_args_is_help=True, help="Who may pollute sums: proposals that change nothing by themselves."
)

Json = dict[str, Any]


@app.command("noise")
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
        typer.Option(help="Chance of ever suspecting an honest deployment of missing noise."),
    ] = 0.05,
    home: Home = DEFAULT_HOME,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Who adds less noise than it should, or stands far out, in local rounds. A look spends alpha,
    unless nothing is new since the last."""
    with plain_errors(), _aggregator(aggregator, home, token) as client:
        found = client.get("/v1/audit/noise", alpha=alpha)
    show(found, as_json, lambda: _print_noise(found))


@app.command("curators")
def curators(
    alpha: Annotated[
        float,
        typer.Option(help="Chance of suspecting anybody, if rounds are missed at random."),
    ] = 0.001,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Whose declared bounds stand far out, and who misses more rounds than chance explains."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        found = client.get("/v1/budget/proposals", alpha=alpha)
    show(found, as_json, lambda: _print_curators(found))


def _aggregator(named: str | None, home: Home, token: str | None) -> Client:
    """A client of the aggregator with this URL, or this id in the deployment."""
    if named is not None and "://" in named:
        return Client(named, token, verify=trusted(named))
    services = Target(home).deployment().aggregators
    chosen = next((item for item in services if named in (None, item.id)), None)
    if chosen is None:
        known = ", ".join(item.id for item in services)
        fail(f"no aggregator {named} in {home}: one of {known}, or a URL with --token")
    return chosen.client()


def _print_noise(found: Json) -> None:
    look = found["look"]
    console.print(
        f"look {look['number']} at alpha {amount(found['alpha'])}: {found['tests']} tests at "
        f"{look['alpha_each']:.2g} each",
        highlight=False,
    )
    if not found["families"]:
        console.print("no local round of the sound stance was committed here yet")
    for family in found["families"]:
        console.print(
            f"noise of the {family['part']} (scale {amount(family['scale'])} ring units): "
            f"{family['curators']} curators, rounds so far: {family['rounds']}; one that adds "
            f"nothing to a constant value is told at this look after {family['rounds_to_tell']}",
            highlight=False,
        )
    _print_proposals(found, found["cannot"])


def _print_curators(found: Json) -> None:
    screened = found["screened"]
    console.print(
        f"declared bounds of {screened['declaring']} curators, attendance at {screened['rounds']} "
        f"released rounds (alpha {amount(screened['alpha'])})",
        highlight=False,
    )
    _print_proposals(found, found["sentence"])


def _print_proposals(found: Json, sentence: str) -> None:
    rows = [
        [
            item["curator"] or f"number {item['number']}",
            ": ".join(text for text in (item["reason"], _about(item)) if text),
            ", ".join(
                f"{name.replace('_', ' ')} {amount(value)}"
                for name, value in item["figures"].items()
            ),
        ]
        for item in found["proposals"]
    ]
    if rows:
        console.print(table("Proposals", ["curator", "reason", "figures"], rows))
    total = sum(found["proposed"].values())
    console.print(f"{total} proposed{'' if len(rows) == total else f', {len(rows)} shown'}")
    console.print(f"[dim]{sentence}[/dim]", highlight=False)


def _about(item: Json) -> str:
    named = item.get("field") or item.get("part")
    return "" if named is None else str(named).replace("_", " ")
