"""Who belongs to the deployment: pairing, grants, enrolments, tokens and their scopes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx

from common.runtime.clock import ManualClock
from common.web.dependencies import part_of
from coordinator.rounds.context import Conduct
from tacit.crypto.signing import Identity
from tacit.protocol.enrolment import ENROLMENT_LABEL
from tacit.wire import encode_binary
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, pointers, problem, query
from tests.in_process import InProcess


async def pairing(it: House, index: int = 0, **changes: Any) -> httpx.Response:
    """An attempt to pair an aggregator."""
    peer = it.federation.peers[index]
    document = (await peer.client.get("/.well-known/tacit-aggregator")).json()
    body = {
        "url": f"http://aggregator-{index}.test",
        "token": peer.coordinator_token or "x" * 40,
        "fingerprint": document["fingerprint_base64url"],
    }
    return await it.ask("POST", "/v1/aggregators", {**body, **changes})


# --- pairing -------------------------------------------------------------------------------------


async def test_an_aggregator_is_known_by_its_fingerprint(house: Houses) -> None:
    async with house(1) as it:
        wrong = encode_binary(bytes(32))
        assert problem(await pairing(it, fingerprint=wrong)) == (409, "fingerprint_mismatch")
        assert problem(await pairing(it, token="x" * 40)) == (409, "aggregator_token_refused")
        listed = (await it.ask("GET", "/v1/aggregators")).json()["aggregators"]
        assert [item["id"] for item in listed] == ["aggregator-0"]
        assert "token" not in listed[0]


async def test_what_is_no_aggregator_is_not_paired(house: Houses) -> None:
    async with house(1) as it:
        assert problem(await pairing(it, url="ftp://x"))[0] == 422
        assert problem(await pairing(it, url="http://x:port"))[1] == "not_an_aggregator"
        it.wires[0].down = True
        assert problem(await pairing(it)) == (503, "aggregator_unreachable")

        class Page(httpx.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                return httpx.Response(200, text="<html>")

        part_of(it.app, Conduct).peers._transports["http://page.test"] = InProcess(Page())
        answer = await pairing(it, url="http://page.test")
        assert problem(answer) == (422, "not_an_aggregator")
        assert pointers(answer) == ["/url"]


async def test_another_identity_takes_nobodys_place(house: Houses) -> None:
    async with house(2) as it:
        peers = part_of(it.app, Conduct).peers
        honest = await peers.identity("http://aggregator-0.test")
        thief = Identity.generate()

        async def identity(url: str) -> Any:
            return honest.model_copy(update={"identity_key": thief.public_key})

        peers.identity = identity
        answer = await pairing(
            it,
            token=it.settings.operator_token.get_secret_value(),
            fingerprint=encode_binary(thief.fingerprint),
        )
        assert answer.status_code == 409
        listed = (await it.ask("GET", "/v1/aggregators")).json()["aggregators"]
        assert listed[0]["identity_key"] == encode_binary(honest.identity_key)


async def test_a_pairing_is_renewed_and_ended(house: Houses) -> None:
    async with house(2) as it:
        await it.pair()  # the aggregators issue new tokens, which replace the old ones
        await it.host("gateway", 3)
        asked = query(aggregators=2)
        assert (await it.ask_for(asked))["aggregators"] == ["aggregator-0", "aggregator-1"]
        assert (await it.ask("DELETE", "/v1/aggregators/aggregator-0")).status_code == 204
        gone = await it.ask("DELETE", "/v1/aggregators/aggregator-0")
        assert problem(gone) == (404, "unknown_aggregator")
        created = await it.ask("POST", "/v1/queries", asked)
        body = {"query_id": created.json()["id"], "window": None}
        body["window"] = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
        answer = await it.ask("POST", "/v1/rounds", body)
        assert problem(answer) == (409, "not_enough_aggregators")
        assert (answer.json()["needed"], answer.json()["registered"]) == (2, 1)


# --- enrolment -----------------------------------------------------------------------------------


async def test_an_enrolment_that_the_secret_does_not_allow(house: Houses) -> None:
    async with house(1, clock=ManualClock()) as it:
        sender = it.federation.sender("gateway", ["g-1", "g-2"])
        secret = await it.grant(sender)
        signed = it.enrolment

        async def refused(changed: Any) -> tuple[int, str, list[str]]:
            answer = await it.send_enrolment(changed)
            return *problem(answer), pointers(answer)

        other = it.federation.sender("other", ["g-1", "g-2"])
        stranger = Identity.generate()
        stolen = stranger.sign(ENROLMENT_LABEL, signed(sender, secret).statement)
        names = {
            "join_token_unknown": signed(sender, "x" * 40),
            "another service": signed(sender, secret, service="other"),
            "another party": signed(other, secret),
            "too many": signed(sender, secret, curators=("a", "b", "c")),
            "numbers": signed(sender, secret, first=64),
            "proof": stolen,
        }
        found = {name: await refused(changed) for name, changed in names.items()}
        assert found.pop("join_token_unknown") == (401, "join_token_unknown", [])
        assert {item[:2] for item in found.values()} == {(422, "enrolment_refused")}
        assert {name: item[2] for name, item in found.items()} == {
            "another service": ["/service"],
            "another party": ["/party"],
            "too many": ["/curators"],
            "numbers": ["/first"],
            "proof": ["/signature"],
        }
        assert (await it.send_enrolment(signed(sender, secret))).status_code == 201
        assert (await it.ask("GET", "/v1/curators")).json() == {
            "curators": [
                {"number": 0, "id": "g-1", "party": "gateway"},
                {"number": 1, "id": "g-2", "party": "gateway"},
            ],
            "total": 2,
        }


async def test_a_secret_is_good_for_one_party_once_and_expires(house: Houses) -> None:
    clock = ManualClock()
    async with house(1, clock=clock) as it:
        late = it.federation.sender("late")
        expiring = await it.grant(late, valid_s=60)
        clock.advance(timedelta(seconds=60))
        answer = await it.send_enrolment(it.enrolment(late, expiring))
        assert problem(answer) == (410, "join_token_expired")
        sender = it.federation.sender("gateway", ["g-1", "g-2"])
        secret = await it.grant(sender)
        first = await it.send_enrolment(it.enrolment(sender, secret))
        assert first.json()["first"] == 0
        thief = it.federation.sender("gateway", ["g-1", "g-2"])  # other keys
        answer = await it.send_enrolment(it.enrolment(thief, secret))
        assert problem(answer) == (409, "join_token_used")
        answer = await it.send_enrolment(it.enrolment(sender, secret, curators=("g-1",)))
        assert problem(answer) == (409, "join_token_used")
        # A lost answer: the same party gets its numbers again, and a token instead of the first.
        again = await it.send_enrolment(it.enrolment(sender, secret))
        assert again.status_code == 201
        assert (again.json()["first"], again.json()["curators"]) == (0, 2)
        old, new = first.json()["token"], again.json()["token"]
        assert problem(await it.ask("GET", "/v1/rounds", token=old)) == (401, "token_unknown")
        assert (await it.ask("GET", "/v1/rounds", token=new)).status_code == 200
        assert len((await it.ask("GET", "/v1/parties")).json()["parties"]) == 1
        await it.ask("DELETE", "/v1/parties/gateway")
        assert (await it.ask("GET", "/v1/rounds", token=new)).status_code == 401


async def test_nobody_enrols_twice(house: Houses) -> None:
    async with house(1) as it:
        sender = await it.host("gateway", 2)
        answer = await it.send_enrolment(it.enrolment(sender, await it.grant(sender)))
        assert problem(answer) == (409, "curator_enrolled")
        rival = it.federation.sender("rival", ["gateway.1", "rival.1"])
        answer = await it.send_enrolment(it.enrolment(rival, await it.grant(rival)))
        assert problem(answer) == (409, "curator_enrolled")
        assert (answer.json()["count"], answer.json()["places"]) == (1, [0])
        assert "gateway.1" not in answer.text


async def test_numbers_are_in_runs_and_never_given_again(house: Houses) -> None:
    async with house(1) as it:
        for name in ("a", "b"):
            await it.enrol(it.federation.sender(name))
        await it.host("gateway", 70)
        assert (await it.ask("DELETE", "/v1/parties/gateway")).status_code == 204
        assert problem(await it.ask("DELETE", "/v1/parties/gateway")) == (404, "unknown_party")
        await it.enrol(it.federation.sender("c"))
        parties = (await it.ask("GET", "/v1/parties")).json()["parties"]
        assert {item["id"]: item["first"] for item in parties} == {
            "a": 0,
            "b": 1,
            "gateway": 64,
            "c": 134,
        }
        left = {item["id"]: item["left"] for item in parties}
        assert left["a"] is None
        assert left["gateway"].endswith("Z")


# --- tokens --------------------------------------------------------------------------------------

UNKNOWN = "01928374-5566-7788-99aa-bbccddeeff00"
ALLOWED = {
    "operator": """
        POST /v1/aggregators; DELETE /v1/aggregators/a; POST /v1/aggregators/a/confirmation;
        GET /v1/flow; POST,GET /v1/grants; DELETE /v1/grants/a; GET /v1/parties;
        PUT /v1/identity/next; POST /v1/identity/successor; GET /v1/curators; DELETE /v1/parties/a;
        POST /v1/parties/a/return; POST /v1/identity/revocation; POST,GET /v1/tokens;
        DELETE /v1/tokens/a; POST /v1/groups; GET /v1/groups/a/curators; GET,PUT /v1/storage-key;
        GET /v1/support; GET /v1/conditions; GET /v1/notifications; POST /v1/notifications/test;
        POST,GET /v1/datasets; GET,DELETE /v1/datasets/a; GET /v1/datasets/a/ledger;
        POST /v1/queries; DELETE /v1/queries/a/schedule; POST /v1/rounds; POST /v1/rounds/ID/close;
        POST /v1/rounds/ID/abort; GET /v1/rounds/ID/received; GET /v1/rounds/ID/refusals;
        GET /v1/rounds/ID/refused; GET /v1/budget/events; PUT /v1/budget/curators/a/limits;
        PUT /v1/budget/limits; GET /v1/budget/verification; GET /v1/budget/rounds/a;
        GET /v1/budget/proposals; POST /v1/jobs; POST /v1/jobs/preview; DELETE /v1/jobs/a;
        GET /v1/jobs/a/events; GET /v1/jobs/a/evaluation; POST,GET /v1/job-schedules;
        POST /v1/job-schedules/preview; GET,DELETE /v1/job-schedules/a; GET /v1/budget/seals;
        POST /v1/rounds/a/seals; PUT /v1/aggregators/a/identity
    """,
    "operator analyst": """
        POST /v1/queries/preview; GET /v1/rounds/ID/result; GET /v1/rounds/ID/report;
        GET /v1/budget; GET /v1/budget/limits; POST /v1/budget/preview; POST /v1/budget/forecast;
        POST /v1/budget/outlook; GET /v1/budget/history; GET /v1/algorithms; GET /v1/algorithms/a;
        GET /v1/jobs; GET /v1/jobs/compare; GET /v1/jobs/a; GET /v1/jobs/a/result;
        GET /v1/jobs/a/report; GET /v1/jobs/a/files/a; GET /v1/jobs/a/plots/a;
        GET /v1/jobs/a/archive
    """,
    "operator analyst curator": """
        GET /v1/aggregators; GET /v1/groups; GET /v1/groups/a; GET /v1/queries; GET /v1/queries/a;
        GET /v1/rounds; GET /v1/rounds/ID; POST /v1/rounds/states; GET /v1/rounds/ID/descriptor;
        GET /v1/rounds/ID/transcript; GET /v1/jobs/a/steps/a; GET /v1/rounds/a/seals
    """,
    "operator curator": """
        POST /v1/budget/events; GET /v1/budget/curators/a
    """,
    "curator": """
        PUT /v1/parties/a/identity; PUT /v1/rounds/ID/acknowledgement; PUT /v1/acknowledgements;
        PUT /v1/rounds/ID/refusal; GET /v1/rounds/ID/standing; POST /v1/jobs/a/reports
    """,
}
"""Who may use which routes: scopes, and methods with paths."""
ROUTES = [
    (method, path.replace("/ID", f"/{UNKNOWN}"), set(scopes.split()))
    for scopes, routes in ALLOWED.items()
    for methods, path in (route.split() for route in routes.split(";"))
    for method in methods.split(",")
]
ROUTES.append(("POST", "/v1/tokens/end", {"operator"}))  # the last one: it ends the others' tokens
OPEN_TO_ALL = {
    ("POST", "/v1/parties/{}/token"),
    ("GET", "/v1/aggregators/{}/identity"),
    ("GET", "/.well-known/tacit-coordinator"),
    ("GET", "/.well-known/tacit-coordinator/identity"),
    ("POST", "/v1/enrolments"),
    ("GET", "/v1/seal-keys/{}"),
}


def without_names(path: str) -> str:
    return "/".join("{}" if each in ("a", UNKNOWN) or each[:1] == "{" else each
                    for each in path.split("/"))  # fmt: skip


async def test_every_route_asks_for_its_scope(house: Houses) -> None:
    async with house(0) as it:
        paths = it.app.openapi()["paths"]
        served = {
            (method.upper(), without_names(path))
            for path, operations in paths.items()
            for method in operations
            if path not in ("/healthz", "/readyz")
        }
        assert served == {(method, without_names(path)) for method, path, _ in ROUTES} | OPEN_TO_ALL
        scopes = ("operator", "analyst", "curator", "aggregator", "coordinator", "device")
        tokens = {scope: await it.token(scope) for scope in scopes}
        for method, path, allowed in ROUTES:
            body = {} if method in ("POST", "PUT") else None
            assert (await it.client.request(method, path)).status_code == 401, path
            for scope in sorted(scopes, key=allowed.__contains__):
                answer = await it.ask(method, path, body, tokens[scope])
                if scope in allowed:
                    assert answer.status_code not in (401, 403), (path, scope)
                else:
                    assert problem(answer) == (403, "scope_missing"), (path, scope)


async def test_tokens_are_shown_once_expire_and_are_revoked(house: Houses) -> None:
    clock = ManualClock()
    async with house(0, clock=clock) as it:
        made = await it.ask("POST", "/v1/tokens", {"scope": "analyst", "valid_s": 60})
        token, name = made.json()["token"], made.json()["id"]
        listed = await it.ask("GET", "/v1/tokens")
        assert token not in listed.text
        assert name in listed.text
        assert (await it.ask("GET", "/v1/rounds", token=token)).status_code == 200
        clock.advance(timedelta(seconds=60))
        assert problem(await it.ask("GET", "/v1/rounds", token=token)) == (401, "token_expired")
        second = await it.ask("POST", "/v1/tokens", {"scope": "analyst"})
        token, name = second.json()["token"], second.json()["id"]
        assert (await it.ask("GET", "/v1/rounds", token=token)).status_code == 200
        assert (await it.ask("DELETE", f"/v1/tokens/{name}")).status_code == 204
        assert problem(await it.ask("GET", "/v1/rounds", token=token)) == (401, "token_unknown")
        assert problem(await it.ask("DELETE", f"/v1/tokens/{name}")) == (404, "unknown_token")
        answer = await it.ask("POST", "/v1/tokens", {"scope": "king"})
        assert problem(answer) == (422, "bad_parameter")


async def test_lists_come_in_pages(house: Houses) -> None:
    async with house(0) as it:
        for index in range(5):
            await it.enrol(it.federation.sender(f"c-{index}"))
        for name in ("curators", "parties", "tokens"):
            path = f"/v1/{name}"
            whole = (await it.ask("GET", path)).json()[name]
            found: list[Any] = []
            following: str | None = f"{path}?limit=2"
            while following is not None:
                answer = await it.ask("GET", following)
                found += answer.json()[name]
                following = answer.links.get("next", {}).get("url")
            assert found == whole
            assert len(whole) >= 5
            other = "WzFd" if name != "curators" else "WyJhIl0"
            for cursor in ("nonsense", "WyJ4IiwieSJd", "W3RydWVd", other):
                answer = await it.ask("GET", f"{path}?cursor={cursor}")
                assert problem(answer) == (422, "bad_cursor"), cursor
            for limit in (0, 1001):
                assert (await it.ask("GET", f"{path}?limit={limit}")).status_code == 422
