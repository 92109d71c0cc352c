"""A curator's own sequences and sets of items: in by its owner alone, whole or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from common.store.transactions import Database
from common.web.dependencies import part_of
from curator.store import records
from tests.curator.conftest import START, OpenSite, Site

VISITS = "home news sports\nnews home\n\nnews news\n"
NOW = START + timedelta(days=400)


@pytest.fixture
async def it(site: OpenSite) -> AsyncIterator[Site]:
    async with site() as running:
        await running.enrol("meter")
        yield running


async def put(
    it: Site, content: str, status: int = 200, kind: str = "sequences", **more: Any
) -> Any:
    headers = {"Content-Type": "text/plain", **more.pop("headers", {})}
    params = "&".join(f"{name}={value}" for name, value in {"curator": "meter", **more}.items())
    path = f"/v1/{kind}?{params}"
    return await it.request("POST", path, None, status, content=content.encode(), headers=headers)


async def stored(
    it: Site, kind: str = "sequences", name: str = "records", until: datetime = NOW
) -> list[list[str]]:
    async with part_of(it.app, Database).reading() as transaction:
        found = await records.item_tables_of(transaction, (kind, name), (0, 10), until)
    return [
        [table.universe[item] for item in table.lists.items[low:high]]
        for table in found
        for low, high in zip(table.lists.starts[:-1], table.lists.starts[1:], strict=True)
    ]


async def test_every_form_gives_the_same_sequences(it: Site) -> None:
    for form, content in (
        ("text", VISITS),
        ("text", "\ufeff" + VISITS),
        ("ndjson", '["home","news","sports"]\n["news","home"]\n[]\n["news","news"]\n'),
        ("spmf", "home -1 news -1 sports -1 -2\nnews -1 home -1 -2\n-2\nnews -1 news -1 -2\n"),
    ):
        answer = await put(it, content, format=form, name=form)
        told = {"curator": "meter", "name": form, "records": 4, "items": 3, "timed": False}
        assert answer == told
        wanted = [["home", "news", "sports"], ["news", "home"], [], ["news", "news"]]
        assert await stored(it, name=form) == wanted


@pytest.mark.usefixtures("database_url")
async def test_a_table_takes_the_place_of_the_one_of_its_name_and_can_go(it: Site) -> None:
    await put(it, VISITS)
    await put(it, "a b\n", name="other")
    await put(it, "milk\n", kind="transactions")
    await put(it, "b\n")
    tables = [{"name": name, "records": 1, "timed": False} for name in ("other", "records")]
    assert await it.get("/v1/curators/meter/sequences") == {"curator": "meter", "tables": tables}
    assert await stored(it) == [["b"]]
    await it.request("DELETE", "/v1/curators/meter/sequences", status=204)
    assert await stored(it) == []
    assert await stored(it, name="other") == [["a", "b"]]
    assert await stored(it, "transactions") == [["milk"]]


MALFORMED: list[tuple[str, str, int, int | None]] = [
    ("ndjson", '["a"]\n["a",{"secret":1}]\n', 2, 2),
    ("ndjson", '["a"]\nsecret\n', 2, None),
    ("spmf", "a -1 -2\nsecret -1 b -2\n", 2, None),
    ("ndjson", '{"items":["a"],"time":"2026-05-01T08:00:00Z"}\n["secret"]\n', 2, None),
    ("ndjson", '["a"]\n{"items":["secret"],"time":"2026-05-01T08:00:00Z"}\n', 2, None),
    ("ndjson", '{"items":["secret"],"time":"2026-05-01T08:00:00"}\n', 1, None),
    ("ndjson", '{"items":["secret"],"time":5}\n', 1, None),
    ("ndjson", '{"items":["secret"]}\n', 1, None),
    ("ndjson", '{"items":"secret","time":"2026-05-01T08:00:00Z"}\n', 1, None),
    ("ndjson", '{"items":["a",{"secret":1}],"time":"2026-05-01T08:00:00Z"}\n', 1, 2),
    ("text", "a\nb c " + "secret" * 200 + "\n", 2, 3),
]


async def test_a_malformed_file_names_line_and_item_and_changes_nothing(it: Site) -> None:
    await put(it, VISITS)
    for form, content, row, column in MALFORMED:
        problem = await put(it, content, 422, format=form)
        assert problem["type"].endswith("malformed_row")
        assert (problem["row"], problem.get("column")) == (row, column)
        assert "secret" not in str(problem)
    assert len(await stored(it)) == 4


async def test_another_form_is_not_read_as_text(it: Site) -> None:
    """Its marks would be items, and a job would count them."""
    for kind in ("sequences", "transactions"):
        await put(it, VISITS, kind=kind)
        for form, content in (
            ("ndjson", '["a","b"]\n\n["b"]\n'),
            ("ndjson", '{"items":["a"],"time":"2026-05-01T08:00:00Z"}\n'),
            ("spmf", "# visits\n1 -1 2 -1 -2\n-2\n3 -1 -2\n"),
        ):
            problem = await put(it, content, 422, kind=kind)
            assert problem["type"].endswith("bad_records")
            assert problem["errors"][0]["pointer"] == "/format"
            assert form in problem["detail"]
        assert len(await stored(it, kind)) == 4


async def test_text_may_look_like_another_form_in_places(it: Site) -> None:
    for content in ("[a b]\n[1] 2\n", "5 -1 -2\n-2 0\n", "x-2\n", "\n", ""):
        assert (await put(it, content))["records"] == content.count("\n")


async def test_what_there_is_no_form_for(it: Site) -> None:
    await put(it, "a -1 -2\n", 422, kind="transactions", format="spmf")
    await put(it, VISITS, 422, format="csv")
    await put(it, VISITS, 422, name="n" * 129)


async def test_a_table_is_its_owners(it: Site) -> None:
    await it.enrol("other")
    made = await it.request("POST", "/v1/tokens", {"scope": "curator", "subject": "other"}, 201)
    headers = {"Authorization": f"Bearer {made['token']}"}
    await put(it, "not { read", 403, headers=headers, format="ndjson")
    await put(it, VISITS, headers=headers, curator="other")
    for method in ("GET", "DELETE"):
        await it.request(method, "/v1/curators/meter/sequences", status=403, headers=headers)
