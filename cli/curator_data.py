"""`tacit readings` and `tacit items`: import data into a curator service, and check its arrival.

Files of meter readings are CSV, Green Button (.xml) or other formats, plain, .gz or .xz.
Wide: a meter a row, its id first, then one value for each consecutive interval. Long: a reading a
row, with columns time and value, and optionally curator and device. A column map (TOML or JSON) has
further parameters of `POST /v1/readings/import`. The file is sent unchanged, or cut to its first
days; the service counts errors by row.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import lzma
import tomllib
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, cast

import numpy as np
import typer
from numpy.typing import NDArray

from cli.context import Answer, at_curator, errors, fail, say, tabled
from curator.errors import BadImport
from curator.files import encoding
from curator.files.recognise import HEAD_BYTES, Recognised, recognise
from tacit import Client, Problem
from tacit.compression import GZIP_MAGIC, XZ_MAGIC
from tacit.errors import Invalid
from tacit.records import text_files
from tacit.records.text_files import MalformedRow, number

if TYPE_CHECKING:
    from curator.files.dry_run import DryRun

DAY_S = 86_400


@dataclass(frozen=True)
class MeterFile:
    """A file and how to read its values. With `start` it is wide."""

    path: Path
    start: str | None
    step_s: int
    unit: str
    register: str
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of the import; they override the fields above."""

    @property
    def green_button(self) -> bool:
        """Whether the file itself describes its readings."""
        return ".xml" in self.path.suffixes

    def open(self) -> BinaryIO:
        """The plain content. How it is compressed its first bytes say, as at the service."""
        with self.path.open("rb") as file:
            head = file.read(len(XZ_MAGIC))
        if head.startswith(XZ_MAGIC):
            return cast(BinaryIO, lzma.open(self.path))
        if head.startswith(GZIP_MAGIC):
            return cast(BinaryIO, gzip.open(self.path))
        return self.path.open("rb")

    def _as_utf8(self) -> BinaryIO:
        """The plain content in UTF-8. Raises BadImport where it is not in its encoding."""
        file = self.open()
        named = self.columns.get("encoding")
        if named is None and not encoding.marked(file.read(3))[0]:
            file.seek(0)
            return file
        with file:
            file.seek(0)
            return io.BytesIO(encoding.Decoder(named).feed(file.read(), last=True))

    def rows(self, days: int | None = None) -> Iterator[list[str]]:
        """Header and rows, cut to the first days if given (wide layout). Raises ValueError."""
        last = None if days is None else 1 + days * DAY_S // self.step_s
        delimiter = str(self.columns.get("delimiter", ","))
        try:
            with self._as_utf8() as file:
                for _, row in text_files.rows(file, _TABS.get(delimiter, delimiter)):
                    if row != [""]:
                        yield row[:last]
        except MalformedRow as error:
            raise ValueError(f"{self.path.name}, line {error.row}: {error.reason}") from None
        except _DAMAGED:
            reason = "the compressed file is damaged or truncated"
            raise ValueError(f"{self.path.name}: {reason}") from None

    def meters(self) -> list[str]:
        """The ids of the meters, in the order of the rows. Raises ValueError for a file whose first
        line is one of them: a header is expected."""
        rows = self.rows()
        if text_files.first_line(next(rows, [])) != "names":
            raise ValueError(f"{self.path.name}, line 1: a header is missing")
        return [row[0] for row in rows]

    def values(self, days: int) -> NDArray[np.float64]:
        """Wide layout: (meters, intervals) values; NaN for a missing or non-numeric cell."""
        rows = self.rows(days)
        next(rows, None)
        values = [[_number(cell) for cell in row[1:]] for row in rows]
        longest = max(map(len, values), default=0)
        filled = [row + [np.nan] * (longest - len(row)) for row in values]
        return np.array(filled, np.float64).reshape(len(values), longest)

    def recognised(self) -> Recognised:
        """What the file looks like. Raises ValueError, or BadImport for another encoding."""
        try:
            with self.open() as file:
                head = file.read(HEAD_BYTES)
        except _DAMAGED:
            reason = "the compressed file is damaged or truncated"
            raise ValueError(f"{self.path.name}: {reason}") from None
        whole = len(head) < HEAD_BYTES
        named = self.columns.get("encoding")
        given = dict(self.columns) | ({} if self.start is None else {"layout": "wide"})
        text = encoding.Decoder(named).feed(head, last=whole)
        found = recognise(text, given)
        try:
            text.partition(b"\n")[0].decode()
        except UnicodeDecodeError:
            if found.form == "csv":
                reason = "not UTF-8: give its encoding"
                raise ValueError(f"{self.path.name}, line 1: {reason}") from None
        return found

    def content(self, days: int | None = None) -> tuple[bytes, dict[str, Any]]:
        """What is sent: the file, or its first days, and the parameters of the import."""
        parameters = self.parameters()
        if days is None:
            return self.path.read_bytes(), parameters
        parameters |= {"delimiter": ",", "encoding": encoding.UTF_8}
        return text_files.written(self.rows(days)).encode(), parameters

    def upload(self, client: Client, *, days: int | None = None) -> dict[str, Any]:
        """Send the file to a curator service; returns its answer."""
        content, parameters = self.content(days)
        answer: dict[str, Any] = client.request(
            "POST",
            "/v1/readings/import",
            content=content,
            media_type="application/atom+xml" if self.green_button else "text/csv",
            params=parameters,
        ).json()
        return answer

    def dry_run(self, *, days: int | None = None) -> DryRun:
        """What the service would store. Raises ValueError or BadImport."""
        from curator.files.dry_run import dry_run
        from curator.files.options import ImportOptions

        content, parameters = self.content(days)
        options = ImportOptions.model_validate(parameters)

        async def chunks() -> AsyncIterator[bytes]:
            yield content

        try:
            return asyncio.run(dry_run(chunks(), options, xml=self.green_button))
        except Invalid as error:
            if not error.errors:
                raise
            found = (f"{each.pointer}: {each.message}" for each in error.errors)
            raise ValueError("; ".join(each.lstrip(": ") for each in found)) from None

    def parameters(self) -> dict[str, Any]:
        """The parameters of the import: the map's, and of some formats the command's options."""
        given = {name: _as_text(value) for name, value in self.columns.items()}
        if self.green_button:
            return given
        form = self.recognised().form
        found: dict[str, Any] = {}
        if form in _UNIT_NEEDED:
            found = {"unit": self.unit, "register": self.register}
        if form == "csv" and self.start is not None:
            found |= {"layout": "wide", "start": self.start, "step_s": self.step_s}
        return {**found, **given}


_UNIT_NEEDED: Final = ("csv", "influx", "home-assistant")
"""Formats whose files do not say what they measure."""


def _as_text(value: Any) -> Any:
    """The value of a map as a parameter: a table as JSON, a list with commas."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else value


_DAMAGED: Final = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_TABS: Final = {"tab": "\t", "\\t": "\t"}


def column_map(path: Path) -> dict[str, Any]:
    """The content of a column map. Raises OSError or ValueError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        result = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except UnicodeDecodeError:
        raise ValueError(f"{path.name}: is not text in UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name}: is not TOML or JSON: {error}") from None
    if not isinstance(result, dict):
        raise ValueError(f"{path.name}: a column map is a table of names and values")
    return result


def _number(cell: str) -> float:
    try:
        return number(cell)
    except ValueError:
        return float("nan")


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
    options = {"curator": curator, "timezone": timezone, "ambiguous": ambiguous}
    options["encoding"] = encoded
    given = {} if columns is None else column_map(columns)
    given |= {name: value for name, value in options.items() if value is not None}
    file = MeterFile(source, start, step_s, unit, register, given)
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
        for each in run.sums:
            of = f"{each.meter}, {each.register}: {each.readings} readings"
            say(f"    {each.day}  {of}, {each.total} {each.unit}")

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
        "summary": client.summary(),
        "intake": client.intake(),
        "registers": client.registers()["registers"],
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
    first = client.calendar(curator, timezone=timezone)
    others = first["registers"][1:]
    calendars = [first] * bool(first["registers"])
    calendars += [client.calendar(curator, register=name, timezone=timezone) for name in others]

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
    response = list(client.own_curators(prefix=prefix, only=only))
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
    response = list(client.silent_devices(silent_s=silent_s))
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
    response = client.completeness(register, period_s=period_s, begin=begin, end=end)
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
        answer = client.put_items(
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
    answer = client.items(kind.value, curator)

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
    client.drop_items(kind.value, curator, name=name)
    return Answer({"curator": curator, "name": name}, lambda: say(f"  {name}: deleted"))
