"""Who has a job's one debit is invited to its later rounds, and nobody else.

Spec: federated-counting, section 6.3. Noise is 0 in every cell, as in `test_counting`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from algorithms import sequential_ngram
from algorithms.contract import SequentialContext
from tacit import sets
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.records.items import Sequences
from tests.e2e.federation import Site
from tests.e2e.test_counting import HOSTED, ITEMS, LONE, NGRAMS, debits, job, visits, without
from tests.e2e.test_counting import it as it

pytestmark = pytest.mark.asyncio(loop_scope="module")

AWAY = HOSTED[2]
POLICY: dict[str, Any] = {"record": {"period": {"epsilon": "9000"}}}


async def told(it: Site, curator: str, rounds: list[str]) -> list[list[str]]:
    """Why a curator was in none of these rounds; [] where it was."""
    shown = (await it.own("GET", f"/v1/curators/{curator}/contributions")).json()
    grounds = {
        each["round"]: [ground["name"] for ground in each["refused_because"]]
        for each in shown["contributions"]
    }
    return [grounds[name] for name in rounds]


async def descriptors(it: Site, rounds: list[str]) -> list[RoundDescriptor]:
    found = []
    for name in rounds:
        answer = await it.house.ask("GET", f"/v1/rounds/{name}/descriptor")
        assert answer.status_code == 200, answer.text
        found.append(Signed[RoundDescriptor].model_validate_json(answer.text).statement)
    return found


@pytest.mark.slow
async def test_who_missed_the_first_step_is_not_asked_again(it: Site) -> None:
    """A hosted curator and the lone one refuse the first step: the later ones invite the ten that
    answered it. The others pay nothing, and no round waits for them."""
    for name in (AWAY, LONE):
        answer = await it.own("PUT", f"/v1/curators/{name}/policy", {"algorithms": [], **POLICY})
        assert answer.status_code == 200, answer.text
    before = {name: await debits(it, name) for name in (AWAY, LONE, HOSTED[0])}
    asked = await it.ask(job("sequential-ngram", NGRAMS, "100"))
    found = await it.result(asked["id"])
    for name in (AWAY, LONE):
        answer = await it.own("DELETE", f"/v1/curators/{name}/policy")
        assert answer.status_code < 300, answer.text
    rounds = (await it.report(asked["id"]))["details"]["rounds_asked"]
    first, *later = await descriptors(it, rounds)
    assert len(later) == 1
    assert first.members is None
    for each in later:
        invited = each.invited()
        assert invited is not None
        assert int(np.count_nonzero(invited)) == 10
        assert sets.pack(invited) == later[0].invited_bitmap()
    for name in (AWAY, LONE):
        assert await debits(it, name) == before[name]
        assert await told(it, name, rounds) == [["policy_refused"], ["not_concerned"]]
    assert await told(it, HOSTED[0], rounds) == [[], []]
    assert (await debits(it, HOSTED[0]))[len(before[HOSTED[0]]) :] == ["100", "0"]
    refused = [(await it.house.ask("GET", f"/v1/rounds/{name}/refusals")).json() for name in rounds]
    assert [each["refused"] for each in refused] == [2, 0]
    away = (0, 1 + HOSTED.index(AWAY))
    every = [each for number in range(12) if number not in away for each in visits(number)]
    own = sequential_ngram.Parameters(**NGRAMS, epsilon="100")
    kept = sequential_ngram.run(Sequences.of(ITEMS, every), own, "sound", SequentialContext())
    assert without(found["summary"], "truncated") == without(dict(kept.result), "truncated")
