"""An owner checks that its answer was used as agreed, through its own service (spec: console,
section 6). Coordinator, aggregators and curators are real."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tacit import AsyncClient, Problem
from tacit.protocol.trust import Trust
from tests.coordinator.double import query
from tests.e2e.federation import CURATOR_OPERATOR, Site, site

pytestmark = pytest.mark.asyncio(loop_scope="module")
NOISY = {"mechanism": "distributed", "epsilon": "1", "privacy_unit": "curator"}
NAMES = ("house-1", "house-2", "house-3")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with site(tmp_path_factory.mktemp("answers")) as running:
        for name in NAMES:
            await running.enrol(name)
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rounds(it: Site) -> list[str]:
    """Two released rounds of two queries."""
    found = []
    for name in ("first", "second"):
        asked = query(**NOISY, name=name, min_participants=3, deadline_s=60)
        opened = await it.house.open(asked)
        assert (await it.house.finish(opened))["state"] == "released"
        found.append(opened.id)
    return found


def client(it: Site, token: str = CURATOR_OPERATOR) -> AsyncClient:
    transport = httpx.ASGITransport(app=it.app)
    return AsyncClient("http://curators.test", token, transport=transport)


async def owner(it: Site, curator: str) -> AsyncClient:
    asked = {"scope": "curator", "subject": curator, "label": "owner"}
    return client(it, (await it.own("POST", "/v1/tokens", asked)).json()["token"])


async def test_what_was_published_is_what_was_answered(it: Site, rounds: list[str]) -> None:
    path = f"/v1/curators/house-1/contributions/{rounds[0]}/transcript"
    shown = await it.own("GET", path)
    published = await it.house.ask("GET", f"/v1/rounds/{rounds[0]}/transcript")
    assert (shown.status_code, shown.content) == (200, published.content)
    found = await (await owner(it, "house-1")).contributions.check("house-1", rounds[0])
    result = (await it.house.ask("GET", f"/v1/rounds/{rounds[0]}/result")).json()
    assert found["same_round"]
    assert found["participants"] == 3
    assert found["result"] == result["result"]
    anchors = await client(it).contributions.anchors("house-1", rounds[0])
    assert found["answered"] == anchors["descriptor_hash"]
    trust = Trust.model_validate_json(json.dumps(anchors["trust"]))
    assert [each.id for each in trust.aggregators] == [
        entry["id"] for entry in published.json()["descriptor"]["statement"]["aggregators"]
    ]


@pytest.mark.parametrize("what", ["transcript", "anchors"])
async def test_an_owner_reads_its_own_answers_alone(it: Site, rounds: list[str], what: str) -> None:
    async with await owner(it, "house-1") as own:
        with pytest.raises(Problem) as refused:
            await own.get(f"/v1/curators/house-2/contributions/{rounds[0]}/{what}")
        assert refused.value.name == "foreign_curator"
        with pytest.raises(Problem) as refused:
            await own.get(f"/v1/curators/house-1/contributions/nothing/{what}")
        assert refused.value.name == "unknown_answer"


async def test_a_coordinator_that_shows_another_round_is_found_out(
    it: Site, rounds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = (await it.house.ask("GET", f"/v1/rounds/{rounds[1]}/transcript")).content

    async def lie(*_: object) -> bytes:
        return other

    monkeypatch.setattr("curator.owner.routes.transcript", lie)
    found = await client(it).contributions.check("house-1", rounds[0])
    assert not found["same_round"]
    assert found["answered"] != found["published"]
    assert "result" not in found


@pytest.mark.parametrize("field", ["signature", "participants", "partial"])
async def test_a_changed_transcript_is_refused(
    it: Site, rounds: list[str], monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    shown: dict[str, Any] = (await it.house.ask("GET", f"/v1/rounds/{rounds[0]}/transcript")).json()
    if field == "signature":
        first, second, *_ = shown["commitments"]
        first["signature"], second["signature"] = second["signature"], first["signature"]
    elif field == "participants":
        shown["participants"] += 1
    else:
        first, second, *_ = shown["reveals"]
        first["partial"], second["partial"] = second["partial"], first["partial"]

    async def lie(*_: object) -> bytes:
        return json.dumps(shown).encode()

    monkeypatch.setattr("curator.owner.routes.transcript", lie)
    with pytest.raises(Exception, match=r".") as refused:
        await client(it).contributions.check("house-1", rounds[0])
    assert type(refused.value).__module__.startswith("tacit.")


async def test_who_gave_nothing_has_nothing_to_check(it: Site) -> None:
    stop = {"stopped": True}
    await it.own("PUT", "/v1/curators/house-3/stop", stop)
    opened = await it.house.open(query(**NOISY, name="third", min_participants=2, deadline_s=60))
    assert (await it.house.finish(opened))["state"] == "released"
    for name, problem in (("house-3", "not_given"), ("house-2", None)):
        answer = await it.own("GET", f"/v1/curators/{name}/contributions/{opened.id}/transcript")
        if problem is None:
            assert answer.status_code == 200
        else:
            assert answer.status_code == 409
            assert answer.json()["type"].endswith(problem)
    await it.own("PUT", "/v1/curators/house-3/stop", {"stopped": False})


async def test_a_round_without_a_result_has_no_transcript(it: Site) -> None:
    opened = await it.house.open(query(**NOISY, name="fourth", min_participants=4, deadline_s=4))
    assert (await it.house.finish(opened))["state"] == "aborted"
    answer = await it.own("GET", f"/v1/curators/house-1/contributions/{opened.id}/transcript")
    assert answer.status_code == 409
    assert answer.json()["type"].endswith("nothing_published")
    assert (
        await it.own("GET", f"/v1/curators/house-1/contributions/{opened.id}/anchors")
    ).is_success
