"""Steps of many rounds in one request."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np

from tacit.crypto.signing import Signed
from tacit.protocol.round.agreement import manifest_hash, manifest_of
from tacit.protocol.round.messages import (
    AcceptedSet,
    Commitment,
    FreezeRequest,
    Reveal,
    RevealRequest,
    Step,
    StepAnswer,
    StepAnswers,
    StepName,
    Steps,
)
from tacit.protocol.round.opening import open_sum
from tests.aggregator.double import SALT, Federation, Peer, Round, manifest_request, query

NOBODY = "019a0c2e-8f00-7000-8000-000000000001"


def step(name: StepName, current: Round, body: Any = None) -> Step:
    return Step(name=name, round=current.id, body="" if body is None else body.model_dump_json())


async def asked(peer: Peer, *steps: Step) -> list[StepAnswer]:
    answer = await peer.coordinate("POST", "/v1/rounds/steps", Steps(steps=steps))
    assert answer.status_code == 200, answer.text
    found = StepAnswers.model_validate_json(answer.content).answers
    assert len(found) == len(steps)
    return list(found)


async def opened(federation: Federation, count: int) -> list[Round]:
    """Rounds that one request opened."""
    asked_of = query(aggregators=len(federation.peers))
    rounds = [Round(federation, await federation.descriptor(asked_of)) for _ in range(count)]
    wishes = [step(StepName.OPEN, each, each.signed) for each in rounds]
    for peer in federation.peers:
        assert [item.status for item in await asked(peer, *wishes)] == [201] * count
    return rounds


async def test_many_rounds_from_opening_to_sum(pair: Federation) -> None:
    """Every aggregator gets one request for each phase, and all sums come out."""
    host = await pair.host("gateway", 70)
    rounds = await opened(pair, 5)
    values = [np.full((70, 1), number, np.int64) for number in range(5)]
    for current, ours in zip(rounds, values, strict=True):
        await current.contribute(host, ours)
    frozen = [
        await asked(
            peer, *(step(StepName.FREEZE, each, FreezeRequest(accepted=70)) for each in rounds)
        )
        for peer in pair.peers
    ]
    manifests, accepted = [], []
    for place, current in enumerate(rounds):
        own = [Signed[AcceptedSet].model_validate_json(some[place].body) for some in frozen]
        accepted.append(own)
        manifests.append(manifest_of(current.descriptor, own, SALT))
    committed = [
        await asked(
            peer,
            *(
                step(StepName.COMMIT, each, manifest_request(one, own))
                for each, one, own in zip(rounds, manifests, accepted, strict=True)
            ),
        )
        for peer in pair.peers
    ]
    for place, current in enumerate(rounds):
        sealed = [Signed[Commitment].model_validate_json(some[place].body) for some in committed]
        request = RevealRequest(commitments=tuple(sealed))
        answers = [
            (await asked(peer, step(StepName.REVEAL, current, request)))[0] for peer in pair.peers
        ]
        reveals = [Reveal.model_validate_json(item.body) for item in answers]
        manifest = manifests[place]
        digest = manifest_hash(manifest)
        total = open_sum(current.descriptor, digest, manifest.quorum, sealed, reveals)
        assert total.tolist() == [70 * place]


async def test_one_bad_step_spoils_no_other(single: Federation) -> None:
    host = await single.host("gateway", 3)
    good, early = await opened(single, 2)
    await good.contribute(host, np.ones((3, 1), np.int64))
    found = await asked(
        single.peers[0],
        Step(name=StepName.FREEZE, round=NOBODY),
        step(StepName.FREEZE, good, FreezeRequest(accepted=3)),
        step(StepName.FREEZE, early, FreezeRequest(accepted=3)),
        Step(name=StepName.COMMIT, round=early.id, body="{}"),
        Step(name=StepName.REVEAL, round=early.id, body="nonsense"),
        Step(name=StepName.OPEN, round=NOBODY, body='{"statement": 1}'),
    )
    assert [item.status for item in found] == [404, 200, 202, 422, 400, 422]
    problems = [httpx.Response(200, text=found[place].body).json() for place in (0, 3, 4, 5)]
    assert [item["title"] != "" for item in problems] == [True] * 4
    assert httpx.Response(200, text=found[2].body).json() == {"accepted": 0}
    shown = await single.peers[0].coordinate("GET", early.path())
    assert shown.json()["state"] == "open"


async def test_only_the_coordinator_asks(single: Federation) -> None:
    host = await single.host("gateway", 3)
    body = {"steps": [{"name": "freeze", "round": NOBODY}]}
    answer = await single.peers[0].ask("POST", "/v1/rounds/steps", body, host.tokens[0])
    assert answer.status_code == 403
