"""`tacit readings`: bring readings to a curator service."""

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
    errors,
    plain_errors,
    show,
)
from cli.meter_file import MeterFile

app = typer.Typer(no_args_is_help=True, help="Readings of your own curators.")


@app.command("import")
def import_readings(
    source: Annotated[Path, typer.Argument(help="CSV, plain, .gz or .xz.")],
    start: Annotated[
        str | None,
        typer.Option(help="Wide layout: the time of the first value column, RFC 3339."),
    ] = None,
    step_s: Annotated[int, typer.Option(min=1, help="Wide layout: seconds a column.")] = 900,
    unit: Annotated[str, typer.Option(help="Unit of the values.")] = "kWh",
    register: Annotated[str, typer.Option(help="Register of the readings.")] = "energy_import",
    days: Annotated[int | None, typer.Option(min=1, help="Wide layout: only so many days.")] = None,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Import a CSV of readings: wide (a meter a row, `--start` given) or long (a reading a row,
    with columns curator, device, time, value)."""
    with plain_errors(), Target(home, url, token).curator() as client:
        file = MeterFile(source, start=start, step_s=step_s, unit=unit, register=register)
        with errors.status(f"importing {source.name}"):
            answer: dict[str, Any] = file.upload(client, days=days)

    def human() -> None:
        for name, value in answer.items():
            if not isinstance(value, list | dict):
                console.print(f"  {name}: {value}", highlight=False)
        for error in answer.get("errors", [])[:10]:
            place = f"line {error['line']}, column {error['column']}"
            console.print(f"  {place}: {error['detail']}", highlight=False)

    show(answer, as_json, human)
