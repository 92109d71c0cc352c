"""`tacit keys rotate`: long-lived keys are replaced while the services run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from cli import identity_keys, party_keys
from cli.context import Answer, Target, at_coordinator, at_target, fail, progress
from cli.deployment import trusted
from tacit import Client
from tacit.wire import parse_binary

app = typer.Typer(no_args_is_help=True, help="Replace long-lived keys.")

_LOOK_S: Final = 0.5


@app.command("storage")
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


@app.command("seal-key")
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
    return Answer(found, lambda: typer.echo("\n".join(_rotated(each) for each in found)))


app.command("identity")(identity_keys.rotate_identity)
app.command("party")(party_keys.rotate_party)


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


def _rotated(found: dict[str, Any]) -> str:
    old = ", ".join(str(number) for number in found["retired"]) or "none"
    end = "destroyed" if found["destroyed"] else "no new round is opened with it"
    return f"{found['aggregator']}: seal key {found['number']} in place of {old} ({end})"


def _waited(client: Client, found: dict[str, Any], wait_s: float) -> dict[str, Any]:
    ends = time.monotonic() + wait_s
    with progress() as bar:
        task = bar.add_task("sealing anew", total=max(1, found["left"]))
        while found["state"] != "idle" and time.monotonic() < ends:
            time.sleep(_LOOK_S)
            found = client.storage_key()
            bar.update(task, completed=(bar.tasks[0].total or 0) - found["left"])
    return found


def _done(found: dict[str, Any]) -> str:
    sealed = f"everything is sealed with the storage key of generation {found['generation']}"
    if found["kept_in"] == "settings":
        return f"{sealed}; remove the second line of TACIT_STORAGE_KEY_FILE at every replica"
    return f"{sealed}, in {found['kept_in']} of the data directory; the key before is destroyed"
