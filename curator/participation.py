"""The loop of a curator service: discover rounds, decide, contribute at a random moment, deliver.

    open round -> planned (a random moment of the open time) -> prepared -> delivered, or refused

The moment is drawn when a round is discovered, from the operating system's randomness, before
anything is known of readings; a contribution is drawn a little earlier than it is sent, so neither
the moment nor the time that drawing takes depends on data. Plans are stored: a restart goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from secrets import SystemRandom
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json
from sqlalchemy.ext.asyncio import AsyncEngine

from common.agreement import check_descriptor
from common.errors import DomainError
from common.models.round import RoundDescriptor
from common.service.clock import Clock
from common.service.database import reading
from common.service.logs import describe, get_logger
from common.service.problems import ProblemReceived
from common.signing import Signed
from curator.contribution import Contributor, Task
from curator.delivery import Delivery, Parcel
from curator.errors import PeerUnavailable
from curator.parties import Enroller, Keyring
from curator.peers import Peers
from curator.reporting import Reporting
from curator.settings import CuratorSettings
from curator.settling import Settling
from curator.store import outbox
from curator.store import parties as party_store
from curator.store.outbox import ContributionRow, RoundRow, Sealed
from curator.store.parties import ACTIVE, PartyRow

LOTS = 3
"""Segments under way between preparing and their first sending."""
IDLE_S = 1.0
RESUME_S = 30.0
ROTATE_S = 60.0

_moment = SystemRandom()
_logger = get_logger("tacit.curator.participation")


class Participation:
    """Runs all hosted parties; `start` and `stop`, or its steps one by one (tests)."""

    def __init__(
        self,
        engine: AsyncEngine,
        peers: Peers,
        clock: Clock,
        settings: CuratorSettings,
        keyring: Keyring,
        contributor: Contributor,
        delivery: Delivery,
        settling: Settling,
        enroller: Enroller,
        reporting: Reporting,
    ) -> None:
        self._store, self._peers, self._clock, self._settings = engine, peers, clock, settings
        self._keyring, self._contributor, self._delivery = keyring, contributor, delivery
        self._settling, self._enroller = settling, enroller
        self._reporting = reporting
        self._etags: dict[str, str | None] = {}
        self._gone: dict[str, RoundRow] = {}
        self._busy: set[int] = set()
        self._awake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watchers: dict[str, asyncio.Task[None]] = {}

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin: finish what was under way, then look for rounds."""
        self._spawn(self._enroller.resume())
        self._spawn(self._forever(self._look_after_watchers, IDLE_S))
        self._spawn(self._forever(self._work, 0.0))
        self._spawn(self._forever(self.settle, self._settings.settle_after_s or IDLE_S))
        self._spawn(self._forever(self.rotate_keys, ROTATE_S))
        self._spawn(self._forever(self._reporting.turn, self._settings.retry_s))
        self._spawn(self._forever(partial(self.resume_deliveries, wait=False), RESUME_S))

    async def stop(self) -> None:
        """End all tasks; what is stored goes on at the next start."""
        tasks = [*self._tasks, *self._watchers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._watchers.clear()

    def wake(self) -> None:
        """Look again now: a party was enrolled, a policy changed."""
        self._awake.set()

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:
                _logger.error("task_failed", **describe(error))

        task = asyncio.create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _forever(self, step: Callable[[], Awaitable[None]], pause_s: float) -> None:
        while True:
            try:
                await step()
            except Exception as error:
                _logger.error("step_failed", **describe(error))
                await asyncio.sleep(self._settings.retry_s)
            await asyncio.sleep(pause_s)

    async def _look_after_watchers(self) -> None:
        async with reading(self._store) as connection:
            found = await party_store.list_parties(connection, state=ACTIVE)
        for url in {row.coordinator_url for row in found}:
            watcher = self._watchers.get(url)
            if watcher is None or watcher.done():
                self._watchers[url] = asyncio.create_task(self._watch(url))

    async def _watch(self, url: str) -> None:
        while True:
            try:
                known = await self.discover(url, self._settings.poll_wait_s)
            except Exception as error:
                _logger.warning("coordinator_unreachable", **describe(error))
                known = False
            if not known or self._settings.poll_wait_s == 0:
                await asyncio.sleep(self._settings.retry_s)

    # --- discover --------------------------------------------------------------------------------

    async def discover(self, url: str, wait_s: float = 0.0) -> bool:
        """Take up the open rounds of a coordinator; whether it answered."""
        async with reading(self._store) as connection:
            parties = [
                row
                for row in await party_store.list_parties(connection, state=ACTIVE)
                if row.coordinator_url == url and row.coordinator_token is not None
            ]
        for speaker in _moment.sample(parties, min(3, len(parties))):
            assert speaker.coordinator_token is not None
            try:
                found = await self._peers.open_rounds(
                    url, speaker.coordinator_token, self._etags.get(url), wait_s
                )
            except ProblemReceived as error:
                if error.status in (401, 403):
                    continue
                return False
            except PeerUnavailable:
                return False
            if found is not None:
                await self._take_up(parties, found.rounds)
                self._etags[url] = found.etag
            return True
        return False

    async def _take_up(self, parties: Sequence[PartyRow], items: Sequence[Any]) -> None:
        open_now = set()
        for item in items:
            try:
                signed = Signed[RoundDescriptor].model_validate_json(to_json(item))
            except ValidationError:
                _logger.warning("descriptor_malformed")
                continue
            open_now.add(signed.statement.round)
            for key in {row.coordinator_key for row in parties}:
                if key is not None:
                    await self._plan(signed, key)
        await self._note_gone(open_now)
        self._awake.set()

    async def _plan(self, signed: Signed[RoundDescriptor], coordinator_key: bytes) -> None:
        descriptor = signed.statement
        try:
            check_descriptor(signed, coordinator_key)
        except DomainError as error:
            _logger.warning("descriptor_refused", round=descriptor.round, problem=error.name)
            return
        digest, now = descriptor.digest(), self._clock.now()
        async with self._store.begin() as connection:
            known = await outbox.find_round(connection, descriptor.round)
            if known is not None and known.hash != digest:
                _logger.warning("descriptor_changed", round=descriptor.round)
                return
            if known is None:
                await outbox.add_round(connection, signed, digest)
            parties = await outbox.parties_without(
                connection, descriptor.round, coordinator_key, descriptor.deployment
            )
            if parties:
                left = max(timedelta(0), descriptor.deadline - now)
                share = left * self._settings.send_window_share
                moments = [(party, now + share * _moment.random()) for party in parties]
                await outbox.plan(connection, descriptor.round, moments, now)

    async def _note_gone(self, open_now: set[str]) -> None:
        """Rounds that are open no longer: ask soon how they ended."""
        now = self._clock.now()
        async with reading(self._store) as connection:
            far = now + timedelta(days=400)
            for row in await outbox.unsettled_rounds(connection, far, far):
                if row.id not in open_now:
                    self._gone[row.id] = row

    # --- contribute ------------------------------------------------------------------------------

    async def _work(self) -> None:
        self._awake.clear()
        begun = await self.contribute_due(wait=False)
        async with reading(self._store) as connection:
            moment = await outbox.next_moment(connection, begun)
        pause = IDLE_S
        if moment is not None:
            lead = timedelta(seconds=self._settings.prepare_lead_s)
            pause = min(pause, max(0.01, (moment - lead - self._clock.now()).total_seconds()))
        try:
            async with asyncio.timeout(pause):
                await self._awake.wait()
        except TimeoutError:
            return

    async def contribute_due(self, *, wait: bool = True) -> datetime:
        """Make the contributions whose moment has come; `wait` until they are delivered.

        Returns the latest moment that it looked for.
        """
        latest = self._clock.now() + timedelta(seconds=self._settings.prepare_lead_s)
        async with reading(self._store) as connection:
            due = await outbox.due(connection, latest)
        due = [item for item in due if item.id not in self._busy]
        by_round: dict[str, list[ContributionRow]] = {}
        for item in due:
            by_round.setdefault(item.round, []).append(item)
        started = []
        for round_id, items in by_round.items():
            self._busy.update(item.id for item in items)
            started.append(self._spawn(self._perform(round_id, items)))
        if wait:
            await asyncio.gather(*started)
        return latest

    async def _perform(self, round_id: str, items: Sequence[ContributionRow]) -> None:
        try:
            async with reading(self._store) as connection:
                row = await outbox.find_round(connection, round_id)
                assert row is not None
                parties = await party_store.parties_by_id(connection, [i.party for i in items])
            await self._settle_earlier(row)
            tasks = [Task(item, parties[item.party]) for item in items]
            parcels = {
                item.id: Parcel(item.id, parties[item.party], round_id, row.deadline)
                for item in items
            }
            moments = {item.id: item for item in items}
            under_way: set[asyncio.Task[bool]] = set()
            async for lot in self._contributor.contribute(row, tasks):
                for contribution, sealed in _by_contribution(lot).items():
                    first = self._first(parcels[contribution], moments[contribution], sealed)
                    under_way.add(asyncio.create_task(first))
                while len(under_way) > max(LOTS, len(parcels)):
                    _, under_way = await asyncio.wait(
                        under_way, return_when=asyncio.FIRST_COMPLETED
                    )
            await asyncio.gather(*under_way)
            await asyncio.gather(*(self._finish(parcels[item.id]) for item in items))
            self._awake.set()  # more may be due than one look takes
        finally:
            self._busy.difference_update(item.id for item in items)

    async def _first(
        self, parcel: Parcel, planned: ContributionRow, sealed: Sequence[Sealed]
    ) -> bool:
        """Wait for the moment of sending, then try once; later tries read from the outbox."""
        await asyncio.sleep(max(0.0, (planned.send_at - self._clock.now()).total_seconds()))
        return await self._delivery.attempt(parcel, sealed)

    async def _finish(self, parcel: Parcel) -> None:
        async with reading(self._store) as connection:
            states = await outbox.delivery_states(connection, [parcel.contribution])
        if parcel.contribution in states:
            await self._delivery.finish(parcel)

    async def resume_deliveries(self, *, wait: bool = True) -> None:
        """Send again, byte for byte, what has no final answer, and close what has one.

        After a start, and now and then for what an error left behind. What is still planned is
        finished by the loop, after its remaining segments.
        """
        async with reading(self._store) as connection:
            left = [i for i in await outbox.undelivered(connection) if i.id not in self._busy]
            parties = await party_store.parties_by_id(connection, [item.party for item in left])
            rounds = {item.round: await outbox.find_round(connection, item.round) for item in left}
        jobs = []
        for item in left:
            row = rounds[item.round]
            if row is not None and item.id not in self._busy:
                self._busy.add(item.id)
                parcel = Parcel(item.id, parties[item.party], item.round, row.deadline)
                jobs.append(self._spawn(self._resume(parcel, item)))
        if wait:
            await asyncio.gather(*jobs)

    async def _resume(self, parcel: Parcel, item: ContributionRow) -> None:
        try:
            await asyncio.sleep(max(0.0, (item.send_at - self._clock.now()).total_seconds()))
            await self._delivery.finish(parcel)
        finally:
            self._busy.discard(item.id)

    # --- afterwards ------------------------------------------------------------------------------

    async def _settle_earlier(self, row: RoundRow) -> None:
        """Learn how earlier rounds of this query and window ended before deciding on this one."""
        descriptor = row.signed().statement
        async with reading(self._store) as connection:
            earlier = await outbox.open_ended(
                connection, descriptor.query.digest(), descriptor.window, descriptor.round
            )
        for item in earlier:
            await self._settling.ask(item)

    async def settle(self) -> None:
        """Ask how rounds ended that are over or have left the list of open ones."""
        now, pause = self._clock.now(), timedelta(seconds=self._settings.settle_after_s)
        async with reading(self._store) as connection:
            asked = await outbox.unsettled_rounds(connection, now - pause, now - pause)
        for row in {**self._gone, **{item.id: item for item in asked}}.values():
            if await self._settling.ask(row) is not None:
                self._gone.pop(row.id, None)

    async def rotate_keys(self) -> None:
        """Replace sealing keys that are older than an epoch."""
        before = self._clock.now() - timedelta(seconds=self._settings.key_epoch_s)
        async with reading(self._store) as connection:
            old = await party_store.parties_with_old_keys(connection, before)
        for row in old:
            try:
                await self._keyring.rotate(row)
            except (PeerUnavailable, ProblemReceived) as error:
                _logger.warning("key_rotation_delayed", party=row.id, **describe(error))


def _by_contribution(lot: Sequence[Sealed]) -> dict[int, list[Sealed]]:
    found: dict[int, list[Sealed]] = {}
    for item in lot:
        found.setdefault(item.contribution, []).append(item)
    return found
