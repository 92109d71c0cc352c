"""`tacit keys next`, `rotate identity`, `confirm`: a service's identity is replaced by command.

Spec: keys, section 5. The private halves of the next pair lie in a sealed file that the service
never has until they are needed; its public halves lie beside it, in `FILE.pub`. Each command can be
given again after it was killed: a file that is there is used as it is.
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from cli import gone_services
from cli.archives.envelope import Sealer
from cli.archives.pairs import CONTENT, opened_pair
from cli.backup import PassphraseFile, opening_holder, sealing_holder
from cli.context import Answer, Target, at_target, digits
from cli.deployment import trusted
from tacit import Client
from tacit.client.problems import Problem
from tacit.crypto.hybrid_signing import HybridIdentity, HybridPublicKey
from tacit.wire import encode_binary

_LEFT: Final = (
    "\ntokens of parties and of the coordinator ended here, and are renewed by their identities; "
    "those of people, devices and owners are as before: `tacit token end` ends them"
)
Service = Annotated[
    str | None,
    typer.Argument(help="An aggregator of --home, or `coordinator`; not with --url."),
]
Recipient = Annotated[
    str | None, typer.Option(help="Public key as `tacit recipient-key` printed it.")
]


@at_target
def next_key(
    target: Target,
    service: Service = None,
    out: Annotated[
        Path, typer.Option(help="The file to make, sealed; keep it where the service is not.")
    ] = Path("next.key"),
    recipient: Recipient = None,
    passphrase_file: PassphraseFile = None,
) -> Answer:
    """Make the pair of keys that will follow the identity of a coordinator or an aggregator, and
    commit to it.

    Once for each service: each `tacit keys rotate identity` makes the pair after it.
    """
    with _service(target, service) as client:
        public = _made(out, recipient, passphrase_file)
        found = client.commit_next_key(public.model_dump(mode="json"))
    return Answer({**found, "file": str(out)}, lambda: typer.echo(_committed(found, out)))


@at_target
def rotate_identity(
    target: Target,
    service: Service = None,
    next: Annotated[  # noqa: A002 - the option's name
        Path, typer.Option(help="File with the next pair, as it was made.")
    ] = Path("next.key"),
    following: Annotated[
        Path, typer.Option(help="The file to make with the pair after it, sealed.")
    ] = Path("following.key"),
    key: Annotated[
        Path | None, typer.Option(help="The private key that opens --next, for a recipient's.")
    ] = None,
    recipient: Recipient = None,
    passphrase_file: PassphraseFile = None,
    compromised: Annotated[
        bool,
        typer.Option(
            "--compromised",
            help="The old key may be stolen: refused at once; rounds that name it abort.",
        ),
    ] = False,
    overlap_s: Annotated[
        int,
        typer.Option(min=0, max=2_592_000, help="How long the old identity is accepted beside."),
    ] = 604_800,
) -> Answer:
    """Replace an identity by the pair that the service committed to, while rounds run.

    The same command again after a crash goes on.
    """
    with _service(target, service) as client:
        secret = opened_pair(next, opening_holder(key, passphrase_file))
        public = _made(following, recipient, passphrase_file)
        found = client.rotate_identity(
            encode_binary(secret),
            public.model_dump(mode="json"),
            compromised=compromised,
            overlap_s=overlap_s,
        )
    said = {**found, "file": str(following)}
    left = _LEFT if compromised else ""
    return Answer(said, lambda: typer.echo(_rotated(found, next, following) + left))


@at_target
def revoke_identity(
    target: Target,
    service: Service = None,
    next: Annotated[  # noqa: A002 - the option's name
        Path, typer.Option(help="File with the next pair, as it was made.")
    ] = Path("next.key"),
    key: Annotated[
        Path | None, typer.Option(help="The private key that opens --next, for a recipient's.")
    ] = None,
    passphrase_file: PassphraseFile = None,
    compromised: Annotated[
        bool, typer.Option("--compromised", help="Also what it signed before may be a thief's.")
    ] = False,
    chain_from: Annotated[
        str | None,
        typer.Option(
            help="The service is gone: who followed it, an aggregator's coordinator or one of a "
            "coordinator's aggregators. The revocation is written to a file."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="With --chain-from: the file, for `tacit keys show`.")
    ] = Path("revoked.json"),
) -> Answer:
    """End the identity of a coordinator or an aggregator for good, without another one.

    Its rounds abort, its keys are destroyed, and all who follow it refuse it. It cannot be undone.
    """
    if chain_from is not None:
        return gone_services.revoke(
            service, opened_pair(next, opening_holder(key, passphrase_file)), chain_from, out
        )
    with _service(target, service) as client:
        secret = encode_binary(opened_pair(next, opening_holder(key, passphrase_file)))
        found = client.revoke_identity(secret, compromised=compromised)
    untold = "".join(f"\n{name} does not know of it yet" for name in found.get("untold", ()))
    said = f"document {found['fingerprint']} is revoked since {found['effective']}{untold}"
    return Answer(found, lambda: typer.echo(said))


@at_target
def confirm(
    target: Target,
    service: Annotated[
        str, typer.Argument(help="Whose identity it is: an aggregator's id, or the deployment's.")
    ],
    fingerprint: Annotated[
        str, typer.Argument(help="Of its new document, as its operator reads it out.")
    ],
) -> Answer:
    """Confirm a service's new identity: at the coordinator, or with --url at an aggregator or a
    curator service.

    Needed after `key_change_unconfirmed` and `identity_forked`.
    """
    compared = encode_binary(bytes.fromhex(digits(fingerprint)))
    if target.url is None:
        with target.deployment().coordinator.client() as client:
            found = client.confirm_identity(service, compared)
    else:
        with Client(target.url, target.token, verify=trusted(target.url)) as client:
            found = _confirmed_at(client, service, compared)
    said = f"{service}: {found['fingerprint']} is the key of the identity from now on"
    return Answer(found, lambda: typer.echo(said))


def _confirmed_at(client: Client, service: str, compared: str) -> dict[str, Any]:
    """Confirmed by what answers: an aggregator (its coordinator, or a pinned peer), a coordinator
    (an aggregator), or a curator service."""
    if _shows(client, "tacit-aggregator"):
        if service == client.get("/v1/coordinator")["deployment"]:
            return dict(client.confirm_coordinator(compared))
        return dict(client.confirm_peer(service, compared))
    if _shows(client, "tacit-coordinator"):
        return dict(client.confirm_identity(service, compared))
    return dict(client.confirm_anchor(service, compared)["anchors"][0])


def _shows(client: Client, document: str) -> bool:
    try:
        client.get(f"/.well-known/{document}")
    except Problem as problem:
        if problem.status != 404:
            raise
        return False
    return True


def _service(target: Target, name: str | None) -> Client:
    """The service that is meant. Raises ValueError unless it is one."""
    if target.url is not None:
        return Client(target.url, target.token, verify=trusted(target.url))
    deployment = target.deployment()
    services = {each.id: each for each in (deployment.coordinator, *deployment.aggregators)}
    if name not in services:
        raise ValueError(f"name one service: {', '.join(services)}")
    return services[name].client()


def _made(file: Path, recipient: str | None, passphrase_file: Path | None) -> HybridPublicKey:
    """The public halves of a pair that is made and sealed into a file; of the file that is there
    already. The public halves come last: without them the pair was told to nobody."""
    beside = file.with_name(f"{file.name}.pub")
    if beside.exists() and file.exists():
        return HybridPublicKey.model_validate_json(beside.read_bytes())
    if file.exists() or beside.exists():
        found = file if file.exists() else beside
        raise ValueError(f"{found}: one of two files; nobody knows this pair: remove it")
    holder = sealing_holder(recipient, passphrase_file)
    pair, sealed = HybridIdentity.generate(), io.BytesIO()
    sealer = Sealer(sealed, holder)
    sealer.write(CONTENT + pair.to_bytes())
    sealer.finish()
    _write(file, sealed.getvalue())
    _write(beside, json.dumps(pair.public.model_dump(mode="json")).encode() + b"\n")
    return pair.public


def _write(file: Path, content: bytes) -> None:
    """A new file of mode 0600, whole or not there."""
    part = file.with_name(f"{file.name}.part")
    part.unlink(missing_ok=True)
    opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    part.rename(file)
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _committed(found: dict[str, Any], out: Path) -> str:
    return (
        f"committed: identity {found['serial']}, document {found['fingerprint']}\n"
        f"the next pair is sealed in {out}: keep it where the service is not, and make a backup"
    )


def _rotated(found: dict[str, Any], used: Path, following: Path) -> str:
    untold = "".join(f"{name} does not know of it yet\n" for name in found.get("untold", ()))
    return (
        f"identity {found['serial']}: key {found['key_fingerprint']}, document "
        f"{found['fingerprint']}\n{untold}"
        f"the pair after it is sealed in {following}: keep it where the service is not; make a "
        f"backup, and remove {used} and backups from before"
    )
