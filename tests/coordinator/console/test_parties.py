"""The pages of parties and of the data flow: what the API tells, no secret twice, a fingerprint
before any pairing."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta
from typing import Any

from common.runtime.clock import ManualClock
from tacit.protocol.enrolment import GrantAnswer
from tests.coordinator.conftest import Houses
from tests.coordinator.console.browser import Browser
from tests.coordinator.console.test_rounds import EVIL, signed_in
from tests.coordinator.double import NOISY, House, query
from tests.coordinator.rounds.test_flow import counted

PAGE = "/console/parties"
POLICY = re.compile(r"\sstyle=|\son\w+=|javascript:")


async def test_the_page_tells_who_is_in(house: Houses) -> None:
    async with house(2, console=True) as it:
        await it.host("gateway", 12)
        for name in ("meter-1", "meter-2", "plant"):
            await it.enrol(it.federation.sender(name))
        browser = await signed_in(it)
        page = await browser.get(PAGE)
        assert page.status_code == 200
        assert not POLICY.search(page.text)
        text = browser.words()
        for each in (await it.ask("GET", "/v1/aggregators?health=true")).json()["aggregators"]:
            assert each["id"] in text
            assert each["operator"] in text
            assert each["url"] in text
            assert f'title="{each["fingerprint"]}"' in page.text
        told = (await it.ask("GET", "/v1/parties")).json()
        assert f"{told['total']} parties" in text
        for each in told["parties"]:
            assert each["id"] in text
        assert "15 ever enrolled" in text
        await browser.get(f"{PAGE}?prefix=meter-")
        text = browser.words()
        assert "2 parties whose names begin with meter-" in text
        assert "plant" not in text
        await browser.get(f"{PAGE}?prefix=gateway.1")
        assert "begin with gateway.1: 3" in browser.words()  # .1, .10, .11
        assert (await browser.get(f"{PAGE}?prefix=%00")).status_code == 422


async def test_who_begins_so(house: Houses, database_url: str) -> None:
    """Letter by letter, whatever wildcards and capitals there are."""
    async with house(0, database_url) as it:
        for name in ("meter-1", "meter-2", "Meter-3", "meter_4", "a.b"):
            sender = it.federation.sender(name)
            secret = await it.grant(sender)
            assert (await it.send_enrolment(it.enrolment(sender, secret))).status_code == 201
        for prefix, names in {
            "": ["Meter-3", "a.b", "meter-1", "meter-2", "meter_4"],
            "meter-": ["meter-1", "meter-2"],
            "meter_": ["meter_4"],
            "Meter": ["Meter-3"],
            "a.": ["a.b"],
            "zz": [],
        }.items():
            parties = (await it.ask("GET", "/v1/parties", params={"prefix": prefix})).json()
            assert sorted(each["id"] for each in parties["parties"]) == sorted(names)
            assert parties["total"] == len(names)
            path = "/v1/curators"
            curators = (await it.ask("GET", path, params={"prefix": prefix, "limit": 1})).json()
            assert curators["total"] == len(names)
            assert len(curators["curators"]) == min(1, len(names))
        for wrong in ("%", "é", "\0", "a" * 129):
            answer = await it.ask("GET", "/v1/curators", params={"prefix": wrong})
            assert answer.status_code == 422


async def test_an_invitation_is_shown_once_listed_and_withdrawn(house: Houses) -> None:
    async with house(0, console=True) as it:
        browser = await signed_in(it)
        await browser.get(PAGE)
        fields = {"party": "gateway-9", "max_curators": "40", "hours": "2"}
        page = await browser.submit(f"{PAGE}/invitations", **fields)
        found = re.search(r"<pre><code>(\{.*?\})</code></pre>", page.text)
        assert found is not None
        answer = GrantAnswer.model_validate_json(html.unescape(found[1]))
        secret = answer.grant.secret
        [listed] = (await it.ask("GET", "/v1/grants")).json()["grants"]
        assert (listed["party"], listed["kind"]) == ("gateway-9", "host")
        assert listed["max_curators"] == 40
        assert secret not in json.dumps(listed)
        assert "Invitations not used yet: 1" in browser.words()
        await browser.get(PAGE)
        assert secret not in browser.page.text
        path = f"{PAGE}/invitations/{listed['id']}/withdraw"
        assert (await browser.submit(path)).status_code == 303
        assert (await it.ask("GET", "/v1/grants")).json()["grants"] == []
        await browser.get(PAGE)
        assert (await browser.submit(path)).status_code == 404
        sender = it.federation.sender("gateway-9")
        refused = await it.send_enrolment(it.enrolment(sender, secret))
        assert refused.json()["type"].endswith("join_token_unknown")
        # A grant that was used is no invitation.
        secret = await it.grant(sender)
        [listed] = (await it.ask("GET", "/v1/grants")).json()["grants"]
        await it.send_enrolment(it.enrolment(sender, secret))
        assert (await it.ask("GET", "/v1/grants")).json()["grants"] == []
        assert (await it.ask("DELETE", f"/v1/grants/{listed['id']}")).status_code == 404
        for odd in ("%25", "0" * 64, "_" * 16):
            assert (await it.ask("DELETE", f"/v1/grants/{odd}")).status_code == 422


async def test_an_aggregator_is_paired_by_the_typed_fingerprint_alone(house: Houses) -> None:
    async with house(2, console=True) as it:
        browser = await signed_in(it)
        [first, _] = (await it.ask("GET", "/v1/aggregators")).json()["aggregators"]
        unpair = f"{PAGE}/aggregators/{first['id']}/unpair"
        await browser.get(unpair)
        assert (await browser.submit(unpair, typed="another")).status_code == 422
        assert (await browser.submit(unpair, typed=first["id"])).status_code == 303
        assert len((await it.ask("GET", "/v1/aggregators")).json()["aggregators"]) == 1
        assert (await browser.get(unpair)).status_code == 404
        identity = (await it.client.get("/.well-known/tacit-coordinator")).json()
        peer = it.federation.peers[0]
        body = {name: identity[name] for name in ("deployment", "identity_key")}
        made = await peer.ask("PUT", "/v1/coordinator?replace=true", body)
        token = made.json()["token"]
        page = await browser.get(PAGE)
        assert first["fingerprint"] not in page.text  # not shown before it is typed
        fields = {"url": first["url"], "token": token, "fingerprint": first["fingerprint"]}
        pair = f"{PAGE}/aggregators"
        for change in (
            {"fingerprint": "00" * 32},
            {"fingerprint": "12"},
            {"fingerprint": EVIL},
            {"token": "x" * 40},
            {"url": "http://nobody.test"},
            {"url": EVIL},
        ):
            page = await browser.submit(pair, **{**fields, **change})
            assert page.status_code in (422, 409, 400, 503, 403), (change, page.status_code)
            assert "<img" not in page.text
            assert token not in page.text
            assert len((await it.ask("GET", "/v1/aggregators")).json()["aggregators"]) == 1
        spaced = ":".join(re.findall("....", first["fingerprint"].upper()))
        assert (await browser.submit(pair, **{**fields, "fingerprint": spaced})).status_code == 303
        assert len((await it.ask("GET", "/v1/aggregators")).json()["aggregators"]) == 2


async def test_a_party_leaves_by_its_name_and_is_taken_back(house: Houses) -> None:
    async with house(1, console=True) as it:
        await it.host("gateway", 3)
        browser = await signed_in(it)
        leave = f"{PAGE}/gateway/leave"
        await browser.get(leave)
        assert (await browser.submit(leave, typed="gate")).status_code == 422
        assert (await browser.submit(leave, typed="gateway")).status_code == 303
        [party] = (await it.ask("GET", "/v1/parties")).json()["parties"]
        assert party["left"] is not None
        assert (await browser.get(leave)).status_code == 404
        await browser.get(PAGE)
        page = await browser.submit(f"{PAGE}/gateway/return")
        found = re.search(r"<code>(tct_curator_[\w-]+)</code>", page.text)
        assert found is not None
        assert (await it.ask("GET", "/v1/rounds", token=found[1])).status_code == 200
        await browser.get(PAGE)
        assert found[1] not in browser.page.text
        await browser.get("/console/audit")
        assert "let a party leave" in browser.words()
        assert found[1] not in browser.page.text


FORMS = ("aggregators", "aggregators/aggregator-0/unpair", "gateway/leave", "gateway/return",
         "invitations", "invitations/0123456789abcdef/withdraw")  # fmt: skip


async def test_others_change_nothing(house: Houses) -> None:
    async with house(1, console=True) as it:
        await it.host("gateway", 2)
        fields = {"party": "x", "typed": "gateway", "url": "http://x.test", "token": "t" * 40}
        operator, analyst = await signed_in(it), await signed_in(it, "analyst")
        before = await _all(it)
        for form in FORMS:
            path = f"{PAGE}/{form}"
            assert (await operator.post(path, {"csrf": "x", **fields})).status_code == 403
            await operator.get(PAGE)
            csrf = operator.field("csrf")
            foreign = {"Sec-Fetch-Site": "same-site"}
            assert (await operator.post(path, {"csrf": csrf, **fields}, foreign)).status_code == 403
            assert (await analyst.get(PAGE)).status_code == 404
            await analyst.get("/console/rounds")
            assert (await analyst.submit(path, **fields)).status_code == 404
            stranger = await Browser(it.app).post(path, fields)
            assert stranger.headers["location"].startswith("/console/login")
        assert await _all(it) == before


async def _all(it: House) -> list[object]:
    paths = ("/v1/aggregators", "/v1/parties", "/v1/grants")
    return [(await it.ask("GET", path)).json() for path in paths]


FLOW = "/console/flow"


async def test_the_page_tells_what_the_api_tells(house: Houses, clock: ManualClock) -> None:
    async with house(3, console=True, clock=clock) as it:
        host = await it.host("gateway", 20)
        for _ in range(2):
            await it.released(host, query(**NOISY))
        await counted(it, clock, stored=812, round_closed=6, seal_broken=4)
        browser = await signed_in(it)
        page = await browser.get(FLOW)
        assert page.status_code == 200
        assert not re.search(r"\sstyle=|\son\w+=|javascript:", page.text)
        text = browser.words()
        told = await it.read("/v1/flow")
        assert "2 released." in text
        assert 'class="chart bars"' in page.text
        for outcome, count in told["aggregators"][0]["lone"].items():
            shown = f"at least {count} lone pieces" if outcome == "stored" else f"{outcome} {count}"
            assert shown in text
        assert "seal_broken" not in text
        health = (await it.ask("GET", "/v1/aggregators?health=true")).json()["aggregators"]
        for each in health:
            assert each["id"] in text
        clock.advance(timedelta(days=40))
        await browser.sign_in()
        await browser.get(FLOW)
        assert "No round was opened in this time" in browser.words()


async def test_an_aggregator_that_is_away_or_another_is_shown(
    house: Houses, clock: ManualClock
) -> None:
    async with house(3, console=True, clock=clock) as it:
        browser = await signed_in(it)
        it.wires[0].down = True
        it.wires[2].lie = _another
        await browser.get(FLOW)
        text = browser.words()
        assert "aggregator-0 ✗ away" in text
        assert "aggregator-1 ✓ reachable" in text
        assert "it shows another identity than the paired one" in text
        page = await browser.get(f"{FLOW}?from=0001-01-01T00:00:00Z")
        assert (page.status_code, "/from" in browser.words()) == (422, True)
        analyst = await signed_in(it, "analyst")
        assert (await analyst.get(FLOW)).status_code == 404
        await analyst.get("/console")
        assert FLOW not in analyst.page.text


def _another(path: str, told: Any) -> Any:
    """The answer of somebody else at the address."""
    if path != "/.well-known/tacit-aggregator":
        return told
    return {**told, "identity_key": "A" * 43}
