"""`tacit group`: declare groups of curators, and look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.context import (
    DEFAULT_HOME,
    AsJson,
    Home,
    Target,
    Token,
    Url,
    console,
    plain_errors,
    show,
    table,
)

app = typer.Typer(no_args_is_help=True, help="Groups: sets of curators that a query may sum.")

Name = Annotated[str, typer.Argument(help="Name of the group.")]


@app.command("create")
def create(
    name: Name,
    curators: Annotated[Path, typer.Argument(help="The curators: a file with an id a line.")],
    parent: Annotated[str | None, typer.Option(help="The group that contains this one.")] = None,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Declare a group. It is never changed; the same content is the same group."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        body: dict[str, Any] = {"name": name, "curators": curators.read_text("utf-8").split()}
        if parent is not None:
            body["parent"] = parent
        answer = client.post("/v1/groups", body)
    show(answer, as_json, lambda: typer.echo(f"{answer['name']}: {answer['curators']} curators"))


@app.command("list")
def listing(
    home: Home = DEFAULT_HOME, url: Url = None, token: Token = None, as_json: AsJson = False
) -> None:
    """All groups."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        found = list(client.pages("/v1/groups", "groups"))
    rows = [[item["name"], item["parent"] or "", str(item["curators"])] for item in found]
    show(
        found,
        as_json,
        lambda: console.print(table("Groups", ["name", "parent", "curators"], rows)),
    )


@app.command("show")
def one(
    name: Name,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """The curators of a group, by roster number."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        found = list(client.pages(f"/v1/groups/{name}/curators", "curators"))

    def human() -> None:
        for item in found:
            typer.echo(item["id"])

    show(found, as_json, human)
