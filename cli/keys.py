"""`tacit keys`: fingerprints of identities, trial certificates, and the rotation of long-lived
keys: of storage, of sealing, and the identities of services and parties.

`tacit keys rotate party`: identities of lone curators and hosts are replaced by command.

Spec: keys, section 5.2. Asked of the curator service that holds their private keys, which makes the
next ones itself: a party commits to none.
"""

from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from cli import ended_identities
from cli.context import (
    DEFAULT_HOME,
    Answer,
    Home,
    Target,
    at_coordinator,
    at_curator,
    at_target,
    digits,
    fail,
    plain_errors,
    printed,
    progress,
    say,
    tabled,
)
from cli.services import config
from cli.services.backup import PassphraseFile, opening_holder, sealing_holder
from cli.services.deployment import trusted
from cli.services.sealed_files import CONTENT, Sealer, opened_pair
from tacit import Client
from tacit.answers import base as api
from tacit.answers.curator import WaitingReplacement
from tacit.answers.registry import StorageKeyState
from tacit.client.problems import Problem
from tacit.crypto.signing import HybridIdentity, HybridPublicKey
from tacit.wire import encode_binary, parse_binary

_LOOK_S: Final = 0.5


@at_curator
def rotate_party(
    client: Client,
    parties: Annotated[
        list[str] | None, typer.Argument(help="Lone curators or hosts; all of them unless named.")
    ] = None,
    overlap_s: Annotated[
        int,
        typer.Option(
            min=600, max=2_592_000, help="How long what the old identity sealed is accepted."
        ),
    ] = 604_800,
    wait_s: Annotated[
        float, typer.Option(min=0, help="How long to wait until every service knows it.")
    ] = 600,
    compromised: Annotated[
        Path | None,
        typer.Option(
            metavar="JOIN_TOKEN",
            help="The old key may be stolen: file with a join token of `enroll token --replaces`.",
        ),
    ] = None,
) -> Answer:
    """Replace identities of the parties of a curator service, while rounds run.

    The same command again replaces them once more; what a crash left goes on by itself.
    """
    if compromised is not None:
        if not parties or len(parties) != 1:
            raise ValueError("name the one party whose key may be stolen")
        found = client.enrol_again(parties[0], compromised.read_text("ascii").strip())
        said = f"{parties[0]} has another identity, and new tokens at every service"
        return Answer(found, lambda: typer.echo(said))
    begun = client.rotate_parties(parties or None, overlap_s=overlap_s)["begun"]
    waiting = _parties_waited(client, wait_s)
    if waiting:
        typer.echo("\n".join(_problem(each) for each in waiting[:10]), err=True)
        fail(f"{len(waiting)} identities wait: the curator service goes on showing them")
    return Answer({"begun": begun}, lambda: typer.echo(f"identities replaced: {begun}"))


def _parties_waited(client: Client, wait_s: float) -> list[WaitingReplacement]:
    ends = time.monotonic() + wait_s
    with progress() as bar:
        waiting = client.waiting_parties()
        task = bar.add_task("replacing identities", total=max(1, len(waiting)))
        while waiting and time.monotonic() < ends:
            time.sleep(_LOOK_S)
            waiting = client.waiting_parties()
            bar.update(task, completed=(bar.tasks[0].total or 0) - len(waiting))
    return waiting


def _problem(found: WaitingReplacement) -> str:
    said = ", ".join(f"{name}: {problem}" for name, problem in sorted(found["problems"].items()))
    return f"{found['party']}: {said or 'not tried yet'}"


# `tacit keys next`, `rotate identity`, `confirm`: a service's identity is replaced by command.
#
# Spec: keys, section 5. The private halves of the next pair lie in a sealed file that the service
# never has until they are needed; its public halves lie beside it, in `FILE.pub`. Each command can
# be given again after it was killed: a file that is there is used as it is.

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
        return ended_identities.revoke(
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
            found = dict(client.confirm_identity(service, compared))
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


def _committed(found: api.Answer, out: Path) -> str:
    return (
        f"committed: identity {found['serial']}, document {found['fingerprint']}\n"
        f"the next pair is sealed in {out}: keep it where the service is not, and make a backup"
    )


def _rotated(found: api.Answer, used: Path, following: Path) -> str:
    untold = "".join(f"{name} does not know of it yet\n" for name in found.get("untold", ()))
    return (
        f"identity {found['serial']}: key {found['key_fingerprint']}, document "
        f"{found['fingerprint']}\n{untold}"
        f"the pair after it is sealed in {following}: keep it where the service is not; make a "
        f"backup, and remove {used} and backups from before"
    )


# `tacit keys rotate`: long-lived keys are replaced while the services run.

rotate_app = typer.Typer(no_args_is_help=True, help="Replace long-lived keys.")


@rotate_app.command("storage")
@at_coordinator
def storage(
    client: Client,
    new_key_file: Annotated[
        Path, typer.Option(help="File with the new key: 32 bytes in base64url, on its first line.")
    ],
    wait_s: Annotated[
        float, typer.Option(min=0, help="How long to wait until everything is sealed anew.")
    ] = 86_400,
) -> Answer:
    """Seal all that a coordinator keeps with a new storage key. The same command again goes on."""
    lines = new_key_file.read_text("ascii").split()
    if not lines or len(parse_binary(lines[0])) != 32:
        raise ValueError(f"{new_key_file}: a storage key is 32 bytes in base64url")
    found = client.rotate_storage_key(lines[0].rstrip("="))
    found = _waited(client, found, wait_s)
    if found["state"] != "idle":
        fail(f"{found['left']} not sealed anew yet: the same command again goes on waiting")
    return Answer(found, lambda: typer.echo(_done(found)))


@rotate_app.command("seal-key")
@at_target
def seal_key(
    target: Target,
    aggregator: Annotated[
        str | None,
        typer.Argument(help="Which aggregator of --home; all of them unless given."),
    ] = None,
    destroy: Annotated[
        bool,
        typer.Option(
            "--destroy",
            help="Destroy the old keys now, as one may have leaked; rounds that name them abort.",
        ),
    ] = False,
) -> Answer:
    """Make a new seal key at aggregators; the one before opens no new round.

    With --url and --token at that aggregator, by its own operator.
    """
    found = []
    for name, client in _aggregators(target, aggregator):
        with client:
            found.append({"aggregator": name, **client.rotate_seal_key(destroy=destroy)})
    return Answer(found, lambda: typer.echo("\n".join(_rotated_by(each) for each in found)))


rotate_app.command("identity")(rotate_identity)
rotate_app.command("party")(rotate_party)


def _aggregators(target: Target, name: str | None) -> list[tuple[str, Client]]:
    """The aggregators that are meant. Raises ValueError for a name that --home does not know."""
    if target.url is not None:
        client = Client(target.url, target.token, verify=trusted(target.url))
        return [(client.aggregator_identity()["id"], client)]
    services = target.deployment().aggregators
    chosen = [service for service in services if name in (None, service.id)]
    if not chosen:
        known = ", ".join(service.id for service in services)
        raise ValueError(f"there is no aggregator {name}: one of {known}")
    return [(service.id, service.client()) for service in chosen]


def _rotated_by(found: dict[str, Any]) -> str:
    old = ", ".join(str(number) for number in found["retired"]) or "none"
    end = "destroyed" if found["destroyed"] else "no new round is opened with it"
    return f"{found['aggregator']}: seal key {found['number']} in place of {old} ({end})"


def _waited(client: Client, found: StorageKeyState, wait_s: float) -> StorageKeyState:
    ends = time.monotonic() + wait_s
    with progress() as bar:
        task = bar.add_task("sealing anew", total=max(1, found["left"]))
        while found["state"] != "idle" and time.monotonic() < ends:
            time.sleep(_LOOK_S)
            found = client.storage_key()
            bar.update(task, completed=(bar.tasks[0].total or 0) - found["left"])
    return found


def _done(found: StorageKeyState) -> str:
    sealed = f"everything is sealed with the storage key of generation {found['generation']}"
    if found["kept_in"] == "settings":
        return f"{sealed}; remove the second line of TACIT_STORAGE_KEY_FILE at every replica"
    return f"{sealed}, in {found['kept_in']} of the data directory; the key before is destroyed"


# `tacit keys`: identities with their fingerprints, and certificates for trials of TLS.

app = typer.Typer(
    no_args_is_help=True, help="Identities, their fingerprints, and rotation of keys."
)
app.add_typer(rotate_app, name="rotate")
app.command("next")(next_key)
app.command("confirm")(confirm)
app.command("revoke")(revoke_identity)
app.command("show")(ended_identities.show)


@app.command("list")
@printed
def listing(home: Home = DEFAULT_HOME) -> Answer:
    """The fingerprint of every identity, and whether the coordinator knows it as shown."""
    deployment = Target(home).deployment()
    with deployment.coordinator.client() as client:
        own = client.get("/.well-known/tacit-coordinator")["fingerprint"]
        known = {
            item["id"]: item["fingerprint"] for item in client.get("/v1/aggregators")["aggregators"]
        }
    found = [{"service": "coordinator", "fingerprint": own, "paired": True}]
    for service in deployment.aggregators:
        with service.client() as client:
            shown = client.get("/.well-known/tacit-aggregator")["fingerprint"]
        paired = known.get(service.id) == shown
        found.append({"service": service.id, "fingerprint": shown, "paired": paired})
    rows = [
        [item["service"], item["fingerprint"], "yes" if item["paired"] else "NO"] for item in found
    ]
    return tabled(found, "Identities", ["service", "fingerprint", "paired"], rows)


@app.command("dev-ca")
def dev_ca(
    services: Annotated[
        list[str],
        typer.Argument(help="A service's names and addresses, with commas; the first names files."),
    ],
    out: Annotated[Path, typer.Option(help="Directory for the PEM files.")] = Path("tls"),
    days: Annotated[int, typer.Option(min=1, max=825, help="How long they are good.")] = 90,
) -> None:
    """A certificate authority for trials, and a certificate for each service; again renews them.

    Example: `tacit keys dev-ca coordinator,127.0.0.1 aggregator-1,10.0.0.5`
    """
    with plain_errors():
        made = config.prepare(out, [each.split(",") for each in services], days)
    say(f"TACIT_TLS_AUTHORITY={out / 'authority.pem'}")
    for path in made:
        say(f"{path} with {path.with_suffix('.key').name}")
