"""`tacit readings` and `tacit items`: import data into a curator service, and check its arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cli.context import Answer, at_curator, errors, fail, say, tabled
from tacit import Client, Problem
from tacit.answers import base as api

if TYPE_CHECKING:
    from curator.files.dry_run import DryRun

readings_app = typer.Typer(no_args_is_help=True, help="Readings of your own curators.")


@readings_app.command("import")
@at_curator
def import_readings(
    client: Client,
    source: Annotated[Path, typer.Argument(help="The file; plain, .gz or .xz.")],
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
            help="Column map, TOML or JSON: parameters of POST /v1/readings/import, which override "
            "the options above.",
        ),
    ] = None,
    curator: Annotated[str | None, typer.Option(help="Curator of all readings.")] = None,
    timezone: Annotated[
        str | None, typer.Option(help="IANA zone of stamps without an offset.")
    ] = None,
    ambiguous: Annotated[
        str | None,
        typer.Option(help="The hour that comes twice: refuse (default), order, earlier, later."),
    ] = None,
    encoded: Annotated[
        str | None,
        typer.Option("--encoding", help="Character encoding, such as latin-1, unless marked."),
    ] = None,
    dry: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Store nothing: print the first readings in UTC and sums a day per meter.",
        ),
    ] = False,
) -> Answer:
    """Import a file of readings: CSV, wide (a meter a row, `--start` given) or long (a reading a
    row, with columns curator, device, time, value, or those of the map); a day a row or a meter a
    column; or Green Button, NEM12, NEM13, DSMR telegrams, IEC 62056-21, MSCONS, SenML, InfluxDB
    line protocol or Home Assistant's statistics. Prints what the file is taken for, and why.

    Exit code 2 if a row was rejected: the others are stored, and the rejected lines are printed."""
    # Loaded only here: other commands need no reader of files.
    from cli.meter_file import MeterFile, column_map
    from curator.errors import BadImport

    options = {"curator": curator, "timezone": timezone, "ambiguous": ambiguous}
    options["encoding"] = encoded
    parameters = {} if columns is None else column_map(columns)
    parameters |= {name: value for name, value in options.items() if value is not None}
    file = MeterFile(source, start, step_s, unit, register, parameters)
    try:
        if dry:
            return _dry(file.dry_run(days=days))
        with errors.status(f"importing {source.name}"):
            answer = file.upload(client, days=days)
    except Problem as problem:
        if problem.name != "bad_import":
            raise
        fail(f"{problem.name}: {problem.sentence}{_taken(problem.figures)}")
    except BadImport as error:
        fail(f"{error.pointer}: {error.detail}{_taken(error.extra)}".removeprefix(": "))
    return Answer(answer, lambda: _print_counts(answer), 2 if answer["rejected"] else 0)


def _taken(figures: Mapping[str, object]) -> str:
    """What a refused file was taken for."""
    progress = figures.get("import")
    words = progress.get("taken_for") if isinstance(progress, Mapping) else None
    return "" if words is None else f"; it is taken for {words}"


def _dry(run: DryRun) -> Answer:
    counts = run.counts.model_dump(exclude_unset=True)
    value = {
        **counts,
        "first": run.first,
        "sums": list(map(asdict, run.sums)),
    }

    def human() -> None:
        _print_counts(value)
        say("  nothing is stored; the first readings, in UTC:")
        for time, meter, text in run.first:
            say(f"    {time}  {meter}  {text}")
        say("  sums a day; of a counter, the day's last total:")
        for daily in run.sums:
            of = f"{daily.meter}, {daily.register}: {daily.readings} readings"
            say(f"    {daily.day}  {of}, {daily.total} {daily.unit}")

    return Answer(value, human, 2 if run.counts.rejected else 0)


def _print_counts(answer: Mapping[str, Any]) -> None:
    if "taken_for" in answer:
        say(f"  taken for {answer['taken_for']}")
    for name, value in answer.items():
        if not isinstance(value, list | tuple | dict) and name != "taken_for":
            say(f"  {name}: {value}")
    for error in answer.get("errors", [])[:10]:
        place = f"line {error['line']}"
        if error["column"] is not None:
            place += f", column {error['column']}"
        elif (element := error.get("element")) and not error["detail"].startswith(element):
            place += f", {error['element']}"
        say(f"  {place}: {error['detail']}")


@readings_app.command("status")
@at_curator
def status(
    client: Client,
    curator: Annotated[
        str | None, typer.Option(help="Of this curator: its devices, day by day.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="IANA zone of the days; else the service's.")
    ] = None,
) -> Answer:
    """Readings received within a day, by outcome, and the registers that have readings. Of one
    curator: its devices, and which of the last five weeks' days are complete."""
    if curator is not None:
        return _calendars(client, curator, timezone)
    response = {
        "summary": client.curators.summary(),
        "intake": client.readings.intake(),
        "registers": client.readings.registers()["registers"],
    }

    def human() -> None:
        counts, outcomes = response["summary"], response["intake"]["outcomes"]
        say(f"{counts['curators']} curators, {counts['silent']} without a reading of the last day")
        received = ", ".join(f"{count} {name}" for name, count in outcomes.items()) or "nothing"
        say(f"received since {response['intake']['from']}: {received}")
        for register in response["registers"]:
            say(f"{register['name']}, kept in {register['unit']}: {register['devices']} devices")
            for query in register["queries"]:
                if not query["fits"]:
                    say(f"  query {query['name']} needs {query['unit']}: no reading fits")

    return Answer(response, human)


_MARKS: Final = {"complete": "#", "partial": "-", "missing": ".", "open": " "}


def _calendars(client: Client, curator: str, timezone: str | None) -> Answer:
    first = client.readings.calendar(curator, timezone=timezone)
    other_registers = first["registers"][1:]
    calendars = [first] * bool(first["registers"])
    calendars += [
        client.readings.calendar(curator, register=name, timezone=timezone)
        for name in other_registers
    ]

    def human() -> None:
        if not calendars:
            say(f"{curator} has no readings")
        for calendar in calendars:
            days = f"{calendar['from']} to {calendar['to']}, {calendar['timezone']}"
            say(f"{calendar['register']}: {days}")
            for device in calendar["devices"]:
                marks = "".join(_MARKS[day["state"]] for day in device["days"])
                counts = [
                    f"; {device[name]} {name}"
                    for name in ("duplicates", "corrections", "late")
                    if device[name]
                ]
                newest = f"newest {device['last']}{''.join(counts)}"
                say(f"  |{marks}| {device['device']}: {newest}")
        say("# complete, - partial, . missing; late: after a round had used their window")

    return Answer({"calendars": calendars}, human)


@readings_app.command("curators")
@at_curator
def curators(
    client: Client,
    prefix: Annotated[str, typer.Option(help="Only ids with this prefix.")] = "",
    only: Annotated[
        str | None,
        typer.Option(help="out_of_budget, without_bound, silent, stopped or own_policy."),
    ] = None,
) -> Answer:
    """List the curators of a process: their remaining budgets and newest readings."""
    response = list(client.curators.hosted(prefix=prefix, only=only))
    rows = [
        [
            curator["id"],
            "no limit" if curator["limit"] is None else f"{curator['left']} of {curator['limit']}",
            "yes" if curator["without_bound"] else "",
            curator["last_reading"] or "none",
            "stopped" if curator["stopped"] else "",
        ]
        for curator in response
    ]
    columns = ["curator", "epsilon left", "answer without a bound", "newest reading", ""]
    return tabled(response, "", columns, rows)


@readings_app.command("silent")
@at_curator
def silent(
    client: Client,
    silent_s: Annotated[int, typer.Option(min=1, help="Seconds without a reading.")] = 86_400,
) -> Answer:
    """List devices that sent nothing for a while, the longest silent first."""
    response = list(client.readings.silent_devices(silent_s=silent_s))
    names = ("curator", "device", "register", "last")
    rows = [[device[name] for name in names] for device in response]
    return tabled(response, "", ["curator", "device", "register", "newest reading"], rows)


@readings_app.command("complete")
@at_curator
def complete(
    client: Client,
    register: Annotated[str, typer.Argument(help="Name of the register, such as energy_import.")],
    period_s: Annotated[int, typer.Option(min=60, help="Seconds of a period.")] = 3_600,
    begin: Annotated[
        str | None, typer.Option("--from", help="RFC 3339; a day ago unless given.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="RFC 3339; now unless given.")] = None,
) -> Answer:
    """How many devices have a reading of a register in each period."""
    response = client.readings.completeness(register, period_s=period_s, begin=begin, end=end)
    rows = [
        [period["start"], f"{period['devices']} of {response['expected']}"]
        for period in response["periods"]
    ]
    return tabled(response, "", ["period from", "devices"], rows)


TIMED: Final = "each with a time"
UNTIMED: Final = "without times: in no window"

items_app = typer.Typer(
    no_args_is_help=True, help="Sequences and sets of items of your own curators."
)


class Kind(StrEnum):
    SEQUENCES = "sequences"
    TRANSACTIONS = "transactions"


class Form(StrEnum):
    TEXT = "text"
    NDJSON = "ndjson"
    SPMF = "spmf"


KindArgument = Annotated[Kind, typer.Argument(help="sequences, or transactions: sets of items.")]
CuratorArgument = Annotated[str, typer.Argument(help="Id of the curator.")]
NameOption = Annotated[str, typer.Option(help="Name of the table, as jobs use it.")]


@items_app.command("import")
@at_curator
def import_items(
    client: Client,
    kind: KindArgument,
    curator: CuratorArgument,
    source: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The file.")],
    form: Annotated[
        Form,
        typer.Option(
            "--format",
            help="A record a line: ids between blanks, JSON (a list, or items and time), or SPMF. "
            "Only JSON has times; jobs over a window count records with a time.",
        ),
    ] = Form.TEXT,
    name: NameOption = "records",
) -> Answer:
    """Store a table of a curator; it replaces the table of this name.

    If a line cannot be read, the line and the item are reported and nothing is stored."""
    with errors.status(f"importing {source.name}"):
        answer = client.records.put_items(
            kind.value, curator, source.read_bytes(), name=name, form=form.value
        )

    def human() -> None:
        timed = TIMED if answer["timed"] else UNTIMED
        size = f"{answer['records']} records of {answer['items']} different items"
        say(f"  {answer['name']}: {size}, {timed}")

    return Answer(answer, human)


@items_app.command("list")
@at_curator
def list_items(client: Client, kind: KindArgument, curator: CuratorArgument) -> Answer:
    """List the names and sizes of a curator's tables."""
    answer = client.records.get_items(kind.value, curator)

    def human() -> None:
        for table in answer["tables"]:
            timed = TIMED if table["timed"] else UNTIMED
            say(f"  {table['name']}: {table['records']} records, {timed}")

    return Answer(answer, human)


@items_app.command("delete")
@at_curator
def delete_items(
    client: Client, kind: KindArgument, curator: CuratorArgument, name: NameOption = "records"
) -> Answer:
    """Delete a curator's table; earlier contributions are not affected."""
    client.records.delete_items(kind.value, curator, name=name)
    return Answer({"curator": curator, "name": name}, lambda: say(f"  {name}: deleted"))


records_app = typer.Typer(no_args_is_help=True, help="Tables of records of your own curators.")


@records_app.command("import")
@at_curator
def import_records(
    client: Client,
    curator: CuratorArgument,
    source: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The CSV file.")],
    codes: Annotated[
        list[str] | None,
        typer.Option(help="A column that has texts, not numbers; may be repeated."),
    ] = None,
) -> Answer:
    """Store a curator's table; it replaces the one before.

    If a line cannot be read, the line and the column are reported and nothing is stored."""
    with errors.status(f"importing {source.name}"):
        answer = client.records.import_file(curator, source.read_bytes(), codes=codes or ())
    return Answer(answer, lambda: _print_records(answer))


@records_app.command("show")
@at_curator
def show_records(client: Client, curator: CuratorArgument) -> Answer:
    """Columns and number of rows of a curator's table."""
    answer = client.records.get(curator)
    return Answer(answer, lambda: _print_records(answer))


def _print_records(answer: api.Answer) -> None:
    say(f"  {answer['rows']} records: {', '.join(answer['columns']) or 'no columns'}", markup=False)


@records_app.command("delete")
@at_curator
def delete_records(client: Client, curator: CuratorArgument) -> Answer:
    """Delete a curator's table; earlier contributions are not affected."""
    client.records.delete(curator)
    return Answer({"curator": curator}, lambda: say("  the table is deleted"))
