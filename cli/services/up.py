"""`tacit up`, `tacit serve`, `tacit health`, `tacit status`: services on this machine, and what is
wrong with them; `tacit console`: their pages, signed in.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shlex
import webbrowser
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from cli.context import (
    DEFAULT_HOME,
    Answer,
    Home,
    Target,
    TextTable,
    at_target,
    console,
    fail,
    plain_errors,
    printed,
    say,
)
from cli.services.deployment import (
    FILE,
    Deployment,
    Running,
    pair,
    trusted,
)
from common.runtime.settings import ServiceSettings
from tacit import Client, Problem

SERVICES = ("coordinator", "aggregator", "curator")


def up(
    home: Home = DEFAULT_HOME,
    aggregators: Annotated[int, typer.Option(min=1, max=16, help="How many aggregators.")] = 3,
    exact_from: Annotated[
        int | None,
        typer.Option(min=2, help="Allow sums without noise of this many curators or more."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1024,
            max=65_000,
            help="The coordinator's port; the others follow it. Free ones are chosen unless given.",
        ),
    ] = None,
) -> None:
    """Run a whole deployment on loopback until you press Ctrl-C. Data stays in --home.

    Settings of a service are lines TACIT_NAME=value in HOME/SERVICE/settings.env; those of the
    environment are not passed on.

    The services end with this command, also when its terminal is closed; if one of them ends by
    itself, all do, and the exit code is 1.
    """
    with plain_errors(), alone_in(home):
        deployment = plan(home, aggregators, port)
        running = Running(deployment, service_settings(exact_from=exact_from))
        try:
            with console.status("starting the services"):
                running.start()
                pair(deployment)
            for line in addresses(deployment, home):
                console.print(line, markup=False, highlight=False, soft_wrap=True)
            with contextlib.suppress(KeyboardInterrupt):
                fail(running.wait(), 1)
        finally:
            running.stop()


@contextlib.contextmanager
def alone_in(home: Path) -> Iterator[None]:
    """Lock the data directory, created if needed. Raises RuntimeError if a deployment uses it."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (home / "up.lock").open("w") as lock_file:
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(
                f"the deployment in {home} is up already: end that one with Ctrl-C, or give "
                "another directory with --home"
            ) from None
        yield


def plan(home: Path, aggregators: int, port: int | None = None) -> Deployment:
    """The deployment of a data directory; a new one if there is none. Raises ValueError for a
    port other than it has, and for ports in use."""
    if not (home / FILE).exists():
        deployment = Deployment.plan(home, aggregators, port)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        deployment.save()
        return deployment
    deployment = Deployment.load(home)
    own_port = int(deployment.coordinator.url.rpartition(":")[2])
    if port not in (None, own_port):
        raise ValueError(
            f"--port {port}: the deployment in {home} keeps its addresses, from port {own_port} "
            "on, because its parties know them; give a new --home"
        )
    return deployment


def service_settings(*, exact_from: int | None = None) -> dict[str, dict[str, str]]:
    """Settings of the services of an embedded deployment, by kind.

    Its curators send immediately: on loopback a random moment would hide nothing from anyone,
    and a trial should not wait.
    """
    settings = {
        "coordinator": {"TACIT_POLL_S": "0.05", "TACIT_CONSOLE": str(_pages_can_be_made()).lower()},
        "aggregator": {},
        "curator": {
            "TACIT_SEND_WINDOW_SHARE": "0",
            "TACIT_PREPARE_LEAD_S": "0",
            "TACIT_CONSOLE": str(_pages_can_be_made()).lower(),
        },
    }
    if exact_from is not None:
        rule = json.dumps({"min_participants": exact_from})
        settings["coordinator"]["TACIT_EXACT_RULE"] = rule
        settings["aggregator"]["TACIT_EXACT_RULE"] = rule
        settings["curator"]["TACIT_POLICY_EXACT_RULE"] = rule
    return settings


def _pages_can_be_made() -> bool:
    """Whether the extra `console` is installed."""
    return find_spec("jinja2") is not None


def addresses(deployment: Deployment, home: Path) -> list[str]:
    """Where the services are, and what to do next."""
    width = max(len(item.id) for item in deployment.services)
    option = "" if home == DEFAULT_HOME else f" --home {shlex.quote(str(home))}"
    return [
        "Tacit is up.",
        *(f"  {item.id:{width}}  {item.url}" for item in deployment.services),
        f"The operator's token of each: {home}/NAME/operator.token",
        "Next, in another terminal:",
        f"  tacit health{option}",
        f"  tacit enroll token house-1{option}",
        *(
            [f"  tacit console{option}", f"  tacit console --curator{option}"]
            if _pages_can_be_made()
            else []
        ),
        f"Ctrl-C ends it; the data stays in {home}",
    ]


def serve(
    service: Annotated[str, typer.Argument(help="coordinator, aggregator or curator.")],
) -> None:
    """Run one service in the foreground, with settings from the environment (TACIT_...)."""
    settings = settings_type(service)
    from common.web.server import main

    main(settings, import_module(f"{service}.app").create_app)


def settings_type(service: str) -> type[ServiceSettings]:
    """The settings of a service. Fails for an unknown name."""
    if service not in SERVICES:
        fail(f"unknown service {service!r}: one of {', '.join(SERVICES)}")
    module = import_module(f"{service}.settings")
    result: type[ServiceSettings] = getattr(module, f"{service.capitalize()}Settings")
    return result


@printed
def health(home: Home = DEFAULT_HOME) -> Answer:
    """Whether each service of the deployment is ready; exit code 1 if one is not."""
    deployment = Target(home).deployment()
    ready_of = {}
    for service in deployment.services:
        with Client(service.url, timeout_s=5, verify=trusted(service.url)) as client:
            ready_of[service.id] = client.ready()
    rows = [[name, "ready" if ready else "not ready"] for name, ready in ready_of.items()]
    shown = TextTable("Health", ["service", "state"], rows)
    return Answer(ready_of, lambda: console.print(shown), 0 if all(ready_of.values()) else 1)


@at_target
def browse(
    target: Target,
    curator: Annotated[
        bool,
        typer.Option("--curator", help="The console of the curator service: what it contributed."),
    ] = False,
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open a browser, or only print the address.")
    ] = True,
) -> Answer:
    """Open the console in a browser. The address signs in once, within a minute."""
    if target.url is not None:
        service = target.url
    else:
        deployment = target.deployment()
        service = (deployment.curator if curator else deployment.coordinator).url
    try:
        with target.curator() if curator else target.coordinator() as client:
            code = client.tokens.sign_in_code()
    except Problem as problem:
        if problem.name != "not_found":
            raise
        fail("this service has no console: start it with TACIT_CONSOLE=true")
    address = f"{service.rstrip('/')}{code['path']}"
    link_made = {"address": address, "valid_s": code["valid_s"]}

    def human() -> None:
        say(address, markup=False)
        if show:
            webbrowser.open(address)

    return Answer(link_made, human)
