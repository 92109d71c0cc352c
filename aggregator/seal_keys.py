"""Seal keys: made at first use, used until they end by this aggregator's own clock, then destroyed.

A key of a period serves all rounds of that time; a round may have its own key. The private half is
a seed, stored under a wrapping key, which is a separate file in the key directory: a key dies when
that file is overwritten and removed, and its row is updated after that. So the database, its log,
its free pages, archives and backups open nothing without the directory, which may be in memory.
Every sweep repeats each step of a destruction until it is done. No key enters a log or an answer.
`SessionCache` keeps the keys of sessions under a seal key in memory, bounded. Spec: keys, sections
2.1 and 2.4.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from aggregator.errors import SealKeyGone, SealKeyUnavailable, TooManySealKeys
from aggregator.store import seal_keys as store
from aggregator.store.seal_keys import KeyState, Limits, SealKeyRow
from common.runtime.clock import Clock
from common.runtime.process import make_private_directory
from common.store.database import exclusive
from common.store.own_identities import OwnIdentities
from common.store.transactions import Database, Transaction
from tacit.crypto.sealing import NONCE_BYTES, SealBroken, SealKey, length_prefixed, seal_octets
from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.errors import StartRefused
from tacit.protocol.proved_rounds import SECRET_BYTES
from tacit.protocol.sealing_sessions import SEAL_KEY_LABEL, SealKeyStatement
from tacit.protocol.trust import LASTING_SEAL_KEY_LABEL

WRAPPING_BYTES: Final = 32
_SUFFIX: Final = ".kek"
_GENERATION: Final = "generation"
_OWNER: Final = "owner"


class KeyDirectoryTaken(StartRefused):
    """The directory of wrapping keys belongs to another aggregator."""


class KeyDirectory:
    """Wrapping keys by number, and the highest number that was ever published. Replicas share it.

    Every change is on the disk when a method returns.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def claim(self, owner: str) -> None:
        """Record the directory's owner. Raises KeyDirectoryTaken if it is another aggregator, as
        both would use the same numbers."""
        make_private_directory(self._path)
        try:
            self._write(self._path / _OWNER, owner.encode())
        except FileExistsError:
            if (self._path / _OWNER).read_text() != owner:
                raise KeyDirectoryTaken("the key directory is another aggregator's") from None

    def make(self, number: int) -> bytes:
        """A new wrapping key, in place of a file of this number that was never used."""
        make_private_directory(self._path)
        self.destroy(number)
        content = os.urandom(WRAPPING_BYTES)
        self._write(self._file(number), content)
        return content

    def read(self, number: int) -> bytes | None:
        """The wrapping key of this number; None where there is none."""
        try:
            return self._file(number).read_bytes()
        except FileNotFoundError:
            return None

    def destroy(self, number: int) -> None:
        """Overwrite the file of this number, and remove it; nothing if there is none."""
        path = self._file(number)
        try:
            descriptor = os.open(path, os.O_WRONLY)
        except FileNotFoundError:
            return
        try:
            os.write(descriptor, bytes(WRAPPING_BYTES))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        path.unlink(missing_ok=True)
        self._sync()

    def numbers(self) -> tuple[int, ...]:
        """The numbers of all files."""
        if not self._path.is_dir():
            return ()
        names = (path.name.removesuffix(_SUFFIX) for path in self._path.glob(f"*{_SUFFIX}"))
        return tuple(sorted(int(name) for name in names if name.isdecimal()))

    def generation(self) -> int:
        """The highest number that was ever published from here; 0 before the first."""
        try:
            return int((self._path / _GENERATION).read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def published(self, number: int) -> None:
        """Record that a number was published. It only rises."""
        make_private_directory(self._path)
        with self._alone():
            if number <= self.generation():
                return
            draft = self._path / f"{_GENERATION}.draft"
            draft.unlink(missing_ok=True)
            self._write(draft, str(number).encode())
            draft.replace(self._path / _GENERATION)
            self._sync()

    def _file(self, number: int) -> Path:
        return self._path / f"{number}{_SUFFIX}"

    def _write(self, path: Path, content: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._sync()

    def _sync(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Replicas may publish at the same time."""
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


WRAPPED_BYTES: Final = 60
"""Nonce, key and tag of a wrapped key."""
_LABEL: Final = b"tacit wrapped key v1"


class Wrapping:
    """Seals the secrets of one seal key, each in its place, under its wrapping key."""

    def __init__(self, wrapping_key: bytes, party: str, number: int, key_hash: bytes) -> None:
        self._key = wrapping_key
        self._place = length_prefixed(_LABEL, party.encode(), str(number).encode(), key_hash)
        self._cipher = AESGCM(wrapping_key)

    def wrap(self, name: str, secret: bytes) -> bytes:
        """A secret of 32 bytes, sealed under this name."""
        nonce, sealed = seal_octets(self._key, secret, self._place + name.encode())
        return nonce + sealed

    def unwrap(self, name: str, wrapped: bytes) -> bytes:
        """The secret of this name. Raises SealBroken."""
        place = self._place + name.encode()
        try:
            return self._cipher.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], place)
        except (InvalidTag, ValueError):
            raise SealBroken("the wrapping key does not open it") from None


@dataclass(frozen=True, slots=True)
class HeldSession:
    """A session of a party: its key, plain and wrapped. `fresh`: not stored yet."""

    id: bytes
    key: bytes = field(repr=False)
    wrapped: bytes
    fresh: bool = False


class SessionCache:
    """The sessions of one seal key that were used last, by the party's key in the store."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._held: OrderedDict[tuple[int, bytes], HeldSession] = OrderedDict()

    def get(self, party: int, session: bytes) -> HeldSession | None:
        """A stored session, if it is in memory."""
        return self._held.get((party, session))

    def put(self, party: int, session: HeldSession) -> None:
        """Keep one that is stored."""
        self._held[party, session.id] = session
        while len(self._held) > self._capacity:
            self._held.popitem(last=False)


UNUSED_S: Final = 900
"""How long a round's key waits for its round."""
MOST_WAITING: Final = 64
OVERDUE_S: Final = 3600
_AT_ONCE: Final = 20_000
"""Sessions that are deleted in one transaction, for which pieces wait."""
_LOCK: Final = "seal key"
_SignedKey = Signed[SealKeyStatement]


@dataclass(frozen=True)
class SealSecret:
    """A seal key that is not destroyed, with all that opens with it."""

    number: int
    signed: Signed[SealKeyStatement]
    key: SealKey = field(repr=False)
    verification_secret: bytes = field(repr=False)
    identity_key: bytes
    """Of the identity that signed it: sessions under it name that one."""
    wrapping: Wrapping = field(repr=False)
    sessions: SessionCache = field(repr=False, compare=False)


@dataclass(frozen=True)
class Periods:
    """How long keys are used: the length of a period, the grace after it in which a key may open
    a new round, the longest time after it that a live round keeps a key, and the longest round."""

    period_s: int
    grace_s: int
    hold_s: int
    longest_round_s: int


class SealKeyring:
    """The seal keys in use. `directory`: that of their wrapping keys."""

    def __init__(
        self,
        database: Database,
        identities: OwnIdentities,
        party: str,
        clock: Clock,
        directory: KeyDirectory,
        periods: Periods,
        *,
        capacity: int,
    ) -> None:
        self._database = database
        self._identities = identities
        self._party = party
        self._clock = clock
        self._directory = directory
        self._periods = periods
        self._capacity = capacity
        self._held: dict[int, SealSecret] = {}
        self._dying: set[int] = set()
        """Nothing loads these any more."""
        self._lasting: OrderedDict[bytes, Signed[SealKeyStatement]] = OrderedDict()

    # --- using ---

    async def current(self) -> Signed[SealKeyStatement]:
        """The signed key of the current period, made at its first use."""
        now = self._clock.now()
        async with self._database.reading() as transaction:
            row = await store.newest(transaction, now)
        if row is None or not await asyncio.to_thread(self._opens, row):
            async with self._alone() as transaction:
                row = await store.newest(transaction, now)
                if row is None or not await asyncio.to_thread(self._opens, row):
                    until = now + timedelta(seconds=self._periods.period_s)
                    row = await self._make(transaction, until, None)
        return await self._published(row)

    async def for_round(self, round_id: str) -> Signed[SealKeyStatement]:
        """The signed key of one round, made at the first request. Raises TooManySealKeys, and
        SealKeyGone after its end."""
        async with self._alone() as transaction:
            row = await store.by_round(transaction, round_id)
            if row is None:
                if await store.count_waiting(transaction) >= MOST_WAITING:
                    raise TooManySealKeys(extra={"most": MOST_WAITING})
                until = self._clock.now() + timedelta(seconds=self._periods.longest_round_s)
                row = await self._make(transaction, until, round_id)
            elif row.state is KeyState.DESTROYED:
                raise SealKeyGone
        return await self._published(row)

    async def rotate(self) -> tuple[Signed[SealKeyStatement], tuple[int, ...]]:
        """Retire the keys of periods now, whatever their time, and make the next: the signed new
        one, and the numbers of those not destroyed yet."""
        async with self._alone() as transaction:
            retired = await store.retire_periods(transaction)
            until = self._clock.now() + timedelta(seconds=self._periods.period_s)
            row = await self._make(transaction, until, None)
        return await self._published(row), retired

    async def of(self, number: int) -> SealSecret:
        """A key that is not destroyed. Raises SealKeyGone; SealKeyUnavailable if only another
        replica has its wrapping file."""
        if number in self._dying:
            raise SealKeyGone
        if number not in self._held:
            row = await self._database.read(
                lambda transaction: store.by_number(transaction, number)
            )
            if row is None or row.state is KeyState.DESTROYED:
                raise SealKeyGone
            secret = await asyncio.to_thread(self._opened, row)
            if number in self._dying:
                raise SealKeyGone
            self._held[number] = secret
        return self._held[number]

    def may_open(self, secret: SealSecret, deadline: datetime) -> str | None:
        """Why a new round with this deadline may not use the key, by its times; None if it may. A
        key that is retired is refused where the round is stored."""
        statement, periods = secret.signed.statement, self._periods
        if self._clock.now() >= statement.until + timedelta(seconds=periods.grace_s):
            return "the seal key of this aggregator has expired"
        longest = statement.until + timedelta(seconds=periods.hold_s / 2)
        if statement.round is None and deadline >= longest:
            return "a long round needs a key of its own"
        return None

    async def signed_by(self, public_key: bytes) -> tuple[int, ...]:
        """The numbers of keys that an identity signed and that are not destroyed."""
        async with self._database.reading() as transaction:
            alive = await store.numbers(transaction, KeyState.PUBLISHED, KeyState.RETIRED)
            rows = [await store.by_number(transaction, number) for number in alive]
        signed_keys = [
            (row.number, _SignedKey.model_validate_json(row.signed)) for row in rows if row
        ]
        return tuple(number for number, signed in signed_keys if self._signer(signed) == public_key)

    async def lasting(self, key_hash: bytes) -> Signed[SealKeyStatement] | None:
        """The statement of a key that is not destroyed, signed by both keys of the identity that
        signed it; None if there is no such key, or its identity has no document."""
        if key_hash not in self._lasting:
            async with self._database.reading() as transaction:
                number = await store.number_of(transaction, key_hash)
                row = None if number is None else await store.by_number(transaction, number)
            if row is None or row.state is KeyState.DESTROYED:
                return None
            signed = _SignedKey.model_validate_json(row.signed)
            identity = self._identities.pair(self._signer(signed))
            if identity is None:
                return None
            pair, _ = identity
            self._lasting[key_hash] = pair.sign(LASTING_SEAL_KEY_LABEL, signed.statement)
            while len(self._lasting) > MOST_WAITING:
                self._lasting.popitem(last=False)
        return self._lasting[key_hash]

    # --- destroying ---

    async def due(self) -> tuple[int, ...]:
        """The keys that are to be destroyed now; those whose period is over are retired."""
        limits = self._limits()
        async with self._alone() as transaction:
            await store.retire(transaction, limits.ended)
            return await store.due(transaction, limits)

    def forget(self, numbers: Iterable[int]) -> None:
        """Step 0 of a destruction: remove keys from memory; they are not loaded again."""
        for number in numbers:
            self._dying.add(number)
            self._held.pop(number, None)

    async def destroy(self, number: int) -> None:
        """Steps 1 and 2: the wrapping key, then what is stored. The log is emptied after that. A
        repetition changes nothing."""
        self.forget([number])
        async with self._database.reading() as transaction:
            row = await store.by_number(transaction, number)
        if row is not None and row.state is KeyState.DESTROYED:
            self._dying.discard(number)
            return
        await asyncio.to_thread(self._directory.destroy, number)
        done = False
        while not done:
            async with self._alone() as transaction:
                done = await store.delete_sessions(transaction, number, _AT_ONCE)
        async with self._alone() as transaction:
            await store.destroy(transaction, number, self._clock.now())
        self._dying.discard(number)

    async def tidy(self) -> bool:
        """Remove files that were never used, and forget keys that another replica destroyed;
        returns whether there were any."""
        async with self._alone() as transaction:
            alive = await store.numbers(transaction, KeyState.PUBLISHED, KeyState.RETIRED)
            stray = set(self._directory.numbers()) - set(alive)
            for number in sorted(stray):
                await asyncio.to_thread(self._directory.destroy, number)
        return self.forget_all_but(alive)

    def forget_all_but(self, alive: Iterable[int]) -> bool:
        """Keep only these in memory; whether there were others."""
        gone = set(self._held) - set(alive)
        for number in gone:
            del self._held[number]
        return bool(gone)

    async def lost(self) -> tuple[int, ...]:
        """Keys whose wrapping file is missing, so that nothing opens with them: after a crash
        during a destruction, or if memory that had the directory was lost."""
        async with self._database.reading() as transaction:
            alive = await store.numbers(transaction, KeyState.PUBLISHED, KeyState.RETIRED)
        here = set(self._directory.numbers())
        return tuple(number for number in alive if number not in here and self._was_here(number))

    async def claim(self) -> None:
        """Make the directory this aggregator's own. Raises KeyDirectoryTaken."""
        await asyncio.to_thread(self._directory.claim, self._party)

    async def rolled_back(self) -> bool:
        """Whether the database is older than the directory of wrapping keys."""
        async with self._database.reading() as transaction:
            highest = await store.highest(transaction)
        return highest < self._directory.generation()

    async def renew(self) -> None:
        """Destroy every key, also those that only the directory knows, and make a new one if
        there were any, with a higher number than all of them."""
        if not self._directory.generation() and not await self._any():
            return
        for number in self._directory.numbers():
            self.forget([number])
            await asyncio.to_thread(self._directory.destroy, number)
        async with self._database.reading() as transaction:
            alive = await store.numbers(transaction, KeyState.PUBLISHED, KeyState.RETIRED)
        for number in alive:
            await self.destroy(number)
        await self.current()

    async def _any(self) -> bool:
        async with self._database.reading() as transaction:
            return await store.highest(transaction) > 0

    async def readiness(self) -> str | None:
        """The readiness check for `/readyz`."""
        limits = self._limits(self._clock.now() - timedelta(seconds=OVERDUE_S))
        async with self._database.reading() as transaction:
            late = await store.due_by_time(transaction, limits)
        return "keys_overdue" if late else None

    # --- making ---

    async def _make(
        self, transaction: Transaction, until: datetime, round_id: str | None
    ) -> SealKeyRow:
        """A new key: first its wrapping file, then its row. A file without a row is removed
        later."""
        await self._identities.load_in(transaction)
        highest = await store.highest(transaction)
        generation = await asyncio.to_thread(self._directory.generation)
        number = max(highest, generation) + 1
        wrapping_key = await asyncio.to_thread(self._directory.make, number)
        seed = SealKey.new_seed()
        public = SealKey(seed).public
        statement = SealKeyStatement(
            party=self._party,
            number=number,
            public_key_hash=public.hash,
            made=self._clock.now(),
            until=until,
            round=round_id,
        )
        wrapping = Wrapping(wrapping_key, self._party, number, public.hash)
        row = SealKeyRow(
            number,
            public.hash,
            round_id,
            statement.made,
            until,
            KeyState.PUBLISHED,
            wrapping.wrap("seed", seed),
            wrapping.wrap("verification secret", os.urandom(SECRET_BYTES)),
            self._identities.current.sign(SEAL_KEY_LABEL, statement).model_dump_json(
                exclude_none=True
            ),
            public.raw,
        )
        await store.add(transaction, row)
        return row

    async def _published(self, row: SealKeyRow) -> Signed[SealKeyStatement]:
        """A key is published only after its number is stored next to the wrapping keys."""
        if row.number not in self._held:
            await asyncio.to_thread(self._directory.published, row.number)
        return (await self.of(row.number)).signed

    def _opens(self, row: SealKeyRow) -> bool:
        """Whether the key can be used here for a new round: the current identity signed it."""
        secret = self._held.get(row.number)
        try:
            secret = secret or self._opened(row)
        except (SealKeyGone, SealKeyUnavailable):
            return False
        return secret.identity_key == self._identities.public_keys[0]

    def _opened(self, row: SealKeyRow) -> SealSecret:
        wrapping_key = self._directory.read(row.number)
        if wrapping_key is None:
            raise SealKeyGone if self._was_here(row.number) else SealKeyUnavailable
        wrapping = Wrapping(wrapping_key, self._party, row.number, row.key_hash)
        try:
            seed = wrapping.unwrap("seed", row.seed or b"")
            secret = wrapping.unwrap("verification secret", row.verification_secret or b"")
        except SealBroken:  # a destruction has begun
            raise SealKeyGone from None
        signed = _SignedKey.model_validate_json(row.signed)
        cache = SessionCache(self._capacity)
        key, by = SealKey(seed), self._signer(signed)
        return SealSecret(row.number, signed, key, secret, by, wrapping, cache)

    def _signer(self, signed: Signed[SealKeyStatement]) -> bytes:
        """Which identity signed a key; another process may just have replaced it."""
        for public_key in self._identities.public_keys:
            try:
                verify(SEAL_KEY_LABEL, signed, public_key)
            except SignatureBroken:
                continue
            return public_key
        raise SealKeyUnavailable

    def _was_here(self, number: int) -> bool:
        """Whether this directory had the key's wrapping file. The replicas of a SQLite database
        run on one machine, and so share one directory."""
        alone = self._database.dialect.name == "sqlite"
        return alone or number <= self._directory.generation()

    def _limits(self, now: datetime | None = None) -> Limits:
        now, periods = now or self._clock.now(), self._periods
        return Limits(
            ended=now - timedelta(seconds=periods.grace_s),
            held=now - timedelta(seconds=periods.hold_s),
            unused=now - timedelta(seconds=UNUSED_S),
        )

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[Transaction]:
        """A transaction while which no other process makes or destroys a key."""
        async with self._database.begin() as transaction:
            await exclusive(transaction, _LOCK)
            yield transaction
