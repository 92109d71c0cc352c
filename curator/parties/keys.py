"""Keys of the hosted parties: what they seal with, tokens renewed by identity, identities replaced.

`Keyring` has one engine each; `SealKeys` the aggregators' seal keys by the hash that they signed. A
token that a service ended is renewed by the party's identity. An identity is replaced by command,
while rounds run (spec: keys, section 5.2): made and stored -> shown to coordinator and aggregators
-> in use, the old key destroyed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from common.principals import Scope
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.tokens import hash_token, new_token
from common.store.transactions import Database, Transaction
from common.web.problems import ProblemReceived
from curator.engine import Engine, Sealer
from curator.errors import LastingSignatureMissing, PeerUnavailable, SealKeyUnusable, UnknownParty
from curator.parties.peers import Peers
from curator.store import parties as store
from curator.store.parties import ACTIVE, NextIdentity, PartyRow
from tacit.crypto.sealing import SealBroken, SealKeyMalformed, SealPublicKey, key_hash
from tacit.crypto.signing import Identity, fingerprint
from tacit.protocol.enrolment import RENEWAL_LABEL, TokenRenewal
from tacit.protocol.party_identities import PartyChain, PartySuccession, succeed_party
from tacit.protocol.round.descriptor import AggregatorEntry, RoundDescriptor
from tacit.protocol.trust import SealRefused, check_lasting
from tacit.randomness import SecureRandom

_logger = get_logger("tacit.curator.keyring")


class Keyring:
    """One engine per party."""

    def __init__(self) -> None:
        self._engines: dict[str, Engine] = {}
        self._source = SecureRandom()

    def engine_of(self, party: PartyRow) -> Engine:
        """The engine of a party."""
        engine = self._engines.get(party.id)
        if engine is None:
            sealer = Sealer(party.id, Identity.from_bytes(party.identity))
            engine = self._engines[party.id] = Engine(sealer, self._source)
        return engine

    def forget(self, party: str) -> None:
        """Seal nothing more under the party's earlier identity, and create its engine again."""
        self._engines.pop(party, None)

    def is_answered(self, party: str, session: bytes) -> bool:
        """Whether the aggregator of a session is known to know it."""
        engine = self._engines.get(party)
        return engine is not None and engine.sealer.is_answered(session)

    def answered(self, party: str, session: bytes) -> None:
        """The aggregator of a session has answered under it."""
        if party in self._engines:
            self._engines[party].sealer.answered(session)

    def unknown(self, party: str, session: bytes) -> None:
        """The aggregator of a session does not know it: nothing more is sealed under it."""
        if party in self._engines:
            self._engines[party].sealer.forget(session)


# --- seal keys, by the hash that an aggregator signed (spec: keys, section 2.1) -------------------
#
# The key comes from the aggregator, or from the coordinator, which mirrors it. The server need not
# be trusted: the hash is compared before anything is parsed.

KEPT: Final = 256
"""Keys of 1,216 bytes: those of a day and more, of sixteen aggregators."""


class SealKeys:
    """The public keys to which rounds seal. `anchored`: where the documents of aggregators are,
    if ML-DSA must have signed every key as well."""

    def __init__(self, peers: Peers, anchored: Database | None = None) -> None:
        self._peers, self._anchored = peers, anchored
        self._lasting: OrderedDict[tuple[bytes, bytes], None] = OrderedDict()
        self._keys: OrderedDict[bytes, SealPublicKey] = OrderedDict()
        self._alone = asyncio.Lock()

    async def of(self, descriptor: RoundDescriptor, party: PartyRow) -> tuple[SealPublicKey, ...]:
        """The keys of all aggregators of a round, in their order.

        Raises SealKeyUnusable for signed bytes that are no key, LastingSignatureMissing if
        ML-DSA must have signed it and has not, PeerUnavailable if no service has it.
        """
        async with self._alone:  # parties of one round ask for the same keys
            if self._anchored is not None:
                for entry in descriptor.aggregators:
                    await self._check_lasting(self._anchored, entry, party)
            return tuple([await self._key(entry, party) for entry in descriptor.aggregators])

    async def _check_lasting(
        self, database: Database, entry: AggregatorEntry, party: PartyRow
    ) -> None:
        checked = (entry.seal.public_key_hash, entry.identity_key)
        if checked in self._lasting:
            return
        async with database.reading() as transaction:  # what the round's check has followed
            row = (await store.parties_by_id(transaction, [party.id]))[party.id]
        anchor = next(anchor for anchor in row.anchors if anchor.aggregator == entry.id)
        anchored = anchor.pin.anchored
        try:
            signed = await self._peers.seal_signature(anchor.url, entry.seal.public_key_hash)
            check_lasting(signed, entry, () if anchored is None else anchored.documents)
        except ProblemReceived as error:
            if error.retryable or error.status >= 500:
                raise PeerUnavailable(f"{entry.id} does not show its signature") from None
            raise LastingSignatureMissing(f"{entry.id}: {error.name}") from None
        except SealRefused as error:
            raise LastingSignatureMissing(error.detail) from None
        self._lasting[checked] = None
        while len(self._lasting) > KEPT:
            self._lasting.popitem(last=False)

    async def _key(self, entry: AggregatorEntry, party: PartyRow) -> SealPublicKey:
        key_hash = entry.seal.public_key_hash
        key = self._keys.get(key_hash)
        if key is None:
            raw = await self._fetched(entry.id, key_hash, party)
            try:
                key = SealPublicKey(raw)
                key.seal(b"", b"")  # an X25519 half of small order shows only here
            except (SealKeyMalformed, SealBroken) as error:
                raise SealKeyUnusable(f"{entry.id}: {error}") from None
            self._keys[key_hash] = key
            while len(self._keys) > KEPT:
                self._keys.popitem(last=False)
        self._keys.move_to_end(key_hash)
        return key

    async def _fetched(self, aggregator: str, digest: bytes, party: PartyRow) -> bytes:
        anchored = [anchor.url for anchor in party.anchors if anchor.aggregator == aggregator]
        for url in (*anchored, party.coordinator_url):
            try:
                raw = await self._peers.seal_key(url, digest)
            except (PeerUnavailable, ProblemReceived):
                continue
            if key_hash(raw) == digest:
                return raw
        raise PeerUnavailable(f"nobody serves the seal key of {aggregator}")


# --- tokens that a service ended are renewed by the party's identity (spec: keys, section 5.2) ----

_RENEWED_TOGETHER: Final = 8
_renewals_logger = get_logger("tacit.curator.renewals")


@dataclass(frozen=True)
class Renewals:
    """Asks services that ended their tokens for others."""

    database: Database
    peers: Peers
    clock: Clock

    async def sweep(self) -> int:
        """Renew what services ended since the last sweep; how many tokens."""
        ended, renewed = set(self.peers.expired), 0
        self.peers.expired -= ended
        if not ended:
            return 0
        async with self.database.reading(large=True) as transaction:
            rows = await store.list_parties(transaction, state=ACTIVE)
        for start in range(0, len(rows), _RENEWED_TOGETHER):
            some = rows[start : start + _RENEWED_TOGETHER]
            renewed += sum(await asyncio.gather(*(self._renewed(row, ended) for row in some)))
        if renewed:
            _renewals_logger.info("tokens_renewed", tokens=renewed)
        return renewed

    async def _renewed(self, row: PartyRow, ended: set[str]) -> int:
        count = 0
        if row.coordinator_url in ended and row.coordinator_token is not None:
            token = await self._asked(
                row, row.coordinator_url, row.deployment, row.coordinator_token
            )
            if token is not None:
                async with self.database.begin() as transaction:
                    await store.change_party(transaction, row.id, coordinator_token=token)
                count += 1
        for anchor in row.anchors:
            if anchor.url in ended and anchor.token is not None:
                token = await self._asked(row, anchor.url, anchor.aggregator, anchor.token)
                if token is not None:
                    async with self.database.begin() as transaction:
                        await store.set_anchor_token(transaction, row.id, anchor.aggregator, token)
                    count += 1
        return count

    async def _asked(self, row: PartyRow, url: str, service: str, token: str) -> str | None:
        """Another token; None if the current one is valid, or the service accepts none."""
        made = new_token(Scope.CURATOR)
        statement = TokenRenewal(
            service=service,
            party=row.id,
            token_hash=hash_token(token),
            new_hash=hash_token(made),
            made=self.clock.now(),
        )
        signed = Identity.from_bytes(row.identity).sign(RENEWAL_LABEL, statement)
        try:
            await self.peers.renew_token(url, signed)
            return made
        except PeerUnavailable:
            self.peers.expired.add(url)  # once more
        except ProblemReceived as error:
            _renewals_logger.info("token_not_renewed", party=row.logged, problem=error.name)
        return None


# --- identities are replaced by command, while rounds run (spec: keys, section 5.2) ---------------
#
#     made and stored -> shown to coordinator and aggregators -> in use, the old key destroyed
#
# The next identity is stored before anyone is shown it. Until every service has it the party signs
# with the old one, which services accept until the overlap is over; then with the new one in any
# case. A sweep finishes what is left, also after a crash.

SWEEP_S: Final = 5.0
_TOGETHER: Final = 8
_successions_logger = get_logger("tacit.curator.successions")


@dataclass(frozen=True)
class Waiting:
    """A party whose next identity some of its services do not know yet: the problem of each
    service that was asked and did not accept it. `used`: the party already signs with it."""

    party: str
    fingerprint: bytes
    used: bool
    problems: dict[str, str]


@dataclass
class Successions:
    """Replaces identities of the parties here. Only one process does so: the leader."""

    database: Database
    peers: Peers
    keyring: Keyring
    clock: Clock
    _problems: dict[str, dict[str, str]] = field(default_factory=dict)

    async def begin(self, named: Sequence[str] | None, overlap: timedelta) -> int:
        """Make the next identity of some enrolled parties, or of all; returns how many. A party
        with a waiting replacement counts as begun. Raises UnknownParty."""
        async with self.database.begin(large=True) as transaction:
            rows = await self._chosen(transaction, named)
            waiting = {identity.party for identity in await store.waiting_identities(transaction)}
            chosen = [row for row in rows if row.id not in waiting]
            for row in chosen:
                await store.add_next_identity(
                    transaction, await self._next(transaction, row, overlap)
                )
        return len(chosen)

    async def waiting(self) -> tuple[Waiting, ...]:
        """Parties whose next identity is not known to all their services."""
        async with self.database.reading(large=True) as transaction:
            identities = await store.waiting_identities(transaction)
        return tuple(
            Waiting(
                identity.party,
                fingerprint(identity.link.statement.identity_key),
                identity.secret is None,
                self._problems.get(identity.party, {}),
            )
            for identity in identities
        )

    async def sweep(self) -> int:
        """Show waiting identities to all services; returns how many are now known everywhere."""
        async with self.database.reading(large=True) as transaction:
            identities = await store.waiting_identities(transaction)
        done = 0
        for start in range(0, len(identities), _TOGETHER):
            some = identities[start : start + _TOGETHER]
            done += sum(await asyncio.gather(*(self._finish(identity) for identity in some)))
        return done

    async def _chosen(
        self, transaction: Transaction, named: Sequence[str] | None
    ) -> list[PartyRow]:
        rows = await store.list_parties(transaction, state=ACTIVE)
        if named is None:
            return rows
        by_name = {row.id: row for row in rows}
        for place, name in enumerate(named):
            if name not in by_name:
                raise UnknownParty(pointer=f"/parties/{place}")
        return [by_name[name] for name in dict.fromkeys(named)]

    async def _next(
        self, transaction: Transaction, row: PartyRow, overlap: timedelta
    ) -> NextIdentity:
        old, new, now = Identity.from_bytes(row.identity), Identity.generate(), self.clock.now()
        statement = PartySuccession(
            deployment=row.deployment,
            party=row.id,
            replaced=old.fingerprint,
            identity_key=new.public_key,
            effective=now,
            overlap_until=now + overlap,
        )
        serial = await store.identity_serial(transaction, row.id) + 1
        return NextIdentity(row.id, serial, succeed_party(statement, new, old), new.to_bytes())

    async def _finish(self, identity: NextIdentity) -> bool:
        """Whether all services know it now."""
        async with self.database.reading() as transaction:
            row = await store.party(transaction, identity.party)
            chain = await store.identity_chain(transaction, identity.party)
        assert row is not None
        problems = await self._shown(row, chain)
        over = self.clock.now() >= identity.link.statement.overlap_until
        async with self.database.begin() as transaction:
            if not problems:
                await store.mark_identity_shown(transaction, identity)
            if identity.secret is not None and (over or not problems):
                await store.use_next_identity(transaction, identity)
        self.keyring.forget(row.id)
        if problems:
            self._problems[row.id] = problems
            _successions_logger.warning(
                "identity_not_taken", party=row.logged, services=len(problems)
            )
            return False
        self._problems.pop(row.id, None)
        _successions_logger.info("identity_replaced", party=row.logged)
        return True

    async def _shown(self, row: PartyRow, chain: PartyChain) -> dict[str, str]:
        """Show a party's links to all its services; the problems of those that did not accept
        them."""
        assert row.coordinator_token is not None
        services = [(row.deployment, row.coordinator_url, row.coordinator_token)]
        services += [(anchor.aggregator, anchor.url, anchor.token or "") for anchor in row.anchors]
        problems = {}
        for name, url, token in services:
            try:
                await self.peers.show_party(url, token, row.id, chain)
            except (PeerUnavailable, ProblemReceived) as error:
                problems[name] = error.name
        return problems
