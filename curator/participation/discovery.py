"""Discovers what coordinators request of this process's parties, and plans the open rounds.

One of the parties at a coordinator polls for all. Each party gets a random moment of the time that
a listed round is open. A descriptor that does not verify is omitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from secrets import SystemRandom
from typing import Any, Final, Protocol

from pydantic import ValidationError
from pydantic_core import to_json

from common.batches import batches
from common.runtime.clock import Clock
from common.runtime.logs import describe, get_logger
from common.store.transactions import Database
from common.web.problems import ProblemReceived
from curator.errors import PeerUnavailable
from curator.parties.identities import Coordinators
from curator.parties.peers import Listing
from curator.store import outbox
from curator.store import parties as party_store
from curator.store.outbox import Plan
from curator.store.parties import Coordinator
from tacit.crypto.signing import Signed, signer_of
from tacit.errors import DomainError
from tacit.protocol.round.agreement import check_descriptor
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL, RoundDescriptor

SPEAKERS = 3
_chance = SystemRandom()
_logger = get_logger("tacit.curator.discovery")


class Ask(Protocol):
    """Requests a list from a coordinator; None if it still matches the ETag."""

    async def __call__(
        self, url: str, token: str, etag: str | None, wait_s: float
    ) -> Listing | None: ...


@dataclass
class Discovery:
    """One list of each coordinator; `take` is given the coordinator as parties here know it, and
    the whole list whenever that changes; it returns whether another key signed something."""

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
        async with self.database.reading() as transaction:
            speakers = [
                speaker for speaker in await party_store.speakers(transaction) if speaker.url == url
            ]
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
    """Plans what coordinators list. `window_share`: of the open time in which moments are drawn."""

    def __init__(self, database: Database, clock: Clock, window_share: float) -> None:
        self._store, self._clock, self._share = database, clock, window_share
        self._taken: dict[frozenset[Coordinator], dict[bytes, str]] = {}
        """The ids of the rounds that each coordinator listed last, by their bytes."""

    def forget(self) -> None:
        """Take all of a list up again: it may concern a new party."""
        self._taken.clear()

    async def take_up(self, known: Set[Coordinator], items: Sequence[Any]) -> tuple[set[str], bool]:
        """Plan what was not listed before. The ids of all listed, and whether one of them is no
        sound descriptor of these coordinators."""
        taken, texts = self._taken.get(frozenset(known), {}), [to_json(item) for item in items]
        fresh = {text: found for text in texts if text not in taken and (found := _parsed(text))}
        held: set[str] = set()
        for coordinator in known:
            held |= await self._plan(fresh.values(), coordinator)
        rounds = taken | {text: signed.statement.round for text, signed in fresh.items()}
        listed = {text: rounds[text] for text in texts if text in rounds}
        self._taken[frozenset(known)] = {  # what does not hold now may hold later
            text: name for text, name in listed.items() if text in taken or name in held
        }
        foreign = any(signed.statement.round not in held for signed in fresh.values())
        return set(listed.values()), foreign

    async def _plan(
        self, fresh: Collection[Signed[RoundDescriptor]], coordinator: Coordinator
    ) -> set[str]:
        """Plan those that are sound descriptors of this coordinator; their ids."""
        now = self._clock.now()
        sound = {row.statement.round: row for row in fresh if _is_sound(row, coordinator, now)}
        async with self._store.reading() as transaction:
            enrolled = await party_store.enrolled(transaction, coordinator.key)
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
            taken = await outbox.parties_of(transaction, list(checked))
            plans = [
                Plan(name, party, self._moment_of(signed.statement, now))
                for name, signed in checked.items()
                for party in enrolled.get(signed.statement.deployment, ())
                if party not in taken[name]
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
