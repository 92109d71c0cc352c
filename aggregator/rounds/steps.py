"""The steps of a round as a coordinator asks for them, one alone or those of many rounds together.

A coordinator with many rounds under way sends what is due in all of them in one request. Each step
is done and answered as by its own route; none waits for another's success.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from aggregator.context import Aggregator
from aggregator.errors import SamplersFailed
from aggregator.pieces.intake import Intake
from aggregator.rounds import committing, keying, opening, state_machine
from aggregator.rounds.opening import RelayedPieces
from aggregator.rounds.state_machine import Awaited
from aggregator.rounds.verifying import Verifying
from common.web.problems import problem_response
from common.web.wire import encode, parse_json
from tacit.crypto.signing import Signed
from tacit.protocol.round.accepted import FreezeRequest
from tacit.protocol.round.descriptor import Awaited as AwaitedCurators
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.transcript import ManifestRequest, RevealRequest
from tacit.protocol.round.verdicts import RelayedKeyShares, VerdictRequest, VerificationRequest
from tacit.protocol.steps import Step, StepAnswer, StepName

AT_ONCE: Final = 32
"""Steps of one request that are under way: each may hold a batch of pieces in memory."""


class Done(NamedTuple):
    """What a step gives: JSON, and its HTTP status."""

    body: str
    status: int = 200


@dataclass(frozen=True)
class RoundSteps:
    """The steps of this aggregator's rounds."""

    aggregator: Aggregator
    intake: Intake
    verifying: Verifying

    async def open(self, signed: Signed[RoundDescriptor]) -> Done:
        """Take part in a round."""
        if not self.aggregator.samplers_passed:
            raise SamplersFailed
        answered, new = await opening.open_round(self.aggregator, signed)
        return Done(answered, 201 if new else 200)

    async def contribute(self, round_id: str, relayed: RelayedPieces) -> Done:
        """Hold other aggregators' shares of noise."""
        held = await opening.add_contributions(self.aggregator, self.intake, round_id, relayed.root)
        return _shown({"contributions": held})

    async def keys(self, round_id: str, relayed: RelayedKeyShares) -> Done:
        """Hold the others' shares of the verify key."""
        return Done(await keying.fix_key(self.aggregator, self.intake, round_id, relayed))

    async def missing(self, round_id: str, asked: AwaitedCurators) -> Done:
        """Of how many of these curators no piece is held."""
        found = await state_machine.missing(self.aggregator, round_id, asked.members)
        return _shown({"missing": found})

    async def freeze(self, round_id: str, asked: FreezeRequest | None) -> Done:
        """Sign whose pieces are in; with a request, only when enough are."""
        if asked is not None:
            awaited = Awaited(asked.accepted, asked.wait_s)
            held = await state_machine.held(self.aggregator, self.intake, round_id, awaited)
            if held is not None:
                return _shown({"accepted": held}, 202)
        return Done(await state_machine.freeze(self.aggregator, self.intake, round_id))

    async def verification(self, round_id: str, asked: VerificationRequest) -> Done:
        """Verify what all hold, and sign the hash of the verifier shares."""
        return Done(await self.verifying.verify(round_id, asked))

    async def verdict(self, round_id: str, asked: VerdictRequest) -> Done:
        """Decide which contributions count."""
        return Done(await self.verifying.decide(round_id, asked))

    async def commit(self, round_id: str, asked: ManifestRequest) -> Done:
        """Sum the manifest, and commit to the partial sum."""
        return Done(
            await committing.commit(self.aggregator, self.intake, round_id, asked, self.verifying)
        )

    async def reveal(self, round_id: str, asked: RevealRequest) -> Done:
        """The partial sum, after everybody's commitments."""
        return Done(await committing.reveal(self.aggregator, self.intake, round_id, asked))

    async def take(self, step: Step) -> StepAnswer:
        """One of several steps; what it raises is its own answer."""
        try:
            done = await self._take(step)
        except Exception as error:
            problem = problem_response(error)
            done = Done(bytes(problem.body).decode(), problem.status_code)
        return StepAnswer(status=done.status, body=done.body)

    async def _take(self, step: Step) -> Done:
        body = step.body.encode()
        if step.name is StepName.OPEN:
            return await self.open(parse_json(body, Signed[RoundDescriptor]))
        if step.name is StepName.FREEZE and not body:
            return await self.freeze(step.round, None)
        model, do = _STEPS[step.name]
        return await do(self, step.round, parse_json(body, model))


_STEPS: Final[Mapping[StepName, tuple[type[BaseModel], Callable[..., Awaitable[Done]]]]] = {
    StepName.CONTRIBUTE: (RelayedPieces, RoundSteps.contribute),
    StepName.KEYS: (RelayedKeyShares, RoundSteps.keys),
    StepName.MISSING: (AwaitedCurators, RoundSteps.missing),
    StepName.FREEZE: (FreezeRequest, RoundSteps.freeze),
    StepName.VERIFICATION: (VerificationRequest, RoundSteps.verification),
    StepName.VERDICT: (VerdictRequest, RoundSteps.verdict),
    StepName.COMMIT: (ManifestRequest, RoundSteps.commit),
    StepName.REVEAL: (RevealRequest, RoundSteps.reveal),
}


def _shown(value: dict[str, Any], status: int = 200) -> Done:
    return Done(encode(value).decode(), status)


async def take_all(steps: RoundSteps, asked: tuple[Step, ...]) -> list[StepAnswer]:
    """The answers to several steps, in their order."""
    places = asyncio.Semaphore(AT_ONCE)

    async def take(step: Step) -> StepAnswer:
        async with places:
            return await steps.take(step)

    return await asyncio.gather(*(take(step) for step in asked))
