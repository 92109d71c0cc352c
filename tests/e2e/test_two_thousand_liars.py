"""Two thousand lone curators that lie, among honest ones, an honest host and a host that lies, at
five aggregators over HTTP: all liars are named, for the right reason, and the sum of the others is
exact to the unit (spec: validity, section 10).

The liars are enrolled by SQL and their pieces come a thousand in a request; the test itself plays
the coordinator, whose checks are pure functions. `test_proved_rounds` has the real coordinator.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from tacit.protocol.enrolment import PartyKind
from tacit.protocol.proved_rounds import candidates_of, refused_curators
from tacit.protocol.round.messages import ProofReason
from tacit.protocol.round.pieces import CarriedPiece, proof_context, split
from tacit.query.proofs import proof_plan
from tacit.validity.field import Rows
from tests.aggregator.direct import enrol_directly
from tests.aggregator.double import Federation, Sender
from tests.aggregator.joint_lie import only_the_seed_differs
from tests.aggregator.process import Process
from tests.aggregator.proved import ProvedRound, keyed, proved
from tests.e2e.liars import LIES, lied

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
]

AGGREGATORS: Final = 5
LIARS: Final = 2000
HONEST: Final = 40
HOSTED: Final = 4096
DEN: Final = 64
TOGETHER: Final = 1000
MISLED: Final = 3
FUNCTIONS: Final[dict[str, dict[str, Any]]] = {
    "sum": {"bounds": ["0", "8.191"], "resolution": "0.001", "max_readings": 1},
    "sum in long parts": {
        "bounds": ["0", "8.191"],
        "resolution": "0.001",
        "max_readings": 1,
        "part_length": 16_384,
    },
    # One bin: the bits of the largest count are all 1, as the lie about joint randomness needs.
    "histogram": {"function": "histogram", "edges": ["0", "10"], "max_readings": 2},
}
LARGEST: Final = {"sum": 8191, "sum in long parts": 8191, "histogram": 2}


@dataclass(frozen=True)
class Crowd:
    """Who takes part."""

    federation: Federation
    liars: list[Sender]
    honest: list[Sender]
    host: Sender
    den: Sender


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crowd(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Crowd]:
    folders = [tmp_path_factory.mktemp(f"aggregator-{index}") for index in range(AGGREGATORS)]
    async with AsyncExitStack() as stack:
        clients = []
        for number, folder in enumerate(folders):
            process = Process(folder, number=number)
            stack.callback(process.stop)
            clients.append(await stack.enter_async_context(await process.start()))
        federation = await Federation(*clients).pair()
        honest = enrol_directly(folders, federation, HONEST, "honest")
        liars = enrol_directly(folders, federation, LIARS, "liar")
        host = await federation.host("gateway", HOSTED)
        den = await federation.host("den", DEN)
        yield Crowd(federation, liars, honest, host, den)


async def deliver(
    current: ProvedRound, senders: list[Sender], plaintexts: tuple[Rows, ...]
) -> None:
    """One row for each sender, to every aggregator, many in a request."""
    for index, rows in enumerate(plaintexts):
        for start in range(0, len(senders), TOGETHER):
            some = senders[start : start + TOGETHER]
            body: list[Any] = [
                CarriedPiece(
                    **dict(current.proved_piece(sender, index, row.tobytes())),
                    token=sender.tokens[index],
                )
                for sender, row in zip(some, rows[start : start + TOGETHER], strict=True)
            ]
            answer = await current.federation.peers[index].ask(
                "POST", current.path("pieces"), body, some[0].tokens[index]
            )
            assert [item["status"] for item in answer.json()] == [201] * len(some)


def shares_of(current: ProvedRound, values: NDArray[np.int64]) -> tuple[Rows, ...]:
    """Honest contributions (B, 1)."""
    proof = proof_plan(current.descriptor.query).of(1)
    digest, source = current.descriptor.digest(), current.federation.random
    return split(proof, digest, values, None, source)


async def lie(
    current: ProvedRound, liars: list[Sender], function: str
) -> Iterator[tuple[Sender, str]]:
    """Each liar with its lie, in turn of all kinds; who lies how."""
    kinds = [*LIES, *(["joint randomness"] if function == "histogram" else [])]
    proof = proof_plan(current.descriptor.query).of(1)
    digest, source = current.descriptor.digest(), current.federation.random
    said: dict[str, str] = {}
    for place, kind in enumerate(kinds):
        own = liars[place :: len(kinds)]
        values = np.full((len(own), 1), LARGEST[function], np.int64)
        if kind == "joint randomness":
            measurements = proof.function.encode(values)
            plaintexts = only_the_seed_differs(
                proof, proof_context(digest), measurements, MISLED, source
            )
        else:
            plaintexts = lied(kind, proof, digest, values, None, source)
        await deliver(current, own, plaintexts)
        said |= {sender.id: kind for sender in own}
    return ((sender, said[sender.id]) for sender in liars)


async def lie_for_all(current: ProvedRound, den: Sender) -> None:
    """A host says of its part what no such part can have."""
    assert den.kind is PartyKind.HOST
    proof = proof_plan(current.descriptor.query).of(DEN)
    source, digest = current.federation.random, current.descriptor.digest()
    kind = "a large amount in one element"
    plaintexts = lied(kind, proof, digest, np.array([[DEN]]), None, source)
    for index, rows in enumerate(plaintexts):
        body = current.part(den, index, rows[0].tobytes())
        answer = await current.send_batch(den, index, body)
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("function", FUNCTIONS)
async def test_all_of_them_are_named_and_the_sum_of_the_others_is_exact(
    crowd: Crowd, function: str
) -> None:
    federation = crowd.federation
    now = datetime.now(UTC).replace(microsecond=0)
    federation.now = now
    asked = proved(**FUNCTIONS[function], aggregators=AGGREGATORS, min_participants=2)
    current = await keyed(federation, asked, opened=now, deadline=now + timedelta(hours=1))

    most = LARGEST[function]
    values = np.random.default_rng(7).integers(0, most + 1, (HONEST, 1))
    await deliver(current, crowd.honest, shares_of(current, values))
    hosted = np.random.default_rng(8).integers(0, most + 1, (HOSTED, 1))
    await current.prove_parts(crowd.host, hosted)
    said = list(await lie(current, crowd.liars, function))
    await lie_for_all(current, crowd.den)

    accepted, verdicts = await current.verdicts()
    candidates = candidates_of(current.descriptor, accepted)
    assert candidates.curators == LIARS + HONEST + HOSTED + DEN
    joint = {sender.first for sender, kind in said if kind == "joint randomness"}
    others = {sender.first for sender, kind in said} - joint
    others |= set(range(crowd.den.first, crowd.den.first + DEN))
    for index, signed in enumerate(verdicts):
        named = refused_curators(candidates, [signed.statement])
        assert set(np.flatnonzero(named[ProofReason.PROOF])) == others
        seen = set(np.flatnonzero(named.get(ProofReason.JOINT_RANDOMNESS, np.zeros(1))))
        assert seen == (joint if index == MISLED else set())
    assert len(others | joint) == LIARS + DEN

    total, manifest = await current.opened(accepted, verdicts)
    assert total.tolist() == [int(values.sum() + hosted.sum())]
    assert manifest.count == HONEST + HOSTED
