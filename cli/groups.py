"""`tacit group`: declare groups of curators, and look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.context import Answer, at_coordinator, tabled
from tacit import Client

app = typer.Typer(no_args_is_help=True, help="Groups: sets of curators that a query may sum.")

Name = Annotated[str, typer.Argument(help="Name of the group.")]


@app.command("create")
@at_coordinator
def create(
    client: Client,
    name: Name,
    curators: Annotated[Path, typer.Argument(help="The curators: a file with an id a line.")],
    parent: Annotated[str | None, typer.Option(help="The group that contains this one.")] = None,
) -> Answer:
    """Declare a group. It is never changed; the same content is the same group."""
    body: dict[str, Any] = {"name": name, "curators": curators.read_text("utf-8-sig").split()}
    if parent is not None:
        body["parent"] = parent
    made = client.post("/v1/groups", body)
    return Answer(made, lambda: typer.echo(f"{made['name']}: {made['curators']} curators"))


@app.command("list")
@at_coordinator
def listing(client: Client) -> Answer:
    """All groups."""
    found = list(client.pages("/v1/groups", "groups"))
    rows = [[item["name"], item["parent"] or "", str(item["curators"])] for item in found]
    return tabled(found, "Groups", ["name", "parent", "curators"], rows)


@app.command("show")
@at_coordinator
def one(client: Client, name: Name) -> Answer:
    """The curators of a group, by roster number."""
    found = list(client.pages(f"/v1/groups/{name}/curators", "curators"))

    def human() -> None:
        for item in found:
            typer.echo(item["id"])

    return Answer(found, human)
