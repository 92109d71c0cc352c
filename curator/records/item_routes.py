"""The routes that an owner uses to give a curator its own sequences and sets of items."""

from __future__ import annotations

import asyncio
import io
import json
from itertools import islice
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, FastAPI, Request
from fastapi import Query as Parameter

from common.runtime.clock import Clock
from common.web.bodies import gives
from common.web.parts import part
from curator import examples
from curator.errors import BadRecords
from curator.owner import statement
from curator.store import item_tables as store
from curator.web import DatabasePart, Owner
from tacit.answers.hosting import ItemTables, KeptItems
from tacit.encoders.count_sums import MOST_SEQUENCES
from tacit.encoders.counts import Ints, Lists
from tacit.query.words import Identifier
from tacit.records import sequences_files, timed_ndjson, transactions_files
from tacit.records.reading import without_mark

Kind = Literal["sequences", "transactions"]
Form = Literal["text", "ndjson", "spmf"]
TableName = Annotated[
    str, Parameter(min_length=1, max_length=128, description="Of the table, as jobs name it.")
]
FormName = Annotated[
    Form,
    Parameter(
        alias="format",
        description="text: a record a line, items between blanks; ndjson: a list a line, or an "
        "object of `items` and `time` a line; "
        "spmf: -1 after an item, -2 at the end (sequences only). Only ndjson has times: records of "
        "the others are in no job's window.",
    ),
]
NamedCurator = Annotated[Identifier, Parameter(description="Whose table it is.")]

LOOKED_AT: Final = 1_000
"""Records of a text that are compared with the other forms."""
_NO_RECORD: Final = (b"", b"%", b"#", b"@")
_SPMF_ENDS: Final = ([b"-1", b"-2"], [b"-2"])


def read(kind: Kind, form: Form, content: bytes) -> tuple[tuple[str, ...], Lists, Ints | None]:
    """The ids of a file's items, its records, and the time of each if they have times. Raises
    BadRecords, MalformedRow, which names line and item, TooManyRows."""
    times = None
    if form == "text" and (other := _other_form(content)) is not None:
        raise BadRecords(f"the records look like {other}, not text", pointer="/format")
    if form == "ndjson":
        content, times = timed_ndjson.split(content)
    stream = io.BytesIO(content)
    if kind == "sequences":
        readers = {
            "text": sequences_files.read_text,
            "ndjson": sequences_files.read_ndjson,
            "spmf": sequences_files.read_spmf,
        }
        sequences = readers[form](stream)
        universe, lists = sequences.universe, sequences.lists
    elif form == "spmf":
        raise BadRecords("sets of items come as text or ndjson", pointer="/format")
    else:
        reader = {"text": transactions_files.read_text, "ndjson": transactions_files.read_ndjson}
        sets = reader[form](stream)
        universe, lists = sets.items, Lists(sets.values, sets.offsets)
    if lists.count > MOST_SEQUENCES:
        raise BadRecords(f"a table has at most {MOST_SEQUENCES} records")
    return universe, lists, times


def _other_form(content: bytes) -> Form | None:
    """What a file is that came as text, the default, by mistake: read so, its marks would be items.
    Its first records decide, all of them."""
    found = (line.strip() for line in without_mark(io.BytesIO(content)))
    lines = list(islice((line for line in found if line[:1] not in _NO_RECORD), LOOKED_AT))
    if lines and all(line.split()[-2:] in _SPMF_ENDS for line in lines):
        return "spmf"
    return "ndjson" if lines and all(map(_is_json, lines)) else None


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), (list, dict))
    except (ValueError, RecursionError):
        return False


def add_items(app: FastAPI) -> None:
    """Add the routes of both kinds to an app."""
    _add_kind(app, "sequences", "sequences")
    _add_kind(app, "transactions", "sets of items")


def _add_kind(app: FastAPI, kind: Kind, words: str) -> None:
    @app.post(
        f"/v1/{kind}",
        **gives(KeptItems),
        tags=["records"],
        summary=f"A curator's own {words}, in place of those of the same name",
        openapi_extra=examples.ITEMS_BODY,
        name=f"put_{kind}",
    )
    async def put(
        request: Request,
        caller: Owner,
        database: DatabasePart,
        clock: Annotated[Clock, Depends(part(Clock))],
        curator: NamedCurator,
        form: FormName = "text",
        name: TableName = "records",
    ) -> dict[str, Any]:
        async with database.reading() as transaction:  # strangers make nobody read a file
            await statement.find(transaction, curator, caller)
        universe, lists, times = await asyncio.to_thread(read, kind, form, await request.body())
        async with database.begin(large=True) as transaction:
            row, _ = await statement.find(transaction, curator, caller)
            place = (row.key, kind, name)
            await store.put(transaction, place, universe, lists, times, clock.now())
        return {
            "curator": curator,
            "name": name,
            "records": lists.count,
            "items": len(universe),
            "timed": times is not None,
        }

    @app.get(
        f"/v1/curators/{{curator_id}}/{kind}",
        **gives(ItemTables),
        tags=["records"],
        summary=f"Names and sizes of a curator's tables of {words}",
        name=f"get_{kind}",
    )
    async def outline(
        curator_id: Identifier, caller: Owner, database: DatabasePart
    ) -> dict[str, Any]:
        async with database.reading() as transaction:
            row, _ = await statement.find(transaction, curator_id, caller)
            found = await store.outlines(transaction, row.key, kind)
        tables = [
            {"name": each.name, "records": each.records, "timed": each.timed} for each in found
        ]
        return {"curator": curator_id, "tables": tables}

    @app.delete(
        f"/v1/curators/{{curator_id}}/{kind}",
        tags=["records"],
        status_code=204,
        summary=f"Delete a curator's table of {words}; what was contributed stays as it was",
        name=f"drop_{kind}",
    )
    async def drop(
        curator_id: Identifier,
        caller: Owner,
        database: DatabasePart,
        name: TableName = "records",
    ) -> None:
        async with database.begin() as transaction:
            row, _ = await statement.find(transaction, curator_id, caller)
            await store.drop(transaction, (row.key, kind, name))
