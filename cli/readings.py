"""`tacit readings`: bring readings to a curator service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.context import Answer, at_curator, errors, say
from cli.meter_file import MeterFile, column_map
from tacit import Client

app = typer.Typer(no_args_is_help=True, help="Readings of your own curators.")


@app.command("import")
@at_curator
def import_readings(
    client: Client,
    source: Annotated[Path, typer.Argument(help="CSV or Green Button .xml; plain, .gz or .xz.")],
    start: Annotated[
        str | None,
        typer.Option(help="Wide layout: the time of the first value column, RFC 3339."),
    ] = None,
    step_s: Annotated[int, typer.Option(min=1, help="Wide layout: seconds a column.")] = 900,
    unit: Annotated[str, typer.Option(help="Unit of the values.")] = "kWh",
    register: Annotated[str, typer.Option(help="Register of the readings.")] = "energy_import",
    days: Annotated[int | None, typer.Option(min=1, help="Wide layout: this many days.")] = None,
    columns: Annotated[
        Path | None,
        typer.Option(
            "--map",
            help="Column map, TOML or JSON: parameters of POST /v1/readings/import, which go "
            "before the options above.",
        ),
    ] = None,
    curator: Annotated[str | None, typer.Option(help="Whose all readings are.")] = None,
    timezone: Annotated[
        str | None, typer.Option(help="IANA zone of stamps without an offset.")
    ] = None,
    ambiguous: Annotated[
        str | None,
        typer.Option(help="The hour that comes twice: refuse (default), order, earlier, later."),
    ] = None,
) -> Answer:
    """Import a file of readings: CSV, wide (a meter a row, `--start` given) or long (a reading a
    row, with columns curator, device, time, value, or what the map says); or Green Button XML.

    Exit code 2 if a row was rejected: the others are stored, and the places are printed."""
    options = {"curator": curator, "timezone": timezone, "ambiguous": ambiguous}
    given = {} if columns is None else column_map(columns)
    given |= {name: value for name, value in options.items() if value is not None}
    file = MeterFile(source, start, step_s, unit, register, given)
    with errors.status(f"importing {source.name}"):
        answer: dict[str, Any] = file.upload(client, days=days)

    def human() -> None:
        for name, value in answer.items():
            if not isinstance(value, list | dict):
                say(f"  {name}: {value}")
        for error in answer.get("errors", [])[:10]:
            place = f"line {error['line']}"
            if error["column"] is not None:
                place += f", column {error['column']}"
            say(f"  {place}: {error['detail']}")

    return Answer(answer, human, 2 if answer["rejected"] else 0)
