"""`tacit enroll`: join tokens, and enrolling curators and hosts with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.context import DEFAULT_HOME, AsJson, Home, Target, console, plain_errors, show
from cli.deployment import join_token
from common.models.base import format_instant
from common.models.enrolment import PartyKind

app = typer.Typer(no_args_is_help=True, help="Join tokens, and enrolling with them.")

Party = Annotated[str, typer.Argument(help="Id of the curator or host.")]


@app.command("token")
def token(
    party: Party,
    curators: Annotated[
        int | None, typer.Option(min=1, help="A host of at most so many curators.")
    ] = None,
    valid_s: Annotated[int, typer.Option(min=60, help="Seconds until it expires.")] = 86_400,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Make a one-time join token: one grant from each service. Hand it over out of band."""
    with plain_errors():
        kind = PartyKind.CURATOR if curators is None else PartyKind.HOST
        made = join_token(Target(home).deployment(), party, kind, curators or 1, valid_s)
    document = {"party": party, "token": made.to_text(), "expires": format_instant(made.expires)}
    show(document, as_json, lambda: typer.echo(document["token"]))


@app.command("use")
def use(
    token: Annotated[str, typer.Argument(help="The join token.")],
    curators: Annotated[
        Path | None, typer.Option(help="A host's curators: a file with an id a line.")
    ] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Enrol the party of a join token at this deployment's curator service."""
    with plain_errors():
        body: dict[str, Any] = {"token": token}
        if curators is not None:
            body["curators"] = curators.read_text("utf-8").split()
        with Target(home).curator() as client:
            answer = client.post("/v1/enrolments", body)
    show(answer, as_json, lambda: console.print(answer))
