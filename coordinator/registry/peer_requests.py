"""Parts of the calls to aggregators: steps that share a request, keys shown last, tokens renewed.

Steps that are due in many rounds at one aggregator share a request. The keys that an aggregator
showed last are kept, so that not every round asks for them again. An aggregator that ended all
tokens is given another one, by its identity (spec: keys, section 5.2).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Final, Generic, TypeAlias, TypeVar

from pydantic import ValidationError

from common.principals import Scope
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.group_commit import GroupCommit
from common.store.own_identities import OwnIdentities
from common.store.tokens import hash_token, new_token
from common.store.transactions import Database
from common.web.client import ServiceResponse
from common.web.problems import ProblemReceived, raise_for_problem
from coordinator.errors import AggregatorUnreachable
from coordinator.store import registry as store
from coordinator.store.registry import AggregatorRow
from tacit.crypto.signing import Signed
from tacit.protocol.enrolment import RENEWAL_LABEL, TokenRenewal
from tacit.protocol.identities import CoordinatorRenewal
from tacit.protocol.round.messages import (
    MOST_STEPS,
    Step,
    StepAnswers,
    StepName,
    Steps,
)
from tacit.protocol.sealing_sessions import SealKeyStatement
from tacit.wire import WireModel

AT_ONCE: Final = 4
"""Requests with steps that are under way to one aggregator; all but one of them are slow."""
SLOW_S: Final = 0.5
"""A request that takes longer holds a large round's step: others no longer wait for it."""
MOST_BYTES: Final = 1 << 20
PATHS: Final = {
    StepName.CONTRIBUTE: "contributions",
    StepName.KEYS: "verification-keys",
    StepName.MISSING: "missing",
    StepName.FREEZE: "freeze",
    StepName.VERIFICATION: "verification",
    StepName.VERDICT: "verdict",
    StepName.COMMIT: "commitment",
    StepName.REVEAL: "reveal",
}


Post = Callable[[str, str], Awaitable[ServiceResponse]]
"""Sends JSON to a path. Raises AggregatorUnreachable."""
Sender: TypeAlias = asyncio.Task[Sequence[ServiceResponse]]


def path_of(step: Step) -> str:
    """The path of the step's own route."""
    if step.name is StepName.OPEN:
        return "/v1/rounds"
    return f"/v1/rounds/{step.round}/{PATHS[step.name]}"


@dataclass(frozen=True)
class _Waiting:
    step: Step
    post: Post


class StepQueue:
    """The steps that wait for one aggregator. `pace_s`: the time between a request and the next
    one."""

    def __init__(self, pace_s: Callable[[], float] = lambda: 0.0) -> None:
        self._pace_s = pace_s
        self._sent_at = -inf
        self._added = asyncio.Event()
        self._senders: set[Sender] = set()
        self._queue: GroupCommit[_Waiting, tuple[Sender, int]] = GroupCommit(
            self._send,
            size_of=lambda waiting: len(waiting.step.body),
            batch_items=MOST_STEPS,
            batch_size=MOST_BYTES,
            before=self._paced,
        )

    async def ask(self, step: Step, post: Post) -> ServiceResponse:
        """The answer to a step, in whichever request it was sent. Raises AggregatorUnreachable."""
        self._added.set()
        sender, place = await self._queue.submit(_Waiting(step, post))
        return (await asyncio.shield(sender))[place]

    async def _paced(self) -> None:
        """Wait until the next request is due, or full."""
        now = asyncio.get_running_loop().time
        while (early_s := self._sent_at + self._pace_s() - now()) > 0:
            if self._queue.waiting >= MOST_STEPS:
                break
            self._added.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(early_s):
                    await self._added.wait()
        self._sent_at = now()

    async def _send(self, lot: Sequence[_Waiting]) -> list[tuple[Sender, int]]:
        """Send one request; the task that gets its answers, and the place of each. Others wait for
        it no longer than `SLOW_S`, unless `AT_ONCE` requests are in progress."""
        sender = asyncio.create_task(_answers(lot), name="steps")
        self._senders.add(sender)
        sender.add_done_callback(self._ended)
        await asyncio.wait((sender,), timeout=SLOW_S)
        while len(self._senders) >= AT_ONCE:
            await asyncio.wait(self._senders, return_when=asyncio.FIRST_COMPLETED)
        return [(sender, place) for place in range(len(lot))]

    def _ended(self, sender: Sender) -> None:
        self._senders.discard(sender)
        if not sender.cancelled():
            sender.exception()  # also where nobody waits for it any more

    async def aclose(self) -> None:
        """End the requests in progress."""
        await self._queue.cancel()
        senders = list(self._senders)
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)


async def _answers(lot: Sequence[_Waiting]) -> Sequence[ServiceResponse]:
    post = lot[0].post
    if len(lot) == 1:
        return [await post(path_of(lot[0].step), lot[0].step.body)]
    together = Steps(steps=tuple(waiting.step for waiting in lot))
    answer = await post("/v1/rounds/steps", together.model_dump_json())
    if answer.status != 200:
        return [answer] * len(lot)
    try:
        step_answers = StepAnswers.model_validate_json(answer.body).answers
    except ValidationError:
        step_answers = ()
    if len(step_answers) != len(lot):
        raise AggregatorUnreachable("an aggregator's answers have another form")
    return [ServiceResponse(item.status, {}, item.body.encode()) for item in step_answers]


# The keys that an aggregator showed last, so that not every round asks for them again.

KEY_KEPT: Final = timedelta(minutes=1)
"""How long a key that was shown serves for further rounds."""
HANDED: Final = 256
"""Keys of others that an aggregator is known to have."""

Statement = TypeVar("Statement", bound=WireModel)


@dataclass
class _ShownKey(Generic[Statement]):
    """The key that an aggregator showed last, verified, and when."""

    key: Signed[Statement] | None = None
    at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def current(
        self, now: datetime, ask: Callable[[], Awaitable[Signed[Statement]]]
    ) -> Signed[Statement]:
        """The one shown within the last minute, or what it shows now."""
        async with self.lock:
            if self.key is None or not timedelta() <= now - self.at < KEY_KEPT:
                self.key, self.at = await ask(), now
            return self.key


@dataclass(frozen=True)
class ShownKeys:
    """The keys that an aggregator last showed; `handed`: keys of others that it was sent."""

    seal: _ShownKey[SealKeyStatement] = field(default_factory=_ShownKey)
    handed: OrderedDict[bytes, None] = field(default_factory=OrderedDict)

    def hand(self, key_hash: bytes) -> None:
        """It has another one's key."""
        self.handed[key_hash] = None
        while len(self.handed) > HANDED:
            self.handed.popitem(last=False)

    def forget(self) -> None:
        """Show and ask for them again."""
        self.seal.key = None
        self.handed.clear()


# An aggregator that ended all tokens is given another one for this coordinator, by its identity.
#
# Spec: keys, section 5.2. It is noticed where the aggregator refuses a request (`token_expired`),
# which is then sent again. A token that the aggregator's operator revoked is a matter for people.

PATH: Final = "/v1/coordinator/token"
PAUSE: Final = timedelta(seconds=30)
"""How long no request is sent after a refusal."""
Send = Callable[[str], Awaitable[ServiceResponse]]
"""Posts JSON to `PATH` of the aggregator. Raises AggregatorUnreachable."""
_logger = get_logger("tacit.coordinator.renewals")


@dataclass(frozen=True)
class Renewals:
    """Renews this coordinator's tokens at aggregators, one at a time at each."""

    database: Database
    own: OwnIdentities
    deployment: str
    clock: Clock
    _locks: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )
    _refused: dict[str, datetime] = field(default_factory=dict)

    async def renewed(self, row: AggregatorRow, send: Send) -> AggregatorRow | None:
        """The aggregator with the current token; None if it refused the only token. Raises
        AggregatorUnreachable."""
        async with self._locks[row.id]:
            stored = await self._stored(row.id)
            if stored is None or stored.token != row.token:
                return stored  # by another request, or process
            now, refused = self.clock.now(), self._refused.get(row.id)
            if self.own.revoked or (refused is not None and timedelta() <= now - refused < PAUSE):
                return None
            token = new_token(Scope.COORDINATOR)
            try:
                raise_for_problem(await send(self._request(row, token).model_dump_json()))
            except ProblemReceived as error:
                self._refused[row.id] = now
                _logger.warning("token_not_renewed", aggregator=row.id, problem=error.name)
                return None
            async with self.database.begin() as transaction:
                await store.set_token(transaction, row.id, token)
        _logger.info("token_renewed", aggregator=row.id)
        return replace(stored, token=token)

    def _request(self, row: AggregatorRow, token: str) -> CoordinatorRenewal:
        statement = TokenRenewal(
            service=row.id,
            party=self.deployment,
            token_hash=hash_token(row.token),
            new_hash=hash_token(token),
            made=self.clock.now(),
        )
        signed = self.own.current.sign(RENEWAL_LABEL, statement)
        return CoordinatorRenewal(renewal=signed, chain=self.own.chain)

    async def _stored(self, aggregator: str) -> AggregatorRow | None:
        async with self.database.reading() as transaction:
            rows = await store.list_aggregators(transaction)
        return next((row for row in rows if row.id == aggregator), None)
