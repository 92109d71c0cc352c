"""`tacit dataset`: upload data for jobs, show and delete it, and write samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.context import (
    Answer,
    TextTable,
    at_coordinator,
    console,
    fail,
    printed,
    read_json,
    say,
    tabled,
)
from cli.formatting import amount
from tacit import Client
from tacit.answers import base as api

app = typer.Typer(no_args_is_help=True, help="Datasets that the coordinator stores for jobs.")

Id = Annotated[str, typer.Argument(help="Id of the dataset.")]
_FORMATS = {
    "": "text",
    ".csv": "csv",
    ".parquet": "parquet",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "json",
    ".txt": "text",
    ".spmf": "spmf",
    ".seq": "msnbc",
}


@app.command("add")
@at_coordinator
def add(
    client: Client,
    file: Annotated[Path, typer.Argument(help="The file; .gz and .xz are decompressed.")],
    kind: Annotated[str, typer.Option(help="Kind of dataset, such as numeric-table.")],
    format_name: Annotated[
        str | None, typer.Option("--format", help="Format; by the file's name unless given.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name; the file's unless given.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Budget of all jobs together.")] = None,
    delta: Annotated[str, typer.Option(help="Delta of the budget.")] = "0",
    label: Annotated[str | None, typer.Option(help="Column with reference labels.")] = None,
    curator: Annotated[str | None, typer.Option(help="Column with the rows' owners.")] = None,
    privacy_unit: Annotated[str | None, typer.Option(help="The kind's own unless given.")] = None,
    universe: Annotated[
        str | None, typer.Option(help="Public items: id of a dataset, or a JSON list or file.")
    ] = None,
    sensitive: Annotated[
        Path | None, typer.Option(help="Second file of trajectories: the sensitive attributes.")
    ] = None,
    production: Annotated[bool, typer.Option(help="Purpose production, not trial.")] = False,
    revision_of: Annotated[
        str | None, typer.Option(help="Dataset of which this is a changed version.")
    ] = None,
) -> Answer:
    """Upload a file. The coordinator stores it sealed, and no command shows its rows."""
    fields: dict[str, Any] = {
        "roles": {"label": label, "curator": curator},
        "purpose": "production" if production else "trial",
        "privacy_unit": privacy_unit,
        "revision_of": revision_of,
        "universe": None if universe is None else declared_universe(client, universe),
        "budget": None if epsilon is None else {"epsilon": epsilon, "delta": delta},
    }
    parts = parts_of(file, sensitive)
    dataset = client.datasets.add(
        name or file.name,
        kind,
        format_name or format_of(file, kind),
        content=parts,
        **{key: value for key, value in fields.items() if value is not None},
    )
    return Answer(dataset, lambda: typer.echo(dataset["id"]))


@app.command("list")
@at_coordinator
def listing(
    client: Client,
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
) -> Answer:
    """List the stored datasets."""
    response = list(client.datasets.list(kind=kind))
    rows = [
        [item["id"], item["name"], item["kind"], str(item["schema"].get("rows", "")), _left(item)]
        for item in response
    ]
    columns = ["id", "name", "kind", "rows", "epsilon left"]
    return tabled(response, "Datasets", columns, rows)


@app.command("show")
@at_coordinator
def one(client: Client, dataset: Id) -> Answer:
    """One dataset and its ledger; none of its rows."""
    response = dict(client.datasets.get(dataset))
    response["events"] = client.datasets.ledger(dataset)["events"]

    def human() -> None:
        say(
            f"{response['name']}: {response['kind']} ({response['format']}), "
            f"{response['purpose']}, {response['schema'].get('rows', '?')} rows, "
            f"{response['bytes']} bytes"
        )
        columns = [item["name"] for item in response["schema"].get("columns", ())]
        if columns:
            say("columns: " + ", ".join(columns), markup=False)
        if response["ledger"] is None:
            console.print("public, or without a budget: no ledger")
            return
        say(
            f"unit of privacy {response['privacy_unit']}; epsilon left: {_left(response)}; "
            f"released outside the budget: {response['released_outside_budget']}"
        )
        rows = [
            [
                event["time"],
                event["kind"],
                event["job"] or "",
                amount(event.get("epsilon")),
                amount(event.get("delta")),
            ]
            for event in response["events"]
        ]
        console.print(TextTable("Ledger", ["time", "event", "job", "epsilon", "delta"], rows))

    return Answer(response, human)


@app.command("rm")
@at_coordinator
def remove(client: Client, dataset: Id) -> Answer:
    """Delete a dataset. Its ledger stays: the same data again finds what was spent."""
    client.datasets.delete(dataset)
    text = f"{dataset} is deleted; its ledger stays"
    return Answer({"deleted": dataset}, lambda: typer.echo(text))


@app.command("sample")
@printed
def sample(
    algorithm: Annotated[str, typer.Argument(help="Algorithm, such as kmeans.")],
    out: Annotated[Path, typer.Option(help="Directory to write to.")] = Path("."),
) -> Answer:
    """Write the small sample datasets of an algorithm, and parameters of a job on one of them.

    Prints the command that runs it.
    """
    from algorithms.contract import params_file
    from simulation.samples import JOBS, SAMPLES

    make = SAMPLES.get(algorithm)
    if make is None:
        fail(f"no samples of {algorithm!r}: one of {', '.join(sorted(SAMPLES))}")
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for item in make():
        path = out / item.file_name
        path.write_bytes(item.content)
        written.append(
            {
                "path": str(path),
                "kind": item.kind,
                "format": item.format,
                "description": item.description,
            }
        )
    job = JOBS[algorithm]
    params = out / params_file(algorithm)
    params.write_text(json.dumps(job.params, indent=1) + "\n", "utf-8")
    command = job.command(algorithm, out)
    written_files = {"samples": written, "params": str(params), "command": command}

    def human() -> None:
        rows = [[item["path"], item["kind"], item["description"]] for item in written]
        rows.append([str(params), "", f"parameters of a job on {job.file_name}"])
        console.print(TextTable("Samples", ["file", "kind", "what it is"], rows))
        typer.echo(f"To run it: {command}")

    return Answer(written_files, human)


def format_of(file: Path, kind: str) -> str:
    """The format by the file's name, or the only format of the kind."""
    # Loaded only here, as below: a list of datasets needs no reader of one.
    from algorithms.datasets.kinds import KINDS

    known = KINDS[kind].formats if kind in KINDS else {}
    suffixes = [suffix.lower() for suffix in file.suffixes if suffix.lower() not in (".gz", ".xz")]
    last = suffixes[-1] if suffixes else ""
    guess = _FORMATS.get(last)
    if guess is not None and (not known or guess in known):
        return guess
    if len(known) != 1:
        fail(f"{file.name}: give its --format")
    return next(iter(known))


def parts_of(file: Path, sensitive: Path | None) -> dict[str, bytes]:
    """The parts of an upload by name: one, or two for trajectories with sensitive attributes."""
    content = file.read_bytes()
    if sensitive is None:
        return {"file": content}
    return {"points": content, "sensitive": sensitive.read_bytes()}


def declared_universe(client: Client, text: str) -> Any:
    """As `universe_of`; a list that is too long for a request is uploaded as a dataset first."""
    # Loaded only here: other commands do without algorithms.
    from algorithms.datasets.declaration import INLINE_UNIVERSE

    items = universe_of(text)
    if not isinstance(items, list) or len(items) <= INLINE_UNIVERSE:
        return items
    content = "".join(f"{item}\n" for item in items).encode()
    dataset = client.datasets.add("universe", "universe", "text", content={"file": content})
    return {"dataset": dataset["id"]}


def universe_of(text: str) -> Any:
    """Public items for the declaration of a dataset, from a JSON list, a file with one (`.json`)
    or with an item per line, or the id of a dataset."""
    if text.lstrip().startswith("["):
        return json.loads(text)
    file = Path(text)
    if not file.is_file():
        return {"dataset": text}
    if file.suffix == ".json":
        return read_json(text)
    from tacit.records.text_files import text_lines

    with file.open("rb") as stream:
        return [item for _, line in text_lines(stream) if (item := line.partition("\t")[0])]


def _left(item: dict[str, Any] | api.Answer) -> str:
    return "-" if item["left"] is None else amount(item["left"]["epsilon"])
