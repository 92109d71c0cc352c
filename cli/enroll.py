"""`tacit enroll`: join tokens, and enrolling curators and hosts with them."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.context import (
    DEFAULT_HOME,
    Answer,
    Home,
    Target,
    at_coordinator,
    at_curator,
    console,
    plain_errors,
    printed,
    tabled,
)
from cli.deployment import ask_grant, assemble, join_token, trusted
from tacit import Client
from tacit.protocol.enrolment import GrantAnswer, GrantRequest, PartyKind
from tacit.wire import format_instant

app = typer.Typer(no_args_is_help=True, help="Join tokens, and enrolling with them.")

Party = Annotated[str, typer.Argument(help="Id of the curator or host.")]
Curators = Annotated[int | None, typer.Option(min=1, help="A host of at most this many curators.")]
Replaces = Annotated[
    bool,
    typer.Option(
        "--replaces", help="For a party on the roster whose identity was stolen: it gets another."
    ),
]
ValidS = Annotated[int, typer.Option(min=60, help="Seconds until it expires.")]


@app.command("token")
@printed
def token(
    party: Party,
    curators: Curators = None,
    valid_s: ValidS = 86_400,
    replaces: Replaces = False,
    home: Home = DEFAULT_HOME,
) -> Answer:
    """Make a one-time join token: one grant from each service. Hand it over out of band."""
    asked = _request(party, curators, valid_s)
    deployment, count = Target(home).deployment(), asked.max_curators
    made = join_token(deployment, party, asked.kind, count, valid_s, replaces=replaces)
    document = {"party": party, "token": made.to_text(), "expires": format_instant(made.expires)}
    return Answer(document, lambda: typer.echo(document["token"]))


@app.command("grant")
def grant(
    party: Party,
    url: Annotated[str, typer.Option(envvar="TACIT_URL", help="Your own service.")],
    api_token: Annotated[
        str, typer.Option("--token", envvar="TACIT_TOKEN", help="Your operator's token there.")
    ],
    curators: Curators = None,
    valid_s: ValidS = 86_400,
    replaces: Replaces = False,
) -> None:
    """At one service of several operators': its part of a join token. It holds a secret."""
    with plain_errors(), Client(url, api_token, verify=trusted(url)) as client:
        asked = _request(party, curators, valid_s).model_copy(update={"replaces": replaces})
        answer = ask_grant(client, asked)
    typer.echo(answer.model_dump_json())


@app.command("invitations")
@at_coordinator
def invitations(client: Client) -> Answer:
    """The coordinator's grants that are neither used nor expired."""
    found = client.grants()
    columns = ["id", "party", "kind", "max_curators", "expires"]
    rows = [[str(each[name]) for name in columns] for each in found]
    return tabled(found, "Invitations", columns, rows)


@app.command("withdraw")
@at_coordinator
def withdraw(
    client: Client,
    grant_id: Annotated[str, typer.Argument(help="Id of the invitation, by `invitations`.")],
) -> Answer:
    """Withdraw the coordinator's part of an invitation: nobody enrols with it any more."""
    client.withdraw_grant(grant_id)
    return Answer({"withdrawn": grant_id}, lambda: typer.echo("withdrawn"))


@app.command("list")
@at_coordinator
def listing(
    client: Client,
    prefix: Annotated[str | None, typer.Option(help="Only those whose id begins so.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
) -> Answer:
    """Parties that enrolled at the coordinator: lone curators and hosts."""
    found = list(islice(client.parties(prefix=prefix), limit))
    columns = ["id", "kind", "first", "curators", "enrolled", "left"]
    rows = [[str(each[name] or "") for name in columns] for each in found]
    return tabled(found, "Parties", columns, rows)


@app.command("join")
def join(
    party: Party,
    grants: Annotated[
        list[Path], typer.Argument(help="Files of `enroll grant`: the coordinator's first.")
    ],
    curators: Curators = None,
) -> None:
    """Put the grants of several operators together to one join token."""
    with plain_errors():
        answers = [GrantAnswer.model_validate_json(path.read_bytes()) for path in grants]
        asked = _request(party, curators, 86_400)
        typer.echo(assemble(asked, answers).to_text())


def _request(party: str, curators: int | None, valid_s: int) -> GrantRequest:
    kind = PartyKind.CURATOR if curators is None else PartyKind.HOST
    return GrantRequest(party=party, kind=kind, max_curators=curators or 1, valid_s=valid_s)


@app.command("use")
@at_curator
def use(
    client: Client,
    given: Annotated[str, typer.Argument(metavar="TOKEN", help="The join token.")],
    curators: Annotated[
        Path | None, typer.Option(help="A host's curators: a file with an id a line.")
    ] = None,
) -> Answer:
    """Enrol the party of a join token at a curator service."""
    body: dict[str, Any] = {"token": given}
    if curators is not None:
        body["curators"] = curators.read_text("utf-8-sig").split()
    answer = client.post("/v1/enrolments", body)
    return Answer(answer, lambda: console.print(answer))
