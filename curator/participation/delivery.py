"""Delivers sealed bytes with retries; the bytes never change.

Only the outbox is sent, and an entry is written in the same transaction as its debit. At most a few
requests are in flight per aggregator; pieces that wait for it meanwhile share the next one, in
which each has its own party's token, and so do batches. An answer 200 or 201 is final, as is a
refusal that a retry cannot change; everything else is retried until the round is over.

The announcement of the session goes with a piece, or ahead of a host's
batches, until its aggregator has answered under it (spec: keys, section 2.3). It is kept in the
outbox beside what was sealed: after a restart the same bytes are sent with the same announcement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import cbor2

from common.arrays import batches
from common.bodies import CBOR, encode
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.group_commit import GroupCommit, in_transaction
from common.store.transactions import Database, Transaction
from common.web.client import RETRIED
from common.web.problems import ProblemReceived
from curator.engine import OCTETS
from curator.errors import PeerUnavailable, Stopped
from curator.parties.keys import Keyring
from curator.parties.peers import BATCHES, PIECES, Carried, Peers
from curator.store import outbox, stops
from curator.store import parties as party_store
from curator.store.outbox import MISSED, PENDING, SENT, Answer, Place, Sealed, State
from curator.store.parties import Anchor, PartyRow
from tacit.protocol.round.pieces import ItemAnswer

TOGETHER: Final = 100
TOGETHER_BYTES: Final = 1 << 20
"""Pieces or batches in one request, at most, and their bytes; a larger one goes alone."""
_RETRIED = frozenset({"unknown_round", "token_unknown", "token_expired", "round_not_keyed"})
_logger = get_logger("tacit.curator.delivery")


@dataclass(frozen=True)
class Parcel:
    """Whose sealed bytes go to which round."""

    contribution: int
    party: PartyRow
    round: str
    deadline: datetime


@dataclass(frozen=True, eq=False)
class Letter:
    """Sealed bytes on their way to an aggregator; each is itself only."""

    parcel: Parcel
    anchor: Anchor
    item: Sealed

    def size(self) -> int:
        """Bytes."""
        return len(self.item.body)

    @property
    def kind(self) -> str:
        """What an aggregator calls it."""
        return BATCHES if self.item.media_type == OCTETS else PIECES

    @property
    def session(self) -> tuple[str, bytes]:
        """Whose session it is sealed under."""
        return self.parcel.party.id, self.item.session or b""

    @property
    def path(self) -> str:
        """Where it goes."""
        return f"/v1/rounds/{self.parcel.round}/{self.kind}"


Line: TypeAlias = dict[Letter, "asyncio.Future[Answer | None]"]
"""Pieces, or batches, of any rounds that wait for one aggregator, in the order of their coming."""


class Delivery:
    """Sends what is in the outbox."""

    def __init__(
        self,
        database: Database,
        peers: Peers,
        keyring: Keyring,
        clock: Clock,
        *,
        in_flight: int = 2,
        retry_s: float = 2.0,
        grace_s: float = 3600.0,
        counted: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store, self._peers, self._keyring, self._clock = database, peers, keyring, clock
        self._in_flight, self._retry_s = in_flight, retry_s
        self._grace = timedelta(seconds=grace_s)
        self._counted = counted
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._lines: dict[tuple[str, str], Line] = {}
        self._stops = GroupCommit(in_transaction(database.reading, _held))
        self._notes = GroupCommit(in_transaction(database.begin, _note))
        self._ends = GroupCommit(in_transaction(database.begin, self._end))

    async def send(self, parcel: Parcel, item: Sealed) -> Answer | None:
        """Send sealed bytes once; the answer, or None if they must be sent again. Pieces that
        wait for the same aggregator share a request, as do batches."""
        anchor = _anchor(parcel.party, item.place.aggregator)
        if anchor is None:
            return Answer(item.place, MISSED, "key_not_anchored")
        letter = Letter(parcel, anchor, item)
        gate = self._gates.setdefault(anchor.url, asyncio.Semaphore(self._in_flight))
        place = (anchor.url, letter.kind)
        line = self._lines.setdefault(place, {})
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        line[letter] = answer
        try:
            await asyncio.sleep(0)  # what is due at the same moment joins the line first
            async with gate:
                while letter in line:
                    await self._send_line(line)
            return await answer
        finally:
            line.pop(letter, None)
            if not line and self._lines.get(place) is line:
                del self._lines[place]

    async def _send_line(self, line: Line) -> None:
        """Send what has waited longest, as much as fits into a request."""
        letters = next(batches(line, Letter.size, TOGETHER_BYTES, TOGETHER))
        waiting = [line.pop(letter) for letter in letters]
        answers: Sequence[Answer | None] = [None] * len(letters)
        try:
            answers = await self._together(letters)
        finally:
            for future, answer in zip(waiting, answers, strict=True):
                if not future.done():
                    future.set_result(answer)

    async def _together(self, letters: Sequence[Letter]) -> Sequence[Answer | None]:
        refused = await self._stopped(letters)
        refused |= await self._introduced([letter for letter in letters if letter not in refused])
        letters_left = [letter for letter in letters if letter not in refused]
        answers = dict(zip(letters_left, await self._carried(letters_left), strict=True))
        return [{**refused, **answers}[letter] for letter in letters]

    async def _stopped(self, letters: Sequence[Letter]) -> dict[Letter, Answer | None]:
        """What is never sent, because a curator in it was stopped after it was sealed."""
        withheld = await self._stops.submit([letter.item.place for letter in letters])
        return {
            letter: Answer(letter.item.place, MISSED, Stopped.name)
            for letter in letters
            if letter.item.place in withheld
        }

    async def _carried(self, letters: Sequence[Letter]) -> Sequence[Answer | None]:
        if len(letters) > 1:
            carried = [
                Carried(letter.anchor, letter.parcel.round, self._body(letter))
                for letter in letters
            ]
            try:
                answered = await self._peers.upload_together(carried, letters[0].kind)
            except PeerUnavailable:
                return [None] * len(letters)
            except ProblemReceived as error:
                if error.retryable or error.status >= 500:
                    return [None] * len(letters)
                # else it may be about the first one's token, or the aggregator's own limits
            else:
                return [
                    await self._answered(letter, answer)
                    for letter, answer in zip(letters, answered, strict=True)
                ]
        return [await self._alone(letter) for letter in letters]

    async def _alone(self, letter: Letter) -> Answer | None:
        media_type, body = letter.item.media_type, self._body(letter)
        try:
            await self._peers.upload(letter.anchor, letter.path, media_type, body)
        except PeerUnavailable:
            return None
        except ProblemReceived as error:
            return await self._answer_to(letter, error)
        return self._sent(letter)

    async def _answered(self, letter: Letter, answer: ItemAnswer) -> Answer | None:
        """The answer to one of several, as if it had been sent alone."""
        if answer.status < 400:
            return self._sent(letter)
        problem = {"included": answer.included, "retryable": answer.status in RETRIED}
        error = ProblemReceived(answer.status, answer.problem or "", problem)
        return await self._answer_to(letter, error)

    def _sent(self, letter: Letter) -> Answer:
        if letter.item.session is not None:
            self._keyring.answered(*letter.session)
        return Answer(letter.item.place, SENT)

    # --- sessions --------------------------------------------------------------------------------

    def _unannounced(self, letter: Letter) -> bytes | None:
        """The announcement that has to go with it, if one has."""
        announce = letter.item.announce
        announced = announce is None or self._keyring.is_answered(*letter.session)
        return None if announced else announce

    def _body(self, letter: Letter) -> bytes:
        """What is sent: a piece includes its announcement. Sealed bytes never change."""
        announce, body = self._unannounced(letter), letter.item.body
        if announce is None or letter.kind == BATCHES:
            return body
        piece: dict[str, object] = cbor2.loads(body)
        return encode({**piece, "announce": cbor2.loads(announce)}, CBOR)

    async def _introduced(self, letters: Sequence[Letter]) -> dict[Letter, Answer | None]:
        """Announce the sessions of hosts' batches; the answers to those that cannot be sent."""
        refused: dict[Letter, Answer | None] = {}
        for letter in letters:
            announce = self._unannounced(letter)
            if announce is None or letter.kind != BATCHES:
                continue
            party, session = letter.session
            try:
                await self._peers.announce_session(letter.anchor, party, session, announce)
            except PeerUnavailable:
                refused[letter] = None
            except ProblemReceived as error:
                refused[letter] = await self._answer_to(letter, error)
            else:
                self._keyring.answered(party, session)
        return refused

    async def note(self, answers: Iterable[Answer | None]) -> bool:
        """Store the final answers of what was sent; whether all are."""
        answers_of_lot = list(answers)
        final = [answer for answer in answers_of_lot if answer is not None]
        if final:
            await self._notes.submit(final)
        return len(final) == len(answers_of_lot)

    async def finish(self, parcels: Sequence[Parcel]) -> None:
        """Close the contributions that were sent; pending ones are retried until the round no
        longer expects them. Refused contributions are not changed."""
        waiting = await self._closed(parcels)
        await asyncio.gather(*map(self._persist, waiting))

    async def _persist(self, parcel: Parcel) -> None:
        pause = self._retry_s
        while True:
            async with self._store.reading(large=True) as transaction:
                items = await outbox.pending(transaction, parcel.contribution)
                shown = await outbox.find_round(transaction, parcel.round)
                party = await party_store.party(transaction, parcel.party.id)
            assert party is not None
            parcel = replace(parcel, party=party)  # a token may have been renewed
            if not items:
                break
            outcome = None if shown is None else shown.outcome
            over = outcome is not None or self._clock.now() > parcel.deadline + self._grace
            answers: list[Answer | None] = [None] * len(items)
            if outcome == "released" or not over:
                # Of a released round an aggregator answers whether what it got is in the sum.
                answers = await asyncio.gather(*(self.send(parcel, item) for item in items))
            if over:
                answers = [
                    answer or Answer(item.place, MISSED, "gave_up")
                    for item, answer in zip(items, answers, strict=True)
                ]
            if not await self.note(answers):
                await asyncio.sleep(pause)
                pause = min(2 * pause, 30.0)
        await self._closed([parcel])

    async def _closed(self, parcels: Sequence[Parcel]) -> list[Parcel]:
        """Close the contributions of which everything was sent; returns those of which something
        is pending."""
        ended = await self._ends.submit(parcels)
        for parcel in parcels:
            state = ended.get(parcel.contribution, State.PREPARED)
            if state in (State.DELIVERED, State.MISSED):
                self._counted(state.value)
                _logger.info(
                    "delivered", party=parcel.party.logged, round=parcel.round, outcome=state.value
                )
        return [parcel for parcel in parcels if ended.get(parcel.contribution) is State.PREPARED]

    async def _end(
        self, transaction: Transaction, several: Sequence[Sequence[Parcel]]
    ) -> list[dict[int, State]]:
        """The current state of each contribution, except refused ones."""
        ids = [parcel.contribution for parcels in several for parcel in parcels]
        ended = {
            contribution: _state_of(bodies)
            for contribution, bodies in (await outbox.delivery_states(transaction, ids)).items()
        }
        for state in (State.DELIVERED, State.MISSED):
            closed = [contribution for contribution, ended_in in ended.items() if ended_in is state]
            await outbox.set_state(transaction, closed, state, self._clock.now())
        return [ended] * len(several)

    async def _answer_to(self, letter: Letter, error: ProblemReceived) -> Answer | None:
        parcel, place = letter.parcel, letter.item.place
        if error.name == "round_closed":
            included = error.problem.get("included") is True
            return Answer(place, SENT) if included else Answer(place, MISSED, error.name)
        if error.name == "unknown_session":
            self._keyring.unknown(*letter.session)
            return None
        if error.name in _RETRIED or error.retryable or error.status >= 500:
            return None
        _logger.warning(
            "upload_refused",
            party=parcel.party.logged,
            round=parcel.round,
            aggregator=place.aggregator,
            problem=error.name,
        )
        return Answer(place, MISSED, error.name)


def _state_of(bodies: Collection[str]) -> State:
    """The state of a contribution whose sealed bodies are in these."""
    if PENDING in bodies:
        return State.PREPARED
    return State.MISSED if MISSED in bodies else State.DELIVERED


async def _held(transaction: Transaction, several: Sequence[Sequence[Place]]) -> list[Set[Place]]:
    """What is never sent, of what several requests would send."""
    withheld = await stops.held(transaction, [place for places in several for place in places])
    return [withheld] * len(several)


async def _note(transaction: Transaction, several: Sequence[Sequence[Answer]]) -> list[None]:
    await outbox.mark_sent(transaction, [answer for answers in several for answer in answers])
    return [None] * len(several)


def _anchor(party: PartyRow, aggregator: str) -> Anchor | None:
    return next((a for a in party.anchors if a.aggregator == aggregator), None)
