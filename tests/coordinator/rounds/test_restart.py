"""Aggregators that fail, coordinators that restart, and two of them on one database."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import delete, update

from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.rounds.context import Conduct
from coordinator.store import rounds as store
from coordinator.store.tables import frozen_sets, rounds
from tacit.protocol.round.state import RoundState
from tests.aggregator.double import Round, Sender
from tests.coordinator.conftest import Houses
from tests.coordinator.double import NOISY, WINDOW, House, integers, problem, query

SHAMIR: dict[str, Any] = {"sharing": "shamir", "aggregators": 5, "threshold": 3}


async def stored(it: House, round_id: str) -> store.RoundRow:
    async with part_of(it.app, Database).reading() as transaction:
        row = await store.find(transaction, round_id)
    assert row is not None
    return row


async def released(it: House, opened: Round, total: int, count: int) -> None:
    finished = await it.finish(opened)
    assert finished["state"] == "released", finished
    found = await it.result(opened)
    assert found["participants"] == count
    assert Decimal(found["result"]["sum"]) == Decimal(total) / 1000


async def frozen(it: House, host: Sender, values: NDArray[np.int64], *, some: bool) -> Round:
    """A round whose curators sent, so that it is frozen: without one of them where only `some` do,
    and then from signed sets."""
    if some:
        await it.host("absent", 1)
    opened = await it.open(query())
    await opened.contribute(host, values)
    if some:
        await it.ask("POST", f"/v1/rounds/{opened.id}/close")
    return opened


@pytest.mark.parametrize("step", ["/commitment", "/reveal"])
async def test_a_freeze_made_again_gives_the_manifest_that_was_committed_to(
    house: Houses, step: str
) -> None:
    """As after a restore from a backup of before the freeze."""
    async with house(3) as it:
        host = await it.host("gateway", 6)
        values = integers(6)
        it.wires[1].fault = lambda method, path: (
            "answer" if method == "POST" and path.endswith(step) else None
        )
        opened = await frozen(it, host, values, some=step == "/commitment")
        await it.wires[1].heard(step, 0)
        before = await stored(it, opened.id)
        async with part_of(it.app, Database).begin() as transaction:
            await transaction.execute(
                delete(frozen_sets).where(frozen_sets.c.round_id == opened.id)
            )
            await transaction.execute(
                update(rounds)
                .where(rounds.c.id == opened.id)
                .values(state=RoundState.OPEN, manifest=None, accepted=None)
            )
        it.wires[1].fault = lambda method, path: None
        await released(it, opened, int(values.sum()), 6)
        after = await stored(it, opened.id)
        assert before.manifest is not None
        assert after.manifest == before.manifest


STEPS = ["/v1/rounds", "/freeze", "/commitment", "/reveal"]


@pytest.mark.parametrize("fault", ["request", "answer"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.slow
async def test_a_restart_at_any_step_completes_the_round(
    house: Houses, step: str, fault: str
) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 6)
        values = integers(6)
        it.wires[1].fault = lambda method, path: (
            fault if method == "POST" and path.endswith(step) else None
        )
        if step == "/v1/rounds":
            opened = await it.round_of((await it.ask_for(query()))["id"])
            await it.wires[1].heard(step, 0)
            assert (await it.ask("GET", "/v1/rounds?state=open")).json() == {"rounds": []}
        else:
            opened = await frozen(it, host, values, some=step == "/commitment")
            await it.wires[1].heard(step, 0)
        before = await stored(it, opened.id)
        await it.restart()
        it.wires[1].fault = lambda method, path: None
        if step == "/v1/rounds":
            shown = await it.ask("GET", "/v1/rounds?state=open&wait_s=5")
            assert [item["statement"]["round"] for item in shown.json()["rounds"]] == [opened.id]
            await opened.contribute(host, values)
        await released(it, opened, int(values.sum()), 6)
        assert (await stored(it, opened.id)).descriptor == before.descriptor


async def test_a_restart_forgets_no_wish(house: Houses) -> None:
    async with house(3) as it:
        await it.host("gateway", 3)
        opened = await it.open(query())
        for wire in it.wires:
            wire.fault = lambda method, path: "request" if method == "POST" else None
        assert (await it.ask("POST", f"/v1/rounds/{opened.id}/close")).status_code == 202
        await it.wires[0].heard("/freeze", 0)
        asking = asyncio.create_task(it.ask("POST", f"/v1/rounds/{opened.id}/abort"))
        await it.wires[0].heard("/abort", 0)
        await it.stop()
        await asyncio.gather(asking, return_exceptions=True)
        for wire in it.wires:
            wire.fault = lambda method, path: None
        await it.start()
        finished = await it.finish(opened)
        assert (finished["state"], finished["reason"]) == (
            "aborted",
            "an operator aborted the round",
        )


async def test_an_abort_during_the_commitment_is_final(house: Houses) -> None:
    """One writer: the wish of an operator never races with the conductor."""
    async with house(3) as it:
        host = await it.host("gateway", 4)
        it.wires[2].fault = lambda method, path: "request" if path.endswith("/commitment") else None
        opened = await frozen(it, host, integers(4), some=True)
        await it.wires[2].heard("/commitment", 0)
        answer = await it.ask("POST", f"/v1/rounds/{opened.id}/abort")
        assert (answer.status_code, answer.json()["state"]) == (200, "aborted")
        assert answer.json()["reason"] == "an operator aborted the round"
        assert len(answer.json()["aborts"]) == 3
        assert {item["statement"]["frozen"] for item in answer.json()["aborts"]} == {"yes"}
        again = await it.ask("POST", f"/v1/rounds/{opened.id}/abort")
        assert (again.status_code, again.json()) == (200, answer.json())
        for peer in it.federation.peers:
            assert (await peer.ask("GET", f"/v1/rounds/{opened.id}")).json()["state"] == "aborted"


async def test_a_round_that_cannot_be_announced_ends_early(house: Houses) -> None:
    async with house(3, patience_s=0.3) as it:
        await it.host("gateway", 3)
        it.wires[2].fault = lambda method, path: "request" if method == "POST" else None
        found = await it.ask_for(query())
        opened = await it.round_of(found["id"])
        finished = await it.finish(opened)
        assert finished["state"] == "aborted"
        assert finished["reason"] == "aggregator-2: no answer to the descriptor"


async def test_no_round_is_stored_for_an_aggregator_that_is_away(house: Houses) -> None:
    async with house(3) as it:
        await it.host("gateway", 3)
        created = (await it.ask("POST", "/v1/queries", query())).json()
        it.wires[2].down = True
        body = {"query_id": created["id"], "window": WINDOW}
        key = {"Idempotency-Key": "k"}
        answer = await it.ask("POST", "/v1/rounds", body, headers=key)
        assert problem(answer) == (503, "aggregator_unreachable")
        assert answer.json()["retryable"] is True
        assert (await it.ask("GET", "/v1/rounds")).json() == {"rounds": []}
        it.wires[2].down = False
        answers = await asyncio.gather(
            *(it.ask("POST", "/v1/rounds", body, headers=key) for _ in range(3))
        )
        good = [item for item in answers if item.status_code == 201]
        assert good
        assert {item.status_code for item in answers} <= {201, 409}
        again = await it.ask("POST", "/v1/rounds", body, headers=key)
        assert (again.status_code, again.content) == (201, good[0].content)
        assert again.headers["idempotency-replayed"] == "true"
        assert len((await it.ask("GET", "/v1/rounds")).json()["rounds"]) == 1


async def test_a_key_is_free_after_a_crash_in_the_middle(house: Houses) -> None:
    async with house(3) as it:
        await it.host("gateway", 3)
        created = (await it.ask("POST", "/v1/queries", query())).json()
        body = {"query_id": created["id"], "window": WINDOW}
        key = {"Idempotency-Key": "k"}
        reached = asyncio.Event()

        async def hang(*_: Any) -> Any:
            reached.set()
            await asyncio.sleep(60)

        part_of(it.app, Conduct).peers.of = lambda row: type(
            "Hanging", (), {"identities": hang, "seal_key": hang, "id": row.id, "row": row}
        )()
        asking = asyncio.create_task(it.ask("POST", "/v1/rounds", body, headers=key))
        await reached.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await it.restart()
        answer = await it.ask("POST", "/v1/rounds", body, headers=key)
        assert answer.status_code == 201, answer.text


async def test_a_quorum_goes_on_without_two(house: Houses) -> None:
    """Two of five stop permanently after the pieces are in; the others' noise is relayed.

    Spec: aggregation, section 10, check 6.
    """
    async with house(5, patience_s=8.0) as it:
        host = await it.host("gateway", 8)
        await it.host("absent", 1)
        opened = await it.open(query(**NOISY, **SHAMIR))
        values = integers(8)
        await opened.contribute(host, values)
        it.wires[0].down = it.wires[3].down = True
        finished = await it.finish(opened, by="close")
        assert (finished["state"], finished["participants"]) == ("released", 8)
        transcript = (await it.ask("GET", f"/v1/rounds/{opened.id}/transcript")).json()
        assert transcript["quorum"] == [1, 2, 4]
        found = float((await it.result(opened))["result"]["sum"])
        # Noise of scale 20 kWh from each of at most five: above 1500 kWh with probability < 1e-12.
        assert 0 < abs(found - values.sum() / 1000) < 1500


async def test_who_missed_the_opening_joins_later_and_shuts_nobody_out(
    house: Houses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.rounds.conductor.ASK_LATE_S", 0.05)
    async with house(5, patience_s=5.0) as it:
        host = await it.host("gateway", 8)
        await it.host("absent", 1)
        it.wires[4].fault = lambda method, path: "request" if method == "POST" else None
        opened = await it.open(query(**NOISY, **SHAMIR))
        values = integers(8)
        words = opened.split(values, hosted=True)
        for index in range(4):
            for body in opened.batches(host, index, words[index]):
                assert (await opened.send_batch(host, index, body)).status_code == 201
        it.wires[4].fault = lambda method, path: None
        await it.wires[4].heard("/v1/rounds")
        finished = await it.finish(opened, by="close")
        assert (finished["state"], finished["participants"]) == ("released", 8)
        transcript = (await it.ask("GET", f"/v1/rounds/{opened.id}/transcript")).json()
        assert transcript["quorum"] == [0, 1, 2, 3]


async def test_one_that_aborted_by_itself_does_not_stop_a_quorum(house: Houses) -> None:
    async with house(5) as it:
        host = await it.host("gateway", 5)
        await it.host("absent", 1)
        opened = await it.open(query(**SHAMIR))
        values = integers(5)
        await opened.contribute(host, values)
        peer = it.federation.peers[2]
        answer = await peer.ask("POST", f"/v1/rounds/{opened.id}/abort", b'{"reason":"restored"}')
        assert answer.status_code == 200
        await it.ask("POST", f"/v1/rounds/{opened.id}/close")
        await released(it, opened, int(values.sum()), 5)


async def test_two_replicas_conduct_each_round_once(house: Houses, database_url: str) -> None:
    async with house(3, database_url, lease_s=30.0) as it, it.replica() as (_, other):
        host = await it.host("gateway", 4)
        rounds = [await it.open(query(name=f"q-{index}")) for index in range(2)]
        for opened in rounds:
            await opened.contribute(host, integers(4))
        for opened in rounds:
            await released(it, opened, int(integers(4).sum()), 4)
        for step in ("/freeze", "/reveal"):
            seen = [path for method, path in it.wires[0].seen if path.endswith(step)]
            if step == "/freeze":  # asked until all is there
                seen = list(set(seen))
            assert sorted(seen) == sorted(f"/v1/rounds/{opened.id}{step}" for opened in rounds)
        answer = await other.get(
            f"/v1/rounds/{rounds[0].id}",
            headers={"Authorization": f"Bearer {await it.token('analyst')}"},
        )
        assert answer.json()["state"] == "released"


async def test_another_replica_takes_over_and_tells_who_waits(
    house: Houses, database_url: str
) -> None:
    async with house(3, database_url) as it, it.replica() as (_, other):
        host = await it.host("gateway", 4)
        it.wires[0].fault = lambda method, path: "request" if path.endswith("/commitment") else None
        opened = await frozen(it, host, integers(4), some=True)
        await it.wires[0].heard("/commitment", 0)
        token = await it.token("analyst")
        headers = {"Authorization": f"Bearer {token}"}
        shown = await other.get(f"/v1/rounds/{opened.id}", headers=headers)
        waiting = asyncio.create_task(
            other.get(
                f"/v1/rounds/{opened.id}?wait_s=30",
                headers={**headers, "If-None-Match": shown.headers["etag"]},
                timeout=120,
            )
        )
        await it.stop()
        it.wires[0].fault = lambda method, path: None
        told = await waiting
        assert told.status_code == 200
        assert told.json()["state"] in ("committed", "released")
        await it.start()
        await released(it, opened, int(integers(4).sum()), 4)


@pytest.mark.slow
async def test_a_stop_at_any_moment_leaves_the_store_free(house: Houses) -> None:
    """Rounds begin and end while the coordinator is stopped again and again. A transaction that a
    stop left open would lock the next start out of SQLite, which is an error."""
    async with house(2) as it:
        await it.host("gateway", 2)
        for index in range(12):
            asked = query(name=f"q-{index}", aggregators=2)
            opened = (await it.ask_for(asked, deadline_s=1))["id"]
            await asyncio.sleep(index * 0.004)
            await it.restart()
            assert (await it.ask("GET", f"/v1/rounds/{opened}")).status_code == 200
