"""Files: both layouts, compressed or not, with their faults reported by line and column."""

from __future__ import annotations

import gzip
import lzma
from typing import Any

import pytest

from tests.curator.conftest import OPEN, PLAIN, OpenSite, Site, query
from tests.curator.double import FakeWorld

WIDE = "layout=wide&unit=kWh&start=2025-12-31T12:00:00Z&step_s=900"
LONG = "layout=long&unit=kWh&curator_column=house&device_column=meter&time_column=at"
TABLE = (
    "meter,q0,q1,q2,q3\n"
    "g-1,0.5,1,-0.25,2\n"
    "stranger,1,1,1,1\n"
    "g-2,1e0,x,,0.125\n"
    "g-3,1,1\n"
    "\n"
    "g-3,0.000000000001,1,1,1\n"
)


async def upload(s: Site, mapping: str, body: bytes, expected: int = 200) -> dict[str, Any]:
    answer = await s.client.post(
        f"/v1/readings/import?{mapping}", content=body, headers={"Content-Type": "text/csv"}
    )
    assert answer.status_code == expected, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_wide_file(s: Site, world: FakeWorld) -> None:
    """Compressed in either way, and as it is."""
    await s.policy(**OPEN)
    await s.enrol("gw", ["g-1", "g-2", "g-3"])
    found = await upload(s, WIDE + "&import_id=one", lzma.compress(TABLE.encode()))
    assert found["state"] == "done"
    assert (found["lines"], found["accepted"], found["rejected"]) == (7, 10, 4)
    assert found["unknown_curators"] == ["stranger"]
    places = [(item["line"], item["column"]) for item in found["errors"]]
    assert sorted(places) == [(3, 1), (4, 3), (4, 4), (5, 4)]
    assert await s.get("/v1/readings/imports/one") == found
    again = await upload(s, WIDE, gzip.compress(TABLE.encode()))
    assert (again["accepted"], again["duplicates"]) == (0, 10)
    other = await upload(s, WIDE, TABLE.replace("0.125", "0.25").encode())
    assert (other["duplicates"], other["conflicts"]) == (9, 1)
    descriptor = s.open(query(PLAIN, bounds=["-5", "5"]))
    await s.take_part()
    assert world.result(descriptor) == {"sum": "7.375"}
    counts = await s.get("/v1/curators/g-2/readings")
    assert (counts["accepted"], counts["rejected"], counts["conflicts"]) == (2, 6, 1)


WHOLE: list[tuple[str, bytes, str, str]] = [
    (LONG, b"", "", "line 1: the file is empty"),
    (WIDE, b"", "", "line 1: the file is empty"),
    (LONG, b"7\n8\n9\n", "/time_column", "line 1: the header has no column 'at'; it has 1"),
    (WIDE, b"7\n8\n9\n", "/delimiter", "line 1: the header has no columns of values: is the del"),
    (WIDE + "&delimiter=%3B", b"m,a\ng-1,1\n", "/delimiter", "line 1: the header has no columns"),
    (WIDE, b"\x89PNG\r\n\x1a\n\0\0", "", "line 1: the header is not text in UTF-8"),
    (LONG, b"\0\1\2", "", "line 1: the header is not text in UTF-8"),
    (LONG, "zähler,at,value\n".encode("latin-1"), "", "line 1: the header is not text in UTF-8"),
    (LONG + "&header_line=3", b"a,b\n1,2\n", "/header_line", "line 3: the file ends before"),
    (WIDE, gzip.compress(TABLE.encode())[:20], "", "the compressed file is cut off"),
    (WIDE, gzip.compress(TABLE.encode(), mtime=0)[:-20] + b"damaged", "", "the compressed file"),
    (WIDE, lzma.compress(TABLE.encode())[:-40], "", "the compressed file"),
    (WIDE + "&columns=q9:q10", TABLE.encode(), "/columns", "line 1: the header has no"),
]


async def test_what_is_no_such_file_is_told_with_its_place(s: Site) -> None:
    await s.enrol("g-1")
    for mapping, body, pointer, detail in WHOLE:
        found = await upload(s, mapping, body, 422)
        assert found["type"] == "urn:tacit:problem:bad_import"
        assert found["detail"].startswith(detail), found["detail"]
        assert [each["pointer"] for each in found["errors"]] == [pointer]
        if detail.startswith("line"):
            assert found["line"] == int(detail.split(":")[0].removeprefix("line "))


async def test_a_bad_row_is_told_with_its_place_and_nothing_is_cut_or_moved(s: Site) -> None:
    at = "2025-12-31T12:00:00Z"
    rows: list[tuple[bytes, int | None, str | None]] = [
        (f"g-1,m-1,{at},1".encode(), None, None),
        (f"g-1,m-2,{at},0,5".encode(), 5, "the row has more cells than the header"),
        (f"g-1,m-3,{at},1,,".encode(), None, None),
        ("g-1,Zähler,".encode("latin-1") + f"{at},1".encode(), 2, "is not a name in UTF-8"),
        (f"g-1,m\x005,{at},1".encode(), 2, "is not a name in UTF-8"),
        (f"g-1,{'m' * 129},{at},1".encode(), 2, "is not a name in UTF-8"),
        (f'g-1,m-6",{at},1'.encode(), None, "a quote in a cell that does not begin with one"),
        (b"g-1,m-7", 3, "the row is too short"),  # the last one, without an end
    ]
    await s.policy(**OPEN)
    await s.enrol("g-1")
    body = b"\n".join([b"house,meter,at,value", *(row for row, *_ in rows)])
    found = await upload(s, LONG, body)
    expected = [
        (line, column, detail)
        for line, (_, column, detail) in enumerate(rows, 2)
        if detail is not None
    ]
    assert found["accepted"] == 2
    assert len(found["errors"]) == found["rejected"] == len(expected)
    for error, (line, column, detail) in zip(
        sorted(found["errors"], key=lambda each: int(each["line"])), expected, strict=True
    ):
        assert (error["line"], error["column"]) == (line, column)
        assert detail in error["detail"]
    descriptor = s.open(query(PLAIN))
    await s.take_part()
    assert s.world.result(descriptor) == {"sum": "2"}


@pytest.mark.parametrize("layout", ["long", "wide"])
async def test_a_quoted_note_is_one_cell_whatever_it_looks_like(
    site: OpenSite, layout: str
) -> None:
    """Lines inside quotes that look like rows of another curator, and delimiters inside quotes."""
    at = "2025-12-31T12:00:00Z"
    if layout == "long":
        mapping, head = LONG, "house,meter,at,value,note"
        fake, row = f"g-2,m,{at},7,x", f'g-1,"m,1",{at},"0.5","it\'s 5"" wide\n'
    else:
        mapping, head = WIDE + "&columns=q0:q1", "meter,q0,q1,note"
        fake, row = "g-2,7,7,x", '"g-1","0.5",1,"5"" wide\r\n'
    body = f'{head}\n{row}{fake}\nend"\ng-2,only\n'
    async with site() as s:
        await s.enrol("gw", ["g-1", "g-2"])
        found = await upload(s, mapping, b"\xef\xbb\xbf" + body.encode())
        assert found["accepted"] == (1 if layout == "long" else 2)
        assert [(each["line"], each["detail"]) for each in found["errors"]] == [
            (5, "the row is too short")
        ]
        cut = await upload(s, mapping, body.encode().replace(b'end"', b"end"), 422)
        assert cut["detail"] == "line 2: the quotes are not closed"


async def test_two_columns_of_one_name_are_refused(s: Site) -> None:
    await s.enrol("g-1")
    for mapping, header, column in (
        (LONG, "house,meter,at,value,value", 5),
        (WIDE, "meter,q0,q1,q0", 4),
    ):
        found = await upload(s, mapping, f"{header}\ng-1,1,2,3\n".encode(), 422)
        assert found["detail"] == f"line 1, column {column}: two columns have one name"


async def test_a_first_row_is_not_taken_for_a_header(s: Site) -> None:
    await s.enrol("gw", ["g-1", "g-2"])
    for first in ("g-1,0.5,0.75", "g-1,2,1,", "g-1,x,1,2"):
        found = await upload(s, WIDE, f"{first}\ng-2,1,1\n".encode(), 422)
        assert "is the header missing" in found["detail"]
    found = await upload(s, WIDE + "&columns=2024:2025", b"m,2024,2025\ng-2,1,1\n")
    assert found["accepted"] == 2
