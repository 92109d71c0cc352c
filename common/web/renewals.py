"""A party whose token was ended with all others gets another one by its identity.

Spec: keys, section 5.2. After a theft an operator ends the tokens of a service (`POST
/v1/tokens/end`): they expire. A token that was revoked, of a party that left or whose identity
forked, is renewed by nobody.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Table

from common.runtime.clock import Clock
from common.store.transactions import Transaction
from common.web.tokens import Scope, expire_subject, find_token, insert_token, mint
from tacit.crypto.signing import SignatureBroken, Signed, verify_once
from tacit.errors import Forbidden
from tacit.protocol.enrolment import RENEWAL_LABEL, TokenAnswer, TokenRenewal

MADE_WITHIN: Final = timedelta(seconds=300)


class RenewalRefused(Forbidden):
    name = "renewal_refused"
    title = "No token is renewed for this request"


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


async def renew(
    transaction: Transaction, table: Table, asked: TokenRenewal, clock: Clock
) -> TokenAnswer:
    """Another token for a party; what an answer that was lost has given it ends.

    Raises RenewalRefused unless the token that it names was ended, and not revoked.
    """
    now, party = clock.now(), asked.party
    held = await find_token(transaction, table, asked.token_hash)
    if held is None or held.subject != party or held.revoked is not None:
        raise RenewalRefused("the token is not known, or was revoked")
    if held.expires is None or held.expires > now:
        raise RenewalRefused("the token is good")
    await expire_subject(transaction, table, party, now)
    token, record = mint((Scope.CURATOR,), clock, subject=party, label="renewed by its identity")
    await insert_token(transaction, table, record)
    return TokenAnswer(party=party, token=token)


def _is_fresh(made: datetime, now: datetime) -> bool:
    return abs(now - made) <= MADE_WITHIN
