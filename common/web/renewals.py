"""Who was ended with all others gets another token by its identity: parties, and the coordinator at
an aggregator.

Spec: keys, section 5.2. After a theft an operator ends the tokens of a service (`POST
/v1/tokens/end`, or an identity that is replaced as compromised): they expire. Who held one makes
another, and tells its hash alone. A token that was revoked, of a party that left or whose identity
forked, is renewed by nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Table

from common.runtime.clock import Clock
from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from common.web.tokens import (
    Scope,
    TokenRecord,
    expire_holder,
    find_token,
    insert_token,
    record_hash,
)
from tacit.crypto.signing import SignatureBroken, Signed, verify_once
from tacit.errors import Forbidden
from tacit.protocol.enrolment import RENEWAL_LABEL, TokenRenewal

MADE_WITHIN: Final = timedelta(seconds=300)
_LABEL: Final = "renewed by its identity"
_LOCK: Final = "token renewal"


class RenewalRefused(Forbidden):
    name = "renewal_refused"
    title = "No token is renewed for this request"


@dataclass(frozen=True)
class Holder:
    """Whose token it is: its scope, and the party (none of the one coordinator)."""

    scope: Scope
    subject: str | None = None

    def has(self, record: TokenRecord) -> bool:
        """Whether a token is of this holder alone."""
        return (record.scopes, record.subject) == ((self.scope,), self.subject)


def check_request(
    signed: Signed[TokenRenewal], *, service: str, party: str, identity_key: bytes, now: datetime
) -> TokenRenewal:
    """What a party asks for, if its identity signed it for this service just now. Raises
    RenewalRefused. It needs no transaction that others wait for."""
    try:
        asked = verify_once(RENEWAL_LABEL, signed, identity_key)
    except SignatureBroken as error:
        raise RenewalRefused(str(error)) from None
    if (asked.service, asked.party) != (service, party) or not _is_fresh(asked.made, now):
        raise RenewalRefused("it is for another service or party, or of another time")
    return asked


async def renew_by_identity(
    database: Database,
    table: Table,
    signed: Signed[TokenRenewal],
    holder: Holder,
    *,
    service: str,
    identity_key: bytes,
    clock: Clock,
) -> None:
    """Answer a party's request. Raises RenewalRefused."""
    assert holder.subject is not None
    async with database.reading() as transaction:
        await check_ended(transaction, table, signed.statement, holder, clock.now())
    asked = check_request(
        signed,
        service=service,
        party=holder.subject,
        identity_key=identity_key,
        now=clock.now(),
    )
    async with database.begin() as transaction:
        await renew(transaction, table, asked, holder, clock)


async def check_ended(
    transaction: Transaction, table: Table, asked: TokenRenewal, holder: Holder, now: datetime
) -> None:
    """Raise RenewalRefused unless the token that is named was ended, and not revoked. Only who held
    it can name it, so this comes before whatever takes time."""
    held = await find_token(transaction, table, asked.token_hash)
    if held is None or not holder.has(held) or held.revoked is not None:
        raise RenewalRefused("the token is not known, or was revoked")
    if held.is_good(now):
        raise RenewalRefused("the token is good")


async def renew(
    transaction: Transaction, table: Table, asked: TokenRenewal, holder: Holder, clock: Clock
) -> None:
    """Put the new token in the place of all that its holder has. The same request again changes
    nothing, also after the new one was ended.

    Raises RenewalRefused as `check_ended`, and for a new token that was ended or is another's.
    """
    now = clock.now()
    await exclusive(transaction, _LOCK)
    await check_ended(transaction, table, asked, holder, now)
    known = await find_token(transaction, table, asked.new_hash)
    if known is not None:
        if holder.has(known) and known.is_good(now):
            return
        raise RenewalRefused("the new token was ended, or is another's")
    await expire_holder(transaction, table, holder.scope, holder.subject, now)
    record = record_hash(
        asked.new_hash, (holder.scope,), clock, subject=holder.subject, label=_LABEL
    )
    await insert_token(transaction, table, record)


def _is_fresh(made: datetime, now: datetime) -> bool:
    return abs(now - made) <= MADE_WITHIN
