"""Files whose quotes, marks and comments a careless reader takes for rows, or rows for comments."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator

import pytest

from tests.adversary.uploads import upload
from tests.coordinator.jobs.office import Office
from tests.curator.conftest import OpenSite, Site

BASKETS = [["New York", "a"], ["New York", 'say "hi"'], ["b\n\rc", "a"], ["#x"]]


@pytest.fixture
async def meter(site: OpenSite) -> AsyncIterator[Site]:
    async with site() as running:
        await running.enrol("meter")
        yield running


def table(rows: int, end: str = "\n") -> str:
    """Records with a note of two lines, the second of which looks like a row."""
    notes = (f'0.5,"flat {at}{end}1000,x""{at}"{end}' for at in range(rows))
    return f"kwh,household{end}" + "".join(notes)


def test_a_line_in_quotes_is_no_row(it: Office) -> None:
    """60,000 rows are 1.5 MB: blocks of the reader end inside quotes."""
    rows = 60_000
    for end in ("\n", "\r\n"):
        content = table(rows, end).encode()
        roles = {"curator": "household"}
        answer = upload(it, "numeric-table", content, roles=roles)
        assert answer.json()["schema"]["rows"] == rows
        bad = upload(it, "numeric-table", content + b'"1",y\n"x",z\n', roles=roles)
        assert (bad.json()["row"], bad.json()["column"]) == (2 * rows + 3, "kwh")
        cut = upload(it, "numeric-table", content + b'1,"y\n2,z\n', roles=roles)
        assert cut.json()["row"] == 2 * rows + 2
        assert "quotes are not closed" in cut.text


@pytest.mark.parametrize(
    ("content", "row"),
    [
        (b'z,d\na,5" pipe\n', 2),
        (b'z,d\n"a"b,c\n', 2),
        (b"z,d\ra,b\r", 1),
        (b"z,d\na\rb,c\n", 2),
        (b"z,z\na,b\n", 1),
        (b'z,d\na, "b"\n', 2),
    ],
)
def test_what_two_readers_would_read_differently_is_refused(
    it: Office, content: bytes, row: int
) -> None:
    answer = upload(it, "table", content)
    assert (answer.status_code, answer.json()["row"]) == (422, row)


@pytest.mark.parametrize(
    ("kind", "form", "content", "rows"),
    [
        ("sequences", "text", b"#a b\n%c d\na\n", 3),
        ("transactions", "text", b"#a b\n%c d\n", 2),
        ("universe", "text", b"#a\n%b\n", 2),
        ("sequences", "spmf", b"# note\n1 -1 -2\n", 1),
        ("edge-list", "snap", b"# note\n1 2\n", 1),
        ("edge-list", "snap", b"1 #2\n", None),
        ("sequences", "spmf", b"#1 -1 2 -1 -2\n", None),
    ],
)
def test_a_comment_is_one_only_where_the_format_has_comments(
    it: Office, kind: str, form: str, content: bytes, rows: int | None
) -> None:
    for mark in (b"", b"\xef\xbb\xbf"):
        answer = upload(it, kind, mark + content, form)
        if rows is None:
            assert answer.status_code == 422
        else:
            assert answer.json()["schema"]["rows"] == rows


@pytest.mark.parametrize("ids", [["#a", "b"], ["a b", "c"], ["", "b"]])
def test_no_vertex_has_an_id_that_a_reader_would_lose(it: Office, ids: list[str]) -> None:
    rows = upload(it, "edge-list", b"x y\n", "snap", universe=["x", "y", *ids])
    assert rows.status_code == 422
    body = {"name": "g", "kind": "edge-list", "format": "snap", "rows": [ids]}
    assert it.ask("POST", "/v1/datasets", body).status_code == 422


def test_ids_with_blanks_come_back_from_a_published_table(it: Office) -> None:
    items = sorted({item for basket in BASKETS for item in basket})
    dataset = it.rows(
        kind="transactions",
        format="ndjson",
        columns=None,
        rows=BASKETS * 200,
        universe=items,
    )
    params = {"epsilon": "20", "universe": items}
    job = it.submit(dataset, "set-valued", params=params)
    it.succeeded(job)
    text = it.ask("GET", f"/v1/jobs/{job}/files/release.csv").text
    lines = it.ask("GET", f"/v1/jobs/{job}/files/release.ndjson").text
    found = [
        next(csv.reader(io.StringIO(row["items"], newline=""), delimiter=" "), [])
        for row in csv.DictReader(io.StringIO(text, newline=""))
    ]
    assert found == [json.loads(line)["items"] for line in lines.splitlines()]
    assert ["New York", "a"] in [sorted(each) for each in found]


async def test_an_owners_sequences_are_all_there(meter: Site) -> None:
    headers = {"Content-Type": "text/plain"}
    path = "/v1/sequences?curator=meter"
    answer = await meter.request("POST", path, content=b"#a b\n%c d\n", headers=headers)
    assert answer["records"] == 2
