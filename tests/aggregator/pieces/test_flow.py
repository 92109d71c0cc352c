"""Uploads are counted by the hour: only hours that are over, no count below five, no name."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from aggregator.app import MIGRATIONS
from aggregator.pieces.routes import UploadCounts
from common.runtime.clock import ManualClock
from common.store.database import migrate
from common.store.transactions import Database
from tacit.protocol.round.messages import KEPT, Flow, reported
from tests.aggregator.double import Federation, Peer, query
from tests.aggregator.pieces.test_pieces import flipped


async def flow(peer: Peer, **asked: str) -> Flow:
    answer = await peer.coordinate("GET", "/v1/flow" + _query(asked))
    assert answer.status_code == 200, answer.text
    return Flow.model_validate_json(answer.content)


def _query(asked: dict[str, str]) -> str:
    pairs = "&".join(f"{name.strip('_')}={value}" for name, value in asked.items())
    return f"?{pairs}" if pairs else ""


async def uploads(pair: Federation, good: int, broken: int) -> None:
    senders = await pair.lone(good)
    current = await pair.open(query(aggregators=2, mechanism="exact"))
    words = current.split(np.arange(good).reshape(good, 1))
    for place, sender in enumerate(senders):
        piece = current.piece(sender, 0, words[0][place])
        if place < broken:
            bad = piece.model_copy(update={"sealed": flipped(piece.sealed, 0)})
            assert (await current.send(sender, 0, bad)).status_code == 400
        assert (await current.send(sender, 0, piece)).status_code == 201
        if place < 2:
            assert (await current.send(sender, 0, piece)).status_code == 200


async def test_hours_that_are_over_are_told_without_small_counts(
    pair: Federation, clock: ManualClock
) -> None:
    peer = pair.peers[0]
    await uploads(pair, 8, 6)
    await peer.part(UploadCounts).store()
    assert (await flow(peer)).hours == ()  # the hour is not over
    clock.advance(timedelta(hours=1, minutes=2))
    [hour] = (await flow(peer)).hours
    # two pieces were known before: counts below five are not published
    assert (hour.form, hour.outcomes) == ("lone", {"stored": 8, "seal_broken": 6})
    assert hour.hour.minute == hour.hour.second == 0
    before = await flow(peer)
    await uploads_again(peer)
    assert await flow(peer) == before  # the figures of an hour that is over do not change


async def uploads_again(peer: Peer) -> None:
    """More uploads, in a later hour."""
    counts = peer.part(UploadCounts)
    for _ in range(7):
        counts.add("lone", "round_closed")
    await counts.store()


def test_small_counts_together_are_other() -> None:
    assert reported({"a": 4, "b": 3, "stored": 5}) == {"stored": 5, "other": 7}
    assert reported({"a": 2, "b": 2}) == {}
    assert reported({"a": 4}) == {}


async def test_counts_are_kept_over_a_restart_and_then_forgotten(
    database: Database, clock: ManualClock
) -> None:
    await migrate(database, MIGRATIONS)
    one, other = (UploadCounts(database, clock, 60.0) for _ in range(2))
    for counts in (one, other, one):
        for _ in range(3):
            counts.add("batch", "stored")
        await counts.store()
    clock.advance(timedelta(hours=2))
    [hour] = (await UploadCounts(database, clock, 60.0).reported(None, None)).hours
    assert (hour.form, hour.outcomes) == ("batch", {"stored": 9})
    clock.advance(KEPT)
    await one.store()
    start = clock.now() - 2 * KEPT
    assert (await one.reported(start, None)).hours == ()


async def test_parties_and_strangers_see_no_counts(pair: Federation) -> None:
    peer = pair.peers[0]
    [sender] = await pair.lone(1)
    assert (await peer.client.get("/v1/flow")).status_code == 401
    token = sender.tokens[0]
    assert (await peer.ask("GET", "/v1/flow", token=token)).status_code == 403
    assert (await peer.ask("GET", "/v1/flow")).status_code == 200
