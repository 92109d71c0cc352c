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
from itertools import accumulate, pairwise
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from common.principals import Principal, Scope
from common.runtime.clock import Clock, epoch_microseconds, from_epoch_microseconds
from common.store.database import exclusive
from common.store.transactions import LARGE_ROWS, Database, Transaction
from curator.errors import BadItem, ForeignCurator, UnknownCurator
from curator.intake.hosted_names import Hosted
from curator.intake.reading import MAX_STORED, Item, Times, parse_item, suits
from curator.ledger import presence_bits
from curator.settings import CuratorSettings
from curator.store import bulk_insert, history, intake_counts
from curator.store import parties as party_store
from curator.store import readings as store
from curator.store.blocks import Columns
from curator.store.bulk_insert import Meter, Total, insert_columns
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
        own = None if caller.has(Scope.OPERATOR) else caller.subject
        if named is None:
            named = own
        elif own is not None and named != own:
            raise ForeignCurator(pointer="/curator")
        if named is None:
            named = self.hosted.only
            if named is None:
                raise BadItem("several curators are hosted here: name one", pointer="/curator")
        key = self.hosted.curator(named)
        if key is None:
            raise UnknownCurator(pointer="/curator")
        return key, named

    def curators_of(self, names: Sequence[str], caller: Principal) -> dict[str, int]:
        """The keys of those of many names that `curator_of` would find for the caller."""
        if not caller.has(Scope.OPERATOR):
            names = [name for name in names if name == caller.subject]
        return self.hosted.curators(names)

    def randoms(self, count: int) -> list[int]:
        """Random ids that fix the order of readings of one instant, once and for all."""
        words: list[int] = self._words(count).tolist()
        return words

    def _words(self, count: int) -> Ints:
        return (self._random.words(count) >> np.uint64(1)).astype(np.int64)

    async def take(self, raws: Sequence[Any], caller: Principal) -> list[Answer]:
        """Store a batch; one answer per item, after the commit. `BadItem`s among the raw items
        are rejections that were found before."""
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
        async with self._store.begin(large=len(parsed) >= LARGE_ROWS) as transaction:
            if parsed:
                kept = await store.kept_registers(
                    transaction, [(item.register, UNITS[item.unit].base) for *_, item in parsed]
                )
                fitting = []
                for place in parsed:
                    index, *_, item = place
                    try:
                        suits(mismatch(item.register, item.unit, kept[item.register].base))
                        fitting.append(place)
                    except BadItem as error:
                        answers[index] = rejected(index, error)
                devices = await self.hosted.devices(
                    transaction, [(curator, device) for _, curator, device, _ in fitting]
                )
                for index, status in await self._write(transaction, fitting, devices, kept):
                    answers[index] = _answer(index, status)
            taken: dict[str, list[tuple[int, int]]] = {}
            newest: dict[tuple[int, int, int], int] = {}
            for index, curator, device, item in parsed:
                answer = answers[index]
                assert answer is not None
                tally[curator, TALLIES[answer.status]] += 1
                if answer.status is Status.ACCEPTED:
                    taken.setdefault(item.register, []).append((item.time, curator))
                    sender = (kept[item.register].key, devices[curator, device], curator)
                    newest[sender] = max(item.time, newest.get(sender, item.time))
            outcomes = Counter(_outcome(answer) for answer in answers if answer is not None)
            latest = [(*sender, time) for sender, time in newest.items()]
            await intake_counts.note(transaction, self._clock.now(), outcomes, latest)
            for register, places in taken.items():
                times, owners = zip(*places, strict=True)
                late = await after_release(transaction, register, times, owners)
                tally.update({(curator, REFRESHED): count for curator, count in late.items()})
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
        kept: dict[str, KeptRegister],
    ) -> list[tuple[int, Status]]:
        indices: list[int] = []
        rows: list[Row] = []
        corrections: set[int] = set()
        totals: dict[Meter, list[tuple[int, Sent]]] = {}
        owners: dict[int, int] = {}
        for (index, curator, device, item), random in zip(
            parsed, self.randoms(len(parsed)), strict=True
        ):
            place = (kept[item.register].key, item.time, devices[curator, device])
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
        result = await self._count(transaction, totals, owners)
        result += await self._insert(transaction, indices, rows, corrections)
        return result

    async def _count(
        self,
        transaction: Transaction,
        totals: dict[Meter, list[tuple[int, Sent]]],
        owners: dict[int, int],
    ) -> list[tuple[int, Status]]:
        sent = {meter: [item for _, item in totals_sent] for meter, totals_sent in totals.items()}
        statuses = await take_totals(transaction, sent, owners)
        return [
            (index, Status(status))
            for meter, totals_sent in totals.items()
            for (index, _), status in zip(totals_sent, statuses[meter], strict=True)
        ]

    async def _insert(
        self,
        transaction: Transaction,
        indices: Sequence[int],
        rows: Sequence[Row],
        corrections: set[int],
    ) -> list[tuple[int, Status]]:
        if not rows:
            return []
        order = sorted(range(len(rows)), key=lambda i: rows[i][:3])
        taken = await store.insert_readings(transaction, [rows[i] for i in order])
        statuses = dict.fromkeys(range(len(rows)), Status.ACCEPTED)
        corrected: list[Row] = []
        for position, same in sorted(taken):
            i = order[position]
            if same:
                statuses[i] = Status.DUPLICATE
            elif i in corrections:
                corrected.append(rows[i])
            else:
                statuses[i] = Status.CONFLICT
        await store.replace_readings(transaction, corrected)
        return [(indices[i], status) for i, status in statuses.items()]

    async def store_columns(
        self,
        columns: tuple[Ints, Ints, Ints, Ints],
        register: str,
        unit: str,
    ) -> Counter[Status]:
        """Bulk: (times, device keys, curator keys, quantities) of one register and unit, sorted by
        time and device. Answers how many were new, and how many not. Raises BadItem if the unit is
        not one of the register."""
        times, devices, owners, quantities = columns
        async with self._store.begin(large=times.size >= LARGE_ROWS) as transaction:
            kept = await store.kept_registers(transaction, [(register, UNITS[unit].base)])
            suits(mismatch(register, unit, kept[register].base))
            key = kept[register].key
            randoms = self._words(times.size)
            stored = await insert_columns(
                transaction, key, Columns(times, devices, owners, quantities, randoms)
            )
            conflicts = ~stored.stored & ~stored.same
            outcomes = {
                Status.ACCEPTED: stored.stored,
                Status.DUPLICATE: stored.same,
                Status.CONFLICT: conflicts,
            }
            keys, place = np.unique(owners, return_inverse=True)
            counts = np.zeros((keys.size, len(party_store.COUNTS)), np.int64)
            for status, members in outcomes.items():
                column = party_store.COUNTS.index(TALLIES[status])
                counts[:, column] = np.bincount(place[members], minlength=keys.size)
            new = stored.stored
            late = await after_release(transaction, register, times[new], owners[new])
            for owner, count in late.items():
                column = party_store.COUNTS.index(REFRESHED)
                counts[np.searchsorted(keys, owner), column] = count
            await party_store.count_readings(transaction, keys, counts)
            totals = Counter({status: int(members.sum()) for status, members in outcomes.items()})
            # They are sorted by time: the last of a device is its newest.
            _, last = np.unique(devices[::-1], return_index=True)
            last = times.size - 1 - last
            sent = (column[last].tolist() for column in (devices, owners, times))
            newest = [(key, *place) for place in zip(*sent, strict=True)]
            words = {status.value: count for status, count in totals.items()}
            await intake_counts.note(transaction, self._clock.now(), words, newest)
        return totals

    async def count_rejected(self, counts: Counter[int], rows: int) -> None:
        """Add rejections of an import to what owners see, by curator, and all its `rows` that were
        rejected to the flow of readings."""
        if not rows:
            return
        async with self._store.begin() as transaction:
            rejections = Counter(
                {(key, TALLIES[Status.REJECTED]): count for key, count in counts.items()}
            )
            await party_store.count_readings(transaction, *_tallies(rejections))
            await intake_counts.note(
                transaction, self._clock.now(), {intake_counts.IN_A_FILE: rows}, ()
            )

    async def make_devices(self, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """Keys of devices, durable."""
        async with self._store.begin(large=len(wanted) >= LARGE_ROWS) as transaction:
            made = await self.hosted.devices(transaction, wanted)
        self.hosted.remember(made)
        return made


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
    """The items of several requests in one transaction; the answers of each, counted from 0."""
    answers = await intake.take_sent([(raw, caller) for raws, caller in requests for raw in raws])
    answers_of, begin = [], 0
    for raws, _ in requests:
        own = answers[begin : begin + len(raws)]
        answers_of.append([replace(answer, index=answer.index - begin) for answer in own])
        begin += len(raws)
    return answers_of


# Counters (`total_increasing`): what is summed is the difference to the reading before,
#
#     delta = total(next) - total(t), booked at t, where its interval begins
#
# - The newest reading of a counter gives no delta yet.
# - A smaller total is a rollover if the item declares the counter's size (`rollover`) and the delta
#   across the end is below half of it; otherwise the meter was replaced or reset: the new one
#   counts from zero, so the delta is the new total. What the old meter counted after its last
#   reading is lost.
# - A dip is passed over: readings below the one before them, where the counter is back at that one
#   or above within an hour. A device that restarts sends 0 until it has read its meter; two devices
#   with one id do the same. The step across is booked before the dip, and nothing in it. A counter
#   that was really reset and passed its old total within the hour is booked too low, by that total.
# - A late reading splits the interval that contains it: the delta before it is computed again, and
#   where it ends a dip, those of the dip; a contribution that was made before is not changed.
# - A step beyond what a reading can be (2^61 nano-units) is booked as that.

DIP_US: Final = 3600 * 10**6
ACCEPTED, DUPLICATE, CONFLICT = "accepted", "duplicate", "conflict"


def difference(before: int, now: int, rollover: int | None) -> int:
    """What a counter counted between two readings, by the rules above."""
    step = now
    if now >= before:
        step = now - before
    elif rollover is not None and 2 * (now + rollover - before) < rollover:
        step = now + rollover - before
    return min(step, MAX_STORED)


def _dips(totals: Sequence[Total]) -> list[bool]:
    """Which readings are in a dip, of a counter's in their order."""
    begun = [0] * (len(totals) + 1)
    waiting: list[int] = []  # readings that no later one has reached; their totals descend
    for place, (time, total, _) in enumerate(totals):
        while waiting and totals[waiting[-1]][1] <= total:
            before = waiting.pop()
            if place > before + 1 and time - totals[before][0] <= DIP_US:
                begun[before + 1] += 1
                begun[place] -= 1
        waiting.append(place)
    return [depth > 0 for depth in accumulate(begun[:-1])]


def deltas_of(totals: Sequence[Total]) -> dict[int, int]:
    """What a counter counted from each reading on, by its time."""
    dips = _dips(totals)
    deltas = {total[0]: 0 for total, dip in zip(totals, dips, strict=True) if dip}
    valid = [total for total, dip in zip(totals, dips, strict=True) if not dip]
    for before, after in pairwise(valid):
        deltas[before[0]] = difference(before[1], after[1], after[2])
    return deltas


@dataclass(frozen=True)
class Sent:
    """A counter's reading as received. `random` fixes the place of its delta in the order."""

    time: int
    total: int
    rollover: int | None
    random: int
    correction: bool = False


@dataclass(frozen=True)
class Merged:
    """Readings of one counter, merged: a status each, new totals, deltas by their time."""

    statuses: tuple[str, ...]
    totals: tuple[Total, ...]
    deltas: tuple[tuple[int, int], ...]


def merge_totals(known: Sequence[Total], sent: Sequence[Sent]) -> Merged:
    """Merge readings, in order, with the known ones around them; the result is the same as if they
    arrived one after the other, in any order. Only deltas that change are returned."""
    earlier = deltas_of(known)
    totals = {time: (total, rollover) for time, total, rollover in known}
    new: set[int] = set()
    statuses = []
    for meter in sent:
        there = totals.get(meter.time)
        if there is not None and there[0] == meter.total:
            statuses.append(DUPLICATE)
        elif there is not None and not meter.correction:
            statuses.append(CONFLICT)
        else:
            totals[meter.time] = (meter.total, meter.rollover)
            new.add(meter.time)
            statuses.append(ACCEPTED)
    now = deltas_of([(time, *totals[time]) for time in sorted(totals)])
    deltas = tuple((time, now[time]) for time in sorted(now) if earlier.get(time) != now[time])
    return Merged(tuple(statuses), tuple((time, *totals[time]) for time in sorted(new)), deltas)


async def _around(transaction: Transaction, meter: Meter, sent: Sequence[Sent]) -> list[Total]:
    """The known readings on which what is booked may depend: the neighbours of those sent, or two
    hours on both sides where there may be a dip (a reading in one depends on others within one)."""
    first, last = min(each.time for each in sent), max(each.time for each in sent)
    near = await bulk_insert.around(transaction, meter, first, last)
    order = sorted([(time, total) for time, total, _ in near] + [(s.time, s.total) for s in sent])
    highest = await bulk_insert.highest(transaction, meter, first - DIP_US, first)
    ascending = all(before[1] <= after[1] for before, after in pairwise(order))
    if ascending and highest <= order[0][1] and not any(each.correction for each in sent):
        return near
    wide = (first - 2 * DIP_US, last + 2 * DIP_US)
    return await bulk_insert.around(transaction, meter, *wide)


async def take_totals(
    transaction: Transaction, sent: dict[Meter, list[Sent]], curators: dict[int, int]
) -> dict[Meter, tuple[str, ...]]:
    """Store readings of many counters and the resulting deltas; a status each. `curators` maps each
    device to its curator."""
    statuses: dict[Meter, tuple[str, ...]] = {}
    totals: list[tuple[Meter, Total]] = []
    rows: list[Row] = []
    for meter in sorted(sent):  # everybody locks in the same order
        device, register = meter
        await exclusive(transaction, f"counter {device}")
        around = await _around(transaction, meter, sent[meter])
        merged = merge_totals(around, sent[meter])
        statuses[meter] = merged.statuses
        totals += [(meter, total) for total in merged.totals]
        randoms = {total.time: total.random for total in sent[meter]}
        spare = sent[meter][0].random ^ 1
        rows += [
            (register, time, device, curators[device], delta, randoms.get(time, spare), None)
            for time, delta in merged.deltas
        ]
    await bulk_insert.put_totals(transaction, totals)
    await bulk_insert.put_readings(transaction, rows)
    return statuses


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
) -> Counter[int]:
    """How many of these readings are in a window that their curator has contributed before.

    `times`: microseconds since 1970; `owners`: curator keys, one each.
    """
    if not len(times):
        return Counter()
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
    curators, counts = np.unique(keys[late], return_counts=True)
    return Counter(dict(zip(curators.tolist(), counts.tolist(), strict=True)))
