"""`tacit query`: create, preview and list queries, and end their schedules."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.context import Answer, at_coordinator, read_json, tabled
from cli.words import print_report
from tacit import Client

app = typer.Typer(no_args_is_help=True, help="What is asked: immutable queries.")

Source = Annotated[str, typer.Argument(help="The query: a JSON file, or JSON text.")]


@app.command("create")
@at_coordinator
def create(client: Client, source: Source) -> Answer:
    """Create a query. The same content is the same query."""
    made = client.create_query(read_json(source))
    return Answer(made, lambda: typer.echo(made["id"]))


@app.command("preview")
@at_coordinator
def preview(client: Client, source: Source) -> Answer:
    """What a result would reveal and how far off it would be, before anything is spent."""
    found = client.preview(read_json(source))
    return Answer(found, lambda: print_report(found))


@app.command("list")
@at_coordinator
def listing(client: Client) -> Answer:
    """All queries."""
    found = list(client.queries())
    columns = ["id", "name", "function", "mechanism"]
    rows = [[item["id"], *(item["query"][key] for key in columns[1:])] for item in found]
    return tabled(found, "Queries", columns, rows)


@app.command("stop")
@at_coordinator
def stop(
    client: Client, query_id: Annotated[str, typer.Argument(help="Id of a scheduled query.")]
) -> Answer:
    """End the schedule of a query. Rounds that are open go on."""
    found = client.stop_query(query_id)
    return Answer(found, lambda: typer.echo(f"{query_id} opens no rounds since {found['stopped']}"))
