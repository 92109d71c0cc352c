"""Pages of rounds: what the API tells the same token, and nothing else; buttons do what it does."""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import Any

import pytest
from sqlalchemy import select
from starlette.requests import Request

from common.runtime.clock import ManualClock
from common.store.transactions import Database
from common.web.auth import Principal
from common.web.console import words
from common.web.console.pages import Pages
from common.web.console.sessions import Visitor
from common.web.parts import part_of
from common.web.tokens import Scope
from coordinator.rounds import views
from coordinator.store.tables import console
from tacit.errors import DomainError
from tacit.query.functions import dimension
from tests.aggregator.double import Round
from tests.coordinator.conftest import Houses
from tests.coordinator.console.browser import Browser
from tests.coordinator.double import WINDOW, House, integers, query
from tests.coordinator.rounds.test_lists import copies

NOISY = {"mechanism": "distributed", "epsilon": "1", "collusion": {"aggregators": 2}}
EVIL = '"><img src=x onerror=alert(1)>'


async def signed_in(it: House, scope: str = "operator") -> Browser:
    browser = Browser(it.app)
    await browser.sign_in(await it.token(scope))
    return browser


async def released(it: House, curators: int = 20, **changes: Any) -> Round:
    host = await it.host("gateway", curators)
    opened = await it.open(query(**{**NOISY, **changes}))
    await opened.contribute(host, integers(curators))
    assert (await it.finish(opened))["state"] == "released"
    return opened


async def test_the_list_and_the_page_tell_what_the_api_tells(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        opened = await released(it)
        found = await it.result(opened)
        [part] = found["report"]["error"]["parts"]
        shown = words.with_error(found["result"]["sum"], part["interval"]["half_width"])
        promised = next(line for line in found["report"]["verified"] if line["key"] == "e")
        browser = await signed_in(it)
        await browser.get("/console/rounds")
        assert f"{shown[0]} ± {shown[1]} kWh" in browser.words()
        assert f"{words.hundred(promised['guess'])} of 100" in browser.words()
        await browser.get(f"/console/rounds/{opened.id}")
        text = browser.words()
        assert f"{shown[0]} kWh ± {shown[1]}" in text
        assert found["result"]["sum"] in text
        assert "20 curators" in text
        for line in found["report"]["verified"]:
            if line["guess"] != "1" and line["key"] != "e":
                assert f"at most {words.hundred(line['guess'])} of 100 times" in text
        for name in ("not_protected", "voided_by", "assumptions", "caveats"):
            for sentence in found["report"][name]:
                assert re.sub(r"\s+", " ", sentence) in text
        assert "1 Opened" in text
        assert "8 Released" in text


async def test_the_archive_holds_what_the_api_gives(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        opened = await released(it)
        browser = await signed_in(it, "analyst")
        answer = await browser.get(f"/console/rounds/{opened.id}/archive.zip")
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            held = {name: archive.read(name) for name in archive.namelist()}
        path = f"/v1/rounds/{opened.id}"
        assert json.loads(held["result.json"]) == await it.result(opened)
        for name in ("report", "transcript"):
            assert held[f"{name}.json"] == (await it.ask("GET", f"{path}/{name}")).content
        assert b"What is not protected" in held["report.txt"]


@pytest.mark.parametrize(
    "changes",
    [
        {"function": "mean"},
        {"function": "variance", "epsilon": "50"},
        {"function": "histogram", "edges": ["1", "2"], "epsilon": "9"},
        {"function": "vector_sum", "dimension": 2},
        {"function": "count"},
        {"mechanism": "exact", "epsilon": None, "collusion": {}},
    ],
)
async def test_a_page_of_every_function(house: Houses, changes: dict[str, Any]) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        host = await it.host("gateway", 20)
        opened = await it.open({k: v for k, v in query(**{**NOISY, **changes}).items() if v})
        width = dimension(opened.descriptor.query)
        values = integers(20 * width).reshape(20, width)
        await opened.contribute(host, values)
        await it.finish(opened)
        found = await it.result(opened)
        browser = await signed_in(it)
        page = await browser.get(f"/console/rounds/{opened.id}")
        assert page.status_code == 200
        for value in found["result"].values():
            for each in value if isinstance(value, list) else [value]:
                assert each is None or each in browser.words()


async def test_an_aborted_round_says_why_and_what_stays(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        await it.host("gateway", 5)
        opened = await it.open(query(min_participants=4))
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


@pytest.mark.parametrize(
    ("fields", "words_shown"),
    [
        ({}, "does not say which readings: give a window"),
        ({"start": "2026-01-01T00:00"}, "RFC 3339"),
        ({"start": "2026-01-01T01:00", "end": "2026-01-01T00:00"}, "must be after start"),
        ({"deadline_s": "soon"}, "must be whole seconds"),
        ({"deadline_s": "0"}, "must be at least 1"),
    ],
)
async def test_a_wrong_field_is_said_at_its_place_and_nothing_is_lost(
    house: Houses, fields: dict[str, str], words_shown: str
) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        created = (await it.ask("POST", "/v1/queries", query(**NOISY))).json()
        browser = await signed_in(it)
        await browser.get("/console/rounds/new")
        answer = await browser.submit("/console/rounds/new", query_id=created["id"], **fields)
        assert answer.status_code == 422
        assert words_shown in browser.words()
        for name, value in fields.items():
            assert f'name="{name}"' in answer.text
            assert f'value="{value}"' in answer.text
        assert (await it.ask("GET", "/v1/rounds")).json()["rounds"] == []


async def test_an_analyst_sees_results_and_can_do_nothing(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        opened = await released(it)
        browser = await signed_in(it, "analyst")
        page = await browser.get(f"/console/rounds/{opened.id}")
        assert page.status_code == 200
        assert "gateway" not in page.text
        assert "/console/rounds/new" not in page.text
        for path in ("/console/rounds/new", f"/console/rounds/{opened.id}/abort"):
            assert (await browser.get(path)).status_code == 404
        await browser.get("/console/rounds")
        for path in (f"/console/rounds/{opened.id}/close", "/console/rounds/new"):
            assert (await browser.submit(path)).status_code == 404


async def test_names_are_only_words(house: Houses) -> None:
    """Whatever a name, a reason or a problem holds, it is text on the page."""
    async with house(3, console=True, clock=ManualClock()) as it:
        opened = await released(it)
        head = views.head(await views.find(part_of(it.app, Database), opened.id))
        evil = {**head, "query": EVIL, "reason": EVIL, "state": EVIL, "id": EVIL, "unit": EVIL}
        request = Request({"type": "http", "path": "/console", "headers": []})
        pages = part_of(it.app, Pages)
        listed = pages.show(
            request,
            "rounds.html",
            rows=[evil],
            visitor=Visitor(Principal(EVIL, frozenset({Scope.OPERATOR})), EVIL, EVIL),
            states=[],
            state="",
            query_id=EVIL,
            older=EVIL,
            newer=True,
            said=EVIL,
        )
        wrong = pages.problem(request, DomainError(EVIL, pointer=EVIL))
        for page in (listed, wrong):
            text = bytes(page.body).decode()
            assert "<img" not in text
            assert "&lt;img" in text


async def test_every_page_has_the_policy_and_no_script_of_its_own(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        opened = await released(it)
        browser = await signed_in(it)
        paths = (
            "/console/login",
            "/console/rounds",
            "/console/rounds/new",
            f"/console/rounds/{opened.id}",
            f"/console/rounds/{opened.id}/live",
            "/console/rounds/nothing",
        )
        for path in paths:
            page = await browser.get(path)
            policy = page.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
            assert page.headers["cache-control"] == "no-store" or "live" in path
            assert not re.search(r"\sstyle=|\son\w+=|javascript:", page.text)
            scripts = re.findall(r"<script[^>]*>", page.text)
            assert all('src="/console/static/' in each for each in scripts)
        assert (await browser.get("/console/rounds/nothing")).status_code == 404


async def test_files_are_immutable_and_only_ours(house: Houses) -> None:
    async with house(1, console=True, clock=ManualClock()) as it:
        browser = Browser(it.app)
        page = await browser.get("/console/login")
        for path in re.findall(r'(?:href|src)="(/console/static/[^"]+)"', page.text):
            file = await browser.get(path)
            assert file.status_code == 200
            assert "immutable" in file.headers["cache-control"]
        for path in ("/console/static/x/console.css", "/console/static/../pages.py"):
            assert (await browser.get(path)).status_code == 404


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
        other = Browser(it.app)
        assert (await other.get(path)).status_code == 303


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
        rest = await browser.get(older[1].replace("&amp;", "&"))
        assert rest.text.count("<tr>") - 1 == 11
        nothing = await browser.get("/console/rounds?state=open")
        assert "No round is like that" in browser.words()
        assert nothing.status_code == 200
        assert (await browser.get("/console/rounds?state=strange")).status_code == 422


async def test_a_browser_gets_the_evidence_of_a_round_by_its_session(house: Houses) -> None:
    async with house(3, console=True, clock=ManualClock()) as it:
        opened = await released(it)
        path = f"/console/rounds/{opened.id}/evidence.json"
        browser = await signed_in(it, "analyst")
        found = (await browser.get(path)).json()
        transcript = (await it.ask("GET", f"/v1/rounds/{opened.id}/transcript")).json()
        identity = (await it.client.get("/.well-known/tacit-coordinator")).json()
        assert found == {
            "round": opened.id,
            "coordinator": identity["identity_key"],
            "result": (await it.result(opened))["result"],
            "transcript": transcript,
        }
        assert (await Browser(it.app).get(path)).status_code == 303
