"""The loop of a curator service: discover rounds, decide, contribute at a random moment, deliver.

    open round -> planned (a random moment of the open time) -> prepared -> delivered, or refused

The moment is drawn when a round is discovered, from the operating system's randomness, before
any reading is read; a contribution is drawn a little earlier than it is sent, so neither the moment
nor the time that drawing takes depends on data. Plans are stored: a restart continues them.

Discovers what coordinators request of this process's parties, and plans the open rounds.

One of the parties at a coordinator polls for all. Each party gets a random moment of the time that
a listed round is open. A descriptor that does not verify is omitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from secrets import SystemRandom
from typing import Any, Final, Protocol

from pydantic import ValidationError
from pydantic_core import to_json

from common.arrays import batches
from common.runtime.clock import Clock
from common.runtime.logs import describe, get_logger
from common.runtime.process import give_back
from common.runtime.tasks import Notice
from common.store.erasure import Erasure
from common.store.transactions import Database, Transaction
from common.web.problems import ProblemReceived
from curator.errors import PeerUnavailable
from curator.participation.consent import Refusing
from curator.participation.contribution import Contributor
from curator.participation.delivery import Delivery, Parcel
from curator.participation.noisy_reports import Reporting
from curator.participation.preparation import Task
from curator.participation.settlement import Settling
from curator.parties.enrolment import Enroller
from curator.parties.identities import Coordinators
from curator.parties.keys import SWEEP_S, Renewals, Successions
from curator.parties.peers import Listing, Peers
from curator.settings import CuratorSettings
from curator.store import outbox
from curator.store import parties as party_store
from curator.store.outbox import Answer, ContributionRow, Plan, RoundRow, Sealed
from curator.store.parties import Coordinator, PartyRow, Speaker
from tacit.crypto.signing import Signed, signer_of
from tacit.errors import DomainError
from tacit.protocol.round.agreement import check_descriptor
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL, RoundDescriptor

SPEAKERS = 3
_chance = SystemRandom()


class Ask(Protocol):
    """Requests a list from a coordinator; None if it still matches the ETag."""

    async def __call__(
        self, url: str, token: str, etag: str | None, wait_s: float
    ) -> Listing | None: ...


@dataclass
class Discovery:
    """One list of each coordinator; `take` is called with the coordinator as parties here know
    it, and the whole list whenever that changes; it returns whether another key signed
    something."""

    database: Database
    coordinators: Coordinators
    ask: Ask
    take: Callable[[Set[Coordinator], Sequence[Any]], Awaitable[bool]]
    _etags: dict[str, str | None] = field(default_factory=dict)

    def forget(self) -> None:
        """Process the lists again at the next poll: they may concern a new party."""
        self._etags.clear()

    async def look(self, url: str, wait_s: float = 0.0) -> bool:
        """Process a coordinator's list; whether it answered."""
        every = await self.database.read(party_store.speakers)
        speakers = [speaker for speaker in every if speaker.url == url]
        for speaker in _chance.sample(speakers, min(SPEAKERS, len(speakers))):
            try:
                listing = await self.ask(url, speaker.token, self._etags.get(url), wait_s)
            except ProblemReceived as error:
                if error.status in (401, 403):
                    continue
                return False
            except PeerUnavailable:
                return False
            await self.coordinators.look(url)
            if listing is not None:
                coordinators = await self.coordinators.known(url)
                foreign = await self.take(coordinators, listing.items)
                if foreign and await self.coordinators.follow(url):
                    await self.take(await self.coordinators.known(url), listing.items)
                self._etags[url] = listing.etag
            return True
        return False

    async def watch(self, url: str, wait_s: float, retry_s: float) -> None:
        """Poll without end; `wait_s` 0 polls at intervals instead of waiting for a change."""
        while True:
            try:
                answered = await self.look(url, wait_s)
            except Exception as error:
                _logger.warning("coordinator_unreachable", **describe(error))
                answered = False
            if not answered or wait_s == 0:
                await asyncio.sleep(retry_s)


# --- planning: each enrolled party gets a random moment while the round is open ------------------

PLANS: Final = 10_000
"""Most contributions that are planned in one transaction, unless one round has more."""
_moment = SystemRandom()
_planning_logger = get_logger("tacit.curator.planning")


class Planning:
    """Plans what coordinators list. `window_share`: of the open time, from which moments are
    drawn."""

    def __init__(self, database: Database, clock: Clock, window_share: float) -> None:
        self._store, self._clock, self._share = database, clock, window_share
        self._taken: dict[frozenset[Coordinator], dict[bytes, str]] = {}
        """The ids of the rounds that each coordinator listed last, by their bytes."""

    def forget(self) -> None:
        """Take all of a list up again: it may concern a new party."""
        self._taken.clear()

    async def take_up(self, known: Set[Coordinator], items: Sequence[Any]) -> tuple[set[str], bool]:
        """Plan what was not listed before. Returns the ids of all listed, and whether one of
        them is not a valid descriptor of these coordinators."""
        read_before, texts = (
            self._taken.get(frozenset(known), {}),
            [to_json(item) for item in items],
        )
        fresh = {
            text: parsed for text in texts if text not in read_before and (parsed := _parsed(text))
        }
        round_ids: set[str] = set()
        for coordinator in known:
            round_ids |= await self._plan(fresh.values(), coordinator)
        rounds = read_before | {text: signed.statement.round for text, signed in fresh.items()}
        listed = {text: rounds[text] for text in texts if text in rounds}
        self._taken[frozenset(known)] = {  # what does not hold now may hold later
            text: name for text, name in listed.items() if text in read_before or name in round_ids
        }
        foreign = any(signed.statement.round not in round_ids for signed in fresh.values())
        return set(listed.values()), foreign

    async def _plan(
        self, fresh: Collection[Signed[RoundDescriptor]], coordinator: Coordinator
    ) -> set[str]:
        """Plan those that are sound descriptors of this coordinator; their ids."""
        now = self._clock.now()
        sound = {row.statement.round: row for row in fresh if _is_sound(row, coordinator, now)}
        if not sound:
            return set()
        enrolled = await self._store.read(
            lambda transaction: party_store.enrolled(transaction, coordinator.key)
        )
        parties = max([1, *map(len, enrolled.values())])
        for some in batches(sound.items(), lambda _: parties, PLANS):
            await self._plan_some(dict(some), enrolled, now)
        return set(sound)

    async def _plan_some(
        self,
        sound: Mapping[str, Signed[RoundDescriptor]],
        enrolled: Mapping[str, Sequence[str]],
        now: datetime,
    ) -> None:
        async with self._store.begin() as transaction:
            stored = await outbox.rounds_by_id(transaction, list(sound))
            checked = dict(sound)
            for name, row in stored.items():
                if row.hash != sound[name].statement.digest():
                    _planning_logger.warning("descriptor_changed", round=name)
                    del checked[name]
            await outbox.add_rounds(transaction, [checked[n] for n in checked.keys() - stored])
            enrolled_in = await outbox.parties_of(transaction, list(checked))
            plans = [
                Plan(name, party, self._moment_of(signed.statement, now))
                for name, signed in checked.items()
                for party in enrolled.get(signed.statement.deployment, ())
                if party not in enrolled_in[name]
            ]
            await outbox.plan(transaction, plans, now)

    def _moment_of(self, descriptor: RoundDescriptor, now: datetime) -> datetime:
        open_for = max(timedelta(0), descriptor.deadline - now)
        return now + open_for * self._share * _moment.random()


def _parsed(text: bytes) -> Signed[RoundDescriptor] | None:
    try:
        return Signed[RoundDescriptor].model_validate_json(text)
    except ValidationError:
        _planning_logger.warning("descriptor_malformed")
        return None


def _is_sound(signed: Signed[RoundDescriptor], coordinator: Coordinator, now: datetime) -> bool:
    try:
        key = signer_of(DESCRIPTOR_LABEL, signed, coordinator.keys(now))
        check_descriptor(signed, key, now)
    except DomainError as error:
        _planning_logger.warning(
            "descriptor_refused", round=signed.statement.round, problem=error.name
        )
        return False
    return True


UNDER_WAY_BYTES = 8 << 20
"""Sealed bytes between preparing and their first sending, beyond which no more are prepared."""
GIVEN_BACK_BYTES = 1 << 20
"""After this many sealed bytes freed memory is returned to the system: it takes a millisecond."""
IDLE_S = 1.0
WATCHERS_S = 10.0
"""Seconds between checks for coordinators of parties that another process on the store enrolled."""
RESUME_S = 30.0
ERASE_S = 30.0

_logger = get_logger("tacit.curator.participation")


@dataclass(frozen=True)
class Answering:
    """What answers rounds and collections, and what follows: delivery, refusals, final states."""

    contributor: Contributor
    delivery: Delivery
    reporting: Reporting
    refusing: Refusing
    settling: Settling


@dataclass(frozen=True)
class PartyUpkeep:
    """What keeps the hosted parties able to answer: enrolment, pins of their coordinators, keys and
    tokens."""

    enroller: Enroller
    coordinators: Coordinators
    successions: Successions
    renewals: Renewals


class Participation:
    """The curator's loop over all hosted parties; `start` and `stop`, or its steps one by one
    (tests)."""

    def __init__(
        self,
        database: Database,
        peers: Peers,
        clock: Clock,
        settings: CuratorSettings,
        answering: Answering,
        upkeep: PartyUpkeep,
    ) -> None:
        self._store, self._clock, self._settings = database, clock, settings
        self._answering, self._upkeep = answering, upkeep
        self._planning = Planning(database, clock, settings.send_window_share)
        self._rounds = Discovery(database, upkeep.coordinators, peers.open_rounds, self._take_up)
        self._collections = Discovery(
            database, upkeep.coordinators, peers.collecting, answering.reporting.take_up
        )
        self._watched: set[str] = set()
        self._speakers: set[Speaker] = set()
        self._enrolled = Notice()
        self._gone: dict[str, RoundRow] = {}
        self._busy: set[int] = set()
        self._more = False
        """Whether more was due than one pass takes."""
        self._awake = Notice()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asking: set[asyncio.Task[bool]] = set()
        """About earlier rounds."""
        self.erasure = Erasure(database)

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start: finish what was in progress, then poll for rounds."""
        self._spawn(self._upkeep.enroller.resume())
        self._spawn(self._forever(self._look_after_watchers, 0.0))
        self._spawn(self._forever(self._work, 0.0))
        self._spawn(self._forever(self.settle, self._settings.settle_after_s or IDLE_S))
        self._spawn(self._forever(self._upkeep.successions.sweep, SWEEP_S))
        self._spawn(self._forever(self._upkeep.renewals.sweep, SWEEP_S))
        self._spawn(self._forever(self._answering.reporting.turn, self._settings.retry_s))
        self._spawn(self._forever(self.tell_refusals, self._settings.retry_s))
        self._spawn(self._forever(partial(self.resume_deliveries, wait=False), RESUME_S))
        self._spawn(self._forever(self._erase, ERASE_S))

    async def stop(self) -> None:
        """End all tasks; the next start continues from the stored state."""
        tasks = [*self._tasks, *self._asking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._asking.clear()
        self._watched.clear()

    def wake(self) -> None:
        """Poll now: a party was enrolled, or a policy changed."""
        self._rounds.forget()
        self._collections.forget()
        self._planning.forget()
        self._enrolled.notify()
        self._awake.notify()

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

    async def _forever(self, step: Callable[[], Awaitable[object]], pause_s: float) -> None:
        while True:
            try:
                await step()
            except Exception as error:
                _logger.error("step_failed", **describe(error))
                await asyncio.sleep(self._settings.retry_s)
            await asyncio.sleep(pause_s)

    async def _look_after_watchers(self) -> None:
        ticket = self._enrolled.ticket()
        speakers = await self._store.read(party_store.speakers)
        if set(speakers) != self._speakers:
            self._speakers = set(speakers)
            self._planning.forget()
        wait_s, retry_s = self._settings.poll_wait_s, self._settings.retry_s
        for url in {speaker.url for speaker in speakers} - self._watched:
            self._watched.add(url)
            for discovery in (self._rounds, self._collections):
                self._spawn(discovery.watch(url, wait_s, retry_s))
        await self._enrolled.wait(ticket, WATCHERS_S)

    # --- discover --------------------------------------------------------------------------------

    async def discover(self, url: str) -> bool:
        """Process the open rounds of a coordinator now; whether it answered."""
        return await self._rounds.look(url)

    async def discover_collections(self, url: str) -> bool:
        """Process the open collections of a coordinator now; whether it answered."""
        return await self._collections.look(url)

    async def _take_up(self, coordinators: Set[Coordinator], items: Sequence[Any]) -> bool:
        listed, foreign = await self._planning.take_up(coordinators, items)
        await self._note_gone(listed)
        self._awake.notify()
        return foreign

    async def _note_gone(self, open_now: set[str]) -> None:
        """Rounds that are no longer open: poll soon for their final state."""
        now = self._clock.now()
        far = now + timedelta(days=400)
        unsettled = await self._store.read(
            lambda transaction: outbox.unsettled_rounds(transaction, far, far)
        )
        self._gone |= {row.id: row for row in unsettled if row.id not in open_now}

    # --- contribute ------------------------------------------------------------------------------

    async def _work(self) -> None:
        ticket = self._awake.ticket()
        moment = await self.contribute_due(wait=False)
        pause = IDLE_S
        if moment is not None:
            lead = timedelta(seconds=self._settings.prepare_lead_s)
            pause = min(pause, max(0.01, (moment - lead - self._clock.now()).total_seconds()))
        await self._awake.wait(ticket, pause)

    async def contribute_due(self, *, wait: bool = True) -> datetime | None:
        """Make the contributions whose moment has come; `wait` until they are delivered. Returns
        the moment of the next one, if another is planned."""
        latest = self._clock.now() + timedelta(seconds=self._settings.prepare_lead_s)
        async with self._store.reading() as transaction:
            due = await outbox.due(transaction, latest)
            following = await outbox.next_moment(transaction, latest)
            self._more = len(due) == outbox.DUE
            due = [item for item in due if item.id not in self._busy]
            rounds = await outbox.rounds_by_id(transaction, list({item.round for item in due}))
            parties = await party_store.parties_by_id(transaction, [item.party for item in due])
        by_round: dict[str, list[ContributionRow]] = {}
        for item in due:
            if item.id not in self._busy:
                by_round.setdefault(item.round, []).append(item)
        started = []
        earlier = self._earlier(by_round, rounds, parties)
        for round_id, items in by_round.items():
            self._busy.update(item.id for item in items)
            row, settled = rounds[round_id], earlier[round_id]
            started.append(self._spawn(self._perform(row, items, parties, settled)))
        if wait:
            await asyncio.gather(*started)
        return following

    async def _perform(
        self,
        row: RoundRow,
        items: Sequence[ContributionRow],
        parties: Mapping[str, PartyRow],
        earlier: asyncio.Task[bool],
    ) -> None:
        try:
            if not await asyncio.shield(earlier):  # which may be another round's fault
                await self._settle_earlier([row])
            tasks = [Task(item, parties[item.party]) for item in items]
            parcels = {
                item.id: Parcel(item.id, parties[item.party], row.id, row.deadline)
                for item in items
            }
            moments = {item.id: item.send_at for item in items}
            under_way: dict[asyncio.Task[None], int] = {}
            sealed_bytes = 0
            async for lot in self._answering.contributor.contribute(row, tasks):
                size = sum(len(item.body) for item in lot)
                under_way[asyncio.create_task(self._first(parcels, moments, lot))] = size
                del lot  # it is gone when it is sent
                sealed_bytes += size
                while sum(under_way.values()) > UNDER_WAY_BYTES:
                    done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                    for sent in done:
                        del under_way[sent]
                        await sent
            self._spawn(self.tell_refusals())  # a coordinator that hangs delays no contribution
            await asyncio.gather(*under_way)
            await self._answering.delivery.finish(list(parcels.values()))
            if self._more:
                self._awake.notify()
            if sealed_bytes >= GIVEN_BACK_BYTES:
                await asyncio.to_thread(give_back)
        finally:
            self._busy.difference_update(item.id for item in items)

    async def _first(
        self,
        parcels: Mapping[int, Parcel],
        moments: Mapping[int, datetime],
        lot: Sequence[Sealed],
    ) -> None:
        """Send each at its moment, once; later tries read from the outbox."""

        async def send(item: Sealed) -> Answer | None:
            contribution = item.place.contribution
            await asyncio.sleep(self._until(moments[contribution]))
            return await self._answering.delivery.send(parcels[contribution], item)

        await self._answering.delivery.note(await asyncio.gather(*map(send, lot)))

    def _until(self, moment: datetime) -> float:
        return max(0.0, (moment - self._clock.now()).total_seconds())

    async def tell_refusals(self) -> None:
        """Report to coordinators which curators refuse open rounds, where not yet reported."""
        await self._answering.refusing.tell()

    async def resume_deliveries(self, *, wait: bool = True) -> None:
        """Send again, byte for byte, what has no final answer, and close what has one.

        After a start, and now and then for what an error left behind. What is still planned is
        finished by the loop, after its remaining segments.
        """
        async with self._store.reading() as transaction:
            left = [i for i in await outbox.undelivered(transaction) if i.id not in self._busy]
            parties = await party_store.parties_by_id(transaction, [item.party for item in left])
            rounds = await outbox.rounds_by_id(transaction, list({item.round for item in left}))
        jobs = []
        for item in left:
            row = rounds.get(item.round)
            if row is not None and item.id not in self._busy:
                self._busy.add(item.id)
                parcel = Parcel(item.id, parties[item.party], item.round, row.deadline)
                jobs.append(self._spawn(self._resume(parcel, item)))
        if wait:
            await asyncio.gather(*jobs)

    async def _resume(self, parcel: Parcel, item: ContributionRow) -> None:
        try:
            await asyncio.sleep(self._until(item.send_at))
            await self._answering.delivery.finish([parcel])
        finally:
            self._busy.discard(item.id)

    # --- afterwards ------------------------------------------------------------------------------

    def _earlier(
        self,
        due: Mapping[str, Sequence[ContributionRow]],
        rounds: Mapping[str, RoundRow],
        parties: Mapping[str, PartyRow],
    ) -> dict[str, asyncio.Task[bool]]:
        """For each due round, settling the earlier ones of its query and window. Rounds of the
        same coordinators are asked about together: one that does not answer delays no other's."""
        together: dict[frozenset[str], list[RoundRow]] = {}
        for round_id, items in due.items():
            urls = frozenset(parties[item.party].coordinator_url for item in items)
            together.setdefault(urls, []).append(rounds[round_id])
        settling: dict[str, asyncio.Task[bool]] = {}
        for rows in together.values():
            task = asyncio.create_task(self._settled_together(rows))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
            settling |= {row.id: task for row in rows}
        return settling

    async def _settled_together(self, rows: Sequence[RoundRow]) -> bool:
        """Whether no error came up."""
        try:
            await self._settle_earlier(rows)
        except Exception as error:
            _logger.warning("settling_failed", rounds=len(rows), **describe(error))
            return False
        return True

    async def _settle_earlier(self, rows: Sequence[RoundRow]) -> None:
        """Fetch the final state of earlier rounds of these queries and windows, before deciding."""

        async def open_ended(transaction: Transaction) -> dict[str, RoundRow]:
            return {
                earlier.id: earlier
                for row in rows
                for earlier in await outbox.open_ended(transaction, row)
            }

        unsettled = await self._store.read(open_ended)
        if unsettled:
            await self._answering.settling.ask(list(unsettled.values()))

    async def settle(self) -> None:
        """Poll for the final state of rounds that are over or no longer listed as open."""
        now, pause = self._clock.now(), timedelta(seconds=self._settings.settle_after_s)
        unsettled = await self._store.read(
            lambda transaction: outbox.unsettled_rounds(transaction, now - pause, now - pause)
        )
        rows = list({**self._gone, **{item.id: item for item in unsettled}}.values())
        for round_id in await self._answering.settling.ask(rows) if rows else ():
            self._gone.pop(round_id, None)

    async def _erase(self) -> None:
        """Erase delivered sealed bytes and replaced keys from the files as well."""
        if not await self.erasure.erase():
            _logger.warning("log_not_emptied")
