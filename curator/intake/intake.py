"""Intake of readings: who may send them, where they are stored, the outcome of each.

Idempotent by (device, register, time): the same content again is a `duplicate`, other content a
`conflict`. Of counters (`total_increasing`) the differences are summed:

     delta = total(next) - total(t), booked at t, where its interval begins

Readings that arrive or change after their window was contributed are counted for their owner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from common.principals import Principal, Scope
from common.runtime.clock import Clock, epoch_microseconds, from_epoch_microseconds
from common.store.transactions import LARGE_ROWS, Database, Transaction
from curator.errors import BadItem, ForeignCurator, UnknownCurator
from curator.intake.counters import OUTCOMES, Meter, Sent, take_columns, take_totals
from curator.intake.hosted_names import Hosted
from curator.intake.reading import Item, Times, parse_item, suits
from curator.ledger import presence_bits
from curator.settings import CuratorSettings
from curator.store import history, intake_counts
from curator.store import parties as party_store
from curator.store import readings as store
from curator.store.blocks import Columns
from curator.store.bulk_insert import insert_columns
from curator.store.readings import KeptRegister, Row
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.randomness import SecureRandom
from tacit.units import UNITS, Kind, mismatch


class Status(StrEnum):
    """The outcome of one item."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    REJECTED = "rejected"


TALLIES = {
    Status.ACCEPTED: "accepted",
    Status.DUPLICATE: "duplicates",
    Status.CONFLICT: "conflicts",
    Status.REJECTED: "rejected",
}
REFRESHED = "refreshed"
Ints = NDArray[np.int64]
Sender = tuple[int, int, int]
"""Keys of register, device and curator."""


@dataclass(frozen=True)
class Answer:
    """The answer to one item, in the order in which they were sent."""

    index: int
    status: Status
    problem: str | None = None
    detail: str | None = None
    pointer: str | None = None
    errors: tuple[Mapping[str, Any], ...] = ()
    """All bad fields (pointer, detail), where there are several."""

    def document(self) -> dict[str, Any]:
        """The answer as JSON values."""
        answer: dict[str, Any] = {"index": self.index, "status": self.status.value}
        if self.problem is not None:
            answer["problem"] = {
                "name": self.problem,
                "detail": self.detail,
                "pointer": self.pointer,
            }
            if self.errors:
                answer["problem"]["errors"] = list(self.errors)
        return answer


def rejected(index: int, error: BadItem | UnknownCurator | ForeignCurator) -> Answer:
    """The answer to an item that cannot be stored."""
    errors = cast(Sequence[Mapping[str, Any]], error.extra.get("errors", ()))
    return Answer(index, Status.REJECTED, error.name, error.detail, error.pointer, tuple(errors))


class Intake:
    """Stores readings, from single items to files."""

    def __init__(self, database: Database, clock: Clock, settings: CuratorSettings) -> None:
        self._store, self._clock, self._settings = database, clock, settings
        self.hosted = Hosted()
        self._random = SecureRandom()

    async def look(self) -> None:
        """Load curators and devices that other processes of this service added."""
        if self._store.dialect.name == "postgresql":
            async with self._store.reading() as transaction:
                await self.hosted.load(transaction)

    @property
    def times(self) -> Times:
        """Which times a reading may have."""
        tolerance = round(self._settings.future_tolerance_s * 1e6)
        return Times(
            epoch_microseconds(self._settings.earliest_reading),
            epoch_microseconds(self._clock.now()) + tolerance,
        )

    def parse(self, raw: Any, caller: Principal, times: Times) -> tuple[int, str, Item]:
        """Curator key, device id and the item. Raises a domain error that states the fault."""
        item = parse_item(raw, times, self._settings.max_values)
        key, name = self.curator_of(item.curator, caller)
        return key, item.device or name, item

    def curator_of(self, named: str | None, caller: Principal) -> tuple[int, str]:
        """Key and name of the reading's curator; checks that the caller may send for it."""
        own_curator = None if caller.has(Scope.OPERATOR) else caller.subject
        if named is None:
            named = own_curator
        elif own_curator is not None and named != own_curator:
            raise ForeignCurator(pointer="/curator")
        if named is None:
            named = self.hosted.only
            if named is None:
                raise BadItem("several curators are hosted here: name one", pointer="/curator")
        key = self.hosted.curator(named)
        if key is None:
            raise UnknownCurator(pointer="/curator")
        return key, named

    def hosts(self, name: str) -> bool:
        """Whether a curator of this name is hosted here."""
        return self.hosted.curator(name) is not None

    def curators_of(self, names: Sequence[str], caller: Principal) -> dict[str, int]:
        """The keys of those of many names for which `curator_of` would return one to the caller."""
        if not caller.has(Scope.OPERATOR):
            names = [name for name in names if name == caller.subject]
        return self.hosted.curators(names)

    def randoms(self, count: int) -> list[int]:
        """Random ids that fix the order of readings of one instant permanently."""
        words: list[int] = self._words(count).tolist()
        return words

    def _words(self, count: int) -> Ints:
        return (self._random.words(count) >> np.uint64(1)).astype(np.int64)

    async def take(self, raws: Sequence[Any], caller: Principal) -> list[Answer]:
        """Store a batch; one answer per item, after the commit. `BadItem`s among the raw items
        are earlier rejections."""
        return await self.take_sent([(raw, caller) for raw in raws])

    async def take_sent(self, sent: Sequence[tuple[Any, Principal]]) -> list[Answer]:
        """The same for items of many senders, in one transaction."""
        await self.look()
        allowed = self.times
        answers: list[Answer | None] = [None] * len(sent)
        parsed: list[tuple[int, int, str, Item]] = []
        tally: Counter[tuple[int, str]] = Counter()
        for index, (raw, caller) in enumerate(sent):
            try:
                if isinstance(raw, BadItem):
                    raise raw
                parsed.append((index, *self.parse(raw, caller, allowed)))
            except (BadItem, UnknownCurator, ForeignCurator) as error:
                answers[index] = rejected(index, error)
                self._tally_rejection(raw, caller, tally)
        devices: dict[tuple[int, str], int] = {}
        corrected: set[int] = set()
        async with self._store.begin(large=len(parsed) >= LARGE_ROWS) as transaction:
            touched = {curator for _, curator, *_ in parsed} | {curator for curator, _ in tally}
            shard = await store.lock_curators(transaction, touched)
            if parsed:
                registers = await store.kept_registers(
                    transaction, [(item.register, UNITS[item.unit].base) for *_, item in parsed]
                )
                fitting = []
                for place in parsed:
                    index, *_, item = place
                    try:
                        suits(mismatch(item.register, item.unit, registers[item.register].base))
                        fitting.append(place)
                    except BadItem as error:
                        answers[index] = rejected(index, error)
                devices = await self.hosted.devices(
                    transaction, [(curator, device) for _, curator, device, _ in fitting]
                )
                statuses, corrected = await self._write(transaction, fitting, devices, registers)
                for index, status in statuses:
                    answers[index] = _answer(index, status)
            writes: dict[str, list[tuple[int, int, Sender]]] = {}
            spans: dict[Sender, tuple[int, int]] = {}
            duplicates, corrections, lates = (Counter[Sender]() for _ in range(3))
            for index, curator, device, item in parsed:
                answer = answers[index]
                assert answer is not None
                tally[curator, TALLIES[answer.status]] += 1
                if answer.status not in (Status.ACCEPTED, Status.DUPLICATE):
                    continue
                sender = (registers[item.register].key, devices[curator, device], curator)
                first, last = spans.get(sender, (item.time, item.time))
                spans[sender] = min(first, item.time), max(last, item.time)
                if answer.status is Status.DUPLICATE:
                    duplicates[sender] += 1
                    continue
                corrections[sender] += index in corrected
                writes.setdefault(item.register, []).append((item.time, curator, sender))
            for register, places in writes.items():
                times, owners, senders = zip(*places, strict=True)
                late = await after_release(transaction, register, times, owners)
                for number in np.flatnonzero(late).tolist():
                    tally[owners[number], REFRESHED] += 1
                    lates[senders[number]] += 1
            outcomes = Counter(_outcome(answer) for answer in answers if answer is not None)
            latest = [
                (*sender, *span, duplicates[sender], corrections[sender], lates[sender])
                for sender, span in spans.items()
            ]
            await intake_counts.note(transaction, self._clock.now(), shard, outcomes, latest)
            await party_store.count_readings(transaction, *_tallies(tally))
        self.hosted.remember(devices)
        return [answer for answer in answers if answer is not None]

    def _tally_rejection(
        self, raw: Any, caller: Principal, tally: Counter[tuple[int, str]]
    ) -> None:
        named = raw.get("curator") if isinstance(raw, dict) else None
        try:
            key, _ = self.curator_of(named if isinstance(named, str) else None, caller)
        except (BadItem, UnknownCurator, ForeignCurator):
            return
        tally[key, TALLIES[Status.REJECTED]] += 1

    async def _write(
        self,
        transaction: Transaction,
        parsed: Sequence[tuple[int, int, str, Item]],
        devices: dict[tuple[int, str], int],
        registers: dict[str, KeptRegister],
    ) -> tuple[list[tuple[int, Status]], set[int]]:
        """A status for each item, and which replaced another reading, by the item's index."""
        indices: list[int] = []
        rows: list[Row] = []
        corrections: set[int] = set()
        totals: dict[Meter, list[tuple[int, Sent]]] = {}
        owners: dict[int, int] = {}
        for (index, curator, device, item), random in zip(
            parsed, self.randoms(len(parsed)), strict=True
        ):
            place = (registers[item.register].key, item.time, devices[curator, device])
            correction = item.correction and self._settings.allow_corrections
            if item.kind is Kind.TOTAL_INCREASING:
                sent = Sent(item.time, item.quantity, item.rollover, random, correction)
                totals.setdefault((place[2], place[0]), []).append((index, sent))
                owners[place[2]] = curator
                continue
            if correction:
                corrections.add(len(rows))
            indices.append(index)
            rows.append((*place, curator, item.quantity, random, _vector(item)))
        result, corrected = await self._count(transaction, totals, owners)
        inserted, replaced = await self._insert(transaction, indices, rows, corrections)
        return result + inserted, corrected | replaced

    async def _count(
        self,
        transaction: Transaction,
        totals: dict[Meter, list[tuple[int, Sent]]],
        owners: dict[int, int],
    ) -> tuple[list[tuple[int, Status]], set[int]]:
        sent = {meter: [item for _, item in totals_sent] for meter, totals_sent in totals.items()}
        merged = await take_totals(transaction, sent, owners)
        result: list[tuple[int, Status]] = []
        corrected: set[int] = set()
        for meter, totals_sent in totals.items():
            indices = [index for index, _ in totals_sent]
            statuses = map(Status, merged[meter].statuses)
            result += zip(indices, statuses, strict=True)
            corrected.update(indices[place] for place in merged[meter].corrected)
        return result, corrected

    async def _insert(
        self,
        transaction: Transaction,
        indices: Sequence[int],
        rows: Sequence[Row],
        corrections: set[int],
    ) -> tuple[list[tuple[int, Status]], set[int]]:
        if not rows:
            return [], set()
        order = sorted(range(len(rows)), key=lambda i: rows[i][:3])
        conflicting = await store.insert_readings(transaction, [rows[i] for i in order])
        statuses = dict.fromkeys(range(len(rows)), Status.ACCEPTED)
        corrected: list[int] = []
        for position, same in sorted(conflicting):
            i = order[position]
            if same:
                statuses[i] = Status.DUPLICATE
            elif i in corrections:
                corrected.append(i)
            else:
                statuses[i] = Status.CONFLICT
        await store.replace_readings(transaction, [rows[i] for i in corrected])
        result = [(indices[i], status) for i, status in statuses.items()]
        return result, {indices[i] for i in corrected}

    async def store_columns(
        self,
        columns: tuple[Ints, Ints, Ints, Ints],
        register: str,
        unit: str,
    ) -> Counter[Status]:
        """Bulk: (times, device keys, curator keys, quantities) of one register and unit, sorted by
        time and device.

        Returns how many were new, and how many not. Raises BadItem if the unit does not fit the
        register.
        """
        times, devices, owners, quantities = columns
        async with self._store.begin(large=times.size >= LARGE_ROWS) as transaction:
            shard = await store.lock_curators(transaction, owners)
            registers = await store.kept_registers(transaction, [(register, UNITS[unit].base)])
            suits(mismatch(register, unit, registers[register].base))
            key = registers[register].key
            randoms = self._words(times.size)
            stored = await insert_columns(
                transaction, key, Columns(times, devices, owners, quantities, randoms)
            )
            outcomes = {
                Status.ACCEPTED: stored.stored,
                Status.DUPLICATE: stored.same,
                Status.CONFLICT: ~stored.stored & ~stored.same,
            }
            await self._note_columns(transaction, shard, (register, key), columns, outcomes)
        return _counted(outcomes)

    async def store_totals(
        self,
        columns: tuple[Ints, Ints, Ints, Ints],
        register: str,
        unit: str,
        rollover: int | None,
    ) -> Counter[Status]:
        """As `store_columns` for totals of counters, whose differences are recorded. `rollover`
        in nano-units."""
        times, devices, owners, totals = columns
        async with self._store.begin(large=times.size >= LARGE_ROWS) as transaction:
            shard = await store.lock_curators(transaction, owners)
            registers = await store.kept_registers(transaction, [(register, UNITS[unit].base)])
            suits(mismatch(register, unit, registers[register].base))
            key = registers[register].key
            columns_sent = Columns(times, devices, owners, totals, self._words(times.size))
            outcome_of = await take_columns(transaction, key, columns_sent, rollover)
            outcomes = {Status(name): outcome_of == at for at, name in enumerate(OUTCOMES)}
            await self._note_columns(transaction, shard, (register, key), columns, outcomes)
        return _counted(outcomes)

    async def _note_columns(
        self,
        transaction: Transaction,
        shard: int,
        register: tuple[str, int],
        columns: tuple[Ints, Ints, Ints, Ints],
        outcomes: Mapping[Status, NDArray[np.bool_]],
    ) -> None:
        """Count readings by outcome, for their owners and for the flow of readings."""
        times, devices, owners, _ = columns
        keys, place = np.unique(owners, return_inverse=True)
        counts = np.zeros((keys.size, len(party_store.COUNTS)), np.int64)
        for status, members in outcomes.items():
            column = party_store.COUNTS.index(TALLIES[status])
            counts[:, column] = np.bincount(place[members], minlength=keys.size)
        new = outcomes[Status.ACCEPTED]
        late = new.copy()
        late[new] = await after_release(transaction, register[0], times[new], owners[new])
        column = party_store.COUNTS.index(REFRESHED)
        counts[:, column] = np.bincount(place[late], minlength=keys.size)
        await party_store.count_readings(transaction, keys, counts)
        # They are sorted by time: the last of a device is its newest.
        senders, first, place = np.unique(devices, return_index=True, return_inverse=True)
        _, last = np.unique(devices[::-1], return_index=True)
        sent = [senders, owners[first], times[first], times[::-1][last]]
        none = np.zeros(times.size, np.bool_)
        for members in (outcomes[Status.DUPLICATE], none, late):  # no import corrects
            sent.append(np.bincount(place[members], minlength=senders.size))
        rows = zip(*(column.tolist() for column in sent), strict=True)
        newest = [(register[1], *row) for row in rows]
        words = {status.value: count for status, count in _counted(outcomes).items()}
        await intake_counts.note(transaction, self._clock.now(), shard, words, newest)

    async def count_rejected(self, counts: Counter[int], rows: int) -> None:
        """Add the rejections of an import: by curator to what owners see, and all `rows` to the
        flow of readings."""
        if not rows:
            return
        async with self._store.begin() as transaction:
            rejections = Counter(
                {(key, TALLIES[Status.REJECTED]): count for key, count in counts.items()}
            )
            shard = await store.lock_curators(transaction, counts)
            await party_store.count_readings(transaction, *_tallies(rejections))
            in_a_file = {intake_counts.IN_A_FILE: rows}
            await intake_counts.note(transaction, self._clock.now(), shard, in_a_file, ())

    async def make_devices(self, pairs: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """Keys of devices, durable."""
        async with self._store.begin(large=len(pairs) >= LARGE_ROWS) as transaction:
            key_of = await self.hosted.devices(transaction, pairs)
        self.hosted.remember(key_of)
        return key_of


def _counted(outcomes: Mapping[Status, NDArray[np.bool_]]) -> Counter[Status]:
    return Counter({status: int(members.sum()) for status, members in outcomes.items()})


def _vector(item: Item) -> bytes | None:
    return None if item.vector is None else np.array(item.vector, "<i8").tobytes()


def _answer(index: int, status: Status) -> Answer:
    if status is Status.CONFLICT:
        return Answer(
            index,
            status,
            "reading_conflict",
            "another reading of this device, register and time is stored",
            "/time",
        )
    return Answer(index, status)


def _outcome(answer: Answer) -> str:
    """Its name in the hourly counts: of a rejection, the reason."""
    rejected_because = answer.problem if answer.status is Status.REJECTED else None
    return rejected_because or answer.status.value


def _tallies(tally: Counter[tuple[int, str]]) -> tuple[Ints, Ints]:
    """Curator keys, ascending, and what to add to each of their counts."""
    keys = np.unique(np.array([key for key, _ in tally], np.int64))
    counts = np.zeros((keys.size, len(party_store.COUNTS)), np.int64)
    for (key, name), count in tally.items():
        counts[np.searchsorted(keys, key), party_store.COUNTS.index(name)] += count
    return keys, counts


async def together(
    intake: Intake, requests: Sequence[tuple[Sequence[Any], Principal]]
) -> list[list[Answer]]:
    """Store the items of several requests in one transaction; the answers of each, counted from
    0."""
    answers = await intake.take_sent([(raw, caller) for raws, caller in requests for raw in raws])
    answers_of, begin = [], 0
    for raws, _ in requests:
        answers_of_request = answers[begin : begin + len(raws)]
        answers_of.append(
            [replace(answer, index=answer.index - begin) for answer in answers_of_request]
        )
        begin += len(raws)
    return answers_of


# Readings that arrive or are corrected after a round used their window: released sums stay, and no
# budget returns. They are counted, visible only to the curator's owner: the count depends on data.


@lru_cache(maxsize=256)
def _register(descriptor: str) -> str:
    signed = Signed[RoundDescriptor].model_validate_json(descriptor)
    return signed.statement.query.register_name


async def after_release(
    transaction: Transaction,
    register: str,
    times: Sequence[int] | Ints,
    owners: Sequence[int] | Ints,
) -> NDArray[np.bool_]:
    """Which of these readings are in a window to which their curator has contributed already.
    `times`: microseconds since 1970; `owners`: curator keys, one each."""
    if not len(times):
        return np.zeros(0, np.bool_)
    at, keys = np.array(times, np.int64), np.array(owners, np.int64)
    first, last = (from_epoch_microseconds(int(value)) for value in (at.min(), at.max()))
    late = np.zeros(at.size, np.bool_)
    for row in await history.contributed_spans(transaction, first, last):
        if _register(row.descriptor) != register:
            continue
        place = keys - (row.first_key + row.offset)
        start, end = epoch_microseconds(row.window_start), epoch_microseconds(row.window_end)
        inside = (at >= start) & (at < end) & (place >= 0) & (place < row.length)
        present = presence_bits(row.presence, row.length)
        late[inside] |= present[place[inside]]
    return late
