"""Answers that no other quick test asks for: each is of its model in the API's document (every
answer that a test gets is held against it), and says what happened."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tacit.wire import encode_binary
from tests.coordinator.double import query
from tests.e2e.federation import CURATOR_OPERATOR, Site, site
from tests.e2e.rotation import KEYS, commit, look_again, peers, rotate

pytestmark = pytest.mark.asyncio(loop_scope="module")
NOISY = {"mechanism": "distributed", "epsilon": "1", "privacy_unit": "curator"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with site(tmp_path_factory.mktemp("rare"), console=True) as running:
        for name in ("north", "south"):
            await running.enrol(name)
        yield running


async def owned(it: Site, path: str) -> dict[str, Any]:
    answer = await it.own("GET", path)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def by_coordinator(it: Site) -> None:
    """The coordinator's identity is replaced."""
    given = await it.house.ask("PUT", "/v1/identity/next", KEYS[2].public.model_dump(mode="json"))
    assert given.status_code == 200, given.text
    body = {
        "secret": encode_binary(KEYS[2].to_bytes()),
        "following": KEYS[3].public.model_dump(mode="json"),
    }
    assert (await it.house.ask("POST", "/v1/identity/successor", body)).status_code == 200


async def test_an_abort_in_progress_says_so(it: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.api.rounds.ABORT_WAIT_S", 0.0)
    for wire in it.house.wires:
        wire.fault = lambda _method, path: "request" if path.endswith("/abort") else None
    opened = await it.house.open(query(**NOISY, name="ended", min_participants=3, deadline_s=60))
    begun = await it.house.ask("POST", f"/v1/rounds/{opened.id}/abort")
    assert (begun.status_code, begun.json()["id"]) == (202, opened.id)
    for wire in it.house.wires:
        wire.fault = lambda _method, _path: None
    assert (await it.house.finish(opened))["state"] == "aborted"


async def test_an_owner_reads_one_answer_and_its_transactions(it: Site) -> None:
    opened = await it.house.open(query(**NOISY, name="given", min_participants=2, deadline_s=60))
    assert (await it.house.finish(opened))["state"] == "released"
    found = await owned(it, f"/v1/curators/north/contributions/{opened.id}")
    assert (found["round"], found["state"], found["contributed"]) == (opened.id, "delivered", True)
    assert found["declared"]["epsilon"] == "1"
    sent = await it.own(
        "POST",
        "/v1/transactions?curator=north&format=text",
        headers={"Content-Type": "text/plain"},
        content=b"milk bread\nmilk\n",
    )
    assert sent.status_code == 200, sent.text
    shown = await owned(it, "/v1/curators/north/transactions")
    assert shown == {
        "curator": "north",
        "tables": [{"name": "records", "records": 2, "timed": False}],
    }


async def test_services_show_whose_identities_they_follow(it: Site) -> None:
    first, second, _ = peers(it)
    assert (await first.client.get("/readyz")).status_code == 200
    nobody = await it.house.ask("GET", f"/v1/aggregators/{first.id}/identity")
    assert nobody.status_code == 404
    await commit(first, KEYS[0])
    await rotate(first, 0)
    look_again(it)
    opened = await it.house.open(query(**NOISY, name="after", min_participants=2, deadline_s=60))
    assert (await it.house.finish(opened))["state"] == "released"
    chain = (await it.house.ask("GET", f"/v1/aggregators/{first.id}/identity")).json()
    assert chain["links"]
    assert (await second.ask("GET", "/v1/coordinator/identity")).status_code == 409
    await by_coordinator(it)
    chains = [(await peer.ask("GET", "/v1/coordinator/identity")).json() for peer in peers(it)]
    assert [len(each["links"]) for each in chains] == [1, 1, 1]


async def test_algorithms_are_listed_as_one_by_one(it: Site) -> None:
    listed = (await it.house.ask("GET", "/v1/algorithms")).json()["algorithms"]
    for each in listed:
        assert (await it.house.ask("GET", f"/v1/algorithms/{each['name']}")).json() == each


async def test_a_code_is_offered_and_what_was_done_is_listed(it: Site) -> None:
    made = await it.own("POST", "/v1/console/codes")
    assert made.status_code == 201
    assert made.json()["path"].endswith(made.json()["code"])
    assert (await owned(it, "/v1/audit"))["audit"] == []


async def test_all_other_tokens_end_at_once(it: Site) -> None:
    asked = {"scope": "operator", "label": "old"}
    old = (await it.own("POST", "/v1/tokens", asked)).json()["token"]
    path = "/v1/tokens"
    ended = await it.own("POST", "/v1/tokens/end")
    assert ended.json() == {"ended": {"operator": 1}}
    stale = await it.own("GET", path, headers={"Authorization": f"Bearer {old}"})
    assert stale.status_code == 401
    assert (await it.own("GET", path)).status_code == 200
    assert CURATOR_OPERATOR not in json.dumps((await it.own("GET", path)).json())
