"""Who opens a round, and what is left of it after its release."""

from __future__ import annotations

import httpx
import numpy as np
from sqlalchemy import text

from aggregator.context import Aggregator
from tacit.crypto.signing import Signed
from tests.aggregator.double import Federation, query
from tests.aggregator.pieces.test_pieces import problem


def refused(answer: httpx.Response, status: int, name: str) -> None:
    assert (answer.status_code, problem(answer)) == (status, name), answer.text


async def test_pieces_are_destroyed_with_the_release(database_url: str, pair: Federation) -> None:
    host, lone = await pair.host("gateway", 64), await pair.lone(2)
    current = await pair.open(query(aggregators=2, mechanism="exact"))
    for sender in (host, *lone):
        await current.contribute(sender, np.ones((len(sender.curators), 1), np.int64))
    await current.release()
    database = pair.peers[0].part(Aggregator).database
    async with database.reading() as transaction:
        held = await transaction.execute(
            text("SELECT length(body) FROM batch UNION ALL SELECT length(sealed) FROM contribution")
        )
        assert all(row[0] == 0 for row in held)


async def test_a_round_is_opened_by_its_coordinator(pair: Federation) -> None:
    await pair.lone(1)
    signed = await pair.descriptor(query(aggregators=2, mechanism="exact"))
    peer = pair.peers[0]
    other = await pair.descriptor(query(aggregators=2, mechanism="exact", name="other"))
    foreign = Signed(statement=other.statement, signature=signed.signature)
    refused(await peer.coordinate("POST", "/v1/rounds", foreign), 422, "descriptor_refused")
    refused(await peer.ask("POST", "/v1/rounds", other), 403, "scope_missing")
