"""`tacit console`: open the pages of a service in a browser, signed in."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from cli.context import Answer, Target, at_target, fail, say
from tacit import Problem


@at_target
def browse(
    target: Target,
    curator: Annotated[
        bool, typer.Option("--curator", help="That of the curator service: what was given away.")
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
            made = client.console_code()
    except Problem as problem:
        if problem.name != "not_found":
            raise
        fail("this service shows no console: start it with TACIT_CONSOLE=true")
    address = f"{service.rstrip('/')}{made['path']}"
    found = {"address": address, "valid_s": made["valid_s"]}

    def human() -> None:
        say(address, markup=False)
        if show:
            webbrowser.open(address)

    return Answer(found, human)
