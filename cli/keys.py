"""`tacit keys`: fingerprints of identities, trial certificates, and the rotation of long-lived
keys: of storage, of sealing, and the identities of services and parties.

Spec: keys, section 5. A service commits to its next pair of keys; a party commits to none, so its
curator service makes the next identity itself.
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
    ExitCode,
    Home,
    Target,
    at_coordinator,
    at_curator,
    at_target,
    digits,
    fail,
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
            min=600,
            max=2_592_000,
            help="Seconds that pieces sealed by the old identity are accepted.",
        ),
    ] = 604_800,
    wait_s: Annotated[
        float, typer.Option(min=0, help="Seconds to wait until every service knows it.")
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

    Running it again replaces them once more. After a crash the service continues by itself.
    """
    if compromised is not None:
        if not parties or len(parties) != 1:
            raise ValueError("name the one party whose key may be stolen")
        response = client.parties.enrol_again(parties[0], compromised.read_text("ascii").strip())
        sentence = f"{parties[0]} has a new identity, and new tokens at every service"
        return Answer(response, lambda: typer.echo(sentence))
    begun = client.parties.rotate(parties or None, overlap_s=overlap_s)["begun"]
    waiting = _parties_waited(client, wait_s)
    if waiting:
        typer.echo("\n".join(_problem(problem) for problem in waiting[:10]), err=True)
        text = f"{len(waiting)} identities wait: the curator service keeps trying to announce them"
        fail(text, ExitCode.NOT_READY)
    return Answer({"begun": begun}, lambda: typer.echo(f"identities replaced: {begun}"))


def _parties_waited(client: Client, wait_s: float) -> list[WaitingReplacement]:
    ends = time.monotonic() + wait_s
    with progress() as bar:
        waiting = client.parties.waiting()
        task = bar.add_task("replacing identities", total=max(1, len(waiting)))
        while waiting and time.monotonic() < ends:
            time.sleep(_LOOK_S)
            waiting = client.parties.waiting()
            bar.update(task, completed=(bar.tasks[0].total or 0) - len(waiting))
    return waiting


def _problem(response: api.Answer) -> str:
    problems = ", ".join(
        f"{name}: {problem}" for name, problem in sorted(response["problems"].items())
    )
    return f"{response['party']}: {problems or 'not tried yet'}"


# The private halves of the next pair are in a sealed file that the service does not have until they
# are needed; the public halves are next to it, in `FILE.pub`. Every command can be repeated after a
# crash: an existing file is used as it is.

_LEFT: Final = (
    "\ntokens of parties and of the coordinator are revoked here, and renewed with their "
    "identities; those of people, devices and owners stay valid: `tacit token end` revokes them"
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
        Path, typer.Option(help="The sealed file to write; keep it away from the service.")
    ] = Path("next.key"),
    recipient: Recipient = None,
    passphrase_file: PassphraseFile = None,
) -> Answer:
    """Make the next pair of keys of a coordinator or an aggregator, and commit to it.

    Once for each service: each `tacit keys rotate identity` makes the pair after it.
    """
    with target.service(service, curators=False) as client:
        public = _made(out, recipient, passphrase_file)
        response = client.keys.commit_next(public.model_dump(mode="json"))
    return Answer({**response, "file": str(out)}, lambda: typer.echo(_committed(response, out)))


@at_target
def rotate_identity(
    target: Target,
    service: Service = None,
    next: Annotated[  # noqa: A002 - the option's name
        Path, typer.Option(help="File with the next pair, from `tacit keys next`.")
    ] = Path("next.key"),
    following: Annotated[
        Path, typer.Option(help="The sealed file to write with the pair after it.")
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
            help="The old key may be stolen: it is refused immediately; rounds that name it abort.",
        ),
    ] = False,
    overlap_s: Annotated[
        int,
        typer.Option(min=0, max=2_592_000, help="Seconds that the old identity is also accepted."),
    ] = 604_800,
) -> Answer:
    """Replace an identity by the pair that the service committed to, while rounds run.

    After a crash, run the same command again.
    """
    with target.service(service, curators=False) as client:
        secret = opened_pair(next, opening_holder(key, passphrase_file))
        public = _made(following, recipient, passphrase_file)
        response = client.keys.rotate_identity(
            encode_binary(secret),
            public.model_dump(mode="json"),
            compromised=compromised,
            overlap_s=overlap_s,
        )
    answer_made = {**response, "file": str(following)}
    remainder = _LEFT if compromised else ""
    return Answer(answer_made, lambda: typer.echo(_rotated(response, next, following) + remainder))


@at_target
def revoke_identity(
    target: Target,
    service: Service = None,
    next: Annotated[  # noqa: A002 - the option's name
        Path, typer.Option(help="File with the next pair, from `tacit keys next`.")
    ] = Path("next.key"),
    key: Annotated[
        Path | None, typer.Option(help="The private key that opens --next, for a recipient's.")
    ] = None,
    passphrase_file: PassphraseFile = None,
    compromised: Annotated[
        bool, typer.Option("--compromised", help="Earlier signatures may be a thief's, too.")
    ] = False,
    chain_from: Annotated[
        str | None,
        typer.Option(
            help="The service is lost: address of a service that followed it, an aggregator's "
            "coordinator or one of a coordinator's aggregators; the revocation goes to a file."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="With --chain-from: the file, for `tacit keys show`.")
    ] = Path("revoked.json"),
) -> Answer:
    """Revoke the identity of a coordinator or an aggregator permanently, without a new one.

    Its rounds abort, its keys are destroyed, and all who follow it refuse it. It cannot be undone.
    """
    if chain_from is not None:
        return ended_identities.revoke(
            service, opened_pair(next, opening_holder(key, passphrase_file)), chain_from, out
        )
    with target.service(service, curators=False) as client:
        secret = encode_binary(opened_pair(next, opening_holder(key, passphrase_file)))
        response = client.keys.revoke_identity(secret, compromised=compromised)
    untold = "".join(f"\n{name} does not know of it yet" for name in response.get("untold", ()))
    sentence = (
        f"document {response['fingerprint']} is revoked since {response['effective']}{untold}"
    )
    return Answer(response, lambda: typer.echo(sentence))


@at_target
def confirm(
    target: Target,
    service: Annotated[
        str, typer.Argument(help="The service: an aggregator's id, or the deployment's name.")
    ],
    fingerprint: Annotated[
        str, typer.Argument(help="Fingerprint of its new document, as its operator reads it out.")
    ],
) -> Answer:
    """Confirm a service's new identity: at the coordinator, or with --url at an aggregator or a
    curator service.

    Needed after `key_change_unconfirmed` and `identity_forked`.
    """
    compared = encode_binary(bytes.fromhex(digits(fingerprint)))
    if target.url is None:
        with target.deployment().coordinator.client() as client:
            response = dict(client.trust.confirm_aggregator(service, compared))
    else:
        with Client(target.url, target.token, verify=trusted(target.url)) as client:
            response = _confirmed_at(client, service, compared)
    sentence = f"{service}: {response['fingerprint']} is the key of the identity from now on"
    return Answer(response, lambda: typer.echo(sentence))


def _confirmed_at(client: Client, service: str, compared: str) -> dict[str, Any]:
    """Confirm at the service that answers: an aggregator (its coordinator, or a pinned peer), a
    coordinator (an aggregator), or a curator service."""
    if ended_identities.publishes(client, "tacit-aggregator"):
        if service == client.get("/v1/coordinator")["deployment"]:
            return dict(client.trust.confirm_coordinator(compared))
        return dict(client.trust.confirm_peer(service, compared))
    if ended_identities.publishes(client, "tacit-coordinator"):
        return dict(client.trust.confirm_aggregator(service, compared))
    return dict(client.trust.confirm_anchor(service, compared)["anchors"][0])


def _made(file: Path, recipient: str | None, passphrase_file: Path | None) -> HybridPublicKey:
    """Make a pair, seal it into a file, and return its public halves; an existing file is read
    instead. The public halves are written last: without them the pair was never announced."""
    beside = file.with_name(f"{file.name}.pub")
    if beside.exists() and file.exists():
        return HybridPublicKey.model_validate_json(beside.read_bytes())
    if file.exists() or beside.exists():
        existing = file if file.exists() else beside
        raise ValueError(f"{existing}: its twin is missing, so this pair was never used: remove it")
    holder = sealing_holder(recipient, passphrase_file)
    pair, sealed = HybridIdentity.generate(), io.BytesIO()
    sealer = Sealer(sealed, holder)
    sealer.write(CONTENT + pair.to_bytes())
    sealer.finish()
    _write(file, sealed.getvalue())
    _write(beside, json.dumps(pair.public.model_dump(mode="json")).encode() + b"\n")
    return pair.public


def _write(file: Path, content: bytes) -> None:
    """Write a new file of mode 0600, atomically."""
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


def _committed(response: api.Answer, out: Path) -> str:
    return (
        f"committed: identity {response['serial']}, document {response['fingerprint']}\n"
        f"the next pair is sealed in {out}: keep it away from the service, and make a backup"
    )


def _rotated(response: api.Answer, used: Path, following: Path) -> str:
    untold = "".join(f"{name} does not know of it yet\n" for name in response.get("untold", ()))
    return (
        f"identity {response['serial']}: key {response['key_fingerprint']}, document "
        f"{response['fingerprint']}\n{untold}"
        f"the pair after it is sealed in {following}: keep it away from the service; make a "
        f"backup, and remove {used} and earlier backups"
    )


rotate_app = typer.Typer(no_args_is_help=True, help="Replace long-lived keys.")


@rotate_app.command("storage")
@at_coordinator
def storage(
    client: Client,
    new_key_file: Annotated[
        Path, typer.Option(help="File with the new key: 32 bytes in base64url, on its first line.")
    ],
    wait_s: Annotated[
        float, typer.Option(min=0, help="Seconds to wait until everything is sealed again.")
    ] = 86_400,
) -> Answer:
    """Seal all data of a coordinator with a new storage key. Run it again to continue."""
    lines = new_key_file.read_text("ascii").split()
    if not lines or len(parse_binary(lines[0])) != 32:
        raise ValueError(f"{new_key_file}: a storage key is 32 bytes in base64url")
    response = client.keys.rotate_storage_key(lines[0].rstrip("="))
    response = _waited(client, response, wait_s)
    if response["state"] != "idle":
        remainder = f"{response['left']} not sealed again yet"
        fail(f"{remainder}: run the same command again to keep waiting", ExitCode.NOT_READY)
    return Answer(response, lambda: typer.echo(_done(response)))


@rotate_app.command("seal-key")
@at_target
def seal_key(
    target: Target,
    aggregator: Annotated[
        str | None,
        typer.Argument(help="An aggregator of --home; all of them unless given."),
    ] = None,
    destroy: Annotated[
        bool,
        typer.Option(
            "--destroy",
            help="Destroy the old keys now: one may have leaked. Rounds that name them abort.",
        ),
    ] = False,
) -> Answer:
    """Make a new seal key at aggregators; new rounds do not use the old one.

    An aggregator's own operator gives --url and --token.
    """
    rotations = []
    for name, client in _aggregators(target, aggregator):
        with client:
            rotations.append({"aggregator": name, **client.keys.rotate_seal_key(destroy=destroy)})
    return Answer(rotations, lambda: typer.echo("\n".join(map(_rotated_by, rotations))))


rotate_app.command("identity")(rotate_identity)
rotate_app.command("party")(rotate_party)


def _aggregators(target: Target, name: str | None) -> list[tuple[str, Client]]:
    """The named aggregators. Raises ValueError for a name that is not in --home."""
    if target.url is not None:
        client = Client(target.url, target.token, verify=trusted(target.url))
        return [(client.keys.aggregator_identity()["id"], client)]
    services = target.deployment().aggregators
    chosen = [service for service in services if name in (None, service.id)]
    if not chosen:
        names = ", ".join(service.id for service in services)
        raise ValueError(f"there is no aggregator {name}: one of {names}")
    return [(service.id, service.client()) for service in chosen]


def _rotated_by(response: dict[str, Any]) -> str:
    old = ", ".join(str(number) for number in response["retired"]) or "none"
    end = "destroyed" if response["destroyed"] else "no new round is opened with it"
    return f"{response['aggregator']}: seal key {response['number']} in place of {old} ({end})"


def _waited(client: Client, response: StorageKeyState, wait_s: float) -> StorageKeyState:
    ends = time.monotonic() + wait_s
    with progress() as bar:
        task = bar.add_task("sealing again", total=max(1, response["left"]))
        while response["state"] != "idle" and time.monotonic() < ends:
            time.sleep(_LOOK_S)
            response = client.keys.storage_key()
            bar.update(task, completed=(bar.tasks[0].total or 0) - response["left"])
    return response


def _done(response: api.Answer) -> str:
    sealed = f"everything is sealed with the storage key of generation {response['generation']}"
    if response["kept_in"] == "settings":
        return f"{sealed}; remove the second line of TACIT_STORAGE_KEY_FILE at every replica"
    return f"{sealed}, in {response['kept_in']} of the data directory; the old key is destroyed"


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
    """List the fingerprints of all identities, and whether the coordinator has the same."""
    deployment = Target(home).deployment()
    with deployment.coordinator.client() as client:
        fingerprint = client.get("/.well-known/tacit-coordinator")["fingerprint"]
        approved = client.get("/v1/aggregators")["aggregators"]
    pins = {item["id"]: item["fingerprint"] for item in approved}
    identities = [{"service": "coordinator", "fingerprint": fingerprint, "paired": True}]
    for service in deployment.aggregators:
        with service.client() as client:
            fingerprint = client.get("/.well-known/tacit-aggregator")["fingerprint"]
        paired = pins.get(service.id) == fingerprint
        identities.append({"service": service.id, "fingerprint": fingerprint, "paired": paired})
    rows = [
        [item["service"], item["fingerprint"], "yes" if item["paired"] else "NO"]
        for item in identities
    ]
    return tabled(identities, "Identities", ["service", "fingerprint", "paired"], rows)


@app.command("dev-ca")
@printed
def dev_ca(
    services: Annotated[
        list[str],
        typer.Argument(help="A service's names and addresses, with commas; the first names files."),
    ],
    out: Annotated[Path, typer.Option(help="Directory for the PEM files.")] = Path("tls"),
    days: Annotated[int, typer.Option(min=1, max=825, help="Days that they are valid.")] = 90,
) -> Answer:
    """Make a certificate authority for trials, and a certificate for each service; repeat to renew.

    Example: `tacit keys dev-ca coordinator,127.0.0.1 aggregator-1,10.0.0.5`
    """
    files_made = config.prepare(out, [service.split(",") for service in services], days)
    authority = out / "authority.pem"
    lines = [
        f"TACIT_TLS_AUTHORITY={authority}",
        *(f"{path} with {path.with_suffix('.key').name}" for path in files_made),
    ]
    files = {"authority": str(authority), "certificates": [str(path) for path in files_made]}
    return Answer(files, lambda: say("\n".join(lines), markup=False))
