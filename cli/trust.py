"""`tacit trust`: the identities that you know from elsewhere, in a file of your own.

`tacit round verify --trust FILE` believes these and no other. What a coordinator says of its
aggregators never enters the file.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from cli.context import Answer, digits, fail, plain_errors, printed, tabled
from cli.deployment import trusted
from tacit import Client, Problem
from tacit.field_words import first_of
from tacit.protocol.enrolment import JoinToken
from tacit.protocol.identities import IdentityChain, Role
from tacit.protocol.trust import Pinned, Trust
from tacit.wire import format_instant

app = typer.Typer(
    no_args_is_help=True, help="Identities known from elsewhere, which a verification pins."
)

TrustFile = Annotated[
    Path, typer.Option("--file", envvar="TACIT_TRUST", help="The trust file; made if needed.")
]
Name = Annotated[str, typer.Argument(help="The aggregator's id.")]
Given = Annotated[
    str, typer.Argument(help="As its operator gave it: 64 hexadecimal digits, colons allowed.")
]
DEFAULT_FILE = Path("tacit-trust.json")


def read_trust(path: Path) -> Trust:
    """A trust file. Raises OSError, ValueError."""
    try:
        return Trust.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ValueError(f"{path}: no trust file (tacit.trust/1): {first_of(error)}") from None


@app.command("from-join")
def from_join(
    token: Annotated[str, typer.Argument(help="A join token; its secrets are not kept.")],
    file: TrustFile = DEFAULT_FILE,
) -> None:
    """Pin the coordinator and every aggregator of a join token that you got out of band."""
    with plain_errors():
        join = JoinToken.from_text(token)
        deployment, pinned = join.coordinator.party, join.coordinator.fingerprint.hex()
        trust = _of(file, deployment) or Trust(deployment=deployment, coordinator=(pinned,))
        trust = trust.pinning_coordinator(pinned)
        for grant in join.aggregators:
            trust = trust.pinning(grant.party, grant.fingerprint.hex())
        _write(file, trust)
    typer.echo(f"{len(join.aggregators)} aggregators and the coordinator pinned in {file}")


@app.command("coordinator")
def coordinator(
    deployment: Annotated[str, typer.Argument(help="The deployment's name.")],
    fingerprint: Given,
    file: TrustFile = DEFAULT_FILE,
) -> None:
    """Pin a deployment's coordinator."""
    with plain_errors():
        pinned = digits(fingerprint)
        trust = _of(file, deployment) or Trust(deployment=deployment, coordinator=(pinned,))
        _write(file, trust.pinning_coordinator(pinned))
    typer.echo(f"coordinator pinned in {file}")


@app.command("add")
def add(
    name: Name,
    fingerprint: Given,
    operator: Annotated[str | None, typer.Option(help="Who runs it, as you know it.")] = None,
    file: TrustFile = DEFAULT_FILE,
) -> None:
    """Pin an aggregator, and who runs it. The coordinator is pinned first."""
    with plain_errors():
        pinned = digits(fingerprint)
        _write(file, read_trust(file).pinning(name, pinned, operator))
    typer.echo(f"{name} pinned in {file}")


@app.command("compromised")
def compromised(name: Name, fingerprint: Given, file: TrustFile = DEFAULT_FILE) -> None:
    """Mark an aggregator's identity as stolen: no round that rests on it is verified any more."""
    with plain_errors():
        _write(file, read_trust(file).compromising(name, digits(fingerprint)))
    typer.echo(f"{name}: marked in {file}")


@app.command("refresh")
def refresh(
    urls: Annotated[
        list[str],
        typer.Argument(
            help="Addresses of the coordinator and of aggregators; files of `tacit keys revoke`."
        ),
    ],
    file: TrustFile = DEFAULT_FILE,
) -> None:
    """Add the identities that follow from those that are pinned, and say until when these hold.

    Each link is signed by the pair to which the identity before committed: no service is believed.
    """
    with plain_errors():
        trust = read_trust(file)
        for url in urls:
            trust = _refreshed(trust, url)
        _write(file, trust)
    typer.echo(f"{file} has what follows from its identities")


def _refreshed(trust: Trust, url: str) -> Trust:
    """With what one service, or a file, shows of identities."""
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
    return trust  # its identity is a key alone, or an older release's: nothing follows from it


def _following(trust: Trust, chain: IdentityChain, now: datetime) -> Trust:
    document = chain.documents[0].statement
    if document.role is Role.COORDINATOR:
        return trust.following_coordinator(chain, now)
    return trust.following(document.name, chain, now)


@app.command("show")
@printed
def show_trust(file: TrustFile = DEFAULT_FILE) -> Answer:
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
    """The file's content, if there is one; it must be of this deployment."""
    if not file.exists():
        return None
    trust = read_trust(file)
    if trust.deployment != deployment:
        fail(f"{file} is of deployment {trust.deployment}, not {deployment}")
    return trust


def _write(file: Path, trust: Trust) -> None:
    document = trust.model_dump_json(by_alias=True, exclude_none=True, indent=2)
    file.write_text(f"{document}\n", encoding="utf-8")
