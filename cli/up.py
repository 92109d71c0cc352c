"""`tacit up`, `tacit serve`, `tacit health`: services on this machine."""

from __future__ import annotations

import contextlib
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.context import (
    DEFAULT_HOME,
    Answer,
    Home,
    Target,
    console,
    fail,
    plain_errors,
    printed,
    table,
)
from cli.deployment import FILE, Deployment, Running, pair, trusted
from common.runtime.settings import ServiceSettings
from tacit import Client

SERVICES = ("coordinator", "aggregator", "curator")


def up(
    home: Home = DEFAULT_HOME,
    aggregators: Annotated[int, typer.Option(min=1, max=16, help="How many aggregators.")] = 3,
    allow_exact: Annotated[
        bool, typer.Option(help="Allow mechanism exact, which adds no noise. Rehearsals only.")
    ] = False,
) -> None:
    """Run a whole deployment on loopback until you press Ctrl-C. Data stays in --home."""
    with plain_errors():
        deployment = plan(home, aggregators)
        running = Running(deployment, service_settings(allow_exact=allow_exact))
        try:
            with console.status("starting the services"):
                running.start()
                pair(deployment)
            console.print(addresses(deployment))
            console.print("Ctrl-C ends it; the data stays in", str(deployment.directory))
            with contextlib.suppress(KeyboardInterrupt):
                running.wait()
        finally:
            running.stop()


def plan(home: Path, aggregators: int) -> Deployment:
    """The deployment of a data directory; a new one if there is none yet."""
    if (home / FILE).exists():
        return Deployment.load(home)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    deployment = Deployment.plan(home, aggregators)
    deployment.save()
    return deployment


def service_settings(*, allow_exact: bool = False) -> dict[str, dict[str, str]]:
    """Settings that an embedded deployment gives its services, by kind.

    Its curators send at once: there is nobody on loopback from whom a random moment would hide
    anything, and a trial should not wait.
    """
    settings = {
        "coordinator": {"TACIT_POLL_S": "0.05"},
        "aggregator": {},
        "curator": {"TACIT_SEND_WINDOW_SHARE": "0", "TACIT_PREPARE_LEAD_S": "0"},
    }
    if allow_exact:
        settings["coordinator"]["TACIT_INSECURE_ALLOW_EXACT"] = "true"
        settings["aggregator"]["TACIT_INSECURE_ALLOW_EXACT"] = "true"
        settings["curator"]["TACIT_POLICY_ALLOW_UNVERIFIED"] = "true"
    return settings


def addresses(deployment: Deployment) -> Any:
    """A table of the services."""
    rows = [[item.id, item.url, f"{item.directory}/operator.token"] for item in deployment.services]
    return table("Tacit is up", ["service", "address", "operator's token"], rows)


def serve(
    service: Annotated[str, typer.Argument(help="coordinator, aggregator or curator.")],
) -> None:
    """Run one service in the foreground, with settings from the environment (TACIT_...)."""
    settings = settings_type(service)
    from common.web.serve import main

    main(settings, import_module(f"{service}.app").create_app)


def settings_type(service: str) -> type[ServiceSettings]:
    """The settings of a service. Ends the command for a name that no service has."""
    if service not in SERVICES:
        fail(f"unknown service {service!r}: one of {', '.join(SERVICES)}")
    module = import_module(f"{service}.settings")
    found: type[ServiceSettings] = getattr(module, f"{service.capitalize()}Settings")
    return found


@printed
def health(home: Home = DEFAULT_HOME) -> Answer:
    """Whether each service of the deployment is ready; exit code 1 if one is not."""
    deployment = Target(home).deployment()
    found = {}
    for service in deployment.services:
        with Client(service.url, timeout_s=5, verify=trusted(service.url)) as client:
            found[service.id] = client.ready()
    rows = [[name, "ready" if ready else "not ready"] for name, ready in found.items()]
    shown = table("Health", ["service", "state"], rows)
    return Answer(found, lambda: console.print(shown), 0 if all(found.values()) else 1)
