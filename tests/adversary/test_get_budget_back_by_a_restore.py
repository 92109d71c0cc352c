"""The attacker wants budget back for a sum that was opened.

It opens a round, backs an aggregator up, has the round released, puts the backup back, and asks for
an abort: a store that believes its own past would sign "never frozen", and that is a credit.
"""

from __future__ import annotations

import json

import numpy as np

from tacit.accounting.charges import abort_credit
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import AbortStatement, Frozen
from tests.aggregator.double import Round, query
from tests.aggregator.rounds import test_restoring
from tests.aggregator.rounds.test_restoring import Site

site = test_restoring.site

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


async def test_a_restored_aggregator_does_not_vouch_for_what_it_forgot(site: Site) -> None:
    federation = site.federation
    lone = await federation.lone(2)
    current = await federation.open(ASKED)
    for sender in lone:
        await current.contribute(sender, np.array([[3]]))
    await site.back_up()
    await current.release()
    await site.put_back()
    statement = await aborted(site, current)
    assert statement.statement.frozen is Frozen.MAYBE
    assert not abort_credit(current.descriptor, [statement])


async def test_a_round_that_stayed_open_earns_the_credit(site: Site) -> None:
    """The control: the statement is worth a credit where the store has seen the whole round."""
    federation = site.federation
    lone = await federation.lone(2)
    current = await federation.open(ASKED)
    for sender in lone:
        await current.contribute(sender, np.array([[3]]))
    await site.restart()  # an ordinary restart loses nothing
    statement = await aborted(site, current)
    assert statement.statement.frozen is Frozen.NEVER
    assert abort_credit(current.descriptor, [statement])
