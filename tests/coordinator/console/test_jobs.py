"""Pages of jobs and datasets: what the API tells the same token; forms do what it does; no row."""

from __future__ import annotations

import asyncio
import csv
import html
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from algorithms import catalogue
from common.runtime.clock import uuid7
from common.store.transactions import Database
from common.web.console import formatting
from common.web.dependencies import part_of
from coordinator import examples
from coordinator.console.datasets import declared
from coordinator.console.jobs import PARAM, failure, fields, request_of
from coordinator.models.job import JobState
from coordinator.store import jobs as job_store
from tacit.errors import Invalid
from tacit.report.text import forecast_of_a_job
from tests.coordinator.conftest import Houses
from tests.coordinator.console.browser import OWN, Browser
from tests.coordinator.console.test_rounds import EVIL
from tests.coordinator.console.test_rounds import signed_in as signed_in_at
from tests.coordinator.double import House
from tests.coordinator.jobs.office import KMEANS, TOKEN, Office, job_row
from tests.coordinator.jobs.schedules.test_scheduler import begin

POLICY = re.compile(r"\sstyle=|\son\w+=|javascript:")


@pytest.fixture(scope="module")
def done(it: Office) -> str:
    """A job that succeeded, with a comparison."""
    job = it.submit(it.rows(), params={**KMEANS, "evaluate": True})
    it.succeeded(job)
    return job


async def signed_in(it: Office, scope: str = "operator") -> Browser:
    browser = Browser(str(it.http.base_url))
    await browser.sign_in(TOKEN if scope == "operator" else it.token(scope))
    return browser


def params_of(page: str) -> dict[str, str]:
    """The form's fields of a page, filled in for k-means."""
    return {"algorithm": "kmeans", **{f"{PARAM}{k}": _text(v) for k, v in KMEANS.items()}}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


async def test_a_job_and_its_result_as_the_api_tells_them(it: Office, done: str) -> None:
    shown, path = it.shown(done), f"/v1/jobs/{done}"
    result, report = it.ask("GET", f"{path}/result").json(), it.ask("GET", f"{path}/report").json()
    browser = await signed_in(it)
    page = await browser.get(f"/console/jobs/{done}")
    text = browser.words()
    assert page.status_code == 200
    assert not POLICY.search(page.text)
    assert "✓ succeeded" in text
    assert f"epsilon {shown['budget']['charged']['epsilon']}" in text
    for line in report["verified"]:
        assert line["description"] in text
    assert all(line in text for line in forecast_of_a_job(report["error"]))
    for name in result["plots"]:
        source = f"/console/jobs/{done}/plots/{name}.svg"
        assert f'<img src="{source}"' in page.text
        picture = await browser.get(source)
        assert picture.content == it.ask("GET", f"{path}/plots/{name}.svg").content
        assert "default-src 'none'" in picture.headers["content-security-policy"]
    [centres] = result["files"]
    written = it.ask("GET", f"{path}/files/{centres['name']}").text.splitlines()
    assert all(name.replace("_", " ") in text for name in written[0].split(","))
    for cell in ",".join(written[1:]).split(","):
        assert formatting.figure(float(cell)) in text
        assert len(cell) < 8 or cell not in text
    for place in (f"jobs.csv?search={done[-6:]}", "jobs.csv?search=KMEANS", "jobs.csv"):
        listed = await browser.get(f"/console/{place}")
        assert done in {row["id"] for row in csv.DictReader(io.StringIO(listed.text))}
    assert not (await browser.get("/console/jobs.csv?search=kmeens")).text.strip()
    assert "There is none" in (await browser.get("/console/jobs?search=kmeens")).text
    for file in result["files"]:
        got = await browser.get(f"/console/jobs/{done}/files/{file['name']}")
        assert got.content == it.ask("GET", f"{path}/files/{file['name']}").content
        assert got.headers["content-disposition"].startswith("attachment")
    archive = await browser.get(f"/console/jobs/{done}/archive.zip")
    assert archive.content == it.ask("GET", f"{path}/archive").content
    assert "Never publish" in text
    private = await browser.get(f"/console/jobs/{done}/evaluation.json")
    assert private.json() == it.ask("GET", f"{path}/evaluation").json()["evaluation"]
    for odd in ("plots/../result.json", "plots/nothing.svg", "files/..%2Freport.json", "plots/x"):
        assert (await browser.get(f"/console/jobs/{done}/{odd}")).status_code == 404
    await browser.get("/console/jobs")
    assert done[-12:] in browser.page.text


async def test_an_analyst_sees_what_is_published(it: Office, done: str) -> None:
    analyst = await signed_in(it, "analyst")
    for path in ("/console/jobs", f"/console/jobs/{done}", f"/console/jobs/{done}/live"):
        assert (await analyst.get(path)).status_code == 200
        for hidden in ("Started", "Finished", "Charge", "asked", "Never publish", "Start a job"):
            assert hidden not in analyst.words()
    for path in ("new", f"{done}/evaluation.json"):
        assert (await analyst.get(f"/console/jobs/{path}")).status_code == 404
    for path in ("/console/datasets", f"/console/datasets/{it.shown(done)['dataset']}"):
        assert (await analyst.get(path)).status_code == 404
    await analyst.get("/console/jobs")
    assert (await analyst.submit(f"/console/jobs/{done}/cancel")).status_code == 404
    assert (await analyst.submit("/console/jobs/new")).status_code == 404


async def test_a_job_is_started_once_after_its_price_and_followed(it: Office) -> None:
    dataset = it.rows(epsilon="5")
    browser = await signed_in(it)
    await browser.get(f"/console/jobs/new?algorithm=kmeans&dataset={dataset}")
    given = {**params_of(browser.page.text), "dataset": dataset, "go": "look"}
    page = await browser.submit("/console/jobs/new", **given)
    assert page.status_code == 200, browser.words()
    asked = it.ask("POST", "/v1/jobs/preview", it.job(dataset)).json()
    text = browser.words()
    assert f"epsilon {asked['charge']['reserved']['epsilon']}" in text
    for line in asked["preview"]["verified"]:
        assert line["description"] in text
    assert all(line in text for line in forecast_of_a_job(asked["preview"]["error"]))
    assert "The result is expected to be" in text
    assert it.ledger(dataset)["reserved"]["epsilon"] == "0"
    form = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page.text))
    form = {name: html.unescape(value) for name, value in form.items()}
    for _ in range(2):  # the form is sent twice
        assert (await browser.post("/console/jobs/new", form)).status_code == 303
    [job] = it.ask("GET", f"/v1/jobs?dataset={dataset}").json()["jobs"]
    place = browser.page.headers["location"]
    assert place.startswith(f"/console/jobs/{job['id']}")
    await browser.get(place)
    assert "The job was queued." in browser.words()
    assert job["params"] == asked["params"]
    live = f"/console/jobs/{job['id']}/live"
    async with asyncio.timeout(120):
        while "data-finished" not in (part := await browser.get(live)).text:
            assert part.headers["etag"]
            await browser.get(f"{live}?wait_s=1", **{"If-None-Match": part.headers["etag"]})
    again = await browser.get(live, **{"If-None-Match": part.headers["etag"]})
    assert again.status_code == 304
    await browser.get("/console/tokens")
    answer = await browser.submit(f"/console/jobs/{job['id']}/cancel")
    assert answer.status_code == 409  # it is over
    await browser.get(f"/console/jobs/new?like={job['id']}")
    k = KMEANS["k"]
    assert f'id="{PARAM}k" name="{PARAM}k" value="{k}"' in browser.page.text


async def test_faults_stand_at_their_fields(it: Office) -> None:
    dataset = it.rows()
    browser = await signed_in(it)
    await browser.get("/console/jobs/new?algorithm=kmeans")
    given = {**params_of(browser.page.text), "dataset": dataset, "go": "start", "key": "a"}
    for name, wrong in (("k", "two"), ("k", "-1"), ("bounds", "[[1"), ("mode", EVIL)):
        page = await browser.submit("/console/jobs/new", **{**given, f"{PARAM}{name}": wrong})
        assert page.status_code == 422, name
        assert f"#{PARAM}{name}" in page.text
        assert "<img" not in page.text
        await browser.get("/console/jobs/new?algorithm=kmeans")
    for wrong_dataset in ("", "01928374-5566-7788-99aa-bbccddeeff00", EVIL):
        page = await browser.submit("/console/jobs/new", **{**given, "dataset": wrong_dataset})
        assert page.status_code == 422
        assert "<img" not in page.text
        await browser.get("/console/jobs/new?algorithm=kmeans")
    assert it.ask("GET", f"/v1/jobs?dataset={dataset}").json()["jobs"] == []


@pytest.mark.parametrize("name", catalogue.NAMES)
async def test_every_algorithm_has_its_form(it: Office, name: str) -> None:
    """Each parameter has a field, and its default survives the form."""
    browser = await signed_in(it)
    page = await browser.get(f"/console/jobs/new?algorithm={name}")
    assert page.status_code == 200
    assert not POLICY.search(page.text)
    assert len(page.content) < 150_000
    schema = catalogue.shown(name)["parameters"]
    for each in schema["properties"]:
        assert f'name="{PARAM}{each}"' in page.text
    defaults = {
        field.name: field.default for field in fields(schema) if field.default and field.name != ""
    }
    form = {f"{PARAM}{key}": value for key, value in defaults.items()}
    asked = request_of({"algorithm": name, "dataset": "0" * 36, **form})
    for key, value in asked.params.items():
        assert value == schema["properties"][key]["default"], key


def test_texts_and_numbers_are_told_apart() -> None:
    form = {"algorithm": "graph-random-matrix", "dataset": "0" * 36}
    assert request_of({**form, "p-m": "auto"}).params == {"m": "auto"}
    assert request_of({**form, "p-m": "12"}).params == {"m": 12}
    assert request_of({**form, "p-epsilon": "1"}).params == {"epsilon": "1"}
    deep = "[" * 100_000
    with pytest.raises(Invalid):
        request_of({"algorithm": "kmeans", "dataset": "0" * 36, "p-bounds": deep})


async def test_a_seed_makes_a_job_public_and_says_so(it: Office) -> None:
    dataset = it.rows(epsilon="5")
    browser = await signed_in(it)
    await browser.get(f"/console/jobs/new?algorithm=kmeans&dataset={dataset}")
    assert "takes the noise off" in browser.words()
    given = {**params_of(browser.page.text), "dataset": dataset, "go": "look", "seed": "7"}
    page = await browser.submit("/console/jobs/new", **given)  # of the stance sound there is none
    assert 'id="seed-error"' in page.text
    await browser.get(f"/console/jobs/new?algorithm=kmeans&dataset={dataset}")
    given["stance"] = "paper"
    body = {**it.job(dataset), "seed": 7, "stance": "paper"}
    asked = it.ask("POST", "/v1/jobs/preview", body)
    page = await browser.submit("/console/jobs/new", **given)
    assert (page.status_code, asked.status_code) == (200, 200)
    assert asked.json()["charge"]["outside_budget"]
    assert "No figure covers this release" in browser.words()
    assert 'name="seed" value="7"' in page.text
    for wrong in ("-1", "seven", "1e3", str(1 << 63)):
        await browser.get("/console/jobs/new?algorithm=kmeans")
        page = await browser.submit("/console/jobs/new", **{**given, "seed": wrong})
        assert page.status_code == 422, wrong
        assert 'id="seed-error"' in page.text


async def test_a_schedule_is_stopped_on_the_page(house: Houses) -> None:
    async with house(3, console=True) as office:
        await office.host("gateway", 3)
        schedule = await begin(office)
        browser = await signed_in_at(office)
        await browser.get("/console/jobs")
        path = f"/console/job-schedules/{schedule['id']}/stop"
        assert path in browser.page.text
        assert (await browser.post(path, {"csrf": "x"})).status_code == 403
        assert (await office.ask("GET", f"/v1/job-schedules/{schedule['id']}")).json()["state"] == (
            schedule["state"]
        )
        await browser.get("/console/jobs")
        assert (await browser.submit(path)).headers["location"] == "/console/jobs?said=stopped"
        found = (await office.ask("GET", f"/v1/job-schedules/{schedule['id']}")).json()
        assert found["next_window"] is None
        await browser.get("/console/jobs?said=stopped")
        assert path not in browser.page.text
        assert (await browser.submit("/console/job-schedules/none/stop")).status_code == 404


async def test_jobs_side_by_side(it: Office, done: str) -> None:
    other = it.submit(it.rows(), params={**KMEANS, "epsilon": "2"})
    it.succeeded(other)
    told = it.ask("GET", f"/v1/jobs/compare?ids={done},{other}").json()
    for scope in ("operator", "analyst"):
        browser = await signed_in(it, scope)
        page = await browser.get(f"/console/jobs/compare?ids={done}&ids={other}")
        assert page.status_code == 200
        assert not POLICY.search(page.text)
        rows = re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", page.text, re.DOTALL)
        assert len(rows) == len(told["keys"]) + len(told["plots"])
        differing = [row for row in rows if "<b>differs</b>" in row]
        assert len(differing) == sum(each["differs"] for each in told["keys"])
        assert (await browser.get(f"/console/jobs/compare?ids={done}")).status_code == 422


# --- datasets ------------------------------------------------------------------------------------


def multipart(fields: dict[str, str], content: bytes) -> tuple[bytes, str]:
    boundary = "----tacit"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    file = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
    parts += [file.encode(), content, f"\r\n--{boundary}--\r\n".encode()]
    return b"".join(parts), f"multipart/form-data; boundary={boundary}"


async def hand_in(
    browser: Browser, content: bytes, headers: dict[str, str] | None = None, **changes: str
) -> Any:
    fields = {
        "csrf": browser.field("csrf"),
        "key": browser.field("key"),
        "name": "evenings",
        "kind": "numeric-table",
        "format": "csv",
        "budget_epsilon": "4",
        "budget_delta": "",
        **changes,
    }
    body, kind = multipart(fields, content)
    sent = {"Content-Type": kind, **(OWN if headers is None else headers)}
    return await browser.client.post("/console/datasets", content=body, headers=sent)


async def test_a_dataset_is_handed_in_shown_and_deleted(it: Office, tmp_path: Path) -> None:
    browser = await signed_in(it)
    await browser.get("/console/datasets")
    secret = b"0.123456789"
    rows = b"a,b\n" + b"".join(b"%d,%s\n" % (n, secret) for n in range(30))
    name = f"evenings {EVIL}"
    first = await hand_in(browser, rows, name=name)
    assert first.status_code == 303, first.text
    again = await hand_in(browser, rows, name=name)  # the same form
    assert again.headers["location"] == first.headers["location"]
    dataset = re.search(r"/datasets/([0-9a-f-]{36})", first.headers["location"])
    assert dataset is not None
    told = it.ask("GET", f"/v1/datasets/{dataset[1]}").json()
    assert told["budget"] == {"epsilon": "4", "delta": "0"}
    for path in ("/console/datasets", f"/console/datasets/{dataset[1]}"):
        page = await browser.get(path)
        assert page.status_code == 200
        assert "<img" not in page.text
        assert secret.decode() not in page.text
        assert "epsilon 4" in browser.words()
    assert f"{told['schema']['rows']}" in browser.words()
    job = it.submit(dataset[1], params=KMEANS)
    it.succeeded(job)
    await browser.get(f"/console/datasets/{dataset[1]}")
    assert "After 1 charge, epsilon 3 of 4" in browser.words()
    assert job[-12:] in browser.page.text
    delete = f"/console/datasets/{dataset[1]}/delete"
    await browser.get(delete)
    assert (await browser.submit(delete, typed="evenings")).status_code == 422
    assert it.ask("GET", f"/v1/datasets/{dataset[1]}").status_code == 200
    assert (await browser.submit(delete, typed=name)).status_code == 303
    assert it.ask("GET", f"/v1/datasets/{dataset[1]}").status_code == 404
    assert it.ledger(dataset[1])["charged"]["epsilon"] == "1"


async def test_an_upload_from_elsewhere_leaves_nothing(it: Office) -> None:
    browser = await signed_in(it)
    assert not POLICY.search((await browser.get("/console/datasets")).text)
    before = it.ask("GET", "/v1/datasets").json()
    kept = sorted((it.settings.data_dir / "datasets").glob("*"))
    rows = b"a,b\n1,2\n"
    foreign = {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"}
    assert (await hand_in(browser, rows, headers=foreign)).status_code == 403
    assert (await hand_in(browser, rows, csrf="x")).status_code == 403
    assert it.ask("GET", "/v1/datasets").json() == before
    assert sorted((it.settings.data_dir / "datasets").glob("*")) == kept
    stranger = Browser(str(it.http.base_url))
    body, kind = multipart({"csrf": "x"}, rows)
    answer = await stranger.client.post(
        "/console/datasets", content=body, headers={"Content-Type": kind, **OWN}
    )
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/console/login")


async def test_a_bad_file_names_what_is_wrong(it: Office) -> None:
    browser = await signed_in(it)
    await browser.get("/console/datasets")
    for content, changes in (
        (b"a,b\n1,x\n", {}),
        (b"", {}),
        (b"a,b\n1,2\n", {"kind": "nothing"}),
        (b"a,b\n1,2\n", {"format": EVIL}),
        (b"a,b\n1,2\n", {"budget_epsilon": "many"}),
    ):
        answer = await hand_in(browser, content, **changes)
        assert answer.status_code == 422, (content, changes)
        assert "<img" not in answer.text
        assert "✗" in answer.text


async def test_a_dataset_of_two_files_and_one_with_its_universe(it: Office) -> None:
    """A browser also sends the fields for files that were left empty."""
    browser = await signed_in(it)
    await browser.get("/console/datasets")
    secrets = {"csrf": browser.field("csrf"), "key": browser.field("key")}

    async def send(fields: dict[str, str], **files: bytes) -> Any:
        parts: list[Any] = [(name, (None, value)) for name, value in fields.items()]
        for name in ("file", "sensitive", "points"):
            content = files.get(name)
            shown = ("a.csv", content) if content is not None else ("", b"")
            parts.append((name, (*shown, "application/octet-stream")))
        return await browser.client.post("/console/datasets", files=parts, headers=OWN)

    fields = {**secrets, "name": "paths", "kind": "trajectories", "format": "csv"}
    points = b"record,location,time\n1,a,1\n1,b,2\n2,a,1\n"
    answer = await send(fields, points=points, sensitive=b"record,disease\n1,flu\n2,hiv\n")
    assert answer.status_code == 303, answer.text
    found = it.ask("GET", f"/v1{answer.headers['location'][8:].split('?')[0]}").json()
    assert found["schema"]["rows"] == 2
    for wrong in ({"file": points}, {"sensitive": points}, {}):
        await browser.get("/console/datasets")
        again = {**fields, "csrf": browser.field("csrf"), "key": browser.field("key")}
        assert (await send(again, **wrong)).status_code == 422

    await browser.get("/console/datasets")
    fields = {"csrf": browser.field("csrf"), "key": browser.field("key")}
    fields |= {"name": "sets", "kind": "transactions", "format": "text"}
    answer = await send({**fields, "items": "1\r\n2\r\n3"}, file=b"1 2\n3\n")
    assert answer.status_code == 303, answer.text
    found = it.ask("GET", f"/v1{answer.headers['location'][8:].split('?')[0]}").json()
    assert found["schema"]["rows"] == 2
    await browser.get("/console/datasets")
    fields |= {"csrf": browser.field("csrf"), "key": browser.field("key")}
    beyond = await send({**fields, "items": "1\r\n2"}, file=b"1 2\n3\n")  # the universe counts
    assert beyond.status_code == 422
    assert declared({"items": "0" * 8 + "-0000-7000-8000-" + "0" * 12})["universe"] == {
        "dataset": "00000000-0000-7000-8000-000000000000"
    }


# --- stored text ---------------------------------------------------------------------------------

NASTY = (
    EVIL + "</script><script>alert(1)</script>{{7*7}}\u202eab\u200b",
    "javascript:alert(1)",
)


async def test_what_workers_and_files_say_is_text(house: Houses) -> None:
    async with house(1, console=True) as it:
        for nasty in NASTY:
            await said(it, nasty)


async def said(it: House, nasty: str) -> None:
    """Stage and error of a job, name and columns of a dataset, operator of an aggregator, labels
    of groups: each as hostile as can be, on every page that shows it."""
    it.wires[0].lie = lambda path, told: (
        {**told, "operator": nasty} if path == "/.well-known/tacit-aggregator" else told
    )
    body = {
        **examples.DATASET,
        "name": f"n {nasty}",
        "columns": [f"a {nasty}", "b"],
    }
    made = await it.ask("POST", "/v1/datasets", body)
    assert made.status_code == 201, made.text
    dataset = made.json()["id"]
    preview = await it.ask("POST", "/v1/jobs/preview", {**examples.JOB, "dataset": dataset})
    faults = [{"pointer": f"/{nasty}", "detail": nasty}]
    row = job_row(
        version=nasty[:8],
        dataset_id=dataset,
        params=json.dumps({"k": nasty, nasty: nasty}),
        preview=json.dumps(preview.json()["preview"]),
        price=json.dumps({"kind": "outside", "reason": nasty}),
        stage=nasty,
        error=json.dumps({"title": nasty, "detail": nasty, "errors": faults}),
    )
    async with part_of(it.app, Database).begin() as transaction:
        await job_store.add(transaction, row)
        running = replace(
            row,
            id=str(uuid7()),
            state=JobState.RUNNING,
            federation=json.dumps(examples.JOB_SCHEDULE["federation"]),
        )
        await job_store.add(transaction, replace(running, started=row.created, progress=0.5))
    browser = await signed_in_at(it)
    for path in (
        "/console",
        "/console/jobs",
        f"/console/jobs/{row.id}",
        f"/console/jobs/{running.id}",
        f"/console/jobs/{running.id}/live",
        f"/console/jobs/new?like={row.id}",
        f"/console/jobs/new?algorithm={quote(nasty)}&dataset={quote(nasty)}",
        "/console/datasets",
        f"/console/datasets/{dataset}",
        f"/console/datasets/{dataset}/delete",
        "/console/flow",
        "/console/parties",
    ):
        page = await browser.get(path)
        assert page.status_code == 200, (path, page.text)
        assert "<img src=x" not in page.text, path
        assert "<script>alert" not in page.text, path
        assert not re.search(r'(href|src|action)="javascript:', page.text), path
        assert "{{7*7}}" in page.text or ">49<" not in page.text, path
    await browser.get(f"/console/jobs/{row.id}")
    assert nasty in html.unescape(browser.page.text)


def test_a_failure_of_any_form_has_its_page() -> None:
    for told, title, faults in (
        ({}, "It failed", ()),
        ({"title": "a", "detail": "a", "errors": "text"}, "a", ()),
        ({"title": 7, "errors": [1, {"pointer": "/k"}, None]}, "7", (("/k", ""),)),
        ({"title": None, "retryable": "yes", "errors": {}}, "It failed", ()),
    ):
        found = failure(json.dumps(told))
        assert found is not None
        assert (found.title, found.faults, found.retryable) == (title, faults, False)
    assert failure(None) is None
    assert failure("[]") is None
