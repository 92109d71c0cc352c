"""`tacit keys`: identities with their fingerprints, and certificates for trials of TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli import dev_authority, gone_services, identity_keys, key_rotation
from cli.context import (
    DEFAULT_HOME,
    Answer,
    Home,
    Target,
    plain_errors,
    printed,
    say,
    tabled,
)

app = typer.Typer(
    no_args_is_help=True, help="Identities, their fingerprints, and rotation of keys."
)
app.add_typer(key_rotation.app, name="rotate")
app.command("next")(identity_keys.next_key)
app.command("confirm")(identity_keys.confirm)
app.command("revoke")(identity_keys.revoke_identity)
app.command("show")(gone_services.show)


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
        made = dev_authority.prepare(out, [each.split(",") for each in services], days)
    say(f"TACIT_TLS_AUTHORITY={out / 'authority.pem'}")
    for path in made:
        say(f"{path} with {path.with_suffix('.key').name}")
