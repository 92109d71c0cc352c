"""`tacit query`: create, preview and list queries, and end their schedules."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.context import Answer, Full, at_coordinator, console, read_json, table, tabled
from cli.words import print_report
from tacit import Client
from tacit.query.words import Validity
from tacit.report.guessing import of_a_hundred

app = typer.Typer(no_args_is_help=True, help="What is asked: immutable queries.")

Source = Annotated[str, typer.Argument(help="The query: a JSON file, or JSON text.")]
ValidityOption = Annotated[
    Validity | None,
    typer.Option(
        "--validity",
        help="In place of the query's: `declared`, or `proved`, in which each contribution carries "
        "a proof of its range. Choose `proved` where curators or hosts may lie.",
    ),
]
NoiseTail = Annotated[
    str | None,
    typer.Option(
        help="In place of the query's: how much total variation the clamping of curators' noise "
        "may cost over a proved round, a decimal.",
    ),
]


@app.command("create")
@at_coordinator
def create(
    client: Client,
    source: Source,
    validity: ValidityOption = None,
    noise_tail: NoiseTail = None,
) -> Answer:
    """Create a query. The same content is the same query.

    Where curators or hosts may lie, add `"validity": "proved"` (or `--validity proved`): a lie
    then moves the sum by no more than the preview says. It costs each lone curator some 500 bytes
    and a few milliseconds, needs additive sharing, and helps while every aggregator is honest. A
    declared sum (the default) is moved by a lie by any amount.
    """
    made = client.create_query(_asked(source, validity, noise_tail))
    return Answer(made, lambda: typer.echo(made["id"]))


@app.command("preview")
@at_coordinator
def preview(
    client: Client,
    source: Source,
    validity: ValidityOption = None,
    noise_tail: NoiseTail = None,
    epsilon: Annotated[
        list[str] | None,
        typer.Option(help="Also try this epsilon; may be repeated (at most 32)."),
    ] = None,
    full: Full = False,
) -> Answer:
    """What a result would reveal, how far off it would be, and how far a lie would reach, before
    anything is spent."""
    found = client.preview(_asked(source, validity, noise_tail), epsilons=epsilon or None)

    def human() -> None:
        print_report({name: value for name, value in found.items() if name != "stops"}, full=full)
        if "stops" in found:
            rows = [[stop["epsilon"], _error(stop), _guess(stop)] for stop in found["stops"]]
            columns = ["epsilon", "error, 95 of 100", "right guesses"]
            console.print(table("At another epsilon", columns, rows))

    return Answer(found, human)


def _error(stop: Any) -> str:
    parts = (stop["error"] or {}).get("parts", ())
    return ", ".join(f"± {part['interval']['half_width']} {part['unit']}" for part in parts)


def _guess(stop: Any) -> str:
    return f"{of_a_hundred(stop['guess'])} of 100"


def _asked(source: str, validity: Validity | None, noise_tail: str | None) -> Any:
    asked = read_json(source)
    if not isinstance(asked, dict):  # the coordinator says what is wrong with it
        return asked
    given = {"validity": validity and validity.value, "noise_tail": noise_tail}
    return {**asked, **{name: value for name, value in given.items() if value is not None}}


@app.command("list")
@at_coordinator
def listing(client: Client) -> Answer:
    """All queries."""
    found = list(client.queries())
    columns = ["id", "name", "function", "mechanism", "validity"]
    rows = []
    for item in found:
        told = [item["query"].get(key, "declared") for key in columns[1:]]
        rows.append([item["id"], *told, str(item["rounds"])])
    return tabled(found, "Queries", [*columns, "rounds"], rows)


@app.command("stop")
@at_coordinator
def stop(
    client: Client, query_id: Annotated[str, typer.Argument(help="Id of a scheduled query.")]
) -> Answer:
    """End the schedule of a query. Rounds that are open go on."""
    found = client.stop_query(query_id)
    return Answer(found, lambda: typer.echo(f"{query_id} opens no rounds since {found['stopped']}"))
