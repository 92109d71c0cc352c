"""The attacker wants budget back for a sum that was opened.

It opens a round, backs an aggregator up, has the round released, puts the backup back, and asks for
an abort: a store that believes its own past would sign "never frozen", and that is a credit.
"""

from __future__ import annotations

import json
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np

from aggregator.rounds.restoring import MARKER
from common.runtime.clock import ManualClock
from tacit.accounting.charges import abort_credit
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import AbortStatement, Frozen
from tests.aggregator.conftest import Running
from tests.aggregator.double import Round, query
from tests.aggregator.rounds.test_restoring import Site

ASKED = query(
    aggregators=2,
    mechanism="distributed",
    epsilon="1",
    collusion={"curators": 0, "aggregators": 0},
)
"""With no corrupt aggregator assumed, one signed statement is a credit."""


async def aborted(site: Site, current: Round) -> Signed[AbortStatement]:
    peer = site.federation.peers[0]
    answer = await peer.coordinate("POST", current.path("abort"), {"reason": "operator"})
    assert answer.status_code == 200, answer.text
    return Signed[AbortStatement].model_validate_json(json.dumps(answer.json()))


async def test_a_restored_aggregator_does_not_vouch_for_what_it_forgot(
    tmp_path: Path, clock: ManualClock, running: Running
) -> None:
    site = Site(tmp_path, clock, running)
    async with AsyncExitStack() as stack:
        federation = await site.run(stack)
        lone = await federation.lone(2)
        current = await federation.open(ASKED)
        for sender in lone:
            await current.contribute(sender, np.array([[3]]))
        await site.first.aclose()
        shutil.copytree(site.data, tmp_path / "backup")
        await site.start()
        await current.release()
        await site.first.aclose()
        shutil.rmtree(site.data)
        shutil.copytree(tmp_path / "backup", site.data)
        (site.data / MARKER).touch()
        await site.start()
        statement = await aborted(site, current)
        assert statement.statement.frozen is Frozen.MAYBE
        assert not abort_credit(current.descriptor, [statement])


async def test_a_round_that_stayed_open_earns_the_credit(
    tmp_path: Path, clock: ManualClock, running: Running
) -> None:
    """The control: the statement is worth a credit where the store has seen the whole round."""
    site = Site(tmp_path, clock, running)
    async with AsyncExitStack() as stack:
        federation = await site.run(stack)
        lone = await federation.lone(2)
        current = await federation.open(ASKED)
        for sender in lone:
            await current.contribute(sender, np.array([[3]]))
        await site.first.aclose()
        await site.start()  # an ordinary restart loses nothing
        statement = await aborted(site, current)
        assert statement.statement.frozen is Frozen.NEVER
        assert abort_credit(current.descriptor, [statement])
