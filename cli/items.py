"""`tacit items`: bring sequences and sets of items to a curator service."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from cli.context import Answer, at_curator, errors, say
from tacit import Client

TIMED: Final = "each with a time"
UNTIMED: Final = "without times: in no window"

app = typer.Typer(no_args_is_help=True, help="Sequences and sets of items of your own curators.")


class Kind(StrEnum):
    SEQUENCES = "sequences"
    TRANSACTIONS = "transactions"


class Form(StrEnum):
    TEXT = "text"
    NDJSON = "ndjson"
    SPMF = "spmf"


KindArgument = Annotated[Kind, typer.Argument(help="sequences, or transactions: sets of items.")]
CuratorArgument = Annotated[str, typer.Argument(help="Whose they are.")]
NameOption = Annotated[str, typer.Option(help="Of the table, as jobs name it.")]


@app.command("import")
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
    """Give a curator a table of its own, in place of the one of this name.

    A line that cannot be read is named, with the item; then nothing is stored."""
    with errors.status(f"importing {source.name}"):
        answer = client.put_items(
            kind.value, curator, source.read_bytes(), name=name, form=form.value
        )

    def human() -> None:
        timed = TIMED if answer["timed"] else UNTIMED
        told = f"{answer['records']} records of {answer['items']} different items"
        say(f"  {answer['name']}: {told}, {timed}")

    return Answer(answer, human)


@app.command("list")
@at_curator
def list_items(client: Client, kind: KindArgument, curator: CuratorArgument) -> Answer:
    """Names and sizes of a curator's tables."""
    answer = client.items(kind.value, curator)

    def human() -> None:
        for table in answer["tables"]:
            timed = TIMED if table["timed"] else UNTIMED
            say(f"  {table['name']}: {table['records']} records, {timed}")

    return Answer(answer, human)


@app.command("delete")
@at_curator
def delete_items(
    client: Client, kind: KindArgument, curator: CuratorArgument, name: NameOption = "records"
) -> Answer:
    """Delete a curator's table; what was contributed stays as it was."""
    client.drop_items(kind.value, curator, name=name)
    return Answer({"curator": curator, "name": name}, lambda: say(f"  {name}: deleted"))
