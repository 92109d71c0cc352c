"""`tacit readings`: bring readings to a curator service, and see whether they arrive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.context import Answer, at_curator, errors, say, tabled
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


@app.command("status")
@at_curator
def status(client: Client) -> Answer:
    """What came in within a day, by outcome, and the registers that have readings."""
    found = {
        "summary": client.summary(),
        "intake": client.intake(),
        "registers": client.registers()["registers"],
    }

    def human() -> None:
        counts, outcomes = found["summary"], found["intake"]["outcomes"]
        say(f"{counts['curators']} curators, {counts['silent']} without a reading of the last day")
        came = ", ".join(f"{count} {name}" for name, count in outcomes.items()) or "nothing"
        say(f"came in since {found['intake']['from']}: {came}")
        for each in found["registers"]:
            say(f"{each['name']}, kept in {each['unit']}: {each['devices']} devices")
            for query in each["queries"]:
                if not query["fits"]:
                    say(f"  query {query['name']} asks for {query['unit']}: no reading fits")

    return Answer(found, human)


@app.command("curators")
@at_curator
def curators(
    client: Client,
    prefix: Annotated[str, typer.Option(help="How the name begins.")] = "",
    only: Annotated[
        str | None,
        typer.Option(help="out_of_budget, without_bound, silent, stopped or own_policy."),
    ] = None,
) -> Answer:
    """The curators of a process: what is left of their budgets, and their newest readings."""
    found = list(client.own_curators(prefix=prefix, only=only))
    rows = [
        [
            each["id"],
            "no limit" if each["limit"] is None else f"{each['left']} of {each['limit']}",
            "yes" if each["without_bound"] else "",
            each["last_reading"] or "none",
            "stopped" if each["stopped"] else "",
        ]
        for each in found
    ]
    columns = ["curator", "epsilon left", "answer without a bound", "newest reading", ""]
    return tabled(found, "", columns, rows)


@app.command("silent")
@at_curator
def silent(
    client: Client,
    silent_s: Annotated[int, typer.Option(min=1, help="Seconds without a reading.")] = 86_400,
) -> Answer:
    """Devices that sent nothing for a while, the longest silent first."""
    found = list(client.silent_devices(silent_s=silent_s))
    rows = [[each["curator"], each["device"], each["register"], each["last"]] for each in found]
    return tabled(found, "", ["curator", "device", "register", "newest reading"], rows)


@app.command("complete")
@at_curator
def complete(
    client: Client,
    register: Annotated[str, typer.Argument(help="Its name, such as energy_import.")],
    period_s: Annotated[int, typer.Option(min=60, help="Seconds of a period.")] = 3_600,
    begin: Annotated[str | None, typer.Option("--from", help="RFC 3339; else a day.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="RFC 3339; else now.")] = None,
) -> Answer:
    """How many devices have a reading of a register in each period."""
    found = client.completeness(register, period_s=period_s, begin=begin, end=end)
    rows = [
        [each["start"], f"{each['devices']} of {found['expected']}"] for each in found["periods"]
    ]
    return tabled(found, "", ["period from", "devices"], rows)
