"""Pages of rounds: what the API tells the same token, and nothing else; buttons do what it does."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from typing import Any

from sqlalchemy import select
from starlette.requests import Request

from common.principals import Principal, Scope
from common.runtime.clock import ManualClock
from common.store.transactions import Database
from common.web.console import formatting
from common.web.console.browser_sessions import Visitor
from common.web.console.pages import Pages, csv_file
from common.web.dependencies import part_of
from coordinator.rounds import progress
from coordinator.store.tables import console
from tacit.errors import DomainError
from tacit.query.functions import dimension
from tests.aggregator.double import Round
from tests.coordinator.conftest import Houses
from tests.coordinator.console.browser import Browser
from tests.coordinator.double import NOISY, WINDOW, House, integers, query
from tests.coordinator.rounds.test_lists import copies

EVIL = '"><img src=x onerror=alert(1)>'


async def signed_in(it: House, scope: str = "operator") -> Browser:
    browser = Browser(it.app)
    await browser.sign_in(await it.token(scope))
    return browser


async def released(it: House, curators: int = 20, **changes: Any) -> Round:
    host = await it.host("gateway", curators)
    return await it.released(host, query(**{**NOISY, **changes}))


async def test_a_released_round(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        opened = await released(it)
        found = await it.result(opened)
        operator, analyst = await signed_in(it), await signed_in(it, "analyst")
        await list_and_page(operator, opened.id, found)
        await searched_and_saved(operator, opened.id)
        await policy(operator, opened.id)
        await only_words(it, opened.id)
        page = await analyst.get(f"/console/rounds/{opened.id}")
        assert page.status_code == 200
        assert "gateway" not in page.text
        assert "/console/rounds/new" not in page.text
        for path in ("/console/rounds/new", f"/console/rounds/{opened.id}/abort"):
            assert (await analyst.get(path)).status_code == 404
        await analyst.get("/console/rounds")
        for path in (f"/console/rounds/{opened.id}/close", "/console/rounds/new"):
            assert (await analyst.submit(path)).status_code == 404
        await evidence(it, analyst, opened.id, found)


async def list_and_page(browser: Browser, name: str, found: dict[str, Any]) -> None:
    """They tell what the API tells."""
    [part] = found["report"]["error"]["parts"]
    shown = formatting.with_error(found["result"]["sum"], part["interval"]["half_width"])
    promised = next(line for line in found["report"]["verified"] if line["key"] == "e")
    await browser.get("/console/rounds")
    assert f"{shown[0]} ± {shown[1]} kWh" in browser.words()
    assert f"{formatting.hundred(promised['guess'])} of 100" in browser.words()
    await browser.get(f"/console/rounds/{name}")
    text = browser.words()
    for told in (f"{shown[0]} kWh ± {shown[1]}", "20 curators", "1 Opened", "8 Released"):
        assert told in text
    for line in found["report"]["verified"]:
        if line["guess"] != "1" and line["key"] != "e":
            assert f"at most {formatting.hundred(line['guess'])} of 100 times" in text
    for group in ("not_protected", "voided_by", "assumptions", "caveats"):
        for sentence in found["report"][group]:
            assert re.sub(r"\s+", " ", sentence) in text


async def searched_and_saved(browser: Browser, name: str) -> None:
    """A search finds a round by its query's name and its id, however they are written, and takes
    signs as signs; the file has the rows of the list."""
    for place, text in (("rounds", name[-6:]), ("rounds", "KWH"), ("queries", "DISTRIBUTED")):
        for search, shown in ((text, True), (f"{text}%", False), ("%00", False)):
            page = await browser.get(f"/console/{place}?search={search.replace('%', '%25')}")
            assert page.status_code == 200
            assert ("No " not in browser.words()) == shown, (place, search)
            saved = await browser.get(f"/console/{place}.csv?search={search.replace('%', '%25')}")
            rows = list(csv.DictReader(io.StringIO(saved.text)))
            assert saved.headers["content-type"] == "text/csv; charset=utf-8"
            assert len(rows) == shown, (place, search)
    rounds = await browser.get("/console/rounds.csv")
    [row] = csv.DictReader(io.StringIO(rounds.text))
    assert (row["id"], row["state"], row["participants"]) == (name, "released", "20")
    assert row["window.start"] and row["figures.result.sum"]
    for place in ("parties", "budget/ledger"):
        saved = await browser.get(f"/console/{place}.csv")
        assert len(list(csv.DictReader(io.StringIO(saved.text)))) >= 1


def test_a_saved_list_runs_no_formula_and_keeps_what_is_nested() -> None:
    rows = [{"id": "=1+1", "window": {"start": "a"}, "few": [1]}, {"id": "b", "more": -2}]
    text = bytes(csv_file("list", rows).body).decode()
    assert text == "id,window.start,few,more\r\n'=1+1,a,[1],\r\nb,,,-2\r\n"


async def policy(browser: Browser, name: str) -> None:
    """Every page has the policy and no script of its own; files are immutable, and only ours."""
    places = ("login", "rounds", "rounds/new", f"rounds/{name}", f"rounds/{name}/live", "rounds/no")
    for place in places:
        page = await browser.get(f"/console/{place}")
        assert page.status_code == (404 if place == "rounds/no" else 200)
        stated = page.headers["content-security-policy"]
        assert stated.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert page.headers["cache-control"] == "no-store" or "live" in place
        assert not re.search(r"\sstyle=|\son\w+=|javascript:", page.text)
        scripts = re.findall(r"<script[^>]*>", page.text)
        assert all('src="/console/static/' in each for each in scripts)
    page = await browser.get("/console/login")
    for path in re.findall(r'(?:href|src)="(/console/static/[^"]+)"', page.text):
        file = await browser.get(path)
        assert file.status_code == 200
        assert "immutable" in file.headers["cache-control"]
    for path in ("/console/static/x/console.css", "/console/static/../pages.py"):
        assert (await browser.get(path)).status_code == 404


async def only_words(it: House, name: str) -> None:
    """Whatever a name, a reason or a problem holds, it is text on the page."""
    head = progress.head(await progress.find(part_of(it.app, Database), name))
    evil = head.model_copy(update=dict.fromkeys(("query", "reason", "state", "id", "unit"), EVIL))
    request = Request({"type": "http", "path": "/console", "headers": []})
    pages = part_of(it.app, Pages)
    visitor = Visitor(Principal(EVIL, frozenset({Scope.OPERATOR})), EVIL, EVIL)
    more = {"states": [], "state": "", "query_id": EVIL, "search": EVIL, "older": EVIL}
    more |= {"newer": True, "said": EVIL}
    listed = pages.show(request, "rounds.html", rows=[evil], visitor=visitor, **more)
    wrong = pages.problem(request, DomainError(EVIL, pointer=EVIL))
    for page in (listed, wrong):
        text = bytes(page.body).decode()
        assert "<img" not in text
        assert "&lt;img" in text


async def evidence(it: House, browser: Browser, name: str, found: dict[str, Any]) -> None:
    """The archive and the evidence hold what the API gives."""
    path = f"/v1/rounds/{name}"
    answer = await browser.get(f"/console/rounds/{name}/archive.zip")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        held = {each: archive.read(each) for each in archive.namelist()}
    assert json.loads(held["result.json"]) == found
    for each in ("report", "transcript"):
        assert held[f"{each}.json"] == (await it.ask("GET", f"{path}/{each}")).content
    assert b"What is not protected" in held["report.txt"]
    place = f"/console/rounds/{name}/evidence.json"
    identity = (await it.client.get("/.well-known/tacit-coordinator")).json()
    assert (await browser.get(place)).json() == {
        "round": name,
        "coordinator": identity["identity_key"],
        "result": found["result"],
        "transcript": (await it.ask("GET", f"{path}/transcript")).json(),
    }
    assert (await Browser(it.app).get(place)).status_code == 303


async def test_a_page_of_every_form_of_result(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        host, browser = await it.host("gateway", 20), await signed_in(it)
        for number, changes in enumerate(
            (
                {"mechanism": "exact", "epsilon": None, "collusion": {}},
                {"function": "mean", "epsilon": "50"},
                {"function": "histogram", "edges": ["1", "2"], "epsilon": "9"},
                {"function": "histogram", "edges": ["0", "1", "9"], "percentiles": ["50"]},
                {"function": "vector_sum", "dimension": 2},
                {"function": "table", "columns": {"sex": ["f", "m"], "age": [0, 18, None]}},
            )
        ):
            asked = {k: v for k, v in query(**{**NOISY, **changes}).items() if v}
            window = {"window": None} if "columns" in changes else {}
            opened = await it.open({**asked, "name": f"q-{number}"}, **window)
            width = dimension(opened.descriptor.query)
            await opened.contribute(host, integers(20 * width).reshape(20, width))
            await it.finish(opened)
            found = await it.result(opened)
            head = (await it.ask("GET", f"/v1/rounds/{opened.id}")).json()
            assert (head["figures"]["interval"] is None) == (number > 0)
            assert (await browser.get(f"/console/rounds/{opened.id}")).status_code == 200
            if asked["mechanism"] == "exact":
                assert "none: an exact sum under a rule" in browser.words()
                assert "±" not in browser.words()
                assert "Noise moved" not in browser.words()
            for value in found["result"].values():
                for each in value if isinstance(value, list) else [value]:
                    assert each is None or each in browser.words()
            between = [
                f"{item['part']}, between {item['low']} and {item['high']} in 95 of 100 cases"
                for item in found["report"]["error"].get("percentiles", ())
            ]
            assert all(text in browser.words() for text in between)
            assert len(between) == len(changes.get("percentiles", ()))
        rows = (await browser.get(f"/console/rounds/{opened.id}/result.csv")).text.splitlines()
        cells = found["result"]["table"]
        assert rows[0] == "sex,age,value,low,high,unit"
        assert rows[1].startswith(f'f,"[0, 18)",{cells[0]},')
        assert rows[-1].startswith(f",,{sum(map(int, cells))},")
        assert len(rows) == 1 + 9


async def test_an_aborted_round_says_why_and_what_stays(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        await it.host("gateway", 5)
        opened = await it.open(query(min_participants=4, **NOISY))
        browser = await signed_in(it)
        await browser.get(f"/console/rounds/{opened.id}")
        assert "Under way" in browser.words()
        await browser.get(f"/console/rounds/{opened.id}/abort")
        wrong = await browser.submit(f"/console/rounds/{opened.id}/abort", typed="something else")
        assert wrong.status_code == 422
        assert "Type the name as it is shown" in browser.words()
        assert (await it.ask("GET", f"/v1/rounds/{opened.id}")).json()["state"] == "open"
        done = await browser.submit(f"/console/rounds/{opened.id}/abort", typed="test")
        assert done.status_code == 303
        assert (await it.finish(opened))["state"] == "aborted"
        await browser.get(f"/console/rounds/{opened.id}")
        assert "No sum was opened" in browser.words()
        assert "an operator aborted the round" in browser.words()
        assert "It is credited" in browser.words()
        await browser.get("/console/rounds")
        assert "no sum; credited" in browser.words()
        await browser.get("/console/budget/ledger")
        credit = rf"credited ?: round {opened.id} ?, query \S+ ?, epsilon 1\b"
        assert re.search(credit, browser.words())


async def test_an_operator_opens_and_closes_a_round(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        host = await it.host("gateway", 5)
        await it.host("absent", 5)
        created = (await it.ask("POST", "/v1/queries", query(**NOISY))).json()
        browser = await signed_in(it)
        await browser.get(f"/console/rounds/new?query_id={created['id']}")
        window = {"start": WINDOW["start"][:-1], "end": WINDOW["end"][:-1]}
        await browser.submit(
            "/console/rounds/new", step="cost", query_id=created["id"], **window, deadline_s="60"
        )
        assert "Each curator pays epsilon 1 when it answers" in browser.words()
        assert (await it.ask("GET", "/v1/rounds")).json()["rounds"] == []
        fields = {
            name: browser.field(name)
            for name in ("csrf", "step", "key", "query_id", "start", "end", "deadline_s")
        }
        first = await browser.post("/console/rounds/new", fields)
        again = await browser.post("/console/rounds/new", fields)
        assert first.status_code == again.status_code == 303
        assert first.headers["location"] == again.headers["location"]
        [head] = (await it.ask("GET", "/v1/rounds?state=open&form=head")).json()["rounds"]
        opened = await it.round_of(head["id"])
        while not (await it.ask("GET", "/v1/rounds?state=open&wait_s=5")).json()["rounds"]:
            pass  # it is not announced to the aggregators yet
        await opened.contribute(host, integers(5))
        await browser.get(f"/console/rounds/{opened.id}")
        await browser.submit(f"/console/rounds/{opened.id}/close")
        assert (await it.finish(opened))["participants"] == 5
        async with part_of(it.app, Database).reading() as transaction:
            rows = (await transaction.execute(select(console.audit.c.action))).scalars().all()
        assert rows == ["signed in", "opened a round", "opened a round", "closed a round early"]


WRONG = (
    ({}, "has no window of its own: give a window"),
    ({"start": "2026-01-01T00:00"}, "RFC 3339"),
    ({"start": "2026-01-01T01:00", "end": "2026-01-01T00:00"}, "must be after start"),
    ({"deadline_s": "soon"}, "must be whole seconds"),
    ({"deadline_s": "0"}, "must be at least 1"),
)


async def test_a_wrong_field_is_said_at_its_place_and_nothing_is_lost(house: Houses) -> None:
    async with house(0, console=True, clock=ManualClock()) as it:
        created = (await it.ask("POST", "/v1/queries", query(**NOISY))).json()
        browser = await signed_in(it)
        for fields, shown in WRONG:
            await browser.get("/console/rounds/new")
            answer = await browser.submit("/console/rounds/new", query_id=created["id"], **fields)
            assert answer.status_code == 422
            assert shown in browser.words()
            for name, value in fields.items():
                assert f'name="{name}"' in answer.text
                assert f'value="{value}"' in answer.text
        assert (await it.ask("GET", "/v1/rounds")).json()["rounds"] == []


async def test_the_live_part_waits_for_a_change(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        host = await it.host("gateway", 5)
        opened = await it.open(query())
        browser = await signed_in(it)
        path = f"/console/rounds/{opened.id}/live"
        first = await browser.get(path)
        assert "Under way" in browser.words()
        same = await browser.get(f"{path}?wait_s=0.1", **{"If-None-Match": first.headers["etag"]})
        assert same.status_code == 304
        await opened.contribute(host, integers(5))
        await it.finish(opened)
        await browser.get(f"{path}?wait_s=5", **{"If-None-Match": first.headers["etag"]})
        assert "data-finished" in browser.page.text
        assert (await Browser(it.app).get(path)).status_code == 303


async def test_pages_of_a_long_list(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        await it.host("gateway", 3)
        await copies(it, 60)
        browser = await signed_in(it)
        page = await browser.get("/console/rounds")
        assert page.text.count("<tr>") - 1 == 50
        assert len(page.content) < 150_000
        older = re.search(r'rel="next" href="([^"]+)"', page.text)
        assert older is not None
        assert (await browser.get(older[1].replace("&amp;", "&"))).text.count("<tr>") - 1 == 11
        nothing = await browser.get("/console/rounds?state=open")
        assert "No round is like that" in browser.words()
        assert nothing.status_code == 200
        assert (await browser.get("/console/rounds?state=strange")).status_code == 422
