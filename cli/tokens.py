"""`tacit token`: API tokens of a service, made, looked at and revoked by its operator."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.markup import escape

from cli.context import (
    DEFAULT_HOME,
    Answer,
    Home,
    Target,
    Token,
    Url,
    at_target,
    console,
    errors,
    fail,
    plain_errors,
    table,
)
from cli.deployment import trusted
from tacit import Client

app = typer.Typer(no_args_is_help=True, help="API tokens of a service: make, list, revoke.")

OF_A_CURATOR = ("device", "curator")
"""Scopes of tokens that belong to one curator, and open the service that hosts it."""

Service = Annotated[
    str, typer.Option("--service", help="Which of --home: coordinator, aggregator-1, ..., curator.")
]


@app.command("create")
@at_target
def create(
    target: Target,
    scope: Annotated[
        str,
        typer.Argument(help="operator; analyst at a coordinator; device, curator at their host."),
    ],
    subject: Annotated[
        str | None, typer.Option(help="The curator of a device's or a curator's token.")
    ] = None,
    label: Annotated[str, typer.Option(help="What the list calls it.")] = "",
    valid_s: Annotated[
        int | None, typer.Option(help="Seconds until it expires; without, when it is revoked.")
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(
            "--service",
            help="Which of --home: coordinator, aggregator-1, ..., curator. Unless given: curator "
            "for scopes device and curator, else coordinator.",
        ),
    ] = None,
) -> Answer:
    """Make a token and print it. It is shown once: the service keeps its hash alone."""
    if scope in OF_A_CURATOR and subject is None:
        fail(f"--subject: a {scope}'s token belongs to one curator: say which")
    where = service or ("curator" if scope in OF_A_CURATOR else "coordinator")
    with _client(target, where) as client:
        made = client.create_token(scope, subject=subject, label=label, valid_s=valid_s)

    def human() -> None:
        typer.echo(made["token"])
        # not on standard output: TOKEN=$(tacit token create ...)
        errors.print(f"shown once; its id, to revoke it: {made['id']}", highlight=False)

    return Answer(made, human)


@app.command("list")
@at_target
def listing(target: Target, service: Service = "coordinator") -> Answer:
    """All tokens of a service, without their secrets, in the order of their making."""
    with _client(target, service) as client:
        found = list(client.tokens())

    def human() -> None:
        now = datetime.now(UTC)
        rows = [
            [item["id"], _whose(item), escape(item["label"]), _state(item, now)] for item in found
        ]
        shown = table("Tokens", ["id", "scope", "label", "state"], rows)
        shown.columns[0].no_wrap = True  # it is what `revoke` takes
        console.print(shown)

    return Answer(found, human)


@app.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(help="Id of the token, from `tacit token list`.")],
    service: Service = "coordinator",
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
) -> None:
    """End a token at once, for ever."""
    with plain_errors(), _client(Target(home, url, token), service) as client:
        client.revoke_token(token_id)
    typer.echo(f"{token_id} is revoked")


@app.command("end")
@at_target
def end(target: Target, service: Service = "coordinator") -> Answer:
    """End every token of a service but your own, after a theft.

    Parties, and a coordinator at its aggregators, put others in place by their identities, by
    themselves. Devices, owners and analysts need new ones by hand.
    """
    with _client(target, service) as client:
        found = client.end_tokens()
    said = ", ".join(f"{count} {scope}" for scope, count in sorted(found["ended"].items()))
    return Answer(found, lambda: typer.echo(f"ended: {said or 'none'}"))


def _client(target: Target, service: str) -> Client:
    """A client of the service at --url, else of the one with that id in --home."""
    if target.url is not None:
        return Client(target.url, target.token, verify=trusted(target.url))
    services = {each.id: each for each in target.deployment().services}
    if service not in services:
        fail(f"--service: {service} is none of {', '.join(services)}")
    return services[service].client()


def _whose(item: dict[str, Any]) -> str:
    scopes = " ".join(item["scopes"])
    return scopes if item["subject"] is None else f"{scopes} of {item['subject']}"


def _state(item: dict[str, Any], now: datetime) -> str:
    if item["revoked"] is not None:
        return f"revoked {_to_the_second(item['revoked'])}"
    if item["expires"] is None:
        return "valid"
    past = datetime.fromisoformat(item["expires"]) <= now
    return f"{'expired' if past else 'valid until'} {_to_the_second(item['expires'])}"


def _to_the_second(instant: str) -> str:
    return f"{instant[:19]}Z"
