"""`tacit anchors`: one line that people compare, over all identities of a deployment.

Spec: keys, section 7. A join token that one operator bundled may name aggregators that do not
exist. Nobody inside the network can tell a victim; a line that true operators publish elsewhere
can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.context import Answer, Target, at_target, console, fail, printed, table, tabled
from cli.deployment import trusted
from cli.trust import read_trust
from common.runtime.tls import environment_trust
from tacit import Client
from tacit.protocol.enrolment import JoinToken
from tacit.protocol.trust import Trust, anchors_line

app = typer.Typer(no_args_is_help=True, help="One line over all identities, to be compared.")


@dataclass(frozen=True)
class _Anchors:
    """Fingerprints of a deployment."""

    deployment: str
    coordinator: bytes
    aggregators: Mapping[str, bytes]


@app.callback()
def _group() -> None:
    """One line over all identities, to be compared."""


@app.command("show")
@printed
def show(
    join: Annotated[
        Path | None, typer.Option(help="File with a join token, as a curator's owner has it.")
    ] = None,
    file: Annotated[Path | None, typer.Option(envvar="TACIT_TRUST", help="A trust file.")] = None,
    url: Annotated[
        str | None,
        typer.Option(envvar="TACIT_URL", help="An aggregator, with --token: its own pins."),
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="TACIT_TOKEN", help="The operator's token there.")
    ] = None,
) -> Answer:
    """Print the line. It is the same for everyone who anchors the same identities."""
    given = [each for each in (join, file, url) if each is not None]
    if len(given) != 1:
        fail("give one of --join, --file and --url")
    if join is not None:
        found = _of_join(JoinToken.from_text(join.read_text("ascii").strip()))
    elif file is not None:
        found = _of_trust(read_trust(file))
    else:
        assert url is not None
        found = _of_aggregator(url, token)
    line = anchors_line(found.deployment, found.coordinator, found.aggregators)
    shown: dict[str, Any] = {
        "deployment": found.deployment,
        "coordinator": found.coordinator.hex(),
        "aggregators": {name: pin.hex() for name, pin in sorted(found.aggregators.items())},
        "line": line,
    }
    rows = [["coordinator", shown["coordinator"]], *map(list, shown["aggregators"].items())]

    def human() -> None:
        typer.echo(line)
        console.print(table(f"Deployment {found.deployment}", ["party", "fingerprint"], rows))

    return Answer(shown, human)


@app.command("list")
@at_target
def listing(target: Target) -> Answer:
    """The services as the parties of a curator service know them (--url, --token of its
    operator)."""
    with _curators(target) as client:
        found = client.anchors()["anchors"]
    rows = [
        [each["role"], each["name"], each["fingerprint"], "FORKED" if each["forked"] else ""]
        for each in found
    ]
    return tabled(found, "Anchors", ["role", "name", "key", ""], rows)


@app.command("drop")
@at_target
def drop(
    target: Target, name: Annotated[str, typer.Argument(help="The aggregator's id.")]
) -> Answer:
    """Forget an aggregator whose keys are lost: no party of a curator service takes part in a round
    of it any more (--url, --token of its operator)."""
    with _curators(target) as client:
        client.drop_anchor(name)
    return Answer({"dropped": name}, lambda: typer.echo(f"{name} is not anchored any more"))


def _curators(target: Target) -> Client:
    if target.url is None:
        raise ValueError("give --url and --token of a curator service")
    return Client(target.url, target.token, verify=trusted(target.url))


def _of_join(join: JoinToken) -> _Anchors:
    aggregators = {grant.party: grant.fingerprint for grant in join.aggregators}
    return _Anchors(join.coordinator.party, join.coordinator.fingerprint, aggregators)


def _of_trust(trust: Trust) -> _Anchors:
    """The newest fingerprint of each that is not stolen."""
    aggregators = {}
    for item in trust.aggregators:
        good = [pin.fingerprint for pin in item.fingerprints if not pin.compromised]
        if good:
            aggregators[item.id] = bytes.fromhex(good[-1])
    return _Anchors(trust.deployment, bytes.fromhex(trust.coordinator[-1]), aggregators)


def _of_aggregator(url: str, token: str | None) -> _Anchors:
    """Its own identity, its pins, and the coordinator that it is paired with."""
    with Client(url, token, verify=environment_trust()) as client:
        own = client.get("/.well-known/tacit-aggregator")
        paired = client.get("/v1/coordinator")
        pins = client.get("/v1/peers")["peers"]
    aggregators = {item["id"]: bytes.fromhex(item["fingerprint"]) for item in pins}
    aggregators[own["id"]] = bytes.fromhex(own["fingerprint"])
    return _Anchors(paired["deployment"], bytes.fromhex(paired["fingerprint"]), aggregators)
