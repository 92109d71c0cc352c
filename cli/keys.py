"""`tacit keys`: the identities of a deployment, for comparing fingerprints out of band."""

from __future__ import annotations

import typer

from cli.context import DEFAULT_HOME, AsJson, Home, Target, console, plain_errors, show, table

app = typer.Typer(no_args_is_help=True, help="Identities and their fingerprints.")


@app.command("list")
def listing(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """The fingerprint of every identity, and whether the coordinator knows it as shown."""
    with plain_errors():
        deployment = Target(home).deployment()
        with deployment.coordinator.client() as client:
            own = client.get("/.well-known/tacit-coordinator")["fingerprint"]
            known = {
                item["id"]: item["fingerprint"]
                for item in client.get("/v1/aggregators")["aggregators"]
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
    show(
        found,
        as_json,
        lambda: console.print(table("Identities", ["service", "fingerprint", "paired"], rows)),
    )
