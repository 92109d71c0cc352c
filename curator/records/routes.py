"""The routes that an owner uses to give a curator its own records, sequences and sets of items."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Final, Literal

from fastapi import Depends, Request
from fastapi import Query as Parameter

from common.bodies import JSON, parse_json
from common.web.openapi import api_router, takes
from common.web.wire import content_type
from curator import examples
from curator.errors import BadRecords
from curator.owner import statement
from curator.owner.statement import OwnCuratorPart
from curator.records.records import RecordTable, checked, read_csv
from curator.store import records as store
from curator.web import ClockPart, DatabasePart, Owner
from tacit.answers.curator import ItemTables, ItemTableSize, KeptItems, KeptTable
from tacit.encoders.count_sums import MOST_SEQUENCES
from tacit.encoders.counts import Ints, Lists
from tacit.errors import UnsupportedForm
from tacit.query.terms import Identifier
from tacit.records import item_files
from tacit.records.text_files import without_mark

CSV = "text/csv"
CuratorName = Annotated[
    Identifier | None, Parameter(description="Whose table a CSV body is (JSON names it itself).")
]


CodedColumns = Annotated[
    tuple[str, ...],
    Parameter(description="Columns of a CSV body that have texts (JSON shows it itself)."),
]


router = api_router("records")


@router.post(
    "/v1/records",
    summary="A curator's own table, CSV or JSON, in place of the one before",
    openapi_extra=takes(RecordTable, examples.RECORDS),
)
async def put_records(
    request: Request,
    caller: Owner,
    database: DatabasePart,
    clock: ClockPart,
    curator: CuratorName = None,
    codes: CodedColumns = (),
) -> KeptTable:
    form, body = content_type(request), await request.body()
    if form == CSV:
        if curator is None:
            raise BadRecords("name the curator", pointer="/curator")
        records = await asyncio.to_thread(read_csv, body, codes)
    elif form == JSON:
        table = parse_json(body, RecordTable)
        curator = table.curator
        records = await asyncio.to_thread(checked, table)
    else:
        raise UnsupportedForm(extra={"supported": [CSV, JSON]})
    async with database.begin(large=True) as transaction:
        row, _ = await statement.find(transaction, curator, caller)
        await store.put_table(
            transaction, row.key, records.columns, records.values, records.codes, clock.now()
        )
    return KeptTable(curator=row.id, columns=list(records.columns), rows=len(records.values))


@router.get(
    "/v1/curators/{curator_id}/records",
    summary="Columns and number of rows of a curator's table",
)
async def get_records(curator_id: Identifier, caller: Owner, database: DatabasePart) -> KeptTable:
    async with database.reading() as transaction:
        row, _ = await statement.find(transaction, curator_id, caller)
        outline = await store.outline(transaction, row.key)
    columns, rows = outline or ((), 0)
    return KeptTable(curator=row.id, columns=list(columns), rows=rows)


@router.delete(
    "/v1/curators/{curator_id}/records",
    status_code=204,
    summary="Delete a curator's table; earlier contributions are not changed",
)
async def drop_records(own: OwnCuratorPart) -> None:
    async with own.changing() as (transaction, row, _):
        await store.drop_table(transaction, row.key)


Kind = Literal["sequences", "transactions"]
KINDS: Final[Mapping[Kind, str]] = {"sequences": "sequences", "transactions": "sets of items"}
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
        content, times = item_files.split(content)
    stream = io.BytesIO(content)
    if kind == "sequences":
        readers = {
            "text": item_files.read_text_sequences,
            "ndjson": item_files.read_ndjson_sequences,
            "spmf": item_files.read_spmf,
        }
        sequences = readers[form](stream)
        universe, lists = sequences.universe, sequences.lists
    elif form == "spmf":
        raise BadRecords("sets of items must be text or ndjson", pointer="/format")
    else:
        reader = {"text": item_files.read_text, "ndjson": item_files.read_ndjson}
        sets = reader[form](stream)
        universe, lists = sets.items, Lists(sets.values, sets.offsets)
    if lists.count > MOST_SEQUENCES:
        raise BadRecords(f"a table has at most {MOST_SEQUENCES} records")
    return universe, lists, times


def _other_form(content: bytes) -> Form | None:
    """The format of a file that was sent as text, the default, by mistake: read as text, its
    marks would become items. Its first records decide, all of them."""
    stripped = (line.strip() for line in without_mark(io.BytesIO(content)))
    lines = list(islice((line for line in stripped if line[:1] not in _NO_RECORD), LOOKED_AT))
    if lines and all(line.split()[-2:] in _SPMF_ENDS for line in lines):
        return "spmf"
    return "ndjson" if lines and all(map(_is_json, lines)) else None


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), (list, dict))
    except (ValueError, RecursionError):
        return False


def _kind(request: Request) -> Kind:
    """The last part of the path of a route of `KINDS`."""
    kind: Kind = request.url.path.rpartition("/")[2]  # type: ignore[assignment]
    return kind


KindPart = Annotated[Kind, Depends(_kind)]


async def put_items(
    request: Request,
    caller: Owner,
    kind: KindPart,
    database: DatabasePart,
    clock: ClockPart,
    curator: NamedCurator,
    form: FormName = "text",
    name: TableName = "records",
) -> KeptItems:
    async with database.reading() as transaction:  # no file is read for a stranger
        await statement.find(transaction, curator, caller)
    universe, lists, times = await asyncio.to_thread(read, kind, form, await request.body())
    async with database.begin(large=True) as transaction:
        row, _ = await statement.find(transaction, curator, caller)
        place = (row.key, kind, name)
        await store.put_items(transaction, place, universe, lists, times, clock.now())
    return KeptItems(
        curator=curator,
        name=name,
        records=lists.count,
        items=len(universe),
        timed=times is not None,
    )


async def list_item_tables(
    curator_id: Identifier, caller: Owner, kind: KindPart, database: DatabasePart
) -> ItemTables:
    async with database.reading() as transaction:
        row, _ = await statement.find(transaction, curator_id, caller)
        outlines = await store.item_outlines(transaction, row.key, kind)
    tables = [ItemTableSize(name=o.name, records=o.records, timed=o.timed) for o in outlines]
    return ItemTables(curator=curator_id, tables=tables)


async def drop_items(
    curator_id: Identifier,
    caller: Owner,
    kind: KindPart,
    database: DatabasePart,
    name: TableName = "records",
) -> None:
    async with database.begin() as transaction:
        row, _ = await statement.find(transaction, curator_id, caller)
        await store.drop_items(transaction, (row.key, kind, name))


for kind, words in KINDS.items():
    router.post(
        f"/v1/{kind}",
        summary=f"A curator's own {words}, in place of those of the same name",
        openapi_extra=examples.ITEMS_BODY,
        name=f"put_{kind}",
    )(put_items)
    router.get(
        f"/v1/curators/{{curator_id}}/{kind}",
        summary=f"Names and sizes of a curator's tables of {words}",
        name=f"get_{kind}",
    )(list_item_tables)
    router.delete(
        f"/v1/curators/{{curator_id}}/{kind}",
        status_code=204,
        summary=f"Delete a curator's table of {words}; what was contributed stays as it was",
        name=f"drop_{kind}",
    )(drop_items)
