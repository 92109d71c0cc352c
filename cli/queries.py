"""`tacit query`: create, preview and list queries, and end their schedules."""

from __future__ import annotations

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
    read_json,
    show,
    table,
)
from cli.words import print_report

app = typer.Typer(no_args_is_help=True, help="What is asked: immutable queries.")

Source = Annotated[str, typer.Argument(help="The query: a JSON file, or JSON text.")]


@app.command("create")
def create(
    source: Source,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Create a query. The same content is the same query."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        answer = client.create_query(read_json(source))
    show(answer, as_json, lambda: typer.echo(answer["id"]))


@app.command("preview")
def preview(
    source: Source,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """What a result would reveal and how far off it would be, before anything is spent."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        answer = client.preview(read_json(source))
    show(answer, as_json, lambda: print_report(answer))


@app.command("list")
def listing(
    home: Home = DEFAULT_HOME, url: Url = None, token: Token = None, as_json: AsJson = False
) -> None:
    """All queries."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        found = list(client.queries())

    def human() -> None:
        console.print(table("Queries", ["id", "name", "function", "mechanism"], _rows(found)))

    show(found, as_json, human)


@app.command("stop")
def stop(
    query_id: Annotated[str, typer.Argument(help="Id of a scheduled query.")],
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """End the schedule of a query. Rounds that are open go on."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        found = client.stop_query(query_id)
    show(found, as_json, lambda: typer.echo(f"{query_id} opens no rounds since {found['stopped']}"))


def _rows(found: list[dict[str, Any]]) -> list[list[str]]:
    return [
        [item["id"], *(item["query"][key] for key in ("name", "function", "mechanism"))]
        for item in found
    ]
