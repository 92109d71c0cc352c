"""`tacit enroll`, `tacit group`, `tacit token`: join tokens and enrolment, groups of curators, API
tokens.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from cli.context import (
    DEFAULT_HOME,
    Answer,
    Home,
    Target,
    TextTable,
    at_coordinator,
    at_curator,
    at_target,
    console,
    errors,
    fail,
    printed,
    tabled,
)
from cli.services.deployment import ask_grant, assemble, join_token, trusted
from tacit import Client
from tacit.answers import base as api
from tacit.protocol.enrolment import GrantAnswer, GrantRequest, PartyKind
from tacit.wire import format_instant

enroll_app = typer.Typer(no_args_is_help=True, help="Join tokens, and enrolling with them.")

Party = Annotated[str, typer.Argument(help="Id of the curator or host.")]
Curators = Annotated[int | None, typer.Option(min=1, help="A host of at most this many curators.")]
Replaces = Annotated[
    bool,
    typer.Option(
        "--replaces", help="For a party on the roster whose identity was stolen: it gets a new one."
    ),
]
ValidS = Annotated[int, typer.Option(min=60, help="Seconds until it expires.")]


@enroll_app.command("token")
@printed
def token(
    party: Party,
    curators: Curators = None,
    valid_s: ValidS = 86_400,
    replaces: Replaces = False,
    home: Home = DEFAULT_HOME,
) -> Answer:
    """Make a one-time join token from a grant of each service. Hand it over out of band."""
    token_request = _request(party, curators, valid_s)
    deployment, count = Target(home).deployment(), token_request.max_curators
    join = join_token(deployment, party, token_request.kind, count, valid_s, replaces=replaces)
    document = {"party": party, "token": join.to_text(), "expires": format_instant(join.expires)}
    return Answer(document, lambda: typer.echo(document["token"]))


@enroll_app.command("grant")
@printed
def grant(
    party: Party,
    url: Annotated[str, typer.Option(envvar="TACIT_URL", help="Your own service.")],
    api_token: Annotated[
        str, typer.Option("--token", envvar="TACIT_TOKEN", help="Your operator's token there.")
    ],
    curators: Curators = None,
    valid_s: ValidS = 86_400,
    replaces: Replaces = False,
) -> Answer:
    """Make the grant of one service where several operators run a deployment. It holds a secret."""
    request = _request(party, curators, valid_s).model_copy(update={"replaces": replaces})
    with Client(url, api_token, verify=trusted(url)) as client:
        answer = ask_grant(client, request)
    return Answer(answer.model_dump(mode="json"), lambda: typer.echo(answer.model_dump_json()))


@enroll_app.command("invitations")
@at_coordinator
def invitations(client: Client) -> Answer:
    """List the coordinator's grants that are neither used nor expired."""
    response = client.parties.list_grants()
    columns = ["id", "party", "kind", "max_curators", "expires"]
    rows = [[str(row[name]) for name in columns] for row in response]
    return tabled(response, "Invitations", columns, rows)


@enroll_app.command("withdraw")
@at_coordinator
def withdraw(
    client: Client,
    grant_id: Annotated[str, typer.Argument(help="Id of the invitation, by `invitations`.")],
) -> Answer:
    """Withdraw the coordinator's grant of an invitation: it can no longer be used."""
    client.parties.withdraw_grant(grant_id)
    return Answer({"withdrawn": grant_id}, lambda: typer.echo("withdrawn"))


@enroll_app.command("list")
@at_coordinator
def list_parties(
    client: Client,
    prefix: Annotated[str | None, typer.Option(help="Only ids with this prefix.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
) -> Answer:
    """List the parties enrolled at the coordinator: lone curators and hosts."""
    response = list(islice(client.parties.list(prefix=prefix), limit))
    columns = ["id", "kind", "first", "curators", "enrolled", "left"]
    rows = [[str(row[name] or "") for name in columns] for row in response]
    return tabled(response, "Parties", columns, rows)


@enroll_app.command("join")
@printed
def join(
    party: Party,
    grants: Annotated[
        list[Path], typer.Argument(help="Files from `enroll grant`, the coordinator's first.")
    ],
    curators: Curators = None,
) -> Answer:
    """Combine the grants of several operators into one join token."""
    answers = [GrantAnswer.model_validate_json(path.read_bytes()) for path in grants]
    token = assemble(_request(party, curators, 86_400), answers).to_text()
    return Answer({"party": party, "token": token}, lambda: typer.echo(token))


def _request(party: str, curators: int | None, valid_s: int) -> GrantRequest:
    kind = PartyKind.CURATOR if curators is None else PartyKind.HOST
    return GrantRequest(party=party, kind=kind, max_curators=curators or 1, valid_s=valid_s)


@enroll_app.command("use")
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


group_app = typer.Typer(no_args_is_help=True, help="Groups: sets of curators that a query may sum.")

Name = Annotated[str, typer.Argument(help="Name of the group.")]


@group_app.command("create")
@at_coordinator
def create_group(
    client: Client,
    name: Name,
    curators: Annotated[Path, typer.Argument(help="The curators: a file with an id a line.")],
    parent: Annotated[str | None, typer.Option(help="The group that contains this one.")] = None,
) -> Answer:
    """Create a group. A group is immutable; the same content is the same group."""
    body: dict[str, Any] = {"name": name, "curators": curators.read_text("utf-8-sig").split()}
    if parent is not None:
        body["parent"] = parent
    group = client.post("/v1/groups", body)
    return Answer(group, lambda: typer.echo(f"{group['name']}: {group['curators']} curators"))


@group_app.command("list")
@at_coordinator
def list_groups(client: Client) -> Answer:
    """List all groups."""
    response = list(client.pages("/v1/groups", "groups"))
    rows = [[item["name"], item["parent"] or "", str(item["curators"])] for item in response]
    return tabled(response, "Groups", ["name", "parent", "curators"], rows)


@group_app.command("show")
@at_coordinator
def show_group(client: Client, name: Name) -> Answer:
    """The curators of a group, by roster number."""
    response = list(client.pages(f"/v1/groups/{name}/curators", "curators"))

    def human() -> None:
        for item in response:
            typer.echo(item["id"])

    return Answer(response, human)


token_app = typer.Typer(no_args_is_help=True, help="API tokens of a service: make, list, revoke.")

DAY_S = 86_400
"""How long a session by a link can last after the link has expired."""
OF_A_CURATOR = ("device", "curator")
"""Scopes of tokens that belong to one curator, for the service that hosts it."""

Service = Annotated[
    str,
    typer.Option("--service", help="Service of --home: coordinator, aggregator-1, ..., curator."),
]


@token_app.command("create")
@at_target
def create_token(
    target: Target,
    scope: Annotated[
        str,
        typer.Argument(help="operator; analyst at a coordinator; device, curator at their host."),
    ],
    subject: Annotated[
        str | None, typer.Option(help="The curator of a device's or a curator's token.")
    ] = None,
    label: Annotated[str, typer.Option(help="Name in the list of tokens.")] = "",
    valid_s: Annotated[
        int | None,
        typer.Option(help="Seconds until it expires; without it, it is valid until revoked."),
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(
            "--service",
            help="Service of --home: coordinator, aggregator-1, ..., curator. Unless given: "
            "curator for scopes device and curator, else coordinator.",
        ),
    ] = None,
) -> Answer:
    """Make a token and print it. It is shown only once: the service keeps only its hash."""
    if scope in OF_A_CURATOR and subject is None:
        fail(f"--subject: a {scope}'s token belongs to one curator: name it")
    where = service or ("curator" if scope in OF_A_CURATOR else "coordinator")
    with target.service(where) as client:
        token = client.tokens.create(scope, subject=subject, label=label, valid_s=valid_s)

    def human() -> None:
        typer.echo(token["token"])
        # not on standard output: TOKEN=$(tacit token create ...)
        errors.print(f"shown once; its id, to revoke it: {token['id']}", highlight=False)

    return Answer(token, human)


@token_app.command("link")
@at_curator
def make_link(
    client: Client,
    curator: Annotated[str, typer.Argument(help="Id of the curator.")],
    valid_s: Annotated[
        int, typer.Option(min=60, max=604_800, help="Seconds until the link expires.")
    ] = 3 * 86_400,
    address: Annotated[
        str | None, typer.Option(help="Where owners reach the service, if not at its own address.")
    ] = None,
) -> Answer:
    """Make a link that signs the owner of a curator in, once, to see what left and to stop it."""
    label = f"link for the owner, valid for {valid_s} s"
    token = client.tokens.create("curator", subject=curator, label=label, valid_s=valid_s + DAY_S)
    with Client(client.url, token["token"], verify=trusted(client.url)) as owner:
        code = owner.tokens.sign_in_code(valid_s)
    link = f"{(address or client.url).rstrip('/')}{code['path']}"
    link_made = {"address": link, "valid_s": valid_s, "token": token["id"]}
    return Answer(link_made, lambda: typer.echo(link))


@token_app.command("list")
@at_target
def list_tokens(target: Target, service: Service = "coordinator") -> Answer:
    """List all tokens of a service, without their secrets, oldest first."""
    with target.service(service) as client:
        response = list(client.tokens.list())

    def human() -> None:
        now = datetime.now(UTC)
        rows = [
            [item["id"], _whose(item), escape(item["label"]), _state(item, now)]
            for item in response
        ]
        console.print(TextTable("Tokens", ["id", "scope", "label", "state"], rows))

    return Answer(response, human)


@token_app.command("revoke")
@at_target
def revoke_token(
    target: Target,
    token_id: Annotated[str, typer.Argument(help="Id of the token, from `tacit token list`.")],
    service: Service = "coordinator",
) -> Answer:
    """Revoke a token permanently; it fails from now on."""
    with target.service(service) as client:
        client.tokens.revoke(token_id)
    return Answer({"revoked": token_id}, lambda: typer.echo(f"{token_id} is revoked"))


@token_app.command("end")
@at_target
def end_tokens(target: Target, service: Service = "coordinator") -> Answer:
    """Revoke every token of a service except your own, after a theft.

    Parties, and a coordinator at its aggregators, get new ones automatically with their identities.
    Devices, owners and analysts need new ones from you.
    """
    with target.service(service) as client:
        response = client.tokens.end()
    ended_counts = ", ".join(
        f"{count} {scope}" for scope, count in sorted(response["ended"].items())
    )
    return Answer(response, lambda: typer.echo(f"ended: {ended_counts or 'none'}"))


def _whose(item: api.Token) -> str:
    scopes = " ".join(item["scopes"])
    return scopes if item["subject"] is None else f"{scopes} of {item['subject']}"


def _state(item: api.Token, now: datetime) -> str:
    if item["revoked"] is not None:
        return f"revoked {_to_the_second(item['revoked'])}"
    if item["expires"] is None:
        return "valid"
    past = datetime.fromisoformat(item["expires"]) <= now
    return f"{'expired' if past else 'valid until'} {_to_the_second(item['expires'])}"


def _to_the_second(instant: str) -> str:
    return f"{instant[:19]}Z"
