"""`tacit keys revoke --chain-from`, `tacit keys show`: revoking the identity of a lost service.

Spec: keys, section 5.2. Anyone who has the next pair of an identity can end that identity without
the service: the statement is signed by that pair alone and extends the chain that others have. It
has nothing secret; each service that followed the lost one gets it from its own operator.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from cli.context import Answer, Target, at_target, fail
from cli.services.deployment import trusted
from tacit import Client
from tacit.client.problems import Problem
from tacit.crypto.signing import HybridIdentity
from tacit.protocol.identities import IdentityChain, IdentityDocument, Role, revoked_for
from tacit.wire import format_instant


def revoke(name: str | None, secret: bytes, chain_from: str, out: Path) -> Answer:
    """Write the chain of a service, ended by its revocation. Raises ValueError, DomainError if
    the pair is not the one that was committed to."""
    deployment, chain = _followed(name, chain_from)
    now = datetime.now(UTC).replace(microsecond=0)
    ended = revoked_for(deployment, chain, HybridIdentity(secret), now)
    out.write_text(ended.model_dump_json(by_alias=True, exclude_none=True) + "\n", "utf-8")
    document = ended.documents[-1].statement
    answer_made = {
        "role": document.role,
        "name": document.name,
        "fingerprint": document.fingerprint.hex(),
        "effective": format_instant(now),
        "file": str(out),
    }
    return Answer(answer_made, lambda: typer.echo(_revoked(answer_made)))


@at_target
def show(
    target: Target,
    file: Annotated[
        Path, typer.Argument(help="File from `tacit keys revoke --chain-from`; nothing secret.")
    ],
) -> Answer:
    """Send the chain of a lost service to the services that followed it.

    With --url and --token to one coordinator, aggregator or curator service, by its own operator;
    with --home to all of them. Each of them checks every link.
    """
    try:
        chain = IdentityChain.model_validate_json(file.read_bytes())
    except ValueError:
        raise ValueError(f"{file}: is not a chain of identities") from None
    shown_to, untold = [], []
    for url, client in _services(target, chain.documents[0].statement):
        with client:
            try:
                _show(client, chain)
            except Problem as problem:
                untold.append((url, problem.name))
            except httpx.HTTPError:
                untold.append((url, "no answer"))
            else:
                shown_to.append(url)
    if untold and not shown_to:
        fail("; ".join(f"{url}: {why}" for url, why in untold))
    answer_made = {"shown": shown_to, "untold": [{"url": url, "why": why} for url, why in untold]}
    return Answer(answer_made, lambda: typer.echo(_shown(answer_made)))


def _followed(name: str | None, url: str) -> tuple[str, IdentityChain]:
    """The deployment, and the chain as a follower stores it: a coordinator has that of an
    aggregator, an aggregator that of its coordinator."""
    with Client(url, verify=trusted(url)) as client:
        if publishes(client, "tacit-aggregator"):
            chain = _chain(client.trust.coordinator())
            deployment = chain.documents[0].statement.name
            if name not in (None, deployment):
                raise ValueError(f"{url} is an aggregator: it follows only its coordinator")
            return deployment, chain
        deployment = client.get("/.well-known/tacit-coordinator")["deployment"]
        if name is None:
            raise ValueError("name the lost aggregator")
        return deployment, _chain(client.trust.aggregator(name))


def _show(client: Client, chain: IdentityChain) -> None:
    """Send it to a service that may follow this one. Raises Problem if it does not, ValueError
    for the service itself."""
    document, text = chain.documents[0].statement, chain.model_dump(mode="json", exclude_none=True)
    of_coordinator = document.role is Role.COORDINATOR
    at_aggregator = publishes(client, "tacit-aggregator")
    if at_aggregator and of_coordinator:
        client.trust.show_coordinator(text)
    elif at_aggregator and client.keys.aggregator_identity()["id"] != document.name:
        client.trust.show_peer(document.name, text)
    elif not at_aggregator and not publishes(client, "tacit-coordinator"):
        client.trust.show_anchor(document.name, text)
    elif not at_aggregator and not of_coordinator:
        client.trust.show_aggregator(document.name, text)
    else:
        raise ValueError("this is the service itself: `tacit keys revoke` without --chain-from")


def _services(target: Target, gone: IdentityDocument) -> Sequence[tuple[str, Client]]:
    """The services to send it to: one, or all of a deployment except the lost one."""
    if target.url is not None:
        return [(target.url, Client(target.url, target.token, verify=trusted(target.url)))]
    deployment_found = target.deployment()
    own_name = deployment_found.coordinator.id if gone.role is Role.COORDINATOR else gone.name
    services = (
        deployment_found.coordinator,
        *deployment_found.aggregators,
        deployment_found.curator,
    )
    return [(service.url, service.client()) for service in services if service.id != own_name]


def _chain(shown: Any) -> IdentityChain:
    return IdentityChain.model_validate_json(json.dumps(shown))


def publishes(client: Client, document: str) -> bool:
    """Whether a service publishes this document: which kind it is."""
    try:
        client.get(f"/.well-known/{document}")
    except Problem as problem:
        if problem.status != 404:
            raise
        return False
    return True


def _revoked(revoked: dict[str, Any]) -> str:
    return (
        f"{revoked['name']}: document {revoked['fingerprint']} is revoked in {revoked['file']}, "
        "which has nothing secret: every operator of a service that followed it gives it to "
        "`tacit keys show`"
    )


def _shown(response: dict[str, Any]) -> str:
    lines = [f"{url} refuses the service from now on" for url in response["shown"]]
    lines += [
        f"{failure['url']} does not know of it: {failure['why']}" for failure in response["untold"]
    ]
    return "\n".join(lines)
