"""`tacit trust`, `tacit anchors`, `tacit pair`: identities that operators and verifiers obtained
out of band, compared and pinned.

`tacit round verify --trust FILE` accepts the identities in that file and no others. What a
coordinator states about its aggregators never enters the file.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from pydantic import ValidationError

from cli.context import (
    DEFAULT_HOME,
    TRUST_FILE,
    Answer,
    ExitCode,
    Home,
    Target,
    TextTable,
    at_coordinator,
    at_target,
    console,
    digits,
    fail,
    printed,
    say,
    tabled,
)
from cli.services.deployment import pair, trusted, wait_for_ready
from tacit import Client, Problem
from tacit.answers import base as api
from tacit.protocol.enrolment import JoinToken
from tacit.protocol.identities import IdentityChain, Role
from tacit.protocol.trust import Pinned, Trust, anchors_line
from tacit.wire import encode_binary, first_of, format_instant

trust_app = typer.Typer(
    no_args_is_help=True, help="Identities obtained out of band, which a verification pins."
)

TrustFile = Annotated[
    Path, typer.Option("--file", envvar="TACIT_TRUST", help="The trust file; made if needed.")
]
Name = Annotated[str, typer.Argument(help="The aggregator's id.")]
Given = Annotated[
    str, typer.Argument(help="As its operator gave it: 64 hexadecimal digits, colons allowed.")
]


def read_trust(path: Path) -> Trust:
    """A trust file. Raises OSError, ValueError."""
    try:
        return Trust.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ValueError(f"{path}: no trust file (tacit.trust/1): {first_of(error)}") from None


@trust_app.command("from-join")
@printed
def from_join(
    token: Annotated[str, typer.Argument(help="A join token; its secrets are not stored.")],
    file: TrustFile = TRUST_FILE,
) -> Answer:
    """Pin the coordinator and every aggregator of a join token that you got out of band."""
    join = JoinToken.from_text(token)
    deployment, pinned = join.coordinator.party, join.coordinator.fingerprint.hex()
    trust = _of(file, deployment) or Trust(deployment=deployment, coordinator=(pinned,))
    trust = trust.pinning_coordinator(pinned)
    for grant in join.aggregators:
        trust = trust.pinning(grant.party, grant.fingerprint.hex())
    names = f"{len(join.aggregators)} aggregators and the coordinator"
    return _written(file, trust, f"{names} pinned in {file}")


@trust_app.command("coordinator")
@printed
def trust_coordinator(
    deployment: Annotated[str, typer.Argument(help="The deployment's name.")],
    fingerprint: Given,
    file: TrustFile = TRUST_FILE,
) -> Answer:
    """Pin a deployment's coordinator."""
    pinned = digits(fingerprint)
    trust = _of(file, deployment) or Trust(deployment=deployment, coordinator=(pinned,))
    return _written(file, trust.pinning_coordinator(pinned), f"coordinator pinned in {file}")


@trust_app.command("add")
@printed
def add(
    name: Name,
    fingerprint: Given,
    operator: Annotated[str | None, typer.Option(help="Who runs it.")] = None,
    file: TrustFile = TRUST_FILE,
) -> Answer:
    """Pin an aggregator, and who runs it. The coordinator is pinned first."""
    pinned = digits(fingerprint)
    trust = read_trust(file).pinning(name, pinned, operator)
    return _written(file, trust, f"{name} pinned in {file}")


@trust_app.command("compromised")
@printed
def compromised(name: Name, fingerprint: Given, file: TrustFile = TRUST_FILE) -> Answer:
    """Mark an aggregator's identity as stolen: rounds that depend on it are no longer verified."""
    stolen = digits(fingerprint)
    trust = read_trust(file).compromising(name, stolen)
    return _written(file, trust, f"{name}: marked in {file}")


@trust_app.command("refresh")
@printed
def refresh(
    urls: Annotated[
        list[str],
        typer.Argument(
            help="Addresses of the coordinator and of aggregators; files of `tacit keys revoke`."
        ),
    ],
    file: TrustFile = TRUST_FILE,
) -> Answer:
    """Add the successors of pinned identities, and record until when the old ones are valid.

    Each link is signed by the pair to which the previous identity committed: no service is trusted.
    """
    trust = read_trust(file)
    for url in urls:
        trust = _refreshed(trust, url)
    return _written(file, trust, f"{file}: successors of its identities added")


def _refreshed(trust: Trust, url: str) -> Trust:
    """With the identities that one service, or a file, shows."""
    now = datetime.now(UTC)
    if Path(url).is_file():
        return _following(trust, IdentityChain.model_validate_json(Path(url).read_bytes()), now)
    with Client(url, verify=trusted(url)) as client:
        for document in ("tacit-coordinator", "tacit-aggregator"):
            try:
                shown = client.get(f"/.well-known/{document}/identity")
            except Problem as problem:
                if problem.status == 404:
                    continue
                raise
            return _following(trust, IdentityChain.model_validate_json(json.dumps(shown)), now)
    return trust  # its identity is only a key, or of an older release: it has no successors


def _following(trust: Trust, chain: IdentityChain, now: datetime) -> Trust:
    document = chain.documents[0].statement
    if document.role is Role.COORDINATOR:
        return trust.following_coordinator(chain, now)
    return trust.following(document.name, chain, now)


@trust_app.command("show")
@printed
def show_trust(file: TrustFile = TRUST_FILE) -> Answer:
    """What the file pins."""
    trust = read_trust(file)
    rows = [["coordinator", "", pinned, ""] for pinned in trust.coordinator]
    rows += [
        [item.id, item.operator or "unknown", pin.fingerprint, _state(pin)]
        for item in trust.aggregators
        for pin in item.fingerprints
    ]
    columns = ["party", "operator", "fingerprint", ""]
    document = trust.model_dump(mode="json", by_alias=True, exclude_none=True)
    return tabled(document, f"Deployment {trust.deployment}", columns, rows)


def _state(pin: Pinned) -> str:
    if pin.compromised:
        return "stolen"
    return "" if pin.until is None else f"until {format_instant(pin.until)}"


def _of(file: Path, deployment: str) -> Trust | None:
    """The content of the file, if it exists. Fails if it is of another deployment."""
    if not file.exists():
        return None
    trust = read_trust(file)
    if trust.deployment != deployment:
        fail(f"{file} is of deployment {trust.deployment}, not {deployment}")
    return trust


def _written(file: Path, trust: Trust, text: str) -> Answer:
    """Write the file; its content, and the text for people."""
    document = trust.model_dump_json(by_alias=True, exclude_none=True, indent=2)
    file.write_text(f"{document}\n", encoding="utf-8")
    return Answer(json.loads(document), lambda: say(text, markup=False))


# Spec: keys, section 7. A join token that one operator bundled may name aggregators that do not
# exist. A victim cannot detect that inside the network, only by a line that the true operators
# publish elsewhere.

anchors_app = typer.Typer(
    no_args_is_help=True, help="One line that identifies all services, for comparison."
)


@dataclass(frozen=True)
class _Anchors:
    """Fingerprints of a deployment."""

    deployment: str
    coordinator: bytes
    aggregators: Mapping[str, bytes]


@anchors_app.callback()
def _group() -> None:
    """One line that identifies all services, for comparison."""


@anchors_app.command("show")
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
    """Print the line. It is the same for everyone with the same identities."""
    sources = [source for source in (join, file, url) if source is not None]
    if len(sources) != 1:
        fail("give one of --join, --file and --url")
    if join is not None:
        anchors = _of_join(JoinToken.from_text(join.read_text("ascii").strip()))
    elif file is not None:
        anchors = _of_trust(read_trust(file))
    else:
        assert url is not None
        anchors = _of_aggregator(url, token)
    line = anchors_line(anchors.deployment, anchors.coordinator, anchors.aggregators)
    shown: dict[str, Any] = {
        "deployment": anchors.deployment,
        "coordinator": anchors.coordinator.hex(),
        "aggregators": {name: pin.hex() for name, pin in sorted(anchors.aggregators.items())},
        "line": line,
    }
    rows = [["coordinator", shown["coordinator"]], *map(list, shown["aggregators"].items())]

    def human() -> None:
        typer.echo(line)
        console.print(TextTable(f"Deployment {anchors.deployment}", ["party", "fingerprint"], rows))

    return Answer(shown, human)


@anchors_app.command("list")
@at_target
def list_anchors(target: Target) -> Answer:
    """List the services as the parties of a curator service know them (--url, --token of its
    operator)."""
    with _curators(target) as client:
        response = client.trust.anchors()["anchors"]
    rows = [
        [
            anchor["role"],
            anchor["name"],
            anchor["fingerprint"],
            "FORKED" if anchor["forked"] else "",
        ]
        for anchor in response
    ]
    return tabled(response, "Anchors", ["role", "name", "key", ""], rows)


@anchors_app.command("drop")
@at_target
def drop(
    target: Target, name: Annotated[str, typer.Argument(help="The aggregator's id.")]
) -> Answer:
    """Forget an aggregator whose keys are lost: the parties of a curator service no longer
    participate in its rounds (--url, --token of its operator)."""
    with _curators(target) as client:
        client.trust.drop_anchor(name)
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
    with Client(url, token, verify=trusted(url)) as client:
        statement = client.get("/.well-known/tacit-aggregator")
        paired = client.get("/v1/coordinator")
        pins = client.get("/v1/peers")["peers"]
    aggregators = {item["id"]: bytes.fromhex(item["fingerprint"]) for item in pins}
    aggregators[statement["id"]] = bytes.fromhex(statement["fingerprint"])
    return _Anchors(paired["deployment"], bytes.fromhex(paired["fingerprint"]), aggregators)


# Two operators pair their services, each at their own. They exchange fingerprints out of band (by
# telephone, on paper), and each command compares one before it trusts: an address proves nothing.

pair_app = typer.Typer(
    no_args_is_help=True, help="Pair aggregators with their coordinator, and pin others."
)

Fingerprint = Annotated[
    str, typer.Option(help="As the other operator gave it: 64 hexadecimal digits, colons allowed.")
]
Address = Annotated[str, typer.Argument(help="Address of the other operator's service.")]


@dataclass(frozen=True)
class Own:
    """Your own service, as options of a command."""

    url: Annotated[str, typer.Option("--url", envvar="TACIT_URL", help="Your own service.")]
    token: Annotated[
        str, typer.Option("--token", envvar="TACIT_TOKEN", help="Your operator's token there.")
    ]

    def client(self) -> Client:
        """A client with the rights of its operator."""
        return Client(self.url, self.token, verify=trusted(self.url))


_DOCUMENTS = ("tacit-aggregator", "tacit-coordinator")


@pair_app.command("show")
@printed
def identity(url: Address) -> Answer:
    """What a service states about itself: name, operator, fingerprint, policy. Nothing is trusted.

    tls_pq: whether its TLS library offers X25519MLKEM768, a quantum-safe key agreement.
    """
    statement = {**_ask(url), "tls_pq": _post_quantum(url)}
    rows = [[key, _text(value)] for key, value in statement.items()]
    return tabled(statement, f"Identity at {url}", ["", ""], rows)


@pair_app.command("coordinator")
@printed
def pair_coordinator(
    coordinator_url: Address,
    fingerprint: Fingerprint,
    own: Own,
    replace: Annotated[bool, typer.Option(help="Replace the pinned coordinator.")] = False,
    overlap_s: Annotated[
        int, typer.Option(min=0, max=604_800, help="Seconds that an earlier token stays valid.")
    ] = 0,
) -> Answer:
    """At an aggregator (--url): pin its coordinator, and print the token to hand over."""
    statement = _ask(coordinator_url, "tacit-coordinator")
    _compare(statement, fingerprint)
    body = {"deployment": statement["deployment"], "identity_key": statement["identity_key"]}
    query = f"?replace={str(replace).lower()}&overlap_s={overlap_s}"
    with own.client() as client:
        answer = client.request("PUT", f"/v1/coordinator{query}", body).json()
    return Answer(answer, lambda: typer.echo(answer["token"]))


@pair_app.command("aggregator")
@printed
def aggregator(
    aggregator_url: Address,
    fingerprint: Fingerprint,
    aggregator_token: Annotated[
        Path, typer.Option(help="File with the token that the aggregator's operator handed over.")
    ],
    own: Own,
) -> Answer:
    """At the coordinator (--url): approve an aggregator, or give it a renewed token."""
    statement = _ask(aggregator_url, "tacit-aggregator")
    _compare(statement, fingerprint)
    body = {
        "url": aggregator_url.rstrip("/"),
        "token": aggregator_token.read_text("ascii").strip(),
        "fingerprint": encode_binary(bytes.fromhex(statement["fingerprint"])),
    }
    with own.client() as client:
        answer = client.post("/v1/aggregators", body)
    return Answer(answer, lambda: console.print(f"paired with {answer['id']}"))


@pair_app.command("list")
@at_coordinator
def list_paired(client: Client) -> Answer:
    """List the coordinator's aggregators, and whether they are reachable."""
    response = list(client.aggregators.list(health=True))
    columns = ["id", "operator", "url", "fingerprint", "now"]
    rows = [[*(item[name] for name in columns[:-1]), _reachability(item)] for item in response]
    return tabled(response, "Aggregators", columns, rows)


def _reachability(response: api.Answer) -> str:
    if not response["reachable"]:
        return str(response["problem"])
    another = response["fingerprint_seen"] != response["fingerprint"]
    return "shows another identity" if another else "reachable"


@pair_app.command("all")
@printed
def everything(
    home: Home = DEFAULT_HOME,
    wait_s: Annotated[
        float, typer.Option(min=0, help="Seconds to wait until all services are ready.")
    ] = 300,
) -> Answer:
    """Pair all services of --home/deployment.json, for one operator who has all their tokens."""
    deployment = Target(home).deployment()
    services = (deployment.coordinator, *deployment.aggregators)
    wait_for_ready(services, wait_s, lambda text: typer.echo(text, err=True))
    pair(deployment)
    names = [service.id for service in deployment.aggregators]
    text = f"the coordinator is paired with {', '.join(names)}"
    return Answer({"paired": names}, lambda: say(text, markup=False))


@pair_app.command("revoke")
@printed
def revoke(
    own: Own,
    aggregator_id: Annotated[
        str | None, typer.Option("--aggregator", help="At the coordinator: the aggregator.")
    ] = None,
) -> Answer:
    """End a pairing on your side: at the coordinator with --aggregator, at an aggregator without.

    Parties of queries that name the aggregator keep waiting for it: close those queries too.
    """
    path = "/v1/coordinator" if aggregator_id is None else f"/v1/aggregators/{aggregator_id}"
    with own.client() as client:
        client.request("DELETE", path)
    return Answer({"revoked": aggregator_id or "coordinator"}, lambda: typer.echo("revoked"))


@pair_app.command("peer")
@printed
def peer(
    name: Annotated[str, typer.Argument(metavar="ID", help="The other aggregator's id.")],
    fingerprint: Annotated[str, typer.Argument(help="As the other operator gave it.")],
    operator: Annotated[str, typer.Option(help="Who runs it, as its rounds state.")],
    own: Own,
    replace: Annotated[bool, typer.Option(help="Replace the pin of this id.")] = False,
) -> Answer:
    """At an aggregator (--url): pin another aggregator. With any pin, it sums only with pins."""
    pinned = encode_binary(bytes.fromhex(digits(fingerprint)))
    body = {"id": name, "fingerprint": pinned, "operator": operator}
    with own.client() as client:
        answer = client.request("PUT", f"/v1/peers?replace={str(replace).lower()}", body).json()
    return Answer(answer, lambda: say(f"{name} of {operator} is pinned", markup=False))


@pair_app.command("peers")
@printed
def peers(own: Own) -> Answer:
    """At an aggregator (--url): list the pinned aggregators."""
    with own.client() as client:
        response = client.get("/v1/peers")["peers"]
    rows = [[item["id"], item["operator"], item["fingerprint"]] for item in response]
    return tabled(response, "Pinned aggregators", ["id", "operator", "fingerprint"], rows)


@pair_app.command("remove-peer")
@printed
def remove_peer(
    name: Annotated[str, typer.Argument(metavar="ID", help="The other aggregator's id.")],
    own: Own,
) -> Answer:
    """At an aggregator (--url): unpin another aggregator.

    Without pins it sums with any aggregator, unless TACIT_PEERS=pinned.
    """
    with own.client() as client:
        client.request("DELETE", f"/v1/peers/{quote(name, safe='')}")
    return Answer({"unpinned": name}, lambda: typer.echo(f"{name} is no longer pinned"))


def _client(url: str, token: str | None = None) -> Client:
    return Client(url, token, verify=trusted(url))


def _ask(url: str, *documents: str) -> dict[str, Any]:
    """The identity document of a service, the first kind that it has."""
    from tacit import Problem

    with _client(url) as client:
        for document in documents or _DOCUMENTS:
            try:
                result: dict[str, Any] = client.get(f"/.well-known/{document}")
            except Problem as problem:
                if problem.status != 404:
                    raise
            else:
                return result
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


def _compare(response: dict[str, Any], fingerprint: str) -> None:
    if not hmac.compare_digest(digits(fingerprint).encode(), str(response["fingerprint"]).encode()):
        seen_fingerprint = response["fingerprint"]
        fail(
            f"the service at that address has another fingerprint: {seen_fingerprint}",
            ExitCode.FAILED,
        )


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    return str(value)
