"""An aggregator that does not answer is seen: in readiness, metrics, on the first page, and by
the caller that opens a round."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import httpx

from common.runtime.clock import ManualClock
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.registry.aggregators import Attendance, HealthLooks, Identities
from coordinator.store.registry import list_aggregators
from tacit.crypto.signing import HybridIdentity
from tacit.protocol.identities import IdentityChain
from tacit.wire import encode_binary
from tests.coordinator.conftest import Houses
from tests.coordinator.console.test_rounds import signed_in
from tests.coordinator.double import NOISY, WINDOW, House, problem, query

NAME = "aggregator-1"


async def metrics(it: House) -> dict[str, str]:
    text = (await it.client.get("/metrics")).text
    lines = (line.rpartition(" ") for line in text.splitlines() if "_aggregator_" in line)
    return {name.removeprefix("tacit_coordinator_"): value for name, _, value in lines}


async def test_an_aggregator_that_is_silent_is_seen_everywhere_until_it_is_back(
    house: Houses,
) -> None:
    clock = ManualClock()
    async with house(2, console=True, clock=clock) as it:
        attendance = part_of(it.app, Attendance)
        created = await it.ask(
            "POST",
            "/v1/queries",
            query(**{**NOISY, "aggregators": 2, "collusion": {"curators": 0, "aggregators": 1}}),
        )
        asked = {"query_id": created.json()["id"], "window": WINDOW}
        await attendance.look()
        last = clock.now()
        it.wires[1].down = True
        clock.advance(timedelta(seconds=12))
        await attendance.look()
        assert (await metrics(it))[f'aggregator_up{{aggregator="{NAME}"}}'] == "0.0"
        ready = await it.client.get("/readyz")
        assert ready.json()["checks"]["aggregators"] == "ok"  # one answer may be lost
        clock.advance(timedelta(seconds=28))
        await attendance.look()

        sentence = f"{NAME} has not answered for 40 s"
        ready = await it.client.get("/readyz")
        assert (ready.status_code, ready.json()["checks"]["aggregators"]) == (200, sentence)
        figures = await metrics(it)
        assert figures[f'aggregator_up{{aggregator="{NAME}"}}'] == "0.0"
        assert figures['aggregator_up{aggregator="aggregator-0"}'] == "1.0"
        answered = figures[f'aggregator_last_answer_timestamp_seconds{{aggregator="{NAME}"}}']
        assert float(answered) == last.timestamp()
        browser = await signed_in(it)
        await browser.get("/console")
        assert f"Needs you (1) {sentence}: nothing answers at" in browser.words()
        refused = await it.ask("POST", "/v1/rounds", asked)
        assert (refused.status_code, refused.json()["detail"]) == (503, sentence)
        assert int(refused.headers["Retry-After"]) > 30  # clients do not try again meanwhile

        # Back, and not asked since: a round may be opened, and the first page is quiet.
        it.wires[1].down = False
        opened = await it.ask("POST", "/v1/rounds", asked)
        assert opened.status_code == 201, opened.text
        assert (await it.client.get("/readyz")).json()["checks"]["aggregators"] == "ok"
        await browser.get("/console")
        assert sentence not in browser.words()


async def test_of_one_that_is_away_and_revoked_the_caller_learns_what_no_retry_mends(
    house: Houses,
) -> None:
    clock, pair = ManualClock(), HybridIdentity(b"k" * 64)
    async with house(2, clock=clock) as it:
        peer, attendance = it.federation.peers[1], part_of(it.app, Attendance)
        two = {**NOISY, "aggregators": 2, "collusion": {"curators": 0, "aggregators": 1}}
        created = await it.ask("POST", "/v1/queries", query(**two))
        await peer.ask("PUT", "/v1/identity/next", pair.public)
        for _ in range(2):
            shown = await peer.client.get("/.well-known/tacit-aggregator/identity")
            chain = IdentityChain.model_validate_json(shown.content)
            await part_of(it.app, Identities).take(NAME, chain)
            secret = {"secret": encode_binary(pair.to_bytes())}
            assert (await peer.ask("POST", "/v1/identity/revocation", secret)).status_code == 200
        it.wires[1].down = True
        clock.advance(timedelta(seconds=12))  # what was answered before is kept for ten seconds
        await attendance.look()
        clock.advance(timedelta(minutes=1))
        assert [one.id for one in attendance.away()] == [NAME]
        asked = {"query_id": created.json()["id"], "window": WINDOW}
        answer = await it.ask("POST", "/v1/rounds", asked)
        assert problem(answer) == (403, "identity_superseded")


async def test_a_removed_aggregator_is_not_missed(house: Houses) -> None:
    clock = ManualClock()
    async with house(2, clock=clock) as it:
        attendance = part_of(it.app, Attendance)
        it.wires[1].down = True
        await attendance.look()
        clock.advance(timedelta(minutes=1))
        assert [one.id for one in attendance.away()] == [NAME]
        await it.ask("DELETE", f"/v1/aggregators/{NAME}")
        await attendance.look()
        assert attendance.away() == []
        assert not any(NAME in name for name in await metrics(it))


async def test_an_answer_that_takes_long_is_no_absence(house: Houses) -> None:
    """As when the first of two name servers is silent: requests of a round have the time."""
    clock = ManualClock()
    async with house(2, clock=clock) as it:
        attendance, looks = part_of(it.app, Attendance), part_of(it.app, HealthLooks)
        served, gate = it.wires[1].handle_async_request, asyncio.Event()

        async def slow(request: httpx.Request) -> httpx.Response:
            await gate.wait()
            return await served(request)

        it.wires[1].handle_async_request = slow  # type: ignore[method-assign]
        clock.advance(timedelta(seconds=20))
        async with part_of(it.app, Database).reading() as transaction:
            rows = await list_aggregators(transaction)
        asked = asyncio.create_task(attendance.look())
        seen = await looks.look(rows, patience_s=3)  # a page does not wait as long
        assert [health.reachable for health in seen] == [True, False]
        assert seen[1].problem == "no answer within 3 seconds"
        gate.set()
        await asked
        assert attendance.present[NAME].answered == clock.now()
        assert attendance.away() == []
