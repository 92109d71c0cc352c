"""Parties hosted here: enrolling them with a join token.

Spec: aggregation, section 8. The token brings the fingerprints of all services out of band; every
identity is checked against them before anything is sent. Keys are stored before the first request,
so an interrupted enrolment is finished with the same token. A private key never leaves this
process.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import TypeAdapter, ValidationError

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.erasure import to_erase
from common.store.transactions import Database, Transaction
from common.web.problems import ProblemReceived
from curator.errors import (
    CuratorExists,
    CuratorsNeeded,
    FingerprintMismatch,
    JoinTokenExpired,
    JoinTokenMalformed,
    PartyExists,
    PeerRefused,
    UnknownParty,
)
from curator.parties.peers import Peers
from curator.store import parties as store
from curator.store.parties import ACTIVE, ENROLLING, Anchor, PartyRow
from tacit.crypto.signing import Identity, fingerprint
from tacit.errors import DomainError, places_of
from tacit.protocol.enrolment import (
    ENROLMENT_LABEL,
    Enrolment,
    EnrolmentAnswer,
    Grant,
    JoinToken,
    PartyKind,
    grant_hash,
)
from tacit.protocol.identities import Pin, Role
from tacit.query.terms import Identifier

_ids: TypeAdapter[str] = TypeAdapter(Identifier)
_logger = get_logger("tacit.curator.parties")


def parse_token(text: str) -> JoinToken:
    """The join token of its text form. Raises JoinTokenMalformed."""
    try:
        token = JoinToken.from_text(text)
    except ValueError:
        raise JoinTokenMalformed(
            "it is none, or only a part of one: copy all of it", pointer="/token"
        ) from None
    ids = [grant.party for grant in token.aggregators]
    if not ids or len(set(ids)) != len(ids):
        raise JoinTokenMalformed("the token names no aggregator, or one twice", pointer="/token")
    return token


def curators_of(token: JoinToken, named: Sequence[str] | None) -> tuple[str, ...]:
    """The curators that enrol: a lone one is the party itself. Raises CuratorsNeeded."""
    ids = tuple(named or ())
    if token.kind is PartyKind.CURATOR:
        if ids not in ((), (token.party,)):
            raise CuratorsNeeded("a lone curator speaks for itself", pointer="/curators")
        return (token.party,)
    if not 1 <= len(ids) <= token.max_curators:
        raise CuratorsNeeded(
            f"a host names at least one curator, and with this token at most {token.max_curators}",
            pointer="/curators",
            extra={"max_curators": token.max_curators},
        )
    if len(set(ids)) != len(ids):
        raise CuratorsNeeded("a curator is listed twice", pointer="/curators")
    for index, name in enumerate(ids):
        try:
            _ids.validate_python(name)
        except ValidationError:
            raise CuratorsNeeded("not an identifier", pointer=f"/curators/{index}") from None
    return ids


@dataclass(frozen=True)
class Enroller:
    """Enrols parties; safe to repeat with the same token."""

    database: Database
    peers: Peers
    clock: Clock
    confirmed: Collection[bytes] | None = None
    """Fingerprints of documents that a person compared, where every change has to be; else None."""

    async def enrol(self, text: str, named: Sequence[str] | None) -> PartyRow:
        """The party of a join token, enrolled with the coordinator and every aggregator."""
        token = parse_token(text)
        async with self.database.begin(large=True) as transaction:
            row = await store.party(transaction, token.party)
            if row is not None and row.state == ACTIVE:
                raise PartyExists(extra={"party": row.id})
            if row is None:
                await self._begin(transaction, token, curators_of(token, named))
            elif row.coordinator_token is None:
                await self._take_over(transaction, row, token)
        return await self._finish(token)

    async def enrol_again(self, party: str, text: str) -> PartyRow:
        """Replace a stolen identity: the party enrols under a new one, with a join token of grants
        that replace it.

        The old one is destroyed once the coordinator has accepted the new one. Safe to repeat
        with the same token. Raises UnknownParty, JoinTokenMalformed for a token of another party
        or deployment.
        """
        token = parse_token(text)
        async with self.database.begin(large=True) as transaction:
            row = await store.party(transaction, party)
            if row is None:
                raise UnknownParty
            if (token.party, token.coordinator.party) != (party, row.deployment):
                raise JoinTokenMalformed("it is not for this party", pointer="/token")
            secret = await _secret_of(transaction, token)
        if secret is not None:
            await self._begin_again(row, token, secret)
        elif row.state == ACTIVE:
            return row
        return await self._finish(token)

    async def resume(self) -> None:
        """Finish enrolments that were in progress when the process ended; log those that fail."""
        async with self.database.reading() as transaction:
            parties = await store.list_parties(transaction, state=ENROLLING)
        for row in parties:
            if row.join_token is None:
                continue
            try:
                await self._finish(JoinToken.from_text(row.join_token))
            except Exception as error:
                _logger.warning(
                    "enrolment_unfinished", party=row.logged, problem=type(error).__name__
                )

    async def _begin(
        self, transaction: Transaction, token: JoinToken, ids: tuple[str, ...]
    ) -> None:
        now = self.clock.now()
        if token.expires <= now:
            raise JoinTokenExpired
        existing = await store.existing_curators(transaction, ids)
        if existing:
            raise CuratorExists(pointer="/curators", extra=places_of(ids, existing))
        row = PartyRow(
            id=token.party,
            kind=token.kind,
            state=ENROLLING,
            deployment=token.coordinator.party,
            identity=Identity.generate().to_bytes(),
            coordinator_url=token.coordinator.url.rstrip("/"),
            coordinator_key=None,
            coordinator_token=None,
            first=None,
            first_key=await store.next_curator_key(transaction),
            curators=len(ids),
            join_token=token.to_text(),
            created=now,
            enrolled=None,
            anchors=_anchors(token),
        )
        await store.add_party(transaction, row, ids)

    async def _begin_again(self, row: PartyRow, token: JoinToken, secret: bytes) -> None:
        """Register a new identity with the coordinator, and put it in place of the old one."""
        now = self.clock.now()
        if token.expires <= now:
            raise JoinTokenExpired
        await self._check_identities(token)
        _, ids = await self._load(row.id)
        identity = Identity.from_bytes(secret)
        answer = await self._ask(identity, token, token.coordinator, ids, None)
        if row.first not in (None, answer.first):
            raise PeerRefused("the coordinator answered with other numbers than before")
        async with self.database.begin(large=True) as transaction:
            await to_erase(transaction)
            await store.put_fact(transaction, _replaced_with(token), _USED)
            await store.forget_identities(transaction, row.id)
            await store.change_party(
                transaction,
                row.id,
                state=ENROLLING,
                identity=secret,
                coordinator_token=answer.token,
                coordinator_url=token.coordinator.url.rstrip("/"),
                join_token=token.to_text(),
            )
            await store.put_anchors(transaction, row.id, _anchors(token))

    async def _take_over(self, transaction: Transaction, row: PartyRow, token: JoinToken) -> None:
        """A fresh token for an enrolment that no service has answered yet."""
        if row.kind is not token.kind or row.curators > token.max_curators:
            raise PartyExists(extra={"party": row.id})
        await store.change_party(
            transaction,
            row.id,
            join_token=token.to_text(),
            deployment=token.coordinator.party,
            coordinator_url=token.coordinator.url.rstrip("/"),
        )
        await store.put_anchors(transaction, row.id, _anchors(token))

    async def _finish(self, token: JoinToken) -> PartyRow:
        row, ids = await self._load(token.party)
        coordinator_key = await self._check_identities(token)
        async with self.database.begin() as transaction:
            await store.change_party(transaction, row.id, coordinator_key=coordinator_key)
        identity = Identity.from_bytes(row.identity)
        if row.coordinator_token is None or row.first is None:
            answer = await self._ask(identity, token, token.coordinator, ids, None)
            async with self.database.begin() as transaction:
                await store.change_party(
                    transaction, row.id, first=answer.first, coordinator_token=answer.token
                )
            row = replace(row, first=answer.first)
        for grant in token.aggregators:
            if any(a.aggregator == grant.party and a.token is not None for a in row.anchors):
                continue
            answer = await self._ask(identity, token, grant, ids, row.first)
            async with self.database.begin() as transaction:
                await store.set_anchor_token(transaction, row.id, grant.party, answer.token)
        async with self.database.begin(large=True) as transaction:
            await store.change_party(
                transaction, row.id, state=ACTIVE, join_token=None, enrolled=self.clock.now()
            )
        _logger.info("party_enrolled", party=row.logged, curators=row.curators)
        return (await self._load(row.id))[0]

    async def _load(self, party: str) -> tuple[PartyRow, list[str]]:
        async with self.database.reading(large=True) as transaction:
            row = await store.party(transaction, party)
            assert row is not None
            ids = await store.curator_ids(transaction, party)
        return row, ids

    async def _check_identities(self, token: JoinToken) -> bytes:
        """Check every service's identity against the token before anything is sent. Returns the
        coordinator's key."""
        deployment = token.coordinator.party
        for grant in token.aggregators:
            await self._identified(grant, deployment, Role.AGGREGATOR)
        return await self._identified(token.coordinator, deployment, Role.COORDINATOR)

    async def _identified(self, grant: Grant, deployment: str, role: Role) -> bytes:
        """The key of a service, if the token names it or a key from which it follows. Raises
        FingerprintMismatch."""
        document = f"tacit-{role.value}"
        key = await self.peers.identity(grant.url, document)
        if fingerprint(key) == grant.fingerprint:
            return key
        mismatch = FingerprintMismatch(extra={"service": grant.party})
        shown = await self.peers.identities(grant.url, document)
        if shown is None:
            raise mismatch
        try:
            pin = Pin(fingerprint=grant.fingerprint).follow(
                deployment, shown, self.clock.now(), role, grant.party, self.confirmed
            )
        except DomainError:
            raise mismatch from None
        if pin.newest != fingerprint(key):
            raise mismatch
        return key

    async def _ask(
        self,
        identity: Identity,
        token: JoinToken,
        grant: Grant,
        ids: Sequence[str],
        first: int | None,
    ) -> EnrolmentAnswer:
        request = Enrolment(
            service=grant.party,
            secret=grant.secret,
            party=token.party,
            kind=token.kind,
            identity_key=identity.public_key,
            curators=tuple(ids),
            first=first,
        )
        signed = identity.sign(ENROLMENT_LABEL, request)
        try:
            answer = await self.peers.enrol(grant.url, signed)
        except ProblemReceived as error:
            raise PeerRefused(
                f"{grant.party} refused the enrolment: {error.name}",
                extra={"service": grant.party, "problem": error.name},
                retryable=error.retryable,
            ) from None
        if answer.party != token.party or first not in (None, answer.first):
            raise PeerRefused(f"{grant.party} answered for another party or number")
        return answer


_USED: Final = "used"


def _replaced_with(token: JoinToken) -> str:
    """The fact that a join token puts an identity in place: its private key until the
    coordinator has accepted it, then `_USED`."""
    return f"identity {grant_hash(token.coordinator.secret)[:32]}"


async def _secret_of(transaction: Transaction, token: JoinToken) -> bytes | None:
    """The private key that a join token puts in place, the same however often it is given; None
    once it is in place."""
    stored = await store.fact(transaction, _replaced_with(token))
    if stored is None:
        stored = Identity.generate().to_bytes().hex()
        await store.put_fact(transaction, _replaced_with(token), stored)
    return None if stored == _USED else bytes.fromhex(stored)


def _anchors(token: JoinToken) -> tuple[Anchor, ...]:
    return tuple(
        Anchor(grant.party, grant.url.rstrip("/"), Pin(fingerprint=grant.fingerprint), None)
        for grant in token.aggregators
    )
