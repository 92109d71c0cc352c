"""`tacit pair`: two operators make their services known to each other, each on his own side.

Each gives the other the fingerprint of his identity out of band (by telephone, on paper) and each
command compares it before anything is trusted: who stands at an address proves nothing.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from cli.context import (
    DEFAULT_HOME,
    Answer,
    Home,
    Target,
    at_coordinator,
    console,
    digits,
    fail,
    plain_errors,
    printed,
    say,
    tabled,
)
from cli.deployment import READY_S, pair
from common.runtime.tls import environment_trust
from tacit import Client
from tacit.wire import encode_binary

app = typer.Typer(
    no_args_is_help=True, help="Pair aggregators with their coordinator, and pin others."
)

Fingerprint = Annotated[
    str, typer.Option(help="As the other operator gave it: 64 hexadecimal digits, colons allowed.")
]
Address = Annotated[str, typer.Argument(help="Address of the other operator's service.")]
Own = Annotated[str, typer.Option("--url", envvar="TACIT_URL", help="Your own service.")]
OwnToken = Annotated[
    str, typer.Option("--token", envvar="TACIT_TOKEN", help="Your operator's token there.")
]

_DOCUMENTS = ("tacit-aggregator", "tacit-coordinator")


@app.command("show")
@printed
def identity(url: Address) -> Answer:
    """What a service says of itself: name, operator, fingerprint, policy. Nothing is trusted.

    tls_pq: whether its TLS library offers X25519MLKEM768, a key agreement that lasts.
    """
    found = {**_ask(url), "tls_pq": _post_quantum(url)}
    rows = [[key, _text(value)] for key, value in found.items()]
    return tabled(found, f"Identity at {url}", ["", ""], rows)


@app.command("coordinator")
@printed
def coordinator(
    coordinator_url: Address,
    fingerprint: Fingerprint,
    url: Own,
    token: OwnToken,
    replace: Annotated[bool, typer.Option(help="Unpin the coordinator pinned now.")] = False,
    overlap_s: Annotated[
        int, typer.Option(min=0, max=604_800, help="Seconds that an earlier token stays good.")
    ] = 0,
) -> Answer:
    """At an aggregator (--url): pin its coordinator, and print the token to hand over."""
    found = _ask(coordinator_url, "tacit-coordinator")
    _compare(found, fingerprint)
    body = {"deployment": found["deployment"], "identity_key": found["identity_key"]}
    query = f"?replace={str(replace).lower()}&overlap_s={overlap_s}"
    with _client(url, token) as client:
        answer = client.request("PUT", f"/v1/coordinator{query}", body).json()
    return Answer(answer, lambda: typer.echo(answer["token"]))


@app.command("aggregator")
@printed
def aggregator(
    aggregator_url: Address,
    fingerprint: Fingerprint,
    aggregator_token: Annotated[
        Path, typer.Option(help="File with the token that the aggregator's operator handed over.")
    ],
    url: Own,
    token: OwnToken,
) -> Answer:
    """At the coordinator (--url): approve an aggregator, or give it a renewed token."""
    found = _ask(aggregator_url, "tacit-aggregator")
    _compare(found, fingerprint)
    body = {
        "url": aggregator_url.rstrip("/"),
        "token": aggregator_token.read_text("ascii").strip(),
        "fingerprint": encode_binary(bytes.fromhex(found["fingerprint"])),
    }
    with _client(url, token) as client:
        answer = client.post("/v1/aggregators", body)
    return Answer(answer, lambda: console.print(f"paired with {answer['id']}"))


@app.command("list")
@at_coordinator
def listing(client: Client) -> Answer:
    """The coordinator's aggregators, and whether they are there."""
    found = list(client.aggregators(health=True))
    columns = ["id", "operator", "url", "fingerprint", "now"]
    rows = [[*(each[name] for name in columns[:-1]), _standing(each)] for each in found]
    return tabled(found, "Aggregators", columns, rows)


def _standing(found: Mapping[str, Any]) -> str:
    if not found["reachable"]:
        return str(found["problem"])
    another = found["fingerprint_seen"] != found["fingerprint"]
    return "shows another identity" if another else "reachable"


@app.command("all")
def everything(home: Home = DEFAULT_HOME) -> None:
    """Pair all services of --home/deployment.json: one operator who holds all their tokens."""
    with plain_errors():
        deployment = Target(home).deployment()
        for service in (deployment.coordinator, *deployment.aggregators):
            with service.client() as client:
                client.wait_until_ready(READY_S)
        pair(deployment)
    names = ", ".join(service.id for service in deployment.aggregators)
    say(f"the coordinator is paired with {names}")


@app.command("revoke")
def revoke(
    url: Own,
    token: OwnToken,
    aggregator_id: Annotated[
        str | None, typer.Option("--aggregator", help="At the coordinator: which one.")
    ] = None,
) -> None:
    """End a pairing on your side: at the coordinator with --aggregator, at an aggregator without.

    Parties of queries that name the aggregator keep waiting for it: close those queries too.
    """
    path = "/v1/coordinator" if aggregator_id is None else f"/v1/aggregators/{aggregator_id}"
    with plain_errors(), _client(url, token) as client:
        client.request("DELETE", path)
    console.print("revoked")


@app.command("peer")
@printed
def peer(
    name: Annotated[str, typer.Argument(metavar="ID", help="The other aggregator's id.")],
    fingerprint: Annotated[str, typer.Argument(help="As the other operator gave it.")],
    operator: Annotated[str, typer.Option(help="Who runs it, as its rounds say.")],
    url: Own,
    token: OwnToken,
    replace: Annotated[bool, typer.Option(help="Unpin what is pinned under this id.")] = False,
) -> Answer:
    """At an aggregator (--url): pin another aggregator. From the first on it sums with no other."""
    pinned = encode_binary(bytes.fromhex(digits(fingerprint)))
    body = {"id": name, "fingerprint": pinned, "operator": operator}
    with _client(url, token) as client:
        answer = client.request("PUT", f"/v1/peers?replace={str(replace).lower()}", body).json()
    return Answer(answer, lambda: say(f"{name} of {operator} is pinned", markup=False))


@app.command("peers")
@printed
def peers(url: Own, token: OwnToken) -> Answer:
    """At an aggregator (--url): the aggregators that are pinned."""
    with _client(url, token) as client:
        found = client.get("/v1/peers")["peers"]
    rows = [[item["id"], item["operator"], item["fingerprint"]] for item in found]
    return tabled(found, "Pinned aggregators", ["id", "operator", "fingerprint"], rows)


@app.command("remove-peer")
def remove_peer(
    name: Annotated[str, typer.Argument(metavar="ID", help="The other aggregator's id.")],
    url: Own,
    token: OwnToken,
) -> None:
    """At an aggregator (--url): unpin another aggregator.

    Once none is pinned it sums with any again, unless TACIT_PEERS=pinned.
    """
    with plain_errors(), _client(url, token) as client:
        client.request("DELETE", f"/v1/peers/{quote(name, safe='')}")
    say(f"{name} is not pinned any more", markup=False)


def _client(url: str, token: str | None = None) -> Client:
    return Client(url, token, verify=environment_trust())


def _ask(url: str, *documents: str) -> dict[str, Any]:
    """The identity document of a service, the first kind that it has."""
    from tacit import Problem

    with _client(url) as client:
        for document in documents or _DOCUMENTS:
            try:
                found: dict[str, Any] = client.get(f"/.well-known/{document}")
            except Problem as problem:
                if problem.status != 404:
                    raise
            else:
                return found
    raise ValueError(f"{url} is no service of the kind that was expected")


def _post_quantum(url: str) -> str:
    """What a service says, ready or not."""
    from tacit import Problem

    with _client(url) as client:
        try:
            ready: Mapping[str, object] = client.get("/readyz")
        except Problem as problem:
            ready = problem.problem
    return str(ready.get("tls_pq", "unknown"))


def _compare(found: dict[str, Any], given: str) -> None:
    if not hmac.compare_digest(digits(given).encode(), str(found["fingerprint"]).encode()):
        fail(f"another fingerprint stands at that address: {found['fingerprint']}")


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    return str(value)
