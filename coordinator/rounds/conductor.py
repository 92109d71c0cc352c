"""Advances every unfinished round, also after a restart or the loss of a replica.

Each round is one task that reads the stored state, makes the one transition that is due, and
repeats. The first step is the descriptor to every aggregator, and what they share before any
curator is shown it. A request to close or abort is stored. Two replicas that both believe they hold
a lease are harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from uuid import uuid4

from common.runtime.logs import describe, get_logger
from common.runtime.tasks import Pauses, finish
from common.runtime.telemetry import Tracer, Untraced
from common.store.transactions import Transaction
from coordinator.errors import StillVerifying
from coordinator.registry.answers import Opening, RelayedPiece, answered, gather, refuses
from coordinator.registry.peers import CONNECTIONS, Peer
from coordinator.rounds import context, progress, state_machine, verification
from coordinator.rounds.context import (
    Conduct,
    RoundAborted,
    change,
    failure,
    peers_of,
    signed_descriptor,
)
from coordinator.rounds.notifications import ended
from coordinator.rounds.progress import Closing, Refusing
from coordinator.store import round_details
from coordinator.store import rounds as store
from coordinator.store.rounds import RoundRow
from tacit.errors import DomainError
from tacit.protocol.proved_rounds import VerificationRefused
from tacit.protocol.round.agreement import TooFewParticipants, is_proved
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.messages import Manifest, RelayedKeyShares
from tacit.protocol.round.opening import CommitmentRefused, RevealRefused
from tacit.protocol.round.pieces import Contribution
from tacit.protocol.round.state import RoundState
from tacit.query.mechanisms import noisy_aggregators, shares_its_noise
from tacit.query.terms import Sharing
from tacit.sets import Bits

log = get_logger("tacit.conductor")

CLAIM_S = 1.0
RETRY_S = 0.1
SLOWEST_RETRY_S = 2.0
ASK_LATE_S = 2.0
SLOWEST_POLL_S = 5.0
HOLD_S = 1.0
TOGETHER = 4
"""This many open rounds cost as much to poll as one with its own request."""
FEW = CONNECTIONS // 2
PACE_S = 0.005
MOST_PACE_S = 0.5
QUIET_SHARE = 1 / 200
"""A round without changes is polled again after this share of the time since its last change."""

ENDINGS = (TooFewParticipants, CommitmentRefused, RevealRefused, VerificationRefused)
"""Errors of the agreement that end a round: asking again would give the same answer."""


@dataclass
class Look:
    """What a round's task remembers between two polls; nothing that must survive a restart."""

    pauses: Pauses = field(default_factory=Pauses)
    invited: Bits | None = None
    refusing: Refusing | None = None
    asked: float = 0.0
    accepted: int | None = None
    expected: Manifest | None = None
    shown: Sequence[Closing] = ()
    quiet_since: float = 0.0
    all_heard: bool = False
    asked_late: float = 0.0
    failures: int = 0
    problem: str = ""


class Step(StrEnum):
    """A transition of a round, by the name of its span in a trace."""

    ANNOUNCE = "announce"
    FREEZE = "freeze"
    VERIFY = "verify"
    COMMIT = "commit"
    RELEASE = "release"
    ABORT = "abort"


def pace_s(rounds: int) -> float:
    """How long steps are gathered while this many rounds are in progress: the more there are, the
    more of them share requests and transactions. A few rounds wait for nothing."""
    return min(MOST_PACE_S, PACE_S * max(0, rounds - FEW))


class Conductor:
    """The coordinator's loop over rounds: one task each, in the process that holds its lease."""

    def __init__(
        self,
        conduct: Conduct,
        *,
        lease_s: float,
        poll_s: float,
        changed: Callable[..., None],
        tracer: Tracer | None = None,
    ) -> None:
        self._conduct = conduct
        self._step_of = (tracer or Untraced()).step
        self._lease = timedelta(seconds=lease_s)
        self._poll_s = poll_s
        self._changed = changed
        self._holder = uuid4().hex
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._looks: dict[str, Look] = {}
        self._pauses = Pauses()
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to conduct."""
        self._loop = asyncio.create_task(self._run(), name="conductor")

    async def stop(self) -> None:
        """Stop every round's task in its current state, and release the leases."""
        self._pauses.end()
        if self._loop is not None:
            await finish([self._loop])
        for look in self._looks.values():
            look.pauses.end()
        await finish(self._tasks.values())
        async with self._conduct.database.begin() as transaction:
            await store.give_back(transaction, self._holder)

    def wake(self, round_id: str | None = None) -> None:
        """Poll immediately: a round was opened, or a request about this one was stored."""
        self._pauses.wake()
        if round_id in self._looks:
            self._looks[round_id].pauses.wake()

    # --- leases ----------------------------------------------------------------------------------

    async def take(self, transaction: Transaction, round_id: str) -> None:
        """Claim a round in the transaction that opens it."""
        if not self._pauses.ending:
            until = self._conduct.clock.now() + self._lease
            await store.take(transaction, [round_id], self._holder, until)

    async def _run(self) -> None:
        pause = min(CLAIM_S, self._lease.total_seconds() / 4)
        while not self._pauses.ending:
            await asyncio.sleep(self._conduct.peers.pace_s)  # what is opened meanwhile joins
            self._pauses.begin()
            try:
                await self._claim()
            except Exception as error:
                log.error("claim_failed", **describe(error))
            await self._pauses.pause(pause)

    async def _claim(self) -> None:
        now, database = self._conduct.clock.now(), self._conduct.database
        async with database.reading() as transaction:
            some = await store.claimable(transaction, self._holder, now, self._lease)
            rounds_held = await store.held(transaction, self._holder, now)
        if some:
            async with database.begin() as transaction:  # which may have waited for other writers
                now = self._conduct.clock.now()
                rounds_held |= set(await store.claim(transaction, self._holder, now, self._lease))
        for round_id in rounds_held - set(self._tasks):
            look = self._looks[round_id] = Look(quiet_since=self._monotonic())
            task = asyncio.create_task(self._carry(round_id, look), name=f"round {round_id}")
            self._tasks[round_id] = task
            task.add_done_callback(partial(self._finished, round_id))
        for round_id in set(self._tasks) - rounds_held:
            self._looks[round_id].pauses.end()
        self._conduct.peers.pace_s = pace_s(len(self._tasks))

    def _finished(self, round_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[round_id], self._looks[round_id]
        self._conduct.peers.pace_s = pace_s(len(self._tasks))
        error = None if task.cancelled() else task.exception()
        if error is not None:  # the next claim begins again
            log.error("round_task_failed", round=round_id, **describe(error))

    # --- one round -------------------------------------------------------------------------------

    async def _carry(self, round_id: str, look: Look) -> None:
        while not look.pauses.ending:
            look.pauses.begin()
            row = await self._conduct.rows.submit(round_id)
            if row is None or row.state in (RoundState.RELEASED, RoundState.ABORTED):
                self._changed(ended(round_id))
                return
            pause = await self._step(row, look)
            if pause:
                await look.pauses.pause(pause)
            else:
                self._changed(row.id, row.state)

    async def _step(self, row: RoundRow, look: Look) -> float:
        """Make the transition that is due; seconds to wait before the next poll."""
        try:
            pause = await self._advance(row, look)
        except RoundAborted as error:
            reason = str(error)
        except StillVerifying as error:  # however long it takes: they answer
            return self._wait(row, look, error)
        except ENDINGS as error:
            reason = f"{error.title}: {error.detail}"
        except Exception as error:
            if self._conduct.clock.now() <= self._end_of_patience(row):
                return self._wait(row, look, error)
            reason = error.detail if isinstance(error, DomainError) else "an internal error"
        else:
            look.failures, look.problem = 0, ""
            return pause
        await state_machine.abort(self._conduct, row, reason)
        return 0

    async def _advance(self, row: RoundRow, look: Look) -> float:
        step = await self._due(row, look)
        if step is None:
            await self._tell_late(row, look)
            return max(0.001, self._pause(row, look) - (self._monotonic() - look.asked))
        with self._step_of(step):
            await self._make(step, row, look)
        return 0

    async def _due(self, row: RoundRow, look: Look) -> Step | None:
        """The next step of a round; None while it is open and waits for contributions."""
        if row.ending is not None:
            return Step.ABORT
        if row.state is RoundState.FROZEN and row.manifest is None:
            return Step.VERIFY
        if row.state in (RoundState.FROZEN, RoundState.VERIFIED):
            return Step.COMMIT
        if row.state is RoundState.COMMITTED:
            return Step.RELEASE
        if not row.announced:
            return Step.ANNOUNCE
        if row.due <= self._conduct.clock.now() or await self._all_delivered(row, look):
            return Step.FREEZE
        return None

    async def _make(self, step: Step, row: RoundRow, look: Look) -> None:
        conduct = self._conduct
        match step:
            case Step.ANNOUNCE:
                look.all_heard = await announce(conduct, row)
            case Step.FREEZE:
                shown, look.shown = look.shown, ()
                await state_machine.freeze(conduct, row, shown, look.expected)
            case Step.VERIFY:
                await verification.verify(conduct, row)
            case Step.COMMIT:
                await state_machine.commit(conduct, row)
            case Step.RELEASE:
                await state_machine.release(conduct, row)
            case Step.ABORT:
                await state_machine.abort(conduct, row, row.ending or "")

    async def _all_delivered(self, row: RoundRow, look: Look) -> bool:
        descriptor = context.signed_descriptor(row).statement
        invited, refusing = await self._invited(row, look)
        awaited = invited & ~refusing
        peers = await context.peers_of(self._conduct, descriptor)
        look.asked, wait_s = self._monotonic(), self._held(row, look)
        waiting = progress.delivered(
            peers,
            descriptor,
            awaited,
            wait_s,
            expected=look.expected,
            all_invited=not (invited & refusing).any(),
        )
        answer = await look.pauses.attend(waiting)
        if answer is None:
            return False
        if answer.count not in (None, look.accepted):
            look.accepted, look.quiet_since = answer.count, self._monotonic()
        if answer.whole and awaited.sum() < descriptor.query.min_participants:
            # Nothing is frozen: a curator that did contribute gets its credit.
            async with self._conduct.database.reading() as transaction:
                grounds = await round_details.count_refusals(transaction, row.id)
            raise RoundAborted(
                progress.too_few_left(
                    descriptor.query.min_participants, int(awaited.sum()), grounds
                )
            )
        look.shown = answer.shown
        return answer.whole

    async def _invited(self, row: RoundRow, look: Look) -> tuple[Bits, Bits]:
        """The curators invited, and those refused so far; one boolean per roster number each."""
        if look.invited is None or look.refusing is None:
            look.invited = await progress.invited_curators(self._conduct, row)
            look.expected = state_machine.manifest_of_all(self._conduct, row, look.invited)
            look.refusing = Refusing(row.id, look.invited.size)
        await self._conduct.looks.submit(look.refusing.read_on)
        return look.invited, look.refusing.members

    async def _tell_late(self, row: RoundRow, look: Look) -> None:
        """Send a Shamir round to the aggregators that were unreachable at the first attempt."""
        descriptor = context.signed_descriptor(row).statement
        now = self._monotonic()
        if look.all_heard or now - look.asked_late < ASK_LATE_S:
            return
        look.asked_late = now
        if descriptor.query.sharing is not Sharing.SHAMIR:
            look.all_heard = True
            return
        try:
            look.all_heard = await announce(self._conduct, row)
        except (DomainError, RoundAborted):
            return  # those that know the round continue

    def _pause(self, row: RoundRow, look: Look) -> float:
        """Seconds until the next poll. Open rounds share a rate; a quiet round is polled less."""
        quiet = (self._monotonic() - look.quiet_since) * QUIET_SHARE
        shared = self._poll_s * max(1.0, len(self._tasks) / TOGETHER)
        pause = min(max(shared, quiet), SLOWEST_POLL_S)
        return min(pause, self._left(row))

    def _held(self, row: RoundRow, look: Look) -> float:
        """Seconds that a long poll may take: 0 for many rounds, as an aggregator holds each one."""
        if len(self._tasks) > FEW:
            return 0.0
        return min(max(HOLD_S, self._pause(row, look)), self._left(row))

    def _left(self, row: RoundRow) -> float:
        return max(0.0, (row.due - self._conduct.clock.now()).total_seconds())

    def _wait(self, row: RoundRow, look: Look, error: Exception) -> float:
        is_ours = isinstance(error, DomainError)
        problem = error.name if isinstance(error, DomainError) else type(error).__name__
        if problem != look.problem:  # once, not at every attempt
            say = log.warning if is_ours else log.error
            more = {"problem": problem} if is_ours else describe(error)
            say("round_waits", round=row.id, state=row.state.value, **more)
        look.failures, look.problem = look.failures + 1, problem
        return float(min(SLOWEST_RETRY_S, RETRY_S * 2 ** min(look.failures - 1, 10)))

    def _end_of_patience(self, row: RoundRow) -> datetime:
        """End a round that was never announced: no curator is charged."""
        patience = timedelta(seconds=self._conduct.patience_s)
        if row.state is RoundState.OPEN and not row.announced:
            return min(row.opened + patience, row.deadline)
        return row.deadline + patience

    @staticmethod
    def _monotonic() -> float:
        return asyncio.get_running_loop().time()


async def announce(conduct: Conduct, row: RoundRow) -> bool:
    """Send the descriptor to every aggregator and relay their noise contributions; returns whether
    all have received it (or refuse).

    Additive sharing needs all of them. A Shamir quorum may start without some, as long as those
    whose noise must be in the sum are there; the others can still join while the round is open.
    """
    signed = signed_descriptor(row)
    query, peers = signed.statement.query, await peers_of(conduct, signed.statement)
    await conduct.identities.hand_over(peers)
    if shares_its_noise(query) or is_proved(query):
        await conduct.mirror.hand_over(peers, signed.statement)
    answers = await gather(peer.open(row.id, row.descriptor) for peer in peers)
    needed = state_machine.quorum_size(query)
    opened = [index for index, item in enumerate(answers) if not isinstance(item, Exception)]
    if len(opened) < needed:
        raise failure("the descriptor", peers, answers)
    heard = sum(index in opened or refuses(item) for index, item in enumerate(answers))
    if shares_its_noise(query):
        contributions = [
            item.contribution for item in answered(answers) if item.contribution is not None
        ]
        if len(contributions) < noisy_aggregators(query):
            raise RoundAborted("fewer aggregators contribute noise than c_noise")
        reached_peers = [peers[index] for index in opened]
        relays = await gather(
            peer.relay(row.id, _for_peer(index, peer.id, contributions))
            for index, peer in zip(opened, reached_peers, strict=True)
        )
        reached = len(answered(relays))
        if reached < needed:
            raise failure("the noise contributions", reached_peers, relays)
        heard = min(heard, len(peers) - len(opened) + reached)
    if is_proved(query):
        await _fix_keys(signed.statement, peers, answered(answers))
    if not row.announced:
        now = conduct.clock.now()
        announced = {"announced": True, "announced_at": now}
        await change(conduct, row.id, RoundState.OPEN, **announced)
    return heard == len(peers)


async def _fix_keys(
    descriptor: RoundDescriptor, peers: Sequence[Peer], opened: Sequence[Opening]
) -> None:
    """Send each aggregator the others' shares of the verify key; all must derive the same key
    before any curator is shown the round (spec: validity, section 7)."""
    shares = [share for answer in opened for share in answer.key_shares or ()]
    answers = await gather(
        peer.fix_key(
            descriptor.round,
            RelayedKeyShares(shares=tuple(share for share in shares if share.receiver == peer.id)),
        )
        for peer in peers
    )
    checks = answered(answers)
    if len(checks) < len(peers):
        raise failure("the verification keys", peers, answers)
    digest = descriptor.digest()
    if len({item.key_check for item in checks}) > 1 or any(
        item.descriptor_hash != digest for item in checks
    ):
        raise RoundAborted("verify_keys_differ: the aggregators made different verify keys")


def _for_peer(index: int, name: str, contributions: Iterable[Contribution]) -> list[RelayedPiece]:
    return [
        RelayedPiece(aggregator=item.aggregator, piece=item.pieces[index])
        for item in contributions
        if item.aggregator != name
    ]
