"""Datasets over HTTP: handed in, listed without rows, refused with the place, deleted."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from algorithms.datasets.kinds import read
from common.runtime.clock import ManualClock
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.datasets.datasets import Datasets
from tests.common.web.serving import serving
from tests.coordinator.conftest import Houses
from tests.coordinator.datasets.forms import CSV, hand_in
from tests.coordinator.double import House, pointers, problem

ROWS: dict[str, Any] = {
    "name": "two",
    "kind": "numeric-table",
    "format": "csv",
    "columns": ["x", "y"],
    "rows": [[1, 2], [3, 4.5]],
}


async def values(it: House, dataset_id: str) -> Any:
    """What is kept, as a job would read it."""
    datasets = part_of(it.app, Datasets)
    async with part_of(it.app, Database).reading() as transaction:
        row = await datasets.find(transaction, dataset_id)
        declaration = await datasets.declaration(transaction, row)
    with datasets.open_content(row) as stream:
        return read(declaration, stream)


async def test_a_table_is_kept_and_no_route_returns_its_rows(house: Houses) -> None:
    async with house(0) as it:
        content = b"label,x,owner\nred,1234.5678,7\nblue,-2e3,8\n"
        answer = await hand_in(
            it,
            content,
            roles={"label": "label", "curator": "owner"},
            budget={"epsilon": "2", "delta": "1e-6"},
            purpose="production",
        )
        assert answer.status_code == 201, answer.text
        made = answer.json()
        assert answer.headers["Location"] == f"/v1/datasets/{made['id']}"
        assert made["schema"] == {
            "rows": 2,
            "columns": [{"name": "x", "type": "number"}],
            "has_label": True,
            "has_curator": True,
        }
        assert made["privacy_unit"] == "record"
        assert made["budget"] == made["left"] == {"epsilon": "2", "delta": "0.000001"}
        assert made["charged"] == {"epsilon": "0", "delta": "0"}
        listed = (await it.ask("GET", "/v1/datasets")).json()["datasets"]
        one = (await it.ask("GET", f"/v1/datasets/{made['id']}")).json()
        spent = (await it.ask("GET", f"/v1/datasets/{made['id']}/ledger")).json()
        assert listed == [one] == [made]
        assert [event["kind"] for event in spent["events"]] == ["declared"]
        assert spent["verified"] is True
        for text in (answer.text, str(listed), str(spent)):
            assert "1234.5" not in text  # with its point, as identifiers have digits too
        kept = await values(it, made["id"])
        assert kept.values.tolist() == [[1234.5678], [-2000.0]]
        assert kept.labels.tolist() == ["red", "blue"]
        assert kept.curators.tolist() == ["7", "8"]
        assert (await it.ask("GET", "/v1/datasets?kind=table")).json() == {"datasets": []}


@pytest.mark.parametrize("pack", [gzip.compress, bytes], ids=["gz", "plain"])
async def test_nothing_on_the_disk_can_be_read(house: Houses, tmp_path: Path, pack: Any) -> None:
    """Acceptance: a planted value is nowhere in the data directory, packed or not."""
    planted = "271828182.84590452"
    content = ("secret_column\n" + f"{planted}\n" * 2000).encode()
    async with house(0) as it:
        made = (await hand_in(it, pack(content))).json()["id"]
        assert (await values(it, made)).values[0, 0] == float(planted)
        directory = tmp_path / "coordinator"
        files = [path for path in directory.rglob("*") if path.is_file()]
        assert any(path.suffix == ".sealed" for path in files)
        for path in files:
            data = path.read_bytes()
            assert planted.encode() not in data, path
            assert pack(content)[:200] not in data, path
            assert path.stat().st_mode & 0o077 == 0 or path.name.startswith("coordinator.db-")


async def test_inline_rows_and_files_are_the_same_data(house: Houses) -> None:
    async with house(0) as it:
        budget = {"epsilon": "1"}
        inline = await it.ask("POST", "/v1/datasets", {**ROWS, "budget": budget})
        assert inline.status_code == 201, inline.text
        sent = await hand_in(it, b"x,y\n1,2\n3,4.5\n", budget=budget)
        packed = await hand_in(it, gzip.compress(b"x,y\n1,2\n3,4.5\n"))
        found = [answer.json() for answer in (inline, sent, packed)]
        assert len({item["id"] for item in found}) == 3
        assert len({item["ledger"] for item in found}) == 1
        assert found[2]["budget"] == {"epsilon": "1", "delta": "0"}
        for item in found:
            assert (await values(it, item["id"])).values.tolist() == [[1, 2], [3, 4.5]]
        objects = {**ROWS, "rows": [{"y": 2, "x": 1}], "columns": ["x", "y"]}
        made = (await it.ask("POST", "/v1/datasets", objects)).json()["id"]
        assert (await values(it, made)).values.tolist() == [[1, 2]]


async def test_a_malformed_dataset_names_its_place(house: Houses, tmp_path: Path) -> None:
    """Acceptance 2 of jobs.md; nothing is left behind. Rows of each kind: tests/algorithms."""
    long = b"x,y\n1,2\n" + b"9" * 10_000_000 + b"\n"
    cases: list[tuple[bytes, dict[str, Any], str, dict[str, Any]]] = [
        (CSV, {"kind": "numbers"}, "wrong_kind", {}),
        (CSV, {"kind": "user-series"}, "malformed_row", {"row": 1, "column": "user"}),
        (CSV, {"roles": {"label": "class"}}, "malformed_row", {"row": 1, "column": "class"}),
        (b"x,y\n1,2\n3,nan\n", {}, "malformed_row", {"row": 3, "column": "y"}),
        (b"", {}, "malformed_row", {"row": 1}),
        (long, {}, "malformed_row", {"row": 3}),
        (gzip.compress(CSV)[:-9], {}, "malformed_content", {}),
        (b"a\nb\na\n", {"kind": "universe", "format": "text"}, "malformed_row", {"row": 3}),
    ]
    async with house(0) as it:
        for content, said, name, place in cases:
            answer = await hand_in(it, content, **said)
            assert problem(answer) == (422, name), (content[:30], answer.text)
            found = answer.json()
            assert {key: found[key] for key in place} == place, found
        assert (await it.ask("GET", "/v1/datasets")).json() == {"datasets": []}
        directory = tmp_path / "coordinator" / "datasets"
        assert not directory.exists() or list(directory.iterdir()) == []


async def test_every_wrong_declaration_is_named(house: Houses) -> None:
    cases: list[tuple[dict[str, Any], tuple[int, str], list[str]]] = [
        ({"name": None}, (422, "bad_parameter"), ["/name"]),
        ({"budget": {"epsilon": 1.5}}, (422, "bad_parameter"), ["/budget/epsilon"]),
        ({"budget": "not json"}, (422, "dataset_refused"), ["/budget"]),
        ({"colour": "red"}, (422, "bad_parameter"), ["/colour"]),
        ({"privacy_unit": "sequence"}, (422, "dataset_refused"), ["/privacy_unit"]),
        ({"kind": "table", "budget": {"epsilon": "1"}}, (422, "dataset_refused"), ["/budget"]),
        ({"kind": "table", "roles": {"label": "x"}}, (422, "wrong_kind"), ["/roles/label"]),
        ({"universe": ["a"]}, (422, "wrong_kind"), ["/universe"]),
        ({"universe": [str(n) for n in range(10_001)]}, (422, "bad_parameter"), ["/universe"]),
        ({"revision_of": "0" * 36}, (404, "unknown_dataset"), ["/revision_of"]),
    ]
    async with house(0) as it:
        for said, expected, places in cases:
            answer = await hand_in(it, **said)
            assert problem(answer) == expected, (said, answer.text)
            assert pointers(answer) == places, answer.text
        nameless = await it.ask(
            "POST",
            "/v1/datasets",
            data={"name": "a", "kind": "numeric-table"},
            files={"format": (None, b"csv")},
        )
        assert problem(nameless) == (422, "dataset_refused")
        twice = await it.ask(
            "POST",
            "/v1/datasets",
            data={"name": "a", "kind": "universe", "format": "text"},
            files=[("file", ("a", b"x")), ("file", ("b", b"y"))],
        )
        assert problem(twice) == (422, "dataset_refused")
        for body in (
            {**ROWS, "url": "https://example.test/a"},
            {**ROWS, "rows": [[1]]},
            {**ROWS, "rows": [[1, None]]},
            {**ROWS, "format": "parquet"},
        ):
            assert (await it.ask("POST", "/v1/datasets", body)).status_code == 422
        for kind in ("text/csv", "multipart/form-data"):
            answer = await it.ask(
                "POST", "/v1/datasets", content=CSV, headers={"Content-Type": kind}
            )
            assert answer.status_code in (400, 415)
        cut = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n1,2'
        for form in (cut, b"junk", cut.replace(b'"file"', b'"../x"') + b"\r\n--b--\r\n"):
            answer = await it.ask(
                "POST",
                "/v1/datasets",
                content=form,
                headers={"Content-Type": "multipart/form-data; boundary=b"},
            )
            assert answer.status_code in (400, 422), answer.text


async def test_limits(house: Houses) -> None:
    bomb = gzip.compress(b"x\n" + b"0\n" * 20_000_000)
    async with house(0, dataset_max_bytes=1 << 20, dataset_max_rows=3) as it:
        assert problem(await hand_in(it, bomb)) == (413, "too_large")
        assert problem(await hand_in(it, b"x\n" + b"0.25\n" * (1 << 20))) == (413, "too_large")
        assert problem(await hand_in(it, b"x\n1\n2\n3\n4\n")) == (413, "too_large")
        assert (await hand_in(it, b"x\n1\n2\n3\n")).status_code == 201
    async with house(0) as it:
        assert problem(await hand_in(it, bomb)) == (413, "too_large")
        wide = ",".join(f"c{index}" for index in range(300)).encode() + b"\n"
        assert problem(await hand_in(it, wide)) == (413, "too_large")


async def test_a_deployment_may_store_none(house: Houses) -> None:
    async with house(0, stored_datasets=False) as it:
        assert problem(await hand_in(it)) == (403, "datasets_refused")


async def test_a_retry_with_the_same_key_is_the_same_dataset(house: Houses, tmp_path: Path) -> None:
    async with house(0) as it:
        first = await hand_in(it, key="one")
        again = await hand_in(it, key="one")
        assert again.json() == first.json()
        assert again.headers["Idempotency-Replayed"] == "true"
        assert problem(await hand_in(it, b"x\n1\n", key="one")) == (422, "idempotency_key_reused")
        listed = (await it.ask("GET", "/v1/datasets")).json()["datasets"]
        kept = [path.name for path in (tmp_path / "coordinator" / "datasets").iterdir()]
        assert kept == [first.json()["id"]] == [item["id"] for item in listed]


async def test_an_address_is_fetched_only_where_the_deployment_allows(
    house: Houses, tmp_path: Path
) -> None:
    async def table(_: Request) -> Response:
        return Response(CSV)

    async def moved(_: Request) -> Response:
        return Response(status_code=302, headers={"Location": "/private"})

    asked = {key: ROWS[key] for key in ("name", "kind", "format")}
    async with serving(tmp_path / "store") as store:
        store.app.add_route("/public/table.csv", table)
        store.app.add_route("/public/moved.csv", moved)
        host = f"127.0.0.1:{store.port}"
        async with house(0, dataset_url_prefixes=(f"http://{host}/public/",)) as it:
            body = {**asked, "url": f"http://{host}/public/table.csv"}
            answer = await it.ask("POST", "/v1/datasets", body)
            assert answer.status_code == 201, answer.text
            assert (await values(it, answer.json()["id"])).rows == 2
            for url in (
                f"http://{host}/private",
                f"http://{host}/public/../private",
                f"http://{host}/public/%2e%2e/private",
                f"http://user@{host}/public/table.csv",
                f"http://{host}.evil.test/public/table.csv",
                "file:///etc/passwd",
            ):
                answer = await it.ask("POST", "/v1/datasets", {**asked, "url": url})
                assert problem(answer) == (403, "url_refused"), url
            for name in ("moved.csv", "missing.csv"):
                url = f"http://{host}/public/{name}"
                answer = await it.ask("POST", "/v1/datasets", {**asked, "url": url})
                assert problem(answer) == (503, "url_unreachable")
            assert len((await it.ask("GET", "/v1/datasets")).json()["datasets"]) == 1


async def test_a_universe_is_public_and_has_no_budget(house: Houses) -> None:
    async with house(0) as it:
        answer = await hand_in(it, b"a\tfruit\nb\n", kind="universe", format="text")
        assert answer.status_code == 201, answer.text
        made = answer.json()
        assert made["ledger"] is None
        assert made["budget"] is None
        assert made["schema"] == {"rows": 2, "has_groups": True}
        assert (await values(it, made["id"])).groups == ("fruit", "")


async def test_abandoned_contents_are_removed(house: Houses, tmp_path: Path) -> None:
    clock = ManualClock()
    async with house(0, clock=clock) as it:
        made = (await hand_in(it)).json()["id"]
        datasets = part_of(it.app, Datasets)
        for name in ("old", "new"):
            datasets.vault.prepare(name)
            datasets.vault.writer(name, "file").abandon()
        long_ago = clock.now().timestamp() - 7200
        fresh = clock.now().timestamp()
        for name, when in (("old", long_ago), ("new", fresh), (made, long_ago)):
            home = datasets.vault.directory / name
            for path in (*home.iterdir(), home):
                os.utime(path, (when, when))
        await it.restart()
        left = {path.name for path in (tmp_path / "coordinator" / "datasets").iterdir()}
        assert left == {made, "new"}
